"""`tidelog run` in process: what may be otherwise at a restart, and how it gets on."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples

from tidelog.cli import cli
from tidelog.streaming import snapshot

RULES = "input E(x: text) @ time.\nP(X) @ T :- E(X) @ T.\n"


def run(folder: Path, facts: str, *options: str, lines: list[str] | None = None) -> Any:
    if not (folder / "rules.tdl").exists():
        (folder / "rules.tdl").write_text(RULES)
    words = ["run", str(folder / "rules.tdl"), "--facts", facts, "--engine", "duckdb"]
    words += ["--sink", f"jsonl:{folder}/out", "--checkpoint", f"{folder}/c"]
    given = None if lines is None else "".join(f"{line}\n" for line in lines)
    return CliRunner().invoke(cli, [*words, *options], input=given)


def ran(folder: Path, facts: str, *options: str, lines: list[str] | None = None) -> dict[str, Any]:
    """The summary of a run that ended well."""
    done = run(folder, facts, "--json", *options, lines=lines)
    assert done.exit_code == 0, done.output
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def fact(x: str, time: int | str) -> str:
    return json.dumps({"predicate": "E", "x": x, "time": time})


def answers(folder: Path) -> list[tuple[str, Any]]:
    lines = map(json.loads, (folder / "out").read_text().splitlines())
    return [(line["x"], line["time"]) for line in lines]


def letters(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "c" / "dead_letters").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


# Standard input


def test_input_from_its_beginning_brings_each_row_once(tmp_path: Path) -> None:
    """The last row of a stream that stays open is a fact, and neither late nor one again."""
    lines = [fact("a", 0), fact("b", 1), fact("c", 1)]
    first = ran(tmp_path, "-", lines=lines)
    assert (first["facts"], first["late"], first["tin"]) == (3, 0, 0)
    again = ran(tmp_path, "-", lines=lines)
    assert (again["facts"], again["late"], again["tin"]) == (0, 0, 0)
    more = ran(tmp_path, "-", "--close", lines=[*lines, fact("d", 1), fact("e", 2)])
    assert (more["facts"], more["late"]) == (2, 0)
    assert answers(tmp_path) == [("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 2)]


def test_another_input_is_refused_at_its_first_line(tmp_path: Path) -> None:
    ran(tmp_path, "-", lines=[fact("a", t) for t in range(50)])
    before = (tmp_path / "c" / "stream.json").read_bytes()
    other = run(tmp_path, "-", lines=[fact("a", t) for t in range(50, 53)])
    assert other.exit_code == 1
    (line,) = other.stderr.splitlines()
    assert line.startswith("error: standard input is not what was read before: its first line is")
    assert line.endswith("--resume-from here if all of its lines are new [R03]")
    assert (tmp_path / "c" / "stream.json").read_bytes() == before
    some = [fact("a", t) for t in range(20)]
    changed = run(tmp_path, "-", lines=[*some, fact("b", 20), *some])
    assert "its first 32 lines are others" in changed.stderr
    short = run(tmp_path, "-", lines=some)
    assert "standard input ends after 20 lines, and 50 were read before" in short.stderr
    assert run(tmp_path, "-", "--close", lines=[]).exit_code == 0  # to end it
    assert [t for _, t in answers(tmp_path)] == list(range(50))


def test_a_live_pipe_goes_on_here(tmp_path: Path) -> None:
    """Also of the last tick; and what this pipe has brought may be given again."""
    words = ("-", "--resume-from", "here")
    ran(tmp_path, *words, lines=[fact("a", t) for t in range(50)])
    second = [fact("b", 49), *(fact("a", t) for t in range(50, 60))]
    assert ran(tmp_path, *words, lines=second)["facts"] == 11
    third = ran(tmp_path, "-", "--resume-from", "start", lines=[*second, fact("c", 60)])
    assert (third["facts"], third["late"]) == (1, 0)
    ran(tmp_path, *words, "--close", lines=[fact("c", 59)])
    got = answers(tmp_path)
    assert sorted(got) == sorted([*(("a", t) for t in range(60)), ("b", 49), ("c", 60)])
    assert [letter["reason"][:5] for letter in letters(tmp_path)] == ["late:"]


@examples(40)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
    st.booleans(),
)
def test_any_cuts_of_an_input(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int]],
    cuts: list[int],
    live: bool,
) -> None:
    """Each row is a fact or late, once, wherever the input is broken off."""
    folder = tmp_path_factory.mktemp("cut")
    lines = [fact(x, t) for x, t in rows]
    ends = sorted({min(cut, len(lines)) for cut in cuts} | {len(lines)})
    facts = late = before = 0
    for end in ends:
        options = ["--close"] if end == len(lines) else []
        options += ["--resume-from", "here"] if live else []
        summary = ran(folder, "-", *options, lines=lines[before if live else 0 : end])
        facts, late, before = facts + summary["facts"], late + summary["late"], end
    tin, kept, too_late = -1, set(), 0
    last = -1
    for x, t in rows:
        if t <= tin:
            too_late += 1
        else:
            kept.add((x, t))
        last = max(last, t)
        tin = last - 1
    assert (facts, late) == (len(rows) - too_late, too_late)
    assert sorted(answers(folder)) == sorted(kept)
    assert len(letters(folder)) == too_late


def test_where_from_goes_with_standard_input(tmp_path: Path) -> None:
    (tmp_path / "E.csv").write_text("x,time\na,0\n")
    said = run(tmp_path, f"{tmp_path}/E.csv", "--resume-from", "here").stderr
    assert "--resume-from goes with --facts -" in said


# Options


@pytest.mark.parametrize("kind", ["lines", "files"])
def test_lateness_and_jumps_may_change(kind: str, tmp_path: Path) -> None:
    facts: list[tuple[str, int]] = []

    def go_on(*options: str, **more: int) -> dict[str, Any]:
        facts.extend(more.items())
        if kind == "lines":
            return ran(tmp_path, "-", *options, lines=[fact(x, t) for x, t in facts])
        number = len(list((tmp_path / "E").glob("*"))) if (tmp_path / "E").exists() else 0
        (tmp_path / "E").mkdir(exist_ok=True)
        rows = "".join(f"{x},{t}\n" for x, t in more.items())
        (tmp_path / "E" / f"{number}.csv").write_text(f"x,time\n{rows}")
        return ran(tmp_path, f"E={tmp_path}/E", *options)

    assert go_on(a=0, b=10)["tin"] == 9
    second = go_on("--lateness", "5", "--max-jump", "100", late=9, c=11)
    assert (second["tin"], second["late"]) == (9, 1)
    assert go_on("--lateness", "1", "--max-jump", "50", d=10, e=20, far=10**6)["tin"] == 18
    note = json.loads((tmp_path / "c" / "stream.json").read_text().splitlines()[1])["note"]
    assert (note["options"]["lateness"], note["options"]["max_jump"]) == (1, 50)
    go_on("--max-jump", "50", "--close")
    assert answers(tmp_path) == [("a", 0), ("b", 10), ("d", 10), ("c", 11), ("e", 20)]


def test_rules_in_disguise_go_on_and_others_are_shown(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text(
        "input E(x: text) @ time.\nP(X) @ T :- E(X) @ T.\nP(X) @ T :- E(X) @ T-10m.\n"
        "Q(X) @ T :- P(X) @ T, not E(X) @ T.\ntick 10m.\n"
    )
    stamps = [f"2024-05-01T00:{m}0:00Z" for m in range(4)]
    ran(tmp_path, "-", "--query", "P", "--query", "Q", lines=[fact("a", t) for t in stamps[:2]])
    rules.write_text(
        "tick 10m.\ninput E(x: text) @ time.\nQ(A) @ S :- P(A) @ S, not E(A) @ S.\n"
        "P(Y) @ U :- E(Y) @ U-10m.\nP(Z) @ T :- E(Z) @ T.\n"
    )
    lines = [fact("a", t) for t in (stamps[0], stamps[1], stamps[3])]
    ran(tmp_path, "-", "--query", "Q", "--query", "P", "--close", lines=lines)
    got = [
        (line["predicate"], line["x"], line["time"])
        for line in map(json.loads, (tmp_path / "out").read_text().splitlines())
    ]
    assert sorted(got) == [
        *(("P", "a", stamp) for stamp in stamps),
        ("Q", "a", stamps[2]),
    ]


# Times after the clock


@pytest.mark.parametrize("kind", ["lines", "files"])
def test_times_far_after_the_clock_are_put_aside(kind: str, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    times = {"a": now - timedelta(hours=1), "soon": now + timedelta(hours=23)}
    times["far"] = now + timedelta(days=2)
    rows = {x: time.isoformat().replace("+00:00", "Z") for x, time in times.items()}
    lines = [fact(x, time) for x, time in rows.items()]
    facts = "-" if kind == "lines" else f"{tmp_path}/E.csv"
    (tmp_path / "E.csv").write_text("x,time\n" + "".join(f"{x},{t}\n" for x, t in rows.items()))
    first = ran(tmp_path, facts, "--tick", "1m", lines=lines if kind == "lines" else None)
    assert (first["dead"], first["late"]) == (1, 0)
    (letter,) = letters(tmp_path)
    assert letter["row"]["x"] == "far"
    assert letter["reason"].startswith("its time is more than 1d after the clock, which said ")
    assert letter["reason"].endswith("Z; --max-ahead allows more")
    last = ran(
        tmp_path,
        facts,
        *("--tick", "1m", "--max-ahead", "off", "--close"),
        lines=[*lines, fact("later", rows["far"])] if kind == "lines" else None,
    )
    assert (last["late"], last["dead"]) == (0, 0)
    names = [x for x, _ in answers(tmp_path)]
    assert names == (["a", "soon", "later"] if kind == "lines" else ["a", "soon", "far"])


def test_whole_ticks_have_no_clock(tmp_path: Path) -> None:
    assert ran(tmp_path, "-", lines=[fact("a", 10**15)])["dead"] == 0


def test_a_length_or_off(tmp_path: Path) -> None:
    said = run(tmp_path, "-", "--tick", "1m", "--max-ahead", "far", lines=[]).stderr
    assert "--max-ahead: max_ahead is a length of time such as 1d, or off, not 'far'" in said


# Going on without a file


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl.gz", "parquet", "csv"])
def test_a_poison_file_is_skipped_once(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "E"
    folder.mkdir()
    (folder / "0.csv").write_text("x,time\na,0\nb,1\n")
    bad = folder / f"1.{kind}"
    text = "".join(f'{{"x": "{i * 7919}", "time": {i}}}\n' for i in range(9000))
    if kind == "csv.gz":
        text = "x,time\n" + "".join(f"{i * 7919},{i}\n" for i in range(9000))
    plain = {"parquet": b"PAR1 no", "csv": b"y,time\na,1\n"}
    bad.write_bytes(plain.get(kind) or gzip.compress(text.encode())[:-2000])
    facts = f"E={folder}"
    stuck = run(tmp_path, facts)
    assert stuck.exit_code == 1
    assert f"go on without it: --skip {bad} (skip= in Python)" in stuck.stderr
    assert "Traceback" not in stuck.output
    digest = hashlib.sha256(bad.read_bytes()).hexdigest()
    wanted = f"skipped as asked for: {bad.stat().st_size} bytes, SHA-256 {digest}"
    first = ran(tmp_path, facts, "--skip", str(bad))
    assert (first["facts"], first["dead"]) == (1, 1)
    bad.unlink()
    second = ran(tmp_path, facts)  # once is enough, wherever the file is now
    assert (second["facts"], second["dead"]) == (0, 1)
    last = ran(tmp_path, facts, "--skip", str(bad), "--close")
    assert (last["facts"], last["dead"]) == (1, 1)
    (letter,) = letters(tmp_path)
    assert (letter["predicate"], letter["reason"], letter["file"]) == ("E", wanted, str(bad))
    assert answers(tmp_path) == [("a", 0), ("b", 1)]


def test_what_cannot_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "E.csv").write_text("x,time\na,0\n")
    facts = f"{tmp_path}/E.csv"
    said = run(tmp_path, facts, "--skip", f"{tmp_path}/rules.tdl").stderr
    assert "it is not among the facts of this stream" in said
    assert "goes with --engine spark" in run(tmp_path, facts, "--skip", "kafka:t/0/1").stderr
    assert "not standard input" in run(tmp_path, "-", "--skip", facts, lines=[]).stderr


def test_a_snapshot_at_every_push_has_all_lines_up_to_it(tmp_path: Path) -> None:
    """A process that dies after any snapshot goes on from it with the same input."""
    lines = [fact("a", 0), "oops", fact("b", 1), "oops", fact("c", 2)]
    with patch.object(snapshot.CheckpointFolder, "OFTEN", 0.0):
        ran(tmp_path, "-", lines=lines)
        summary = ran(tmp_path, "-", "--close", lines=[*lines, "oops", fact("d", 3)])
    assert (summary["facts"], summary["dead"]) == (1, 1)
    assert len(letters(tmp_path)) == 3
    assert [x for x, _ in answers(tmp_path)] == ["a", "b", "c", "d"]


# Files that are gone, empty or new

HEADER = "x,time"
TWO = "input E(x: text) @ time. input G(x: text) @ time.\nP(X) @ T :- E(X) @ T, not G(X) @ T.\n"
CHANGES = st.sampled_from(["gone", "header", "bad row", "grown", "rotated", "as before"])


@given(st.lists(st.tuples(CHANGES, CHANGES, st.integers(1, 3)), min_size=1, max_size=5))
@examples(25)
def test_files_may_be_gone_empty_or_new(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[str, str, int]]
) -> None:
    """Every row that was there at some start is a fact once, if its times only go up."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "rules.tdl").write_text(TWO)
    (folder / "F").mkdir()
    files: dict[str, list[str]] = {}
    rows: dict[str, set[tuple[str, int]]] = {"E": set(), "G": set()}
    tick = 0
    for changes in [*runs, ("grown", "grown", 1)]:
        tick += 1
        for name, change in zip("EG", changes, strict=False):
            path, before = folder / "F" / f"{name}.csv", files.get(name, [])
            if change == "gone":
                path.unlink(missing_ok=True)
                files[name] = []
                continue
            new = [(f"x{i}", tick + i) for i in range(int(changes[2])) if name == "E" or i % 2]
            match change:
                case "grown":
                    lines = [*before, *(f"{x},{t}" for x, t in new)]
                case "rotated":
                    lines = [f"{x},{t}" for x, t in new]
                case "bad row":
                    lines = [*before, "x,noon"]
                case "header":
                    lines = []
                case _:
                    lines = before
            if change in ("grown", "rotated"):
                rows[name] |= set(new)
            files[name] = lines
            path.write_text("\n".join([HEADER, *lines]) + "\n")
        tick += int(changes[2])
        last = changes == ("grown", "grown", 1)
        done = run(folder, str(folder / "F"), *(["--close"] if last else []))
        refused = "none of its" in done.output or "its only row cannot" in done.output
        assert done.exit_code == 0 or refused, done.output
        if refused:  # the very first rows of an input are of no use: nothing has begun
            return
    assert sorted(answers(folder)) == sorted(rows["E"] - rows["G"])
