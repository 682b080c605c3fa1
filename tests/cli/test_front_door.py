"""What a new user meets first: nothing is silently empty or wrong, and times are timestamps."""

from __future__ import annotations

import gzip
import json
import math
import pickle
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import tidelog
from tidelog.cli import cli
from tidelog.cli.running import RunLog
from tidelog.data.schema import schemas
from tidelog.data.ticks import Ticks
from tidelog.errors import DataError, NoFacts, TidelogWarning
from tidelog.streaming.clock import Pace
from tidelog.streaming.feeds import Lines

RULES = """input metrics(host: text, cpu: float, note: text) @ time.
Hot(H) @ T :- metrics(H, C, _) @ T, C > 90.
"""
HEADER = "host,cpu,note,time\n"
STAMPED = HEADER + (
    "a,95,x,2024-05-01T00:00:10Z\nb,99,,2024-05-01T00:01:30Z\nc,hot,x,2024-05-01T00:02:59Z\n"
)


def run(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], input=stdin)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.tdl"
    path.write_text(RULES)
    return path


def in_place(folder: Path, text: str, name: str = "metrics.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# Files


def test_several_facts_are_read_together(rules: Path, tmp_path: Path) -> None:
    """Files, NAME=FILE, patterns, packed ones and other endings: the last one does not win."""
    one = in_place(tmp_path, HEADER + "a,95,x,0\n")
    two = in_place(tmp_path, HEADER + "b,95,x,1\n", "other.csv")
    with gzip.open(tmp_path / "days-1.csv.gz", "wt") as packed:
        packed.write(HEADER + "c,95,x,2\n")
    lines = in_place(
        tmp_path, '{"host": "d", "cpu": 95, "note": "", "time": 3}\n', "in/metrics.ndjson"
    )
    words = ["--facts", one, "--facts", f"metrics={two}"]
    words += ["--facts", f"metrics={tmp_path}/days-*.csv.gz", "--facts", lines.parent]
    result = run("query", rules, *words)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == ["a,0", "b,1", "c,2", "d,3"]
    streamed = run("run", rules, *words, "--engine", "duckdb")
    assert [json.loads(line)["h"] for line in streamed.stdout.splitlines()] == ["a", "b", "c", "d"]
    assert "no file or folder matches" in run("query", rules, "--facts", "x*.csv").stderr


def test_a_file_that_is_no_input_is_a_warning(rules: Path, tmp_path: Path) -> None:
    in_place(tmp_path / "facts", HEADER + "a,95,x,0\n")
    in_place(tmp_path / "facts", "x\n1\n", "metrisc.csv")
    result = run("query", rules, "--facts", tmp_path / "facts")
    assert (result.exit_code, result.stdout) == (0, "h,time\na,0\n")
    assert "no input is called `metrisc`; did you mean `metrics`?; it is left out" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("query",),
        ("why", "Hot(a) @ 0"),
        ("report", "--out", "page.html"),
        ("definitive", "--tin", "1", "--tout", "1"),
        ("forgettable", "--tin", "1", "--tout", "1", "--tmem", "0"),
        ("run", "--engine", "duckdb"),
    ],
)
def test_an_input_without_facts_is_named(
    words: tuple[str, ...], rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "facts").mkdir()
    command, *rest = words
    result = run(command, rules, *rest, "--facts", "facts")
    assert result.stderr.count("warning: no facts for input `metrics`, which Hot needs") == 1


def test_an_input_without_facts_is_named_in_python() -> None:
    program = tidelog.parse(RULES)
    said = "no facts for input `metrics`, which Hot needs"
    with pytest.warns(TidelogWarning, match=said):
        program.query("Hot")
    with pytest.warns(TidelogWarning, match=said):
        program.why("Hot(a) @ 0")
    with pytest.warns(TidelogWarning, match=said):
        tidelog.Stream(program).close()
    with pytest.warns(TidelogWarning, match="no facts for input `Near`, which P needs"):
        tidelog.Stream(tidelog.parse("P(X) @ T :- E(X) @ T, Near(X)."))
    # Only the queries that need it are named.
    several = tidelog.parse("P(X) @ T :- E(X) @ T. Q(X) @ T :- P(X) @ T. R(X) @ T :- F(X) @ T.")
    with pytest.warns(TidelogWarning) as told:
        several.query(None)
    assert {str(w.message) for w in told} == {
        "no facts for input `E`, which P and Q need",
        "no facts for input `F`, which R needs",
    }


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "words", [("query",), ("why", "Hot(a) @ 0"), ("run", "--engine", "duckdb")]
)
def test_a_file_without_rows_is_named(
    words: tuple[str, ...], ending: str, rules: Path, tmp_path: Path
) -> None:
    """Also of facts without time; an input that nobody needs may be empty."""
    rules.write_text(
        "input metrics(host: text, cpu: float) @ time. input Near(host: text). input Far(x: text)."
        " Hot(H) @ T :- metrics(H, C) @ T, Near(H). Cold(X) :- Far(X)."
    )
    types = {"host": pa.string(), "cpu": pa.float64(), "time": pa.int64()}
    for name, kept in (("metrics", list(types)), ("Near", ["host"]), ("Far", ["host"])):
        path = in_place(tmp_path / "facts", "", f"{name}.{ending}")
        if ending == "csv":
            path.write_text(",".join("x" if name == "Far" else c for c in kept) + "\n")
        elif ending == "parquet":
            schema = pa.schema({"x" if name == "Far" else c: types[c] for c in kept})
            pq.write_table(schema.empty_table(), path)
    command, *rest = words
    asked = () if command == "why" else ("--query", "Hot")
    done = run(command, rules, *rest, "--facts", tmp_path / "facts", *asked)
    said = "warning: no facts for input `{0}`, which Hot needs: {1}/{0}.{2} has no rows"
    for name in ("metrics", "Near"):
        assert done.stderr.count(said.format(name, tmp_path / "facts", ending)) == 1, done.stderr
    assert done.stderr.count("warning: no facts") == 2


def test_what_has_no_rows_is_named_in_python_and_for_lines(rules: Path, tmp_path: Path) -> None:
    program = tidelog.parse(
        "input E(x: text) @ t. input Near(x: text). P(X) @ T :- E(X) @ T, Near(X)."
    )
    empty = pa.schema({"x": pa.string(), "t": pa.int64()}).empty_table()
    said = {f"no facts for input `{name}`, which P needs" for name in ("E", "Near")}
    for rows in ([], empty):
        with pytest.warns(NoFacts) as told:
            program.query("P", {"E": rows, "Near": []})
        assert {str(w.message) for w in told} == said
        with warnings.catch_warnings(record=True) as noticed:
            warnings.simplefilter("always")
            stream = tidelog.Stream(program, rigid={"Near": []})
            stream.push(0, {"E": rows})
            stream.close()
        assert {str(w.message) for w in noticed} == said
    assert str(pickle.loads(pickle.dumps(noticed[0].message))) in said
    files = [in_place(tmp_path, "x,t\n", f"{n}.csv") for n in range(2)]
    with pytest.warns(NoFacts, match=r"which P needs: \S+0.csv and \S+1.csv have no rows"):
        program.query("P", [f"E={path}" for path in files])
    # Enough that one of the files has a row, or that a stream had one once.
    in_place(tmp_path, "x,t\na,0\n", "1.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = in_place(tmp_path, "x\na\n", "near.csv")
        program.query("P", [*(f"E={path}" for path in files), f"Near={near}"])
        stream = tidelog.Stream(program, rigid={"Near": [("a",)]})
        stream.push(0, {"E": [("a", 0)]})
        stream.push(1, {"E": []})
        stream.close()
    piped = run("run", rules, "--facts", "-", stdin="\n")
    assert piped.exit_code == 0
    assert piped.stderr.count("warning: no facts for input `metrics`, which Hot needs\n") == 1


# Rows


def test_forgotten_tick_is_an_error_that_names_it(rules: Path, tmp_path: Path) -> None:
    facts = in_place(tmp_path, STAMPED)
    for words in (("query",), ("run", "--engine", "duckdb")):
        result = run(words[0], rules, *words[1:], "--facts", facts)
        assert result.exit_code == 1
        assert "looks like a timestamp: add --tick 1m" in result.stderr
        assert "2024-05-01T00:00:10Z" in result.stderr
    with pytest.raises(DataError, match="looks like a timestamp"):
        tidelog.parse(RULES).query("Hot", {"metrics": [("a", 95.0, "", datetime(2024, 5, 1))]})


def test_one_policy_for_rows_that_cannot_be_used(rules: Path, tmp_path: Path) -> None:
    """A stream puts them aside as they came, from files and from lines."""
    facts = in_place(tmp_path, STAMPED + "d,,x,2024-05-01T00:03:00Z\n")
    out = tmp_path / "out"
    words = ("--tick", "1m", "--checkpoint", tmp_path / "c", "--close", "--sink", f"jsonl:{out}")
    result = run("run", rules, "--facts", facts, "--engine", "duckdb", *words)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["h"] for line in out.read_text().splitlines()] == ["a", "b"]
    assert "2 rows could not be used" in result.stderr
    assert "answered up to 2024-05-01T00:01:00Z" in result.stderr
    (path,) = (tmp_path / "c" / "dead_letters").iterdir()
    hot, missing = map(json.loads, path.read_text().splitlines())
    assert hot["reason"] == "column `cpu`: `hot` is not float"
    row = {"host": "c", "cpu": "hot", "note": "x", "time": "2024-05-01T00:02:59Z"}
    assert (hot["row"], hot["file"]) == (row, str(facts))
    assert missing["reason"] == "no value in column `cpu`"
    lines = [{"predicate": "metrics", **row}, {"predicate": "metrics", **row, "cpu": 95}]
    text = "".join(f"{json.dumps(line)}\n" for line in lines) + "{oops\n"
    piped = run("run", rules, "--facts", "-", "--tick", "1m", stdin=text)
    assert len(piped.stdout.splitlines()) == 1
    assert "2 unusable rows" in piped.stderr


@pytest.mark.parametrize("column", ["n", "time"])
def test_an_integer_of_more_than_63_bits_is_named(column: str, tmp_path: Path) -> None:
    """A query refuses the file; a stream puts the row aside. Nobody reads `unread`."""
    rules = tmp_path / "rules.tdl"
    rules.write_text("input E(n: int, unread: int) @ time. P(N) @ T :- E(N, _) @ T, N > 0.")
    columns = {"n": [1, 2, 3], "unread": [1, 2, 3], "time": [0, 1, 2]}
    columns[column][1] = 2**64 - 7
    types = pa.schema({name: pa.uint64() for name in columns})
    path = tmp_path / "E.parquet"
    pq.write_table(pa.table(columns, schema=types), path)
    said = f"column `{column}`: `{2**64 - 7}` is not int: it does not fit 64 bits"
    asked = run("query", rules, "--facts", path)
    assert (asked.exit_code, asked.stderr) == (1, f"error: {path}: {said}\n")
    columns["unread"][2] = 2**64 - 1
    pq.write_table(pa.table(columns, schema=types), path)
    words = ("--engine", "duckdb", "--checkpoint", tmp_path / "c", "--close")
    done = run("run", rules, "--facts", path, *words, "--sink", f"jsonl:{tmp_path}/out")
    assert done.exit_code == 0, done.output
    (letter,) = map(
        json.loads, (tmp_path / "c/dead_letters/part-00000.json").read_text().splitlines()
    )
    assert letter["reason"] == said
    assert letter["row"] == {name: values[1] for name, values in columns.items()}
    answers = [json.loads(line)["n"] for line in (tmp_path / "out").read_text().splitlines()]
    assert answers == [1, 3]


def test_lines_that_are_useless_from_the_start_are_refused_while_more_may_come(rules: Path) -> None:
    """Standard input may never end: after a hundred lines of an input without a fact it is over."""
    row = {
        "predicate": "metrics",
        "host": "a",
        "cpu": 95,
        "note": "",
        "time": "2024-05-01T00:00:10Z",
    }
    read = 0

    def lines() -> Iterator[bytes]:
        nonlocal read
        for read in range(1, 1000):
            yield json.dumps(row).encode() + b"\n" if read % 2 else b'{"predicate": "other"}\n'

    program = tidelog.parse(RULES)
    known = schemas(program)
    feed = Lines(known, known, Pace(("metrics",), 0), None)
    with pytest.raises(
        DataError, match="input `metrics`: none of its 100 rows can be used"
    ) as error:
        list(feed.pushes(lines()))
    assert read == 199
    assert "looks like a timestamp: add --tick 1m" in str(error.value)
    # Once a line was used, the stream goes on whatever comes.
    text = json.dumps(row | {"time": 0}) + "\n" + f"{json.dumps(row)}\n" * 300
    result = run("run", rules, "--facts", "-", stdin=text)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert "299 more rows could not be used, 300 by now" in result.stderr
    assert (
        "none of the first 100 lines" in run("run", rules, "--facts", "-", stdin="x\n" * 200).stderr
    )


def test_a_late_line_keeps_its_own_timestamp(rules: Path) -> None:
    times = ("2024-05-01T00:00:10Z", "2024-05-01T00:05:10Z", "2024-05-01T00:01:17Z")
    line = {"predicate": "metrics", "host": "a", "cpu": 95, "note": ""}
    text = "".join(f"{json.dumps({**line, 'time': t})}\n" for t in times)
    result = run("run", rules, "--facts", "-", "--tick", "1m", stdin=text)
    assert "1 row came too late" in result.stderr
    assert "its time came after everything up to 2024-05-01T00:04:00Z had arrived" in result.stderr
    assert '"time": "2024-05-01T00:01:17Z"' in result.stderr
    in_time = run("run", rules, "--facts", "-", "--tick", "1m", "--lateness", "5m", stdin=text)
    assert "too late" not in in_time.stderr
    assert len(in_time.stdout.splitlines()) == 3


def test_missing_values_count_only_where_rules_look() -> None:
    program = tidelog.parse(RULES)
    rows = [("a", 95.0, None, 0), ("b", math.nan, "x", 0), ("c", None, "x", 0)]
    with pytest.warns(TidelogWarning, match="2 rows of metrics .* NULL or NaN in column `cpu`"):
        assert program.query("Hot", {"metrics": rows}).to_pylist() == [{"h": "a", "time": 0}]
    stream = tidelog.Stream(program)
    with pytest.warns(TidelogWarning, match="2 rows of metrics .* NULL or NaN in column `cpu`"):
        stream.push(0, {"metrics": rows})
    assert stream.push(1).answers["Hot"].num_rows + stream.close().answers["Hot"].num_rows <= 1
    # What is asked for itself is looked at.
    with pytest.warns(TidelogWarning, match="3 rows of metrics left out"):
        assert program.query("metrics", {"metrics": rows}).num_rows == 0


# Time


def test_a_stream_takes_timestamps_as_a_query_does() -> None:
    program = tidelog.parse(RULES)
    start = datetime(2024, 5, 1)
    table = pa.table(
        {
            "host": ["a", "b"],
            "cpu": [95.0, 96.0],
            "note": ["", ""],
            "time": pa.array([start, start + timedelta(seconds=90)], pa.timestamp("ns")),
        }
    )
    with pytest.raises(DataError, match=r"holds timestamps; give the length of a tick"):
        tidelog.Stream(program).push(0, {"metrics": table})
    wanted = program.query("Hot", {"metrics": table}, tick="1m").to_pylist()
    assert len(wanted) == 2
    stream = tidelog.Stream(program, "Hot", tick=timedelta(minutes=1), lateness="3m")
    steps = [stream.push("2024-05-01T00:02:00Z", {"metrics": table}), stream.close()]
    assert [row for step in steps for row in step.answers["Hot"].to_pylist()] == wanted
    assert "answered up to 2024-05-01T00:02:00Z" in repr(steps[-1])
    rows = [("a", 95.0, "", start), {"host": "b", "cpu": 96.0, "note": ""}]
    again = tidelog.Stream(program, tick="1m")
    assert again.push(start, {"metrics": rows}).answers["Hot"].num_rows == 2


def test_the_ending_of_a_file_says_its_format(rules: Path, tmp_path: Path) -> None:
    facts = in_place(tmp_path, HEADER + "a,95,x,0\n")
    out = tmp_path / "x.parquet"
    assert run("query", rules, "--facts", facts, "--out", out).exit_code == 0
    assert pq.read_table(out).to_pylist() == [{"h": "a", "time": 0}]


def test_the_status_line_has_timestamps() -> None:
    said: list[str] = []
    log = RunLog(None, said.append, Ticks.of("1m", "2024-05-01T00:00:00Z"))
    log.batch({"batch": 0, "tin": 7, "tout": 5}, facts=3, late=0, dead=0, answers=1)
    times = "complete up to 2024-05-01T00:07:00Z, answered up to 2024-05-01T00:05:00Z"
    assert said[0].endswith(f"; {times}")


def test_lengths_of_time_need_a_tick(rules: Path) -> None:
    result = run("run", rules, "--facts", "-", "--lateness", "5m", stdin="")
    assert result.exit_code == 2
    assert "ticks have no length: add --tick 1m" in result.stderr
    with pytest.raises(ValueError, match="max_jump is 1h, and ticks have no length"):
        tidelog.Stream(tidelog.parse(RULES), max_jump="1h")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "-"])
@pytest.mark.parametrize("ticked", [False, True])
def test_a_clock_far_ahead_is_put_aside_in_process(
    ending: str, ticked: bool, tmp_path: Path
) -> None:
    """As on Spark: what comes after a gap that is too long; a long way without a gap is fine."""
    rules = tmp_path / "rules.tdl"
    rules.write_text(
        "input E(x: text) @ t. input F(x: text) @ t. P(X) @ T :- E(X) @ T. P(X) @ T :- F(X) @ T."
    )
    start = datetime(2024, 5, 1, tzinfo=UTC)
    rows = [("E", 0), ("F", 90), ("F", 180), ("E", 4000000), ("F", 181), ("E", 181)]
    shown = [
        (n, f"{start + timedelta(minutes=t):%Y-%m-%dT%H:%M:%SZ}" if ticked else t) for n, t in rows
    ]
    lines = [json.dumps({"predicate": n, "x": "a", "t": t}) + "\n" for n, t in shown]
    place: Path | str = tmp_path / "facts"
    for name in "EF":
        some = [t for n, t in shown if n == name]
        if ending == "csv":
            in_place(tmp_path / "facts", "x,t\n" + "".join(f"a,{t}\n" for t in some), f"{name}.csv")
        elif ending == "jsonl":
            own = [line for line in lines if f'"{name}"' in line]
            in_place(tmp_path / "facts", "".join(own), f"{name}.jsonl")
        elif ending == "parquet":
            times = [datetime.fromisoformat(str(t)) for t in some] if ticked else some
            in_place(tmp_path / "facts", "")
            (tmp_path / "facts" / "metrics.csv").unlink()
            table = pa.table({"x": ["a"] * len(some), "t": times})
            pq.write_table(table, tmp_path / "facts" / f"{name}.parquet")
        else:
            place = "-"
    words = ["run", rules, "--facts", place, "--engine", "duckdb", "--checkpoint", tmp_path / "c"]
    words += ["--sink", f"jsonl:{tmp_path}/out"]
    words += ["--tick", "1m", "--max-ahead", "off"] if ticked else []
    words += ["--max-jump", "100m" if ticked else "100"]
    done = run(*words, stdin="".join(lines) if ending == "-" else None)
    assert done.exit_code == 0, done.output
    assert "1 row could not be used" in done.stderr
    (letter,) = map(
        json.loads, (tmp_path / "c/dead_letters/part-00000.json").read_text().splitlines()
    )
    wanted = (
        "tick 4000000 is more than 100 ahead of 18" if not ticked else "its time is more than 100"
    )
    assert letter["reason"].startswith(wanted)
    assert (letter["predicate"], letter["row"]["t"][:10] if ticked else letter["row"]["t"]) == (
        "E",
        "2031-12-08" if ticked else 4000000,
    )
    closed = run(*words, "--close", stdin="".join(lines) if ending == "-" else None)
    assert closed.exit_code == 0, closed.output
    answers = [json.loads(line)["time"] for line in (tmp_path / "out").read_text().splitlines()]
    assert answers == [
        dict(zip([t for _, t in rows], [t for _, t in shown], strict=True))[t]
        for t in (0, 90, 180, 181)
    ]


def test_pending_answers_and_verdicts_have_timestamps(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text("input E(x: text) @ t.\nP(X) @ T :- E(X) @ T, E(X) @ T+1.\n")
    line = json.dumps({"predicate": "E", "x": "a", "t": "2024-05-01T00:00:30Z"}) + "\n"
    words = ("--facts", "-", "--tick", "1m", "--mode", "online", "--pending")
    result = run("run", rules, *words, stdin=line + '{"time": "2024-05-01T00:01:00Z"}\n')
    assert "P(a) @ 2024-05-01T00:00:00Z waits for E(a) @ 2024-05-01T00:01:00Z" in result.stderr
    facts = tmp_path / "E.jsonl"
    facts.write_text(line)
    asked = ("--tick", "1m", "--tin", "2024-05-01T00:00:00Z", "--tout", "2024-05-01T00:00:00Z")
    told = run("definitive", rules, "--facts", facts, *asked)
    assert "no: 1 answer at 2024-05-01T00:00:00Z may still come" in told.stdout


def test_a_far_offset_and_a_range_without_end() -> None:
    """What cannot hold for ever is answered at once; what may is refused with the reason."""
    far = tidelog.parse("P(X) @ T+10000000000 :- E(X) @ T.")
    table = far.query("P", {"E": [("a", 1)]}, to=None)
    assert table.to_pylist() == [{"x": "a", "time": 10000000001, "period": None}]
    ever = tidelog.parse("P(X) @ T :- E(X) @ T. P(X) @ T+10000000000 :- P(X) @ T.", "far.tdl")
    with pytest.raises(Exception, match=r"far\.tdl:1: the rule reaches 10000000000 ticks"):
        ever.query("P", {"E": [("a", 1)]}, to=None)


# Commands


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_help_has_an_example_and_says_what_each_option_is_for(name: str) -> None:
    assert "xample" in run(name, "--help").stdout
    for option in cli.commands[name].params:
        if isinstance(option, click.Option):
            said = option.help or ""
            assert len(said.split()) > 2, option.opts
            assert said.endswith((".", "?", ")")), option.opts


def test_the_list_of_commands_is_not_cut_off() -> None:
    assert "..." not in run("--help").stdout.split("Commands:")[1]


def test_a_run_with_a_checkpoint_stays_open_until_it_is_closed(tmp_path: Path) -> None:
    """The hourly job: each run takes what is new, the last one ends the stream."""
    rules = tmp_path / "rules.tdl"
    rules.write_text("input E(x: text) @ t.\nP(X) @ T :- E(X) @ T, E(X) @ T+1.\n")
    facts = tmp_path / "facts" / "E"
    words = ("run", rules, "--facts", facts.parent, "--engine", "duckdb", "--sink")
    words = (*words, f"jsonl:{tmp_path}/out", "--checkpoint", tmp_path / "c")

    def answers() -> list[int]:
        return [json.loads(line)["time"] for line in (tmp_path / "out").read_text().splitlines()]

    in_place(facts, "x,t\na,0\n", "0.csv")
    in_place(facts, "x,t\na,none\n", "bad.csv")
    first = run(*words)
    assert (first.exit_code, answers()) == (0, []), first.output
    assert "nothing is answered yet: the next run may bring more facts" in first.stderr
    (facts / "bad.csv").unlink()
    in_place(facts, "x,t\na,0\na,1\n", "0.csv")
    assert run(*words).exit_code == 0
    in_place(facts, "x,t\na,1\na,2\na,3\n", "1.csv")
    assert run(*words).exit_code == 0
    assert answers() == [0, 1]
    in_place(facts, "x,t\na,0\na,4\n", "2.csv")
    last = run(*words, "--close")
    assert "1 row came too late" in last.stderr
    assert answers() == [0, 1, 2, 3]
    closed = run(*words)
    assert closed.exit_code == 1
    assert "the stream is closed" in closed.stderr
    rules.write_text("input E(x: text) @ t.\nP(X) @ T :- E(X) @ T.\n")
    other = run(*words)
    assert other.exit_code == 1
    assert "there was P(X) @ T :- E(X) @ T, E(X) @ T+1., and now there is P(X)" in other.stderr


def test_a_late_row_names_its_file_and_stays_as_it_came(rules: Path, tmp_path: Path) -> None:
    """Rows that came too late for the run before, in new files of any format and in grown ones."""
    facts = tmp_path / "facts" / "metrics"
    stamp = "2024-05-01T00:0{}:17Z"
    grown = in_place(facts, HEADER + f"a,95,,{stamp.format(1)}\na,95,,{stamp.format(5)}\n", "a.csv")
    words = ("run", rules, "--facts", facts.parent, "--engine", "duckdb", "--tick", "1m")
    words = (*words, "--checkpoint", tmp_path / "c", "--sink", f"jsonl:{tmp_path}/out")
    assert run(*words).exit_code == 0
    with grown.open("a") as file:
        file.write(f"b,hot,,{stamp.format(2)}\nb,95,,{stamp.format(2)}\n")
    line = {"host": "c", "cpu": 95, "note": None, "time": stamp.format(3)}
    lines = in_place(facts, f"\n{json.dumps(line)}\n", "c.jsonl")
    moment = datetime(2024, 5, 1, 0, 4, 17)
    table = {"host": ["d", None], "cpu": [95.0] * 2, "note": [None] * 2, "time": [moment] * 2}
    pq.write_table(pa.table(table), facts / "d.parquet")
    said = run(*words)
    assert said.exit_code == 0, said.output
    assert "3 rows came too late" in said.stderr
    assert f"{grown}: late: its time came after everything up to" in said.stderr
    # The next run finds nothing new, keeps them, and says where the stream stands.
    assert "0 facts in 0 batches" in (idle := run(*words)).stderr
    assert (idle.exit_code, "too late" in idle.stderr) == (0, False)
    assert "complete up to 2024-05-01T00:04:00Z, answered up to" in idle.stderr
    assert run(*words, "--close").exit_code == 0
    folder = tmp_path / "c" / "dead_letters"
    late = [json.loads(text) for text in (folder / "late.json").read_text().splitlines()]
    assert [(x["row"]["host"], x["file"]) for x in late] == [
        ("b", str(grown)),
        ("d", str(facts / "d.parquet")),
        ("c", f"{lines}:2"),
    ]
    times = [x["row"]["time"].replace(".000000", "") for x in late]
    assert times == [stamp.format(2), stamp.format(4), stamp.format(3)]
    assert late[0]["row"] == {"host": "b", "cpu": 95.0, "note": None, "time": stamp.format(2)}
    dead = [json.loads(text) for text in (folder / "part-00000.json").read_text().splitlines()]
    assert [x["row"]["time"].replace(".000000", "") for x in dead] == [
        stamp.format(2),
        stamp.format(4),
    ]
    answers = [json.loads(text)["h"] for text in (tmp_path / "out").read_text().splitlines()]
    assert answers == ["a", "a"]


def test_rows_that_may_be_late_count_in_the_next_run(tmp_path: Path) -> None:
    """Lateness holds from run to run, as it does from batch to batch on Spark."""
    rules = tmp_path / "rules.tdl"
    rules.write_text("input E(x: text) @ t.\nP(X) @ T :- E(X) @ T.\n")
    words = ("run", rules, "--facts", tmp_path / "facts", "--engine", "duckdb", "--sink")
    words = (*words, f"jsonl:{tmp_path}/out", "--checkpoint", tmp_path / "c", "--lateness", "3")
    in_place(tmp_path / "facts" / "E", "x,t\na,0\na,10\n", "0.csv")
    assert run(*words).exit_code == 0
    in_place(tmp_path / "facts" / "E", "x,t\nb,5\nb,8\nb,12\n", "1.csv")
    result = run(*words, "--close", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["late"], summary["facts"]) == (1, 3)
    answers = [
        tuple(json.loads(x).values())[1:] for x in (tmp_path / "out").read_text().split("\n")[:-1]
    ]
    assert answers == [("a", 0), ("b", 8), ("a", 10), ("b", 12)]


def test_a_name_that_is_nearly_an_inputs_and_has_no_facts_is_an_error(rules: Path) -> None:
    facts = in_place(rules.parent, HEADER + "a,95,x,0\n")
    rules.write_text(RULES.replace(":- metrics", ":- metrisc"))
    said = "no facts for input `metrisc`, which Hot needs; did you mean `metrics`?"
    for words in (("query",), ("run", "--engine", "duckdb")):
        result = run(words[0], rules, *words[1:], "--facts", facts)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.endswith(f"error: {said}\n")
    with pytest.raises(DataError, match="did you mean `metrics`"):
        tidelog.load(rules).query("Hot", {"metrics": facts})


def test_strict_runs_refuse_warnings(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text("Hot(h) @ T :- metrics(h, C) @ T.\n")
    assert run("run", rules, "--facts", "-", "--strict", stdin="").exit_code == 1


# Python


def test_python_forgives(tmp_path: Path) -> None:
    program = tidelog.parse(RULES)
    path = in_place(tmp_path, HEADER + "a,95,x,0\n", "any.csv")
    wanted = [{"h": "a", "time": 0}]
    assert program.query("Hot", {"metrics": path}).to_pylist() == wanted
    assert program.query(["Hot"], {"metrics": str(path)})["Hot"].to_pylist() == wanted
    assert list(program.query(None, {"metrics": path})) == ["Hot"]
    row = {"time": 0, "host": "a", "cpu": 95.0, "note": None}
    assert program.query("Hot", {"metrics": [row]}).to_pylist() == wanted

    class Lazy:
        def lazy(self) -> Lazy:
            return self

        def collect(self) -> pa.Table:
            return pa.Table.from_pylist([row])

    assert program.query("Hot", {"metrics": Lazy()}).to_pylist() == wanted


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda p: p.query("Hto", {}), "no predicate Hto in the rules; did you mean Hot?"),
        (lambda p: tidelog.Stream(p, "Hto"), "did you mean Hot?"),
        (lambda p: tidelog.delay(p, "Hto"), "did you mean Hot?"),
        (lambda p: tidelog.Stream(p).push(0, {"metric": []}), "did you mean `metrics`?"),
        (lambda p: tidelog.Stream(RULES), "a program is expected, not text"),
        (lambda p: p.query(7), "a query is the name of a predicate, not int"),
        (lambda p: p.query("Hot", 7), "facts are a path, several paths, or a mapping"),
        (lambda p: p.query("Hot", {"metrics": 7}), "a data frame is expected, not int"),
        (lambda p: p.query("Hot", {"metrics": [{"host": "a"}]}), "row 1: no key `cpu`"),
        (lambda p: tidelog.Stream(p).push(0, [1]), "facts are a mapping from inputs to rows"),
        (lambda p: tidelog.Stream(p).push("soon"), "`soon` is not a whole number of ticks"),
        (lambda p: tidelog.Stream(p, lateness="soon"), "lateness is a number of ticks"),
    ],
)
def test_a_wrong_type_is_one_sentence(ask: Any, said: str) -> None:
    with pytest.raises((ValueError, DataError)) as error:
        ask(tidelog.parse(RULES))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_short_reprs_and_what_notebooks_show(tmp_path: Path) -> None:
    program = tidelog.parse(RULES)
    assert repr(program) == "<program: 1 rule; inputs metrics; outputs Hot>"
    assert {"Stream", "Step", "load"} <= set(dir(tidelog))
    stream = tidelog.Stream(program, mode="online")
    step = stream.push(0, {"metrics": [("a", 95.0, "")]})
    assert repr(step) == "<step: 1 Hot; complete up to 0, answered up to 0>"
    assert repr(stream).startswith("<online stream of Hot: complete up to 0")
    why = program.why("Hot(a) @ 0", {"metrics": [("a", 95.0, "", 0)]})
    assert repr(why) == "<why: Hot(a) @ 0 holds, 1 proof>"
    verdict = tidelog.definitive(program, "Hot", {"metrics": [("a", 95.0, "", 0)]}, 0, 0)
    shown = [stream, step, why, verdict, program.delay(), program.analyze(), program]
    assert all(len(repr(each)) < 200 and each._repr_html_().startswith("<") for each in shown)
    assert program.window().upper == tidelog.window(program, "Hot").upper
    assert "Hot: class 1" in program.explain()
    page = program.report(tmp_path / "page.html", {"metrics": [("a", 95.0, "", 0)]})
    assert page.read_text().startswith("<!DOCTYPE html>")
