"""`tidelog checkpoint` of streams in process: what it says is counted again, from the files."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import tidelog
from tidelog.cli import cli
from tidelog.cli.in_process import _InProcess
from tidelog.errors import DataError
from tidelog.streaming.feeds import Lines

RULES = "input E(x: text, v: int) @ time. P(X) @ T :- E(X, _) @ T, E(X, _) @ T+1.\n"


def call(*words: object, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)), input=text)


def run(folder: Path, facts: str, *more: str, text: str | None = None, sink: str = "") -> Result:
    (folder / "rules.tdl").write_text(RULES)
    words = ["run", folder / "rules.tdl", "--engine", "duckdb", "--facts", facts]
    words += ["--checkpoint", folder / "c", "--sink", sink or f"jsonl:{folder / 'out.jsonl'}"]
    return call(*words, *more, text=text)


def lines(*rows: object) -> str:
    """Pairs of `x` and tick as lines of E; texts as they are."""
    made = []
    for row in rows:
        if isinstance(row, tuple):
            row = json.dumps({"predicate": "E", "x": row[0], "v": 1, "time": row[1]})
        made.append(f"{row}\n")
    return "".join(made)


# Two runs over standard input: heartbeats, equal rows, late ones, lines that are no facts.
FIRST = [("a", 0), ("a", 0), ("a", 1), "{oops", ("b", 4), ("b", 1), '{"time": 6}', ("a", 7)]
SECOND = [("a", 8), '{"predicate": "E", "x": "a", "v": "many", "time": 8}', ("b", 2), ("a", 9)]


def both(folder: Path, sink: str = "") -> None:
    assert run(folder, "-", text=lines(*FIRST), sink=sink).exit_code == 0
    assert run(folder, "-", text=lines(*FIRST, *SECOND), sink=sink).exit_code == 0


def shown(folder: Path) -> Any:
    done = call("checkpoint", "show", folder / "c", "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def letters_on_disk(folder: Path) -> list[Any]:
    files = sorted((folder / "c" / "dead_letters").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_the_ledger_accounts_for_every_line(tmp_path: Path) -> None:
    both(tmp_path)
    ledger = shown(tmp_path)["ledger"]
    # By hand: b@1, b@2 are late; `{oops` and "many" are dead; one heartbeat.
    assert ledger["rows"] == len(FIRST) + len(SECOND)
    late = [x for x in letters_on_disk(tmp_path) if x["reason"].startswith("late")]
    assert [x["row"]["time"] for x in late] == [1, 2]
    assert ledger == {
        "rows": 12, "facts": 7, "late": 2, "dead": 2, "skipped": 0, "heartbeats": 1,
    }  # fmt: skip
    assert len(letters_on_disk(tmp_path)) == 4


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_the_ledger_of_files_that_change_between_runs(mode: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()

    def write(name: str, rows: Iterable[object]) -> None:
        text = "".join(f"{x},{v},{t}\n" for x, v, t in rows)
        (facts / name).write_text(f"x,v,time\n{text}")

    before = [*(("a", 1, t) for t in range(20)), ("a", "much", 3), ("a", 1, 3)]
    write("E.csv", before)
    assert run(tmp_path, str(facts), "--mode", mode).exit_code == 0
    # Of the last tick more may come: one row waits.
    assert shown(tmp_path)["ledger"] == {
        "rows": 21, "facts": 20, "late": 0, "dead": 1, "skipped": 0, "heartbeats": 0,
    }  # fmt: skip
    write("E.csv", [*before, *(("a", 1, t) for t in range(20, 25)), ("c", 2, 4)])
    assert run(tmp_path, str(facts), "--mode", mode).exit_code == 0
    assert run(tmp_path, str(facts), "--mode", mode, "--close").exit_code == 0
    now = shown(tmp_path)
    assert now["ledger"] == {
        "rows": 28, "facts": 26, "late": 1, "dead": 1, "skipped": 0, "heartbeats": 0,
    }  # fmt: skip
    assert now["closed"]
    assert call("checkpoint", "audit", tmp_path / "c").exit_code == 0
    assert [one["commit"] for one in now["commits"]] == [2, 1, 0]


SINKS = ["jsonl:out.jsonl", "csv:out", "json:out"]


def answers(folder: Path, kind: str) -> list[tuple[str, ...]]:
    if kind == "jsonl":
        rows = [json.loads(x) for x in (folder / "out.jsonl").read_text().splitlines()]
    elif kind == "json":
        rows = [json.loads(x) for x in (folder / "out" / "P.jsonl").read_text().splitlines()]
    else:
        with (folder / "out" / "P.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    return [(str(row["x"]), str(row["time"])) for row in rows]


@pytest.mark.parametrize("sink", SINKS)
def test_audit_counts_answers_and_letters_again(sink: str, tmp_path: Path) -> None:
    kind, name = sink.split(":")
    both(tmp_path, f"{kind}:{tmp_path / name}")
    done = call("checkpoint", "audit", tmp_path / "c", "--json")
    audit = json.loads(done.stdout)
    assert (done.exit_code, audit["agrees"], audit["ledger"]["difference"]) == (0, True, 0)
    counted = {one["what"]: one["counted"] for one in audit["checks"]}
    there = answers(tmp_path, kind)
    assert counted["answers of P"] == len(there) == len(set(there))
    assert counted["late dead letters"] == 2
    assert any("facts" in said for said in audit["unknown"])

    # Answers that are there twice, and answers that are gone.
    moved = tmp_path / "copy"
    shutil.copytree(tmp_path / "out", moved) if kind != "jsonl" else shutil.copy(
        tmp_path / name, moved
    )
    (file,) = [moved] if kind == "jsonl" else list(moved.iterdir())
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*whole[:-1], whole[-2]]))
    copy = call("checkpoint", "audit", tmp_path / "c", "--sink", f"{kind}:{moved}", "--json")
    wrong = {c["what"]: c["counted"] for c in json.loads(copy.stdout)["checks"] if not c["agrees"]}
    assert (copy.exit_code, wrong) == (1, {"answers of P that are there again": 1})
    file.write_text("".join(whole[:-1]))
    copy = call("checkpoint", "audit", tmp_path / "c", "--sink", f"{kind}:{moved}")
    assert copy.exit_code == 1
    assert f"answers of P: {len(there)} by the commits, {len(there) - 1} found" in copy.stdout


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("harm", [damage, Path.unlink], ids=["damaged", "missing"])
@pytest.mark.parametrize(
    "lost", ["c/stream.json", "c/runs/0.json", "c/dead_letters/part-00000.json", "out.jsonl"]
)
def test_verify_names_what_is_harmed(
    lost: str, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    both(tmp_path)
    assert call("checkpoint", "verify", tmp_path / "c").stdout.endswith("c: no problems\n")
    harm(tmp_path / lost)
    done = call("checkpoint", "verify", tmp_path / "c")
    if lost == "c/runs/0.json" and harm is Path.unlink:
        assert done.exit_code == 0  # there is one way back less, and nothing refers to it
        assert shown(tmp_path)["rollback_to"] == []
        return
    said = " ".join(done.output.split())
    assert done.exit_code == 1
    assert str(tmp_path / lost) in said or "is no checkpoint" in said
    assert "restore" in said or "name it with --sink" in said or "is no checkpoint" in said
    assert "Traceback" not in said


def test_rollback_goes_on_as_if_a_run_had_not_been(tmp_path: Path) -> None:
    both(tmp_path)
    undisturbed = answers(tmp_path, "jsonl")
    assert shown(tmp_path)["rollback_to"] == [0]
    first = call("checkpoint", "rollback", tmp_path / "c", "--to", 0, text="n\n")
    assert (first.exit_code, "nothing is changed" in first.stderr) == (1, True)
    assert shown(tmp_path)["commits"][0]["commit"] == 1
    unasked = call("checkpoint", "rollback", tmp_path / "c", "--to", 0, text="")
    assert (unasked.exit_code, "--yes" in unasked.stderr) == (1, True)
    done = call("checkpoint", "rollback", tmp_path / "c", "--to", 0, "--yes")
    assert done.exit_code == 0, done.output
    assert "went back to run 0" in done.stdout
    now = shown(tmp_path)
    assert (now["commits"][0]["commit"], now["ledger"]["rows"]) == (0, len(FIRST))
    assert now["ledger"]["late"] == 1
    assert [x["file"] for x in letters_on_disk(tmp_path)] == ["<stdin>:4", "<stdin>:6"]
    # The second run had a mistake: another one takes its place.
    better = [("a", 8), ("a", 9), ("a", 10)]
    assert run(tmp_path, "-", text=lines(*FIRST, *better)).exit_code == 0
    assert call("checkpoint", "audit", tmp_path / "c").exit_code == 0
    assert call("checkpoint", "verify", tmp_path / "c").exit_code == 0
    alone = tmp_path / "alone"
    alone.mkdir()
    assert run(alone, "-", text=lines(*FIRST)).exit_code == 0
    assert run(alone, "-", text=lines(*FIRST, *better)).exit_code == 0
    assert sorted(answers(tmp_path, "jsonl")) == sorted(answers(alone, "jsonl"))
    assert answers(tmp_path, "jsonl") != undisturbed
    assert shown(tmp_path)["ledger"] == shown(alone)["ledger"]


def test_rollback_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    both(tmp_path)
    done = call("checkpoint", "rollback", tmp_path / "c", "--to", 7, "--yes")
    assert done.exit_code == 1
    assert "cannot go back to run 7" in done.stderr
    assert "it can go back to 0" in done.stderr
    with subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli", "run", str(tmp_path / "rules.tdl"), "--facts", "-",
         "--checkpoint", str(tmp_path / "c"), "--sink", f"jsonl:{tmp_path / 'out.jsonl'}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as other:  # fmt: skip
        while (tmp_path / "c" / "lock").read_text().strip() != str(other.pid):
            assert other.poll() is None
        busy = call("checkpoint", "rollback", tmp_path / "c", "--to", 0, "--yes")
        assert busy.exit_code == 75
        assert f"is in use by process {other.pid}: stop that one first" in busy.stderr
        assert call("checkpoint", "show", tmp_path / "c").exit_code == 0
        assert other.stdin is not None
        other.stdin.write(lines(*FIRST, *SECOND).encode())
        other.stdin.close()
    assert other.returncode == 0


def test_only_so_many_runs_are_kept(tmp_path: Path) -> None:
    for n in range(1, 7):
        assert run(tmp_path, "-", text=lines(*(("a", t) for t in range(n + 1)))).exit_code == 0
    assert shown(tmp_path)["rollback_to"] == [2, 3, 4]
    assert sorted(p.name for p in (tmp_path / "c" / "runs").iterdir()) == [
        "2.json", "3.json", "4.json",
    ]  # fmt: skip


EXPORTS = {
    "offline": ("E(x: text, v: int) @ time", "P(X) @ T :- E(X, _) @ T, E(X, _) @ T+3.", {}),
    "online": (
        "E(x: text, v: int) @ time",
        "P(X) @ T :- E(X, _) @ T, E(X, _) @ T+3.",
        {"--mode": "online"},
    ),
}


@pytest.mark.parametrize("way", EXPORTS)
def test_export_gives_what_a_stream_keeps(way: str, tmp_path: Path) -> None:
    declared, rule, options = EXPORTS[way]
    (tmp_path / "rules.tdl").write_text(f"input {declared}. {rule}\n")
    words = [word for pair in options.items() for word in pair]
    text = lines(*(("a", t) for t in range(10)), ("b", 9), ("c", 11))
    run_words = ["run", tmp_path / "rules.tdl", "--facts", "-", "--checkpoint", tmp_path / "c"]
    assert call(*run_words, "--sink", "console", *words, text=text).exit_code == 1
    run_words += ["--sink", f"jsonl:{tmp_path / 'out'}"]
    assert call(*run_words, *words, text=text).exit_code == 0
    # The same facts in a stream of its own, asked by its own door.
    stream = tidelog.Stream(
        tidelog.load(str(tmp_path / "rules.tdl")), mode=options.get("--mode", "offline")
    )
    rows = [json.loads(line) for line in text.splitlines()]
    for tick in range(11):
        stream.push(tick, {"E": [(r["x"], r["v"]) for r in rows if r["time"] == tick]})
    given, derived = stream.kept()
    kept = {name: set(rows) for name, rows in {**given, **derived}.items() if rows}
    done = call("checkpoint", "export", tmp_path / "c", tmp_path / "tables", "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, set[tuple[Any, ...]]] = {}
    for name, count in json.loads(done.stdout).items():
        table = pq.read_table(tmp_path / "tables" / name)
        assert table.num_rows == count
        if ".waiting" in name:
            assert table.to_pylist() == [{"x": "c", "v": 1, "time": 11}]
            continue
        found.setdefault(name.split(".")[0], set()).update(
            tuple(row.values()) for row in table.to_pylist()
        )
    assert {name: {row[-1] for row in rows} for name, rows in found.items()} == {
        name: {row[-1] for row in rows} for name, rows in kept.items()
    }
    again = call("checkpoint", "export", tmp_path / "c", tmp_path / "tables")
    assert (again.exit_code, "not empty: name a new folder" in again.stderr) == (1, True)


def test_letters_are_grouped_chosen_and_sent_again(tmp_path: Path) -> None:
    both(tmp_path)
    done = call("checkpoint", "letters", tmp_path / "c", "--json")
    groups = {group["problem"]: group["count"] for group in json.loads(done.stdout)}
    expected = Counter(
        "late" if x["reason"].startswith("late") else "dead" for x in letters_on_disk(tmp_path)
    )
    assert groups["late"] == expected["late"] == 2
    assert sum(groups.values()) == sum(expected.values())
    assert "column `v`: '..' is not int" in " ".join(groups)
    out = tmp_path / "again.jsonl"
    done = call("checkpoint", "letters", tmp_path / "c", "--out", out)
    assert done.exit_code == 0
    assert "1 dead letter could not be read as a row" in done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["predicate"], row["time"]) for row in rows] == [("E", 1), ("E", 8), ("E", 2)]
    twice = call("checkpoint", "letters", tmp_path / "c", "--out", out)
    assert (twice.exit_code, "name a new file" in twice.stderr) == (1, True)
    late = tmp_path / "late.jsonl"
    assert call("checkpoint", "letters", tmp_path / "c", "--problem", "late", "--out", late)
    # A correction: history and late rows together, with a checkpoint of its own.
    (tmp_path / "history.jsonl").write_text(lines(*FIRST, *SECOND))
    query = ["query", tmp_path / "rules.tdl", "--format", "json"]
    history = ["--facts", f"{tmp_path}/history.jsonl"]
    usable = [x for x in [*FIRST, *SECOND] if isinstance(x, tuple)]
    (tmp_path / "history.jsonl").write_text(lines(*usable))
    whole = call(*query, *history)
    on_time = [x for x in usable if x not in (("b", 1), ("b", 2))]
    (tmp_path / "part.jsonl").write_text(lines(*on_time))
    corrected = call(*query, "--facts", tmp_path / "part.jsonl", "--facts", late)
    assert corrected.exit_code == whole.exit_code == 0
    assert sorted(corrected.stdout) == sorted(whole.stdout)


def test_rows_that_get_lost_on_the_way_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Lines._line

    def forgetful(self: Lines, line: bytes, where: str) -> Any:
        return None if b'"b"' in line else read(self, line, where)

    monkeypatch.setattr(Lines, "_line", forgetful)
    done = run(tmp_path, "-", text=lines(*FIRST))
    assert done.exit_code == 75
    assert "its ledger does not balance" in done.stderr
    monkeypatch.undo()
    assert run(tmp_path, "-", text=lines(*FIRST)).exit_code == 0
    assert shown(tmp_path)["ledger"]["rows"] == len(FIRST)


def test_facts_of_files_that_are_not_pushed_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "E.csv").write_text("x,v,time\n" + "".join(f"a,1,{t}\n" for t in range(9)))
    push = _InProcess._push

    def short(self: _InProcess, pushes: Iterable[Any]) -> None:
        push(self, ((tick, {n: t.slice(1) for n, t in facts.items()}) for tick, facts in pushes))

    monkeypatch.setattr(_InProcess, "_push", short)
    done = run(tmp_path, str(tmp_path / "E.csv"))
    assert done.exit_code == 75
    assert "its ledger does not balance" in done.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere", "is not there: name the folder of a checkpoint"),
        ("file", "is a file: name the folder of a checkpoint"),
        ("empty", "is no checkpoint: it has neither tidelog.json nor stream.json"),
        ("hdfs://host/c", "copy this one here first"),
    ],
)
def test_what_is_no_checkpoint_is_refused(place: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    name = place if ":" in place else tmp_path / place
    for command in ("show", "verify", "audit", "letters"):
        done = call("checkpoint", command, name)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output


def test_the_same_from_python(tmp_path: Path) -> None:
    both(tmp_path)
    checkpoint = tidelog.Checkpoint(tmp_path / "c")
    assert repr(checkpoint) == f"<checkpoint {tmp_path / 'c'}: last commit 1>"
    assert checkpoint.show().as_json() == shown(tmp_path)
    assert (checkpoint.verify(), checkpoint.audit().wrong) == ([], ())
    assert len(list(checkpoint.letters("late"))) == 2
    assert checkpoint.rollback(0).commits == (1,)
    with pytest.raises(DataError, match="it has that of 0"):
        checkpoint.export(tmp_path / "x", at=9)


def test_nothing_of_spark_is_imported(tmp_path: Path) -> None:
    both(tmp_path)
    code = (
        "import sys, tidelog; c = tidelog.Checkpoint(sys.argv[1])\n"
        "c.show(); c.verify(); c.audit()\n"
        "print([m for m in sys.modules if m.startswith(('pyspark', 'py4j'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "c")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert done.stdout.strip() == "[]"


def test_lines_of_inputs_that_nobody_asks_for_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "rules.tdl").write_text(
        "input E(x: text) @ time. input Z(x: text) @ time.\n"
        "P(X) @ T :- E(X) @ T. Q(X) @ T :- Z(X) @ T.\n"
    )
    names = ["E", "Z", "E", "Z", "Z", "E"]
    text = "".join(
        json.dumps({"predicate": name, "x": "a", "time": time}) + "\n"
        for time, name in enumerate(names)
    )
    words = ["run", tmp_path / "rules.tdl", "--facts", "-", "--query", "P"]
    words += ["--checkpoint", tmp_path / "c", "--sink", f"jsonl:{tmp_path / 'out'}"]
    done = call(*words, text=text)
    assert done.exit_code == 0, done.output
    assert shown(tmp_path)["ledger"]["rows"] == names.count("E")
    assert shown(tmp_path)["queries"] == ["P"]


def test_equal_late_rows_count_each(tmp_path: Path) -> None:
    """Few of them, and so many that they come in columns."""
    late = [("a", 1)] * 3
    many = [(f"x{n}", 2) for n in range(3000)] * 2
    text = lines(*(("a", t) for t in range(9)), *late, *many, ("a", 9), ("a", 10))
    assert run(tmp_path, "-", text=text).exit_code == 0
    ledger = shown(tmp_path)["ledger"]
    assert (ledger["rows"], ledger["late"]) == (len(text.splitlines()), 6003)
    assert len(letters_on_disk(tmp_path)) == 6003
    assert call("checkpoint", "audit", tmp_path / "c").exit_code == 0
