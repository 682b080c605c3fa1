"""`tidelog query` as people use it: formats, places, ranges, terminals and exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from support.places import ROOT

from tidelog.cli import cli
from tidelog.views import answers

RULES = """
input E(name: text, v: float, ok: bool) @ at.
output P, Count.
P(X, V, B) @ T :- E(X, V, B) @ T.
Count @ T+1 :- E(_, _, _) @ T.
Names(X) :- E(X, _, _) @ _.
"""
FACTS = (
    'name,v,ok,at\nb,1.5,true,0\na,2,false,3\n"it\'s, ""so""\nand so",0.1,true,3\n"",1e300,true,1\n'
)
ROWS = [
    ("b", 1.5, True, 0),
    ("", 1e300, True, 1),
    ("a", 2.0, False, 3),
    ('it\'s, "so"\nand so', 0.1, True, 3),
]


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.tdl"
    path.write_text(RULES)
    return str(path)


@pytest.fixture
def facts(tmp_path: Path) -> str:
    folder = tmp_path / "facts"
    folder.mkdir()
    (folder / "E.csv").write_text(FACTS)
    return str(folder)


def query(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["query", *args], input=stdin)


def good(*args: str) -> str:
    result = query(*args)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


# Formats


def test_csv_is_what_pythons_reader_reads(rules: str, facts: str) -> None:
    header, *rows = csv.reader(io.StringIO(good(rules, "--facts", facts, "--query", "P"), ""))
    assert header == ["x", "v", "b", "time"]
    assert [(x, float(v), b == "true", int(t)) for x, v, b, t in rows] == ROWS


def test_csv_answers_are_facts_again(rules: str, facts: str, tmp_path: Path) -> None:
    """What is written can be read: nothing changes on the way, empty text included."""
    out = tmp_path / "again" / "E.csv"
    good(rules, "--facts", facts, "--query", "P", "--out", str(out))
    (tmp_path / "second.tdl").write_text(
        "input E(x: text, v: float, b: bool) @ time. P(X, V, B) @ T :- E(X, V, B) @ T."
    )
    again = good(str(tmp_path / "second.tdl"), "--facts", str(out.parent))
    assert again == out.read_text("utf-8")


@pytest.mark.parametrize("option", [["--format", "json"], ["--json"]])
def test_json_lines(rules: str, facts: str, option: list[str]) -> None:
    lines = [json.loads(x) for x in good(rules, "--facts", facts, *option).splitlines()]
    assert [x for x in lines if x["predicate"] == "P"] == [
        {"predicate": "P", "x": x, "v": v, "b": b, "time": t} for x, v, b, t in ROWS
    ]
    # Ticks 0, 1 and 3 have facts; of 1, 2 and 4 the last one lies beyond the data.
    assert [x for x in lines if x["predicate"] == "Count"] == [
        {"predicate": "Count", "time": t} for t in (1, 2)
    ]


def test_rigid_answers(rules: str, facts: str, tmp_path: Path) -> None:
    printed = good(rules, "--facts", facts, "--query", "Names")
    names = sorted(name for name, *_ in ROWS)
    assert [row[0] for row in csv.reader(io.StringIO(printed, ""))] == ["x", *names]
    path = tmp_path / "any.tdl"
    path.write_text(RULES + "Any :- E(_, _, true) @ _. Never :- E(zebra, _, _) @ _.")
    assert good(str(path), "--facts", facts, "--query", "Any") == "holds\ntrue\n"
    assert good(str(path), "--facts", facts, "--query", "Never") == "holds\n"
    assert json.loads(good(str(path), "--facts", facts, "--query", "Any", "--json")) == {
        "predicate": "Any",
        "holds": True,
    }


def test_a_table(rules: str, facts: str) -> None:
    lines = good(rules, "--facts", facts, "--format", "table").splitlines()
    assert lines[0] == "P: 4 answers"
    assert lines[1].split() == ["x", "v", "b", "time"]
    assert lines[2].split() == ["b", "1.5", "true", "0"]
    assert "and so" in lines[5]  # a row is a line, whatever is in it
    assert lines[6] == "Count: 2 answers"


def test_a_long_table_says_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "r.tdl").write_text("P @ T :- E @ T.")
    n = answers.MOST_ROWS + 5
    pq.write_table(pa.table({"time": list(range(n))}), tmp_path / "E.parquet")
    command = [str(tmp_path / "r.tdl"), "--facts", str(tmp_path / "E.parquet")]
    lines = good(*command, "--format", "table").splitlines()
    assert len(lines) == answers.MOST_ROWS + 3
    assert lines[-1].strip() == "... and 5 more: see them all with --out FILE"
    assert len(good(*command).splitlines()) == n + 1


def test_a_terminal_gets_a_table(rules: str, facts: str) -> None:
    outside, inside = pty.openpty()
    command = [sys.executable, "-m", "tidelog.cli", "query", rules, "--facts", facts]
    process = subprocess.Popen(command, stdout=inside, stderr=subprocess.PIPE)
    os.close(inside)
    shown = b""
    while True:
        try:
            part = os.read(outside, 10_000)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(outside)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, b"")
    assert shown.startswith(b"P: 4 answers")
    assert b"Count: 2 answers" in shown


def test_a_reader_that_stops_early(tmp_path: Path) -> None:
    (tmp_path / "r.tdl").write_text("P @ T :- E @ T.")
    pq.write_table(pa.table({"time": list(range(200_000))}), tmp_path / "E.parquet")
    command = f"{sys.executable} -m tidelog.cli query r.tdl --facts E.parquet | head -2"
    result = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout == "time\n0\n"
    assert "Traceback" not in result.stderr


# Places


def test_one_query_to_a_file_and_several_to_a_folder(
    rules: str, facts: str, tmp_path: Path
) -> None:
    piped = good(rules, "--facts", facts, "--query", "Count")
    out = tmp_path / "new" / "count.csv"
    assert good(rules, "--facts", facts, "--query", "Count", "--out", str(out)) == ""
    assert out.read_text("utf-8") == piped == "time\n1\n2\n"
    folder = tmp_path / "all"
    assert good(rules, "--facts", facts, "--out", str(folder)) == ""
    assert sorted(p.name for p in folder.iterdir()) == ["Count.csv", "P.csv"]
    assert (folder / "Count.csv").read_text("utf-8") == piped
    good(rules, "--facts", facts, "--query", "Count", "--format", "json", "--out", f"{folder}/")
    good(rules, "--facts", facts, "--query", "Count", "--out", str(tmp_path / "c.jsonl"))
    lines = "".join(f'{{"predicate": "Count", "time": {t}}}\n' for t in (1, 2))
    assert (folder / "Count.jsonl").read_text("utf-8") == lines
    assert (tmp_path / "c.jsonl").read_text("utf-8") == lines


def test_a_file_is_replaced_whole_or_not_at_all(
    rules: str, facts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("P.csv", "Count.csv"):
        (folder / name).write_text("before")
    whole = answers.lines

    def half(predicate: str, table: pa.Table, format_: str):
        lines = whole(predicate, table, format_)
        yield next(lines)
        if predicate == "Count":
            raise OSError(28, "No space left on device")
        yield from lines

    monkeypatch.setattr(answers, "lines", half)
    result = query(str(rules), "--facts", facts, "--out", str(folder))
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
    assert "No space left on device" in result.stderr
    assert {p.name: p.read_text() for p in folder.iterdir()} == {
        "P.csv": "before",
        "Count.csv": "before",
    }


def test_nothing_is_written_when_the_data_is_wrong(rules: str, tmp_path: Path) -> None:
    (tmp_path / "E.csv").write_text("name,v,ok,at\na,1,true,0\na,wet,true,1\n")
    out = tmp_path / "out"
    result = query(str(rules), "--facts", str(tmp_path / "E.csv"), "--out", str(out))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == f"error: {tmp_path / 'E.csv'}:3: column `v`: `wet` is not float\n"
    assert not out.exists()


def test_a_place_that_cannot_be_written(rules: str, facts: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = query(str(rules), "--facts", facts, "--out", str(tmp_path / "file" / "below"))
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_a_written_file_may_be_read_by_others(rules: str, facts: str, tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    good(rules, "--facts", facts, "--query", "P", "--out", str(tmp_path / "p.csv"))
    modes = {(tmp_path / name).stat().st_mode for name in ("ordinary", "p.csv")}
    assert len(modes) == 1


# Ranges


@pytest.mark.parametrize(
    ("options", "ticks"),
    [
        ([], [1, 2]),
        (["--to", "4"], [1, 2, 4]),
        (["--from", "2"], [2]),
        (["--from", "2", "--to", "2"], [2]),
        (["--from", "-100", "--to", "100"], [1, 2, 4]),
        (["--from", "3", "--to", "2"], []),
        (["--from", "-4611686018427387903", "--to", "4611686018427387903"], [1, 2, 4]),
    ],
)
def test_ranges(rules: str, facts: str, options: list[str], ticks: list[int]) -> None:
    printed = good(rules, "--facts", facts, "--query", "Count", *options).split()
    assert printed == ["time", *map(str, ticks)]


def test_timestamps_in_and_out(rules: str, tmp_path: Path) -> None:
    (tmp_path / "E.csv").write_text(
        "name,v,ok,at\na,1,true,2014-01-01T00:09:59+01:00\nb,1,true,1969-12-31T23:00:00Z\n"
    )
    command = [rules, "--facts", str(tmp_path / "E.csv"), "--query", "P", "--tick", "10m"]
    assert good(*command).splitlines() == [
        "x,v,b,time",
        "b,1.0,true,1969-12-31T23:00:00Z",
        "a,1.0,true,2013-12-31T23:00:00Z",
    ]
    # 44 years, 11 of them leap years, less one hour, in units of ten minutes.
    ticks = ((365 * 44 + 11) * 24 - 1) * 6
    assert good(*command, "--ticks").splitlines()[1:] == ["b,1.0,true,-6", f"a,1.0,true,{ticks}"]
    late = good(*command, "--from", "2013-01-01", "--ticks", "--origin", "2013-12-31T23:15:00Z")
    assert late.splitlines()[1:] == ["a,1.0,true,-1"]
    assert json.loads(good(*command, "--from", "2000-01-01", "--json"))["time"] == (
        "2013-12-31T23:00:00Z"
    )


# What is wrong


def test_several_queries_do_not_fit_one_csv(rules: str, facts: str) -> None:
    result = query(str(rules), "--facts", facts)
    assert result.exit_code == 2
    assert result.stdout == ""
    for remedy in ("2 queries", "--query", "--out DIR", "--format json"):
        assert remedy in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--query", "Cuont"], "did you mean Count?"),
        (["--from", "noon"], "`noon` is not a whole number of ticks"),
        (["--from", "2014-01-01"], "timestamps need a tick length"),
        (["--to", "4611686018427387904"], "does not fit 62 bits"),
        (["--tick", "ten"], "`ten` is not a tick length"),
        (["--tick", "10m", "--origin", "noon"], "`noon` is not a timestamp"),
        (["--origin", "2014-01-01"], "--origin and --ticks go with --tick"),
        (["--ticks"], "--origin and --ticks go with --tick"),
        (["--json", "--format", "csv"], "--json and --format contradict each other"),
        (["--format", "xml"], "'xml' is not one of"),
        (["--engine", "abacus"], "'abacus' is not"),
    ],
)
def test_wrong_use(rules: str, facts: str, options: list[str], said: str) -> None:
    result = query(str(rules), "--facts", facts, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize("place", ["nowhere", "nowhere/E.csv", "rules.tdl"])
def test_facts_that_are_not_there(rules: str, tmp_path: Path, place: str) -> None:
    result = query(str(rules), "--facts", str(tmp_path / place), "--query", "P")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {tmp_path / place}")


def test_rules_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "r.tdl").write_text("P(X) @ T :- E(Y) @ T.")
    result = query(str(tmp_path / "r.tdl"))
    assert result.exit_code == 1
    assert result.stdout == ""


def test_facts_that_are_not_facts_are_counted(rules: str, tmp_path: Path) -> None:
    (tmp_path / "E.csv").write_text("name,v,ok,at\na,nan,true,0\nb,1,,1\nc,1,true,2\n,1,true,2\n")
    result = query(str(rules), "--facts", str(tmp_path / "E.csv"), "--query", "P")
    assert result.exit_code == 0
    assert result.stdout == "x,v,b,time\nc,1.0,true,2\n"
    said = "warning: 3 rows of E left out: NULL or NaN in columns `name`, `v` and `ok`\n"
    assert result.stderr == said


def test_recursion_both_ways_is_answered_too(tmp_path: Path) -> None:
    path = tmp_path / "r.tdl"
    path.write_text("P @ T :- E @ T.\nP @ T+1 :- P @ T.\nP @ T-2 :- P @ T.\n")
    (tmp_path / "E.csv").write_text("time\n0\n")
    facts = str(tmp_path / "E.csv")
    result = query(str(path), "--facts", facts, "--from", "-3", "--to", "3")
    assert result.exit_code == 0
    assert result.stdout.split() == ["time", *map(str, range(-3, 4))]
    # Nothing tells the user that this was the slow way but the note, which names a rule.
    assert result.stderr.startswith(f"note: evaluated on the timeline; {path}:")


def test_rules_from_standard_input() -> None:
    facts = str(ROOT / "examples" / "turbines" / "facts")
    text = (ROOT / "examples" / "turbines" / "rules.tdl").read_text("utf-8")
    result = query("-", "--facts", facts, "--query", "Malfunc", stdin=text)
    assert (result.exit_code, result.stdout) == (0, "x,time\nnorth,1\nnorth,2\neast,6\n")


def test_out_writes_the_format_that_its_ending_says(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text("P(X) @ T :- E(X) @ T. E(a) @ 1. E(b) @ 2.")
    expected = [{"x": "a", "time": 1}, {"x": "b", "time": 2}]
    for name in ("answers.parquet", "ANSWERS.PARQUET"):
        result = query(str(rules), "--query", "P", "--out", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        assert pq.read_table(tmp_path / name).to_pylist() == expected
    query(str(rules), "--query", "P", "--out", str(tmp_path / "p.ndjson"))
    lines = (tmp_path / "p.ndjson").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"predicate": "P", **row} for row in expected]
    result = query(str(rules), "--format", "parquet", "--out", str(tmp_path / "all") + "/")
    assert result.exit_code == 0, result.output
    assert pq.read_table(tmp_path / "all" / "P.parquet").to_pylist() == expected


def test_parquet_is_not_for_standard_output(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text("P(X) @ T :- E(X) @ T. E(a) @ 1.")
    result = query(str(rules), "--query", "P", "--format", "parquet")
    assert result.exit_code == 2
    assert "--out" in result.output
