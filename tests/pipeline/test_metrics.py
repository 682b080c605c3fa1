"""What a stream tells Prometheus of itself."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from pyspark.sql import SparkSession
from support.kafka import free_ports
from support.places import ROOT

import tidelog
from tidelog.cli import cli
from tidelog.errors import DataError
from tidelog.pipeline.publishing import Metric, exposition, publisher
from tidelog.spark import Running, stream

pytestmark = pytest.mark.xdist_group("spark")

TURBINES = ROOT / "examples" / "turbines"
RULES = """
input Temp(device: text, level: text) @ time.
output Twice, Hot.
Hot(X) @ T :- Temp(X, high) @ T.
Twice(X) @ T+3 :- Hot(X) @ T, Temp(X, high) @ T+3.
"""
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Key = tuple[str, tuple[tuple[str, str], ...]]


def parsed(text: str) -> dict[Key, float]:
    """Samples by name and labels; a text that is not the format fails."""
    samples: dict[Key, float] = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split(" ")
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()  # type: ignore[union-attr]
            assert name in helped
            assert (kinds[name] == "counter") == name.endswith("_total")
            key = tuple(
                (label, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], said))
                for label, said in LABEL.findall(labels or "")
            )
            assert (name, key) not in samples
            samples[name, key] = float(value)
    return samples


def of(samples: dict[Key, float], name: str, **labels: str) -> float | None:
    """The value of a metric, whatever stream it is of."""
    some = [
        value
        for (found_name, key), value in samples.items()
        if found_name == name and labels.items() <= dict(key).items()
    ]
    assert len(some) <= 1
    return some[0] if some else None


def test_what_is_written_is_read_back() -> None:
    labels = {"a": 'say "no"\\n', "b": "two\nlines", "c": "ümläut {x}, y=1"}
    text = exposition([Metric("m_total", "counter", "Help \\ me\nnow.", ((labels, 7),))])
    assert parsed(text) == {("m_total", tuple(labels.items())): 7}
    assert text.splitlines()[0] == r"# HELP m_total Help \\ me\nnow."


def test_only_a_metric_with_samples_is_shown() -> None:
    assert exposition([Metric("m", "gauge", "None.", ())]) == ""
    assert parsed(exposition([Metric("m", "gauge", "One.", (({}, float("inf")),))])) == {
        ("m", ()): float("inf")
    }


def start(spark: SparkSession, folder: Path, metrics: Any, **more: Any) -> Running:
    if not (folder / "in").exists():
        rows = [(d, "high", t) for d in "ab" for t in range(70)] + [("a", None, 3)]
        spark.createDataFrame(rows, "device STRING, level STRING, time BIGINT").coalesce(
            1
        ).write.parquet(str(folder / "in"))
    temp = spark.readStream.schema("device STRING, level STRING, time BIGINT")
    return stream(
        spark,
        tidelog.parse(RULES),
        inputs={"Temp": temp.parquet(str(folder / "in"))},
        checkpoint=folder / "c",
        metrics=metrics,
        **{"trigger": {"availableNow": True}, **more},
    )


def test_a_file_says_what_the_commit_says(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    running = start(spark, tmp_path, path)
    assert running.metrics == str(path)
    running.awaitTermination()
    running.stop()
    commit = running.committed
    assert commit is not None
    samples = parsed(path.read_text())
    assert {dict(key)["stream"] for _, key in samples} == {running.id}
    assert of(samples, "tidelog_up") == 0
    assert of(samples, "tidelog_failed") == 0
    assert of(samples, "tidelog_batches_total") == commit.batch + 1 == 1
    assert of(samples, "tidelog_facts_total") == commit.totals["facts"] == 140
    assert of(samples, "tidelog_late_total") == commit.totals["late"] == 0
    assert of(samples, "tidelog_dead_letters_total") == commit.totals["dead"] == 1
    assert of(samples, "tidelog_batch_facts") == commit.facts
    assert of(samples, "tidelog_batch_dead_letters") == commit.dead
    for query, n in commit.answers.items():
        assert of(samples, "tidelog_batch_answers", query=query) == n > 0
        assert of(samples, "tidelog_answers_total", query=query) == n
    assert of(samples, "tidelog_tin") == commit.clock.tin == 68
    assert of(samples, "tidelog_tout") == commit.tout
    assert of(samples, "tidelog_seen_tick", input="Temp") == 69
    assert of(samples, "tidelog_lag_ticks") == 69 - commit.tout
    assert of(samples, "tidelog_pending_answers") is None
    rows = {key: n for (name, key), n in samples.items() if name == "tidelog_state_rows"}
    kept = [n for part in commit.state for _, _, n in part.tables.values()]
    assert sum(rows.values()) == sum(kept) > 0
    assert {(dict(k)["predicate"], dict(k)["kind"]) for k in rows} >= {("Temp", "input")}
    sizes = [n for (name, _), n in samples.items() if name == "tidelog_state_bytes"]
    assert sum(sizes) == pytest.approx(commit.state_bytes, abs=len(sizes))
    assert of(samples, "tidelog_spark_batch") == 0
    assert of(samples, "tidelog_spark_input_rows") == 141
    assert of(samples, "tidelog_spark_phase_seconds", phase="addBatch") is not None
    assert of(samples, "tidelog_spark_batch_seconds") is not None


def test_times_are_timestamps_where_ticks_have_a_length(
    spark: SparkSession, tmp_path: Path
) -> None:
    facts, path = tmp_path / "E.csv", tmp_path / "m.prom"
    facts.write_text("x,t\na,1970-01-01T00:10:30Z\na,1970-01-01T00:20:30Z\n")
    program = tidelog.parse("input E(x: text) @ t. P(X) @ T :- E(X) @ T.")
    now = {"availableNow": True}
    running = stream(spark, program, inputs=facts, tick="10m", trigger=now, metrics=path)
    running.awaitTermination()
    running.close()
    assert of(parsed(path.read_text()), "tidelog_tout_timestamp_seconds") == 1200
    assert "The tick up to which all is answered. Ticks are 10m long." in path.read_text()


def test_counters_go_on_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    running = start(spark, tmp_path, path)
    running.awaitTermination()
    running.stop()
    first = parsed(path.read_text())
    again = start(spark, tmp_path, path)
    again.awaitTermination()
    commit = again.close()
    assert commit is not None
    samples = parsed(path.read_text())
    assert of(samples, "tidelog_batches_total") == 2
    assert of(samples, "tidelog_facts_total") == of(first, "tidelog_facts_total") == 140
    hot = of(first, "tidelog_answers_total", query="Hot")
    assert of(samples, "tidelog_answers_total", query="Hot") == hot + commit.answers["Hot"] == 140
    assert of(samples, "tidelog_lag_ticks") == 0


def served(address: str) -> dict[Key, float]:
    with urllib.request.urlopen(address, timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return parsed(reply.read().decode())


def test_an_endpoint_while_the_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    before = set(listeners(spark))
    running = start(spark, tmp_path, 0, trigger={"processingTime": "100 milliseconds"})
    address = str(running.metrics)
    try:
        assert address.startswith("http://127.0.0.1:")
        running.query.processAllAvailable()
        samples = served(address)
        assert of(samples, "tidelog_up") == 1
        assert of(samples, "tidelog_facts_total") == 140
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("/metrics", "/etc"), timeout=10)
        assert set(listeners(spark)) - before
    finally:
        running.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)
    assert set(listeners(spark)) == before


def listeners(spark: SparkSession) -> list[int]:
    """The listeners that Spark has, by the hash of each."""
    return [listener.hashCode() for listener in spark.streams._jsqm.listListeners()]


def test_a_stream_that_fails_says_so(spark: SparkSession, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise DataError("no room")

    path = tmp_path / "m.prom"
    before = set(listeners(spark))
    running = start(spark, tmp_path, path, sink=refuse)
    with pytest.raises(DataError, match="no room"):
        running.awaitTermination()
    samples = parsed(path.read_text())
    assert (of(samples, "tidelog_up"), of(samples, "tidelog_failed")) == (0, 1)
    assert of(samples, "tidelog_batches_total") is None
    assert set(listeners(spark)) == before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("m.txt", "give FILE.prom, a port of this machine as :PORT, or HOST:PORT"),
        (70000, "ports go from 0 to 65535"),
        (":70000", "ports go from 0 to 65535"),
        ("nowhere/m.prom", "cannot write metrics to nowhere/m.prom: No such file or directory"),
        ("no such host:1", "give FILE.prom"),
    ],
)
def test_places_that_cannot_be(place: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        publisher(place)


def test_a_port_in_use_stops_nothing_half_way(spark: SparkSession, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DataError, match=f"on 127.0.0.1:{port}: Address already in use"):
            start(spark, tmp_path, f":{port}")
    assert not (tmp_path / "c").exists()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "m.prom").mkdir()
    with pytest.raises(DataError, match="it is a folder"):
        publisher(tmp_path / "m.prom")


def tidelog_run(*words: str) -> Any:
    on = ("run", str(TURBINES / "rules.tdl"), "--facts", str(TURBINES / "facts"))
    return CliRunner().invoke(cli, (*on, "--query", "Malfunc", *words), catch_exceptions=False)


def test_on_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    done = tidelog_run("--metrics", str(tmp_path / "m.prom"))
    assert done.exit_code == 0, done.output
    assert of(parsed((tmp_path / "m.prom").read_text()), "tidelog_facts_total") == 35
    wrong = tidelog_run("--metrics", str(tmp_path / "nowhere" / "m.prom"))
    assert wrong.exit_code == 1
    assert "cannot write metrics to" in wrong.stderr
    assert wrong.stdout == ""


def test_in_process_has_lines_only(tmp_path: Path) -> None:
    wrong = tidelog_run("--engine", "duckdb", "--metrics", ":9464")
    assert wrong.exit_code == 2
    assert "--metrics :9464, for Prometheus, goes with --engine spark" in wrong.stderr


# Alerts


def alerts() -> dict[str, str]:
    """The expressions of the rules that docs/metrics.md has."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (group,) = yaml.safe_load(text)["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def fires(expression: str, samples: dict[Key, float], now: float) -> bool:
    """Whether an alert fires, for what Prometheus' language means by the few forms used here."""
    known = {name: value for (name, _), value in samples.items()}

    def holds(part: str) -> bool:
        if absent := re.fullmatch(r"absent\((\w+)\)", part):
            return absent[1] not in known
        found = re.fullmatch(r"(time\(\) - )?(\w+) (==|>) (\d+)", part)
        assert found is not None, part
        since, name, sign, bound = found.groups()
        if name not in known:
            return False
        value = now - known[name] if since else known[name]
        return value == int(bound) if sign == "==" else value > int(bound)

    return all(map(holds, expression.split(" and ")))


def test_the_heart_beats_while_the_stream_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.pipeline.metrics.BEAT", 0.1)
    (tmp_path / "Temp").mkdir()
    target = tmp_path / "m.prom"
    program = tidelog.parse(RULES)
    running = stream(spark, program, inputs=tmp_path, metrics=target, rigid={})

    def beat() -> float:
        moment = of(parsed(target.read_text()), "tidelog_heartbeat_timestamp_seconds")
        assert moment is not None
        return moment

    first, end = beat(), time.monotonic() + 30
    assert abs(first - time.time()) < 30
    while beat() == first:
        assert time.monotonic() < end
        time.sleep(0.05)
    running.stop()
    last = beat()
    time.sleep(0.5)
    assert beat() == last
    samples = parsed(target.read_text())
    expressions = alerts()
    firing = [name for name in expressions if name != "TidelogLate"]
    assert [n for n in firing if fires(expressions[n], samples, time.time() + 120)] == []


@pytest.mark.slow
def test_alerts_fire_after_a_kill(tmp_path: Path) -> None:
    """A file keeps its last numbers, and a port is gone."""
    (tmp_path / "facts" / "Temp").mkdir(parents=True)
    (tmp_path / "rules.tdl").write_text(RULES)
    (port,) = free_ports(1)
    for place in (str(tmp_path / "m.prom"), f":{port}"):
        command = [sys.executable, "-m", "tidelog.cli", "run", str(tmp_path / "rules.tdl")]
        command += ["--facts", str(tmp_path / "facts"), "--follow", "--metrics", place]

        def text(place: str = place) -> str:
            try:
                if place.endswith(".prom"):
                    return Path(place).read_text()
                address = f"http://127.0.0.1{place}/metrics"
                with urllib.request.urlopen(address, timeout=5) as answer:
                    return str(answer.read().decode())
            except OSError:
                return ""

        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + 120
            while "tidelog_heartbeat" not in text():
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.2)
            running = parsed(text())
            process.kill()
        left = parsed(text()) if text() else {}
        expressions = alerts()
        del expressions["TidelogLate"]
        now = time.time()
        assert not any(fires(each, running, now) for each in expressions.values())
        firing = {name for name, each in expressions.items() if fires(each, left, now + 120)}
        assert firing == {"TidelogSilent" if place.endswith(".prom") else "TidelogAbsent"}
