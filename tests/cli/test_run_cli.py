"""`tidelog run`, on Spark and in process."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession
from support.hostile import FACTS, HOSTILE
from support.places import ROOT

from tidelog.cli import cli

pytestmark = pytest.mark.xdist_group("spark")

TURBINES = ROOT / "examples" / "turbines"
ON = ("run", str(TURBINES / "rules.tdl"), "--facts", str(TURBINES / "facts"))
MALFUNC = [{"x": "north", "time": 1}, {"x": "north", "time": 2}, {"x": "east", "time": 6}]


def tidelog(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, words, input=stdin, catch_exceptions=False)


def answers(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_on_spark_with_checkpoint_metrics_and_a_second_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    words = (
        *ON, "--query", "Malfunc", "--sink", f"jsonl:{tmp_path}/a.jsonl", "--json",
        "--checkpoint", f"{tmp_path}/c", "--metrics", f"{tmp_path}/m.jsonl", "--close",
    )  # fmt: skip
    first = tidelog(*words)
    assert first.exit_code == 0, first.output
    summary = json.loads(first.stdout)
    assert {k: summary[k] for k in ("facts", "late", "dead", "answers", "tin", "tout")} == {
        "facts": 35, "late": 0, "dead": 0, "answers": 3, "tin": 11, "tout": 11
    }  # fmt: skip
    lines = (tmp_path / "a.jsonl").read_text()
    assert answers(lines) == [{"predicate": "Malfunc", **row} for row in MALFUNC]
    metrics = answers((tmp_path / "m.jsonl").read_text())
    assert [m["batch"] for m in metrics] == [0, 1]
    assert metrics[0]["facts"] == 35
    assert {"tin", "tout", "late", "dead", "answers", "state_bytes", "seconds"} <= set(metrics[0])
    again = tidelog(*words)
    assert again.exit_code == 0
    assert json.loads(again.stdout)["facts"] == 0
    assert (tmp_path / "a.jsonl").read_text() == lines


def test_an_existing_sink_without_its_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "there").write_text("already")
    for engine in ("spark", "duckdb"):
        result = tidelog(*ON, "--query", "Malfunc", "--engine", engine, "--sink", f"csv:{out}")
        assert result.exit_code == 1
        assert "is there already and not empty" in result.stderr
        assert [entry.name for entry in out.iterdir()] == ["there"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--mode", "online", "--emit", "eager"),
        pytest.param(("--mode", "online"), marks=pytest.mark.deep),
        pytest.param(("--emit", "eager"), marks=pytest.mark.deep),
    ],
)
def test_all_queries_of_the_example_in_every_mode(
    words: tuple[str, ...], spark: SparkSession
) -> None:
    result = tidelog(*ON, *words)
    assert result.exit_code == 0, result.output
    rules, facts = str(TURBINES / "rules.tdl"), str(TURBINES / "facts")
    want = tidelog("query", rules, "--facts", facts, "--format", "json")
    assert sorted(result.stdout.splitlines()) == sorted(want.stdout.splitlines())


def test_a_query_on_spark_is_the_query_in_process(spark: SparkSession) -> None:
    rules, facts = str(TURBINES / "rules.tdl"), str(TURBINES / "facts")
    for words in (("--format", "json"), ("--query", "AtRisk", "--from", "5", "--to", "inf")):
        one = tidelog("query", rules, "--facts", facts, *words)
        other = tidelog("query", rules, "--facts", facts, *words, "--engine", "spark")
        assert one.exit_code == other.exit_code == 0, other.output
        assert one.stdout == other.stdout


def test_what_is_pending_at_the_end_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "Temp.csv").write_text("device,level,time\na,high,0\na,high,1\nb,low,2\nb,low,3\n")
    words = ("run", str(TURBINES / "rules.tdl"), "--facts", str(tmp_path), "--query", "Malfunc")
    result = tidelog(*words, "--mode", "online", "--pending", "--lateness", "1")
    assert result.exit_code == 0, result.output
    assert "pending: Malfunc(a) @ 0 waits for Temp(a, high) @ 2; has Temp(a, high) @ 0" in (
        result.stderr
    )
    listed = json.loads(
        tidelog(*words, "--mode", "online", "--pending", "--lateness", "1", "--json").stdout
    )
    assert [p["time"] for p in listed["pending"]] == [0, 1]


def test_json_is_a_line_for_each_answer_and_one_for_the_summary() -> None:
    result = tidelog(*ON, "--engine", "duckdb", "--query", "Malfunc", "--json")
    *told, summary = map(json.loads, result.stdout.splitlines())
    assert told
    assert {answer["predicate"] for answer in told} == {"Malfunc"}
    assert summary["answers"] == len(told)
    assert "predicate" not in summary


def test_keep_open_then_close(spark: SparkSession, tmp_path: Path) -> None:
    words = (*ON, "--query", "Malfunc", "--checkpoint", f"{tmp_path}/c", "--json", "--sink")
    words = (*words, f"parquet:{tmp_path}/out")
    open_ = json.loads(tidelog(*words).stdout)
    assert (open_["tin"], open_["tout"]) == (10, 8)
    closed = json.loads(tidelog(*words, "--close").stdout)
    assert (closed["tin"], closed["tout"], closed["facts"]) == (11, 11, 0)
    rows = [
        row for p in (tmp_path / "out").glob("Malfunc/*/*") for row in pq.read_table(p).to_pylist()
    ]
    assert sorted(rows, key=str) == sorted(MALFUNC, key=str)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_in_process_to_a_folder(kind: str, tmp_path: Path) -> None:
    result = tidelog(*ON, "--engine", "duckdb", "--sink", f"{kind}:{tmp_path}/out")
    assert result.exit_code == 0, result.output
    assert (
        result.stderr == "35 facts in 2 batches, 16 answers; complete up to 11, answered up to 11\n"
    )
    (path,) = (tmp_path / "out").glob("Malfunc.*")
    if kind == "csv":
        assert path.read_text() == "x,time\nnorth,1\nnorth,2\neast,6\n"
    elif kind == "json":
        assert answers(path.read_text()) == MALFUNC
    else:
        assert pq.read_table(path).to_pylist() == MALFUNC


def fact(device: str, time: object, level: str = "high") -> str:
    return json.dumps({"predicate": "Temp", "device": device, "level": level, "time": time}) + "\n"


def test_lines_may_split_ticks_and_say_when_all_is_there(tmp_path: Path) -> None:
    words = ("run", str(TURBINES / "rules.tdl"), "--facts", "-", "--query", "Malfunc")
    ordered = "".join(fact("a", t) for t in (0, 1, 1, 2, 3))
    result = tidelog(*words, stdin=ordered)
    assert answers(result.stdout) == [{"predicate": "Malfunc", "x": "a", "time": t} for t in (0, 1)]
    # A fact of tick 0 after one of tick 2 is late without lateness, and in time with it.
    mixed = fact("a", 1) + fact("a", 2) + fact("a", 0)
    late = tidelog(*words, stdin=mixed)
    assert (late.stdout, "1 row came too late" in late.stderr) == ("", True)
    assert len(answers(tidelog(*words, "--lateness", "2", stdin=mixed).stdout)) == 1
    # Told that everything before 3 is there, nothing waits for the next reading.
    marked = tidelog(
        *words,
        "--metrics",
        f"{tmp_path}/m",
        stdin="".join(fact("a", t) for t in range(3)) + '{"time": 3}\n',
    )
    assert len(answers(marked.stdout)) == 1
    assert 2 in [m["tin"] for m in answers((tmp_path / "m").read_text())]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "<stdin>:1: not JSON"),
        ("[]", "<stdin>:1: a line is an object"),
        ("{}", '<stdin>:1: no "predicate" says'),
        ('{"predicate": "Tmp", "time": 1}', "<stdin>:1: no input is called `Tmp`"),
        (
            '{"predicate": "Temp", "device": "a", "time": 1}',
            "<stdin>:1: no value in column `level`; the line has no such key",
        ),
        (fact("a", "soon").strip(), "<stdin>:1: column `time`: 'soon' is not int"),
        ('{"predicate": "Near", "a": "a", "b": "b"}', "<stdin>:1: `Near` is rigid"),
    ],
)
def test_lines_that_are_no_facts_are_put_aside(line: str, message: str) -> None:
    """One policy everywhere: the others are used, and a run that has no others fails."""
    rules = str(TURBINES / "rules.tdl")
    words = ("run", rules, "--facts", "-", "--query", "Malfunc")
    result = tidelog(*words, stdin=line + "\n")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "error: " in result.stderr
    good = "".join(fact("a", t) for t in (0, 1, 2))
    among = tidelog(*words, stdin=f"{line}\n{good}")
    assert among.exit_code == 0
    assert "1 row could not be used" in among.stderr
    assert message in among.stderr
    assert answers(among.stdout) == [{"predicate": "Malfunc", "x": "a", "time": 0}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "spark", "--facts", "-"), "--facts - reads standard input, and nothing"),
        (("--engine", "duckdb", "--partitions", "2"), "--partitions goes with --engine spark"),
        (("--sink", "xml:out", "--engine", "duckdb"), "`xml:out` is no sink"),
        (("--query", "Malfun"), "did you mean Malfunc?"),
        (("--facts", "nowhere"), "nowhere: no such file or folder"),
        (("--lateness", "-1"), "-1"),
        (("--intervals", "--pending", "--mode", "online"), "goes without --intervals"),
    ],
)
def test_wrong_use_says_so(words: tuple[str, ...], message: str) -> None:
    result = tidelog(*ON, *words)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_sink_that_is_none_is_told_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("Spark takes seconds to start")

    monkeypatch.setattr("tidelog.cli.on_spark.started", never)
    facts = str(TURBINES / "facts")
    result = tidelog("run", str(TURBINES / "rules.tdl"), "--facts", facts, "--sink", "answers")
    assert result.exit_code == 1
    assert "`answers` is no sink: give csv:DIR" in result.stderr


def test_explain_shows_the_pipeline_as_data() -> None:
    rules = str(TURBINES / "rules.tdl")
    explained = json.loads(tidelog("explain", rules, "--show", "pipeline", "--json").stdout)
    malfunc, at_risk = (query["pipeline"] for query in explained["queries"])
    (stage,) = malfunc["stages"]
    assert (stage["kind"], stage["key"]["Temp"]) == ("keyed", 1)
    assert [s["kept"] for s in malfunc["state"]] == ["1 tick", "1 tick"]
    assert [s["derives"][-1] for s in at_risk["stages"]] == ["Shdn", "AtRisk"]
    assert at_risk["stages"][0]["sends"] == [{"predicate": "AtRisk", "settles": 0}]


def test_explain_shows_the_pipeline_of_a_mode() -> None:
    words = ("explain", str(TURBINES / "rules.tdl"), "--query", "Malfunc", "--mode", "online")
    shown = tidelog(*words, "--show", "pipeline").stdout
    assert "turn    when everything up to tin has arrived" in shown
    assert "state   Temp: facts that are live" in shown
    (query,) = json.loads(tidelog(*words, "--show", "pipeline", "--json").stdout)["queries"]
    assert query["pipeline"]["state"][0]["kept"] == "facts that are live"
    refused = tidelog(*words)
    assert refused.exit_code == 2
    assert "--mode is about --show pipeline" in refused.stderr


def test_intervals_across_runs_of_a_checkpoint(tmp_path: Path) -> None:
    """What has not ended stays open for the next run; --close ends it."""
    rules, facts = tmp_path / "r.tdl", tmp_path / "E.csv"
    rules.write_text("input E(x: text) @ time. P(X) @ T :- E(X) @ T.")
    times = [f"2026-03-02T08:{minute:02}:00Z" for minute in range(10)]

    def run(until: int, *more: str) -> list[dict[str, object]]:
        some = [i for i in range(until) if i != 4]
        facts.write_text("x,time\n" + "".join(f"a,{times[i]}\n" for i in some))
        words = ("--engine", "duckdb", "--intervals", "--tick", "1m")
        out = ("--sink", f"json:{tmp_path}/out", "--checkpoint", str(tmp_path / "c"))
        result = tidelog("run", str(rules), "--facts", str(facts), *words, *out, *more)
        assert result.exit_code == 0, result.output
        return answers((tmp_path / "out" / "P.jsonl").read_text())

    assert run(3) == []
    first = {"x": "a", "from": times[0], "to": times[3]}
    assert run(8) == [first]
    assert run(10, "--close") == [first, {"x": "a", "from": times[5], "to": times[9]}]


def test_hostile_lines_stop_nothing(tmp_path: Path) -> None:
    """In process every hostile line is a fact or a dead letter, too."""
    rules = tmp_path / "rules.tdl"
    rules.write_text("input E(x: text) @ at.\noutput P(x).\nP(X) @ T :- E(X) @ T.\n")
    values = [value for value in HOSTILE.values() if value is not None and value.strip()]
    lines = [b'{"predicate": "E", "x": "first", "time": 0}', *FACTS.values(), *values]
    lines = [line for line in lines if b"\n" not in line]
    out, point = tmp_path / "out.jsonl", tmp_path / "point"
    words = [
        "run",
        str(rules),
        "--facts",
        "-",
        "--sink",
        f"jsonl:{out}",
        "--checkpoint",
        str(point),
    ]
    done = CliRunner().invoke(cli, [*words, "--close"], input=b"\n".join(lines) + b"\n")
    assert done.exit_code == 0, done.output
    assert len(done.output) < 100_000
    answers = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert {row["x"] for row in answers} == {"first", *FACTS}
    letters = [
        json.loads(line)
        for path in (point / "dead_letters").glob("*.json")
        for line in path.read_bytes().splitlines()
    ]
    assert len(letters) == len(lines) - 1 - len(FACTS)
    assert all(len(letter["reason"]) <= 500 for letter in letters)
