"""The ledger of a stream on Spark, and `tidelog checkpoint` on what it leaves behind."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.data.delta import rows_of
from tidelog.errors import Refused, TidelogWarning
from tidelog.evaluation.spark.splits import Reader
from tidelog.pipeline import sites
from tidelog.pipeline.places import FactTest
from tidelog.spark import stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = """
input E(x: text, v: int) @ time. input F(x: text) @ time. input N(x: text).
P(X) @ T :- E(X, _) @ T, E(X, _) @ T+1, N(X).
Q(X) @ T :- P(X) @ T, F(X) @ T-1.
"""
# Rows by file: x, v and tick of E; lines of JSON of F.
BATCHES: list[tuple[str, list[Any]]] = [
    ("E/0.csv", [("a", 1, 0), ("a", 1, 0), ("a", 1, 1), ("b", "many", 1), ("b", 2, 2)]),
    ("F/1.jsonl", ['{"x":"a","time":0}', '{"time":4}', "{oops", '{"x":"a"}']),
    ("E/2.parquet", [("a", 1, 4), ("a", 1, 5), ("b", None, 5), ("b", 1, 1), ("a", 9, 6)]),
    ("F/3.jsonl", ['{"x":"a","time":3}', '{"x":"a","time":6}', '{"x":"a","time":9}']),
    ("E/4.csv", [("a", 1, 7), ("a", 1, 8), ("a", 1, 9), ("a", 5, 2)]),
    ("E/5.csv", [("a", 1, 10), ("a", 1, 11), ("b", 1, 11), ("b", 1, 12)]),
]
BEAT = '{"time":4}'
ROWS = sum(len(rows) for _, rows in BATCHES)


def add(folder: Path, *numbers: int) -> None:
    """Put some files of facts there, in order."""
    (folder / "rigid").mkdir(exist_ok=True, parents=True)
    (folder / "rigid" / "N.csv").write_text("x\na\nb\n")
    for number in numbers:
        name, rows = BATCHES[number]
        path = folder / "facts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".jsonl"):
            path.write_text("".join(f"{row}\n" for row in rows))
        elif name.endswith(".csv"):
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([("x", "v", "time"), *rows])
        else:
            columns = zip(("x", "v", "time"), zip(*rows, strict=True), strict=True)
            pq.write_table(pa.table({n: list(values) for n, values in columns}), path)
        os.utime(path, (number + 1, number + 1))  # Spark takes older files first


def run(spark: SparkSession, folder: Path, kind: str = "csv", **more: Any) -> None:
    running = stream(
        spark,
        tidelog.parse(RULES),
        inputs=folder / "facts",
        sink=f"{kind}:{folder / 'answers'}",
        checkpoint=folder / "c",
        rigid=folder / "rigid",
        files_per_batch=1,
        trigger={"availableNow": True},
        partitions=2,
        **more,
    )
    running.awaitTermination()
    running.stop()


def call(*words: object, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(map(str, words)), input=text)


def commit(folder: Path, number: int) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "c" / "commits" / f"{number}.json").read_text())
    return value


def letters(folder: Path, number: int) -> list[dict[str, Any]]:
    files = sorted((folder / "c" / "dead_letters" / f"batch={number}").glob("part-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def answers(folder: Path, kind: str) -> list[tuple[str, str, int]]:
    """By query, argument and time; each as often as it is there."""
    place = folder / "answers"
    found: list[tuple[str, str, int]] = []
    if kind == "jsonl":
        rows = [json.loads(line) for line in place.read_text().splitlines()]
        return sorted((r["predicate"], r["x"], r["time"]) for r in rows)
    for query in ("P", "Q"):
        if kind == "delta":
            table = (place / query).exists() and rows_of(str(place / query))
            found += [(query, r["x"], r["time"]) for r in (table.to_pylist() if table else [])]
        for file in place.glob(f"{query}/batch=*/part-*") if kind != "delta" else ():
            if kind == "parquet":
                rows = pq.read_table(file).to_pylist()
            else:
                rows = list(csv.DictReader(file.read_text().splitlines()))
            found += [(query, row["x"], int(row["time"])) for row in rows]
    return sorted(found)


def expected() -> list[tuple[str, str, int]]:
    """The answers of all facts that are not late, by the definition of the rules.

    Time waits for E and F: what is late follows from the greatest ticks of batches before.
    """
    facts: dict[str, set[tuple[str, int]]] = {"E": set(), "F": set()}
    known = {"E": -1, "F": -1}  # the tick before the greatest one, or before the heartbeat
    for path, rows in BATCHES:
        name, tin = path[0], min(known.values())
        for row in rows:
            if isinstance(row, str):
                value = {} if row == "{oops" else json.loads(row)
                row = (value.get("x"), 1, value.get("time"))
            x, v, tick = row
            if x is not None and isinstance(v, int) and tick is not None and tick > tin:
                facts[name].add((x, tick))
            if isinstance(v, int) and tick is not None and (x is None or tick > tin):
                known[name] = max(known[name], tick - 1)
    e, f, tin = facts["E"], facts["F"], min(known.values())
    p = {(x, t) for x, t in e if (x, t + 1) in e and t + 1 <= tin}
    q = {(x, t) for x, t in p if (x, t - 1) in f}
    return sorted([*(("P", *one) for one in p), *(("Q", *one) for one in q)])


def test_the_ledger_of_every_batch_is_that_of_its_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the driver and in the executors by turns."""
    for number, (_, rows) in enumerate(BATCHES):
        monkeypatch.setattr(sites, "LITTLE", -1 if number % 2 else 1_000_000)
        add(tmp_path, number)
        run(spark, tmp_path)
        made = commit(tmp_path, number)
        late = sum(x["reason"].startswith("late") for x in letters(tmp_path, number))
        dead = len(letters(tmp_path, number)) - late
        beats = sum(row == BEAT for row in rows)
        assert (made["rows"], made["late"], made["dead"]) == (len(rows), late, dead), number
        assert made["heartbeats"] == beats
        assert made["facts"] == len(rows) - late - dead - beats
    assert made["totals"]["rows"] == ROWS
    by_input = made["by_input"]
    assert {n: one["late"] for n, one in by_input.items()} == {"E": 2, "F": 1}
    assert sum(one["facts"] for one in by_input.values()) == made["totals"]["facts"]
    audit = json.loads(call("checkpoint", "audit", tmp_path / "c", "--json").stdout)
    assert audit["agrees"], [one for one in audit["checks"] if not one["agrees"]]
    counted = {one["what"]: one["counted"] for one in audit["checks"]}
    there = Counter(query for query, _, _ in answers(tmp_path, "csv"))
    assert {q: counted[f"all batches: answers of {q}"] for q in ("P", "Q")} == dict(there)
    assert answers(tmp_path, "csv") == expected()
    assert call("checkpoint", "verify", tmp_path / "c").exit_code == 0
    _see_show(tmp_path)
    _see_letters(tmp_path)
    _see_each_harm(tmp_path)
    _see_wrong_counts(tmp_path)


def _see_show(folder: Path) -> None:
    shown = json.loads(call("checkpoint", "show", folder / "c", "--json").stdout)
    last = commit(folder, len(BATCHES) - 1)
    assert shown["ledger"]["rows"] == ROWS
    assert (shown["tin"], shown["tout"]) == (last["clock"]["tin"], last["tout"])
    assert [one["commit"] for one in shown["commits"]] == [5, 4, 3, 2, 1]
    assert shown["inputs"]["E"]["seen"] == 12
    assert shown["inputs"]["F"]["holds_time_back"]
    files = [part for part in last["state"] if part["files"]]
    stored = sum(size for part in files for _, size, _ in part["files"])
    assert abs(sum(size["bytes"] for size in shown["state"]) - stored) <= len(shown["state"])
    # Facts after tin are kept, at least.
    exported = call("checkpoint", "export", folder / "c", folder / "tables", "--json")
    assert exported.exit_code == 0, exported.output
    rows = pq.read_table(folder / "tables" / "E.input.parquet").to_pylist()
    after = {("a", 9), ("a", 10), ("a", 11), ("b", 11), ("b", 12)}
    assert after <= {(row["x"], row["time"]) for row in rows}
    for size in shown["state"]:
        name = f"{size['predicate']}.{size['kind']}.parquet"
        times = pq.read_table(folder / "tables" / name).column("time").to_pylist()
        assert (min(times), max(times)) == (size["first"], size["last"])


def _see_letters(folder: Path) -> None:
    groups = json.loads(call("checkpoint", "letters", folder / "c", "--json").stdout)
    all_ = [letter for n in range(len(BATCHES)) for letter in letters(folder, n)]
    assert sum(group["count"] for group in groups) == len(all_)
    some = call("checkpoint", "letters", folder / "c", "--batch", "2-4", "--json").stdout
    chosen = sum(len(letters(folder, n)) for n in (2, 3, 4))
    assert sum(group["count"] for group in json.loads(some)) == chosen
    done = call("checkpoint", "letters", folder / "c", "--problem", "late", "--out", folder / "out")
    assert done.exit_code == 0, done.output
    late = [json.loads(line) for line in (folder / "out").read_text().splitlines()]
    assert late == [
        {"predicate": x["predicate"], **x["row"]} for x in all_ if x["reason"].startswith("late")
    ]


HARMS: dict[str, str] = {
    "c/tidelog.json": "tidelog.json is damaged",
    "c/commits/2.json": "commits/2.json is damaged",
    "c/commits/5.json": "commits/5.json is damaged",
    "c/rigid/0.parquet": "rigid/0.parquet is damaged",
    "c/rigid/complete.json": "rigid/complete.json is damaged",
    "c/dead_letters/batch=2/part-*": "dead_letters/batch=2/part-",
    "c/state/5/part-*": "state/5/part-",
    "c/spark/offsets/5": "spark/offsets/5 is not what was committed",
    "c/spark/metadata": "spark",
    "c/tables.json": "tables.json is damaged",
    "answers/P/batch=*/part-*": "/part-",
    "answers/_tidelog.json": "_tidelog.json is damaged",
}


def _see_each_harm(folder: Path) -> None:
    """Of each kind of file one is harmed, named, and put back."""
    for pattern, said in HARMS.items():
        for missing in (False, True):
            (path,) = list(folder.glob(pattern))[:1]
            data = path.read_bytes()
            path.unlink() if missing else path.write_bytes(data[:-3] + b"###")
            done = call("checkpoint", "verify", folder / "c")
            told = " ".join(done.output.split())
            wanted = said.replace("is damaged", "").replace("is not what was committed", "")
            if missing and pattern in ("c/tables.json",):
                assert done.exit_code == 0
            elif missing and pattern == "c/tidelog.json":
                assert "is no checkpoint" in told
            elif missing and pattern == "c/commits/5.json":
                assert "spark has completed batch 5" in told  # what Spark did is not known here
            else:
                assert (done.exit_code, wanted in told) == (1, True), (pattern, missing, told)
                assert missing or said in told, (pattern, told)
                assert "restore" in told or "rollback --to" in told, told
            assert "Traceback" not in done.output
            path.write_bytes(data)
    assert call("checkpoint", "verify", folder / "c").exit_code == 0


def _see_wrong_counts(folder: Path) -> None:
    """A dead letter and an answer that are there twice are told of by the audit."""
    (path,) = (folder / "c" / "dead_letters" / "batch=2").glob("part-*")
    data = path.read_bytes()
    path.write_bytes(data + data.splitlines(keepends=True)[-1])
    done = call("checkpoint", "audit", folder / "c")
    assert done.exit_code == 1
    assert "batch 2: " in done.stdout
    assert "dead letters" in done.stdout
    path.write_bytes(data)
    (again,) = list((folder / "answers" / "P").glob("batch=*"))[:1]
    shutil.copytree(again, folder / "answers" / "P" / "batch=3", dirs_exist_ok=True)
    (moved,) = list((folder / "answers" / "P" / "batch=3").glob("part-*"))[:1]
    moved.rename(moved.with_name("part-again.csv"))
    done = call("checkpoint", "audit", folder / "c", "--sink", f"csv:{folder / 'answers'}")
    assert done.exit_code == 1
    assert "answers of P that are there again" in done.stdout


Seam = Callable[[pytest.MonkeyPatch], None]


def _lose_late(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = FactTest.counted

    def fewer(self: FactTest, which: str = "TRUE") -> tuple[str, ...]:
        facts, _, *rest = counted(self, which)
        return (facts, "count_if(FALSE)", *rest)

    monkeypatch.setattr(FactTest, "counted", fewer)


def _lose_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Reader.letters
    monkeypatch.setattr(Reader, "letters", lambda *words: list(written(*words))[1:])


# Workers are processes of their own: letters are lost in the driver only.
LOSSES = [(_lose_late, 1_000_000), (_lose_late, -1), (_lose_letters, 1_000_000)]


@pytest.mark.parametrize(("seam", "little"), LOSSES)
def test_a_batch_that_loses_a_row_is_not_committed(
    seam: Seam, little: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sites, "LITTLE", little)
    add(tmp_path, 0, 1)
    run(spark, tmp_path)
    before = answers(tmp_path, "csv")
    add(tmp_path, 2)
    with monkeypatch.context() as patched:
        seam(patched)
        with pytest.raises(Exception, match="batch 2 is not committed: its ledger"):
            run(spark, tmp_path)
    assert not (tmp_path / "c" / "commits" / "2.json").exists()
    assert answers(tmp_path, "csv") == before
    run(spark, tmp_path)
    assert commit(tmp_path, 2)["rows"] == 5


@pytest.mark.parametrize("kind", ["csv", "jsonl", "delta"])
def test_rollback_then_going_on_gives_the_answers_of_an_undisturbed_run(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(4):
        add(tmp_path, number)
        run(spark, tmp_path, kind)
    shown = json.loads(call("checkpoint", "show", tmp_path / "c", "--json").stdout)
    possible = shown["rollback_to"]
    assert 2 in possible
    lineage = commit(tmp_path, 3)["lineage"]
    for to in (9, -1):
        done = call("checkpoint", "rollback", tmp_path / "c", "--to", to, "--yes")
        assert (done.exit_code, f"cannot go back to commit {to}" in done.stderr) == (1, True)
    for to in sorted(possible, reverse=True)[:2]:
        done = call("checkpoint", "rollback", tmp_path / "c", "--to", to, "--yes")
        assert done.exit_code == 0, done.output
        assert not (tmp_path / "c" / "commits" / f"{to + 1}.json").exists()
        assert max(int(p.name) for p in (tmp_path / "c/spark/offsets").glob("[0-9]*")) == to
    add(tmp_path, 4, 5)
    if kind == "csv":
        with pytest.warns(TidelogWarning, match="the answers from there on were removed"):
            run(spark, tmp_path, kind)
    elif kind == "delta":
        # Tables take nothing back: what to do is said for each of them.
        for _ in ("P", "Q"):
            with pytest.raises(Exception, match=r"restore\(\d+\)|delete "):
                run(spark, tmp_path, kind)
            _restore(tmp_path, commit(tmp_path, to))
            try:
                run(spark, tmp_path, kind)
                break
            except Refused:
                continue
    else:
        run(spark, tmp_path, kind)
    assert answers(tmp_path, kind) == expected()
    assert commit(tmp_path, to + 1)["lineage"] != lineage
    audit = call("checkpoint", "audit", tmp_path / "c")
    assert audit.exit_code == 0, audit.output
    assert call("checkpoint", "verify", tmp_path / "c").exit_code == 0
    last = json.loads(call("checkpoint", "show", tmp_path / "c", "--json").stdout)
    assert last["ledger"]["rows"] == ROWS


def _restore(folder: Path, last: dict[str, Any]) -> None:
    """Take tables back to a commit, as the message says."""
    import deltalake

    for query in ("P", "Q"):
        known = last["sink"]["tables"].get(query)
        if known is None:
            shutil.rmtree(folder / "answers" / query, ignore_errors=True)
        else:
            deltalake.DeltaTable(str(folder / "answers" / query)).restore(known["version"])


def test_rollback_is_refused_while_the_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path, 0)
    running = stream(
        spark,
        tidelog.parse(RULES),
        inputs=tmp_path / "facts",
        sink=f"csv:{tmp_path / 'answers'}",
        checkpoint=tmp_path / "c",
        rigid=tmp_path / "rigid",
        files_per_batch=1,
    )
    while running.committed is None:
        assert running.query.isActive
    done = call("checkpoint", "rollback", tmp_path / "c", "--to", 0, "--yes")
    assert done.exit_code == 75  # later there is a way back
    assert f"is in use by process {os.getpid()}: stop that one first" in done.stderr
    for command in ("show", "verify", "audit"):
        assert call("checkpoint", command, tmp_path / "c").exit_code == 0
    running.stop()


def test_a_rollback_that_was_killed_is_finished_by_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    add(tmp_path, 0, 1, 2, 3)
    run(spark, tmp_path)
    from tidelog.checkpoints.folder import LocalFolder

    drop, done = LocalFolder.drop, 0
    deaths = 0
    for most in range(30):
        copy = tmp_path / f"copy{most}"
        shutil.copytree(tmp_path / "c", copy)
        done = 0

        def dropped(self: LocalFolder, *parts: str, most: int = most) -> None:
            nonlocal done
            if done == most:
                raise KeyboardInterrupt
            done += 1
            drop(self, *parts)

        with patch.object(LocalFolder, "drop", dropped):
            first = call("checkpoint", "rollback", copy, "--to", 2, "--yes")
        if first.exit_code == 0:
            break
        deaths += 1
        again = call("checkpoint", "rollback", copy, "--to", 2, "--yes")
        assert again.exit_code == 0, again.output
        assert call("checkpoint", "verify", copy).exit_code == 0
        assert _tree(copy) == _tree(_rolled_back(tmp_path))
    assert deaths >= 4


def _rolled_back(folder: Path) -> Path:
    whole = folder / "whole"
    if not whole.exists():
        shutil.copytree(folder / "c", whole)
        assert call("checkpoint", "rollback", whole, "--to", 2, "--yes").exit_code == 0
    return whole


def _tree(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    )


def test_the_state_of_as_many_commits_is_kept_as_is_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "facts" / "E").mkdir(parents=True)
    rules = tidelog.parse("input E(x: text) @ time. P(X) @ T :- E(X) @ T, E(X) @ T+1.")
    for number in range(6):  # chunks of state that have nothing in common
        rows = "".join(f"a,{number * 1000 + tick}\n" for tick in (0, 1, 2))
        (tmp_path / "facts" / "E" / f"{number}.csv").write_text(f"x,time\n{rows}")
        os.utime(tmp_path / "facts" / "E" / f"{number}.csv", (number + 1, number + 1))

    def possible(folder: str, **more: Any) -> list[int]:
        running = stream(
            spark,
            rules,
            inputs=tmp_path / "facts",
            sink=f"csv:{tmp_path / folder / 'answers'}",
            checkpoint=tmp_path / folder / "c",
            files_per_batch=1,
            trigger={"availableNow": True},
            **more,
        )
        running.awaitTermination()
        running.stop()
        shown = call("checkpoint", "show", tmp_path / folder / "c", "--json")
        found: list[int] = json.loads(shown.stdout)["rollback_to"]
        return found

    assert possible("usual") == [4]
    assert possible("more", keep_commits=4) == [2, 3, 4]
    with pytest.raises(ValueError, match="keep_commits is 2 or more"):
        possible("fewer", keep_commits=1)
