"""Facts from Kafka: formats, offsets, dead letters, refusals, secrets."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from support.kafka import Broker, Client, free_ports

import tidelog
from tidelog.cli import cli
from tidelog.data.sealed import sealed, unsealed
from tidelog.errors import DataError, Refused
from tidelog.spark import Running, stream

RULES = tidelog.parse("""
input Temp(device: text, level: float) @ at.
input Wind(device: text) @ at.
output Hot, Storm.
Hot(X) @ T+1 :- Temp(X, V) @ T, Temp(X, W) @ T+1, V >= 5, W >= 5.
Storm(X) @ T :- Wind(X) @ T, Temp(X, V) @ T.
""")
_numbers = itertools.count()


@pytest.fixture
def topic(client: Client) -> Callable[..., str]:
    """Makes a topic with a name of its own, with some messages."""

    def make(*values: Any, name: str = "t", partitions: int = 1, **settings: str) -> str:
        named = f"{name}{next(_numbers)}"
        client.create(named, partitions, **settings)
        client.send(named, values)
        return named

    return make


def ended(
    spark: SparkSession, inputs: Any, queries: str | tuple[str, ...] = "Hot", **more: Any
) -> Running:
    """A stream over what is there."""
    running = stream(spark, RULES, queries, inputs=inputs, trigger={"availableNow": True}, **more)
    running.awaitTermination()
    running.close()
    return running


def hot(running: Running) -> list[tuple[Any, ...]]:
    table = running.answers.get("Hot")
    return [] if table is None else sorted(tuple(row.values()) for row in table.to_pylist())


def temps(*levels: float, device: str = "a", since: int = 0) -> list[dict[str, Any]]:
    return [{"device": device, "level": v, "at": t} for t, v in enumerate(levels, since)]


HOT = [("a", 1), ("a", 2)]


def test_json_of_one_input(spark: SparkSession, broker: Broker, topic: Callable[..., str]) -> None:
    name = topic(*temps(5, 6, 7, 1))
    assert hot(ended(spark, f"Temp=kafka://{broker.address}/{name}")) == HOT
    assert hot(ended(spark, {"Temp": f"kafka://{broker.address}/{name}"})) == HOT


def test_messages_that_say_what_they_are_of(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], client: Client
) -> None:
    """Several topics, of which one is called as an input is."""
    mixed = topic(*({"predicate": "Temp", **fact} for fact in temps(5, 6, 7, 1)))
    client.create("Wind")
    client.send("Wind", [{"device": "a", "at": 3}, {"device": "a", "at": 0}])
    running = ended(spark, [f"kafka://{broker.address}/{mixed},Wind"], ("Hot", "Storm"), lateness=5)
    assert hot(running) == HOT
    assert running.answers["Storm"].column("time").to_pylist() == [0, 3]


def test_csv_with_key_and_headers(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], client: Client
) -> None:
    name = topic()
    for t, level in enumerate(("5", "6.5", '"7"')):
        client.send(name, [level], key=b"a", headers={"at": str(t).encode()})
    client.send(name, ["many,values", "warm"], key=b"a", headers={"at": b"3"})
    address = f"Temp=kafka://{broker.address}/{name}?format=csv&key=device&headers=at"
    running = ended(spark, address)
    assert hot(running) == HOT
    assert running.committed is not None
    assert running.committed.totals["dead"] == 2


def test_keys_and_headers_of_json(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], client: Client
) -> None:
    name = topic()
    for t, level in enumerate((5, 6, 7)):
        client.send(name, [{"at": t}], key=b"a", headers={"level": str(level).encode()})
    address = f"Temp=kafka://{broker.address}/{name}?key=device&headers=level"
    assert hot(ended(spark, address)) == HOT


def test_a_dataframe_of_messages(
    spark: SparkSession, broker: Broker, topic: Callable[..., str]
) -> None:
    name = topic(*temps(5, 6, 7, 1))
    frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.address)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
    )
    assert hot(ended(spark, {"Temp": frame})) == HOT


@pytest.mark.parametrize("where", ["driver", "executors"])
def test_bad_messages_are_dead_letters(
    where: str,
    spark: SparkSession,
    broker: Broker,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if where == "executors":
        monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", -1)
    facts = temps(5, 6, 7)
    bad = ["{oops", b"\xff\xfe", '{"device": "a", "level": "x", "at": 1}', "[1]", None, ""]
    name = topic(facts[0], *bad, facts[1], '{"level": 1, "at": 1}', facts[2])
    checkpoint = tmp_path / "checkpoint"
    running = ended(spark, f"Temp=kafka://{broker.address}/{name}", checkpoint=checkpoint)
    assert hot(running) == HOT
    letters = [
        json.loads(line)
        for path in (checkpoint / "dead_letters").rglob("*.json")
        for line in path.read_text().splitlines()
    ]
    letters.sort(key=lambda letter: letter["offset"])
    assert {letter["topic"] for letter in letters} == {name}
    assert [(letter["partition"], letter["offset"]) for letter in letters] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 4),
        (0, 8),
    ]
    assert [letter["text"] for letter in letters] == ["{oops", "\\xff\\xfe", None, "[1]", None]
    assert letters[2]["row"] == {"device": "a", "level": "x", "at": 1}
    assert letters[1]["reason"] == "not UTF-8 text"


def test_offsets_and_portions(
    spark: SparkSession,
    broker: Broker,
    topic: Callable[..., str],
    client: Client,
    tmp_path: Path,
) -> None:
    """Spark's options, and a stream that goes on where it was."""
    name = topic(*temps(5, 6, 7, 8))
    address = f"Temp=kafka://{broker.address}/{name}"
    starting = json.dumps({name: {"0": 2}})
    options = {"startingOffsets": starting, "maxOffsetsPerTrigger": "1"}
    sink = f"jsonl:{tmp_path / 'out.jsonl'}"
    more: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "sink": sink}
    running = stream(
        spark, RULES, "Hot", inputs=address, trigger={"availableNow": True}, kafka=options, **more
    )
    running.awaitTermination()
    assert running.committed is not None
    assert (running.committed.batch, running.committed.totals["facts"]) == (1, 2)
    running.stop()
    client.send(name, temps(9, 1, since=4))
    ended(spark, address, kafka=options, **more)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["time"] for line in lines] == [3, 4]


def test_topics_may_not_change(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    one, two = topic(*temps(5, 6)), topic(*temps(5, 6))
    more: dict[str, Any] = {
        "checkpoint": tmp_path / "c",
        "sink": f"jsonl:{tmp_path / 'out.jsonl'}",
        "trigger": {"availableNow": True},
    }
    address = f"Temp=kafka://{broker.address}"
    stream(spark, RULES, "Hot", inputs=f"{address}/{one}", **more).stop()
    with pytest.raises(Refused, match="started differently: the topics are"):
        stream(spark, RULES, "Hot", inputs=f"{address}/{two}", **more)


def test_another_cluster_is_refused(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The same name of a topic, and offsets of other messages; with a way to go on."""
    name = topic(*temps(5, 6))
    folder = tmp_path / "c"
    more: dict[str, Any] = {"checkpoint": folder, "trigger": {"availableNow": True}}
    more |= {"inputs": f"Temp=kafka://{broker.address}/{name}", "sink": f"csv:{tmp_path / 'out'}"}
    stream(spark, RULES, "Hot", **more).stop()
    kept = folder / "kafka.json"
    assert unsealed(kept.read_bytes(), "") == {"clusters": {name: "AAAAAAAAAAAAAAAAAAAAAQ"}}
    kept.write_bytes(sealed({"clusters": {name: "another"}}))
    said = rf"topic `{name}` is on another Kafka than before \(cluster AAA.*, and it was another\)"
    with pytest.raises(Refused, match=said):
        stream(spark, RULES, "Hot", **more)
    kept.unlink()
    ended(spark, queries="Hot", **{name: more[name] for name in ("inputs", "checkpoint", "sink")})
    assert kept.exists()


def test_messages_of_aborted_transactions_are_no_facts(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], client: Client
) -> None:
    name = topic(*temps(5, 6))
    client.transact(name, temps(7, since=2), commit=False)
    client.transact(name, temps(8, since=2), commit=True)
    client.transact(name, temps(9, since=3), commit=False)
    client.send(name, temps(1, since=3))
    address = f"Temp=kafka://{broker.address}/{name}"
    read = ended(spark, address)
    assert (hot(read), read.committed.totals["facts"]) == (HOT, 4)
    dirty = ended(spark, address, kafka={"kafka.isolation.level": "read_uncommitted"})
    assert dirty.committed.totals["facts"] == 6


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("kafka://127.0.0.1/t", "give kafka://HOST:PORT/TOPIC"),
        ("kafka://127.0.0.1:9092/", "no name of a topic"),
        ("kafka://u:pw@127.0.0.1:9092/t", r"kafka://\*\*\*@127.0.0.1:9092/t: a name and a pass"),
        ("kafka://127.0.0.1:9092/t?format=avro", "messages are json or csv, not `avro`"),
        ("kafka://127.0.0.1:9092/t?format=csv", "CSV does not say what it is of"),
        ("kafka://127.0.0.1:9092/t?acks=1", "go into --kafka-option"),
        ("Tmp=kafka://127.0.0.1:9092/t", "Tmp"),
        ("Temp=kafka://127.0.0.1:9092/t?key=dev", "`Temp` has no column `dev`"),
    ],
)
def test_addresses_that_cannot_be(address: str, said: str, spark: SparkSession) -> None:
    with pytest.raises(DataError, match=said):
        ended(spark, address)


def test_no_topic_and_no_broker(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(DataError, match="there is no topic `nowhere`: create it"):
        ended(spark, f"Temp=kafka://{broker.address}/nowhere")
    (port,) = free_ports(1)
    options = {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"}
    with pytest.raises(DataError, match="no Kafka answers there: see that it runs"):
        ended(spark, f"Temp=kafka://127.0.0.1:{port}/t", kafka=options)


def test_options_that_an_address_gives(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(DataError, match="subscribe: the address names the topics"):
        ended(spark, f"Temp=kafka://{broker.address}/t", kafka={"subscribe": "t"})


def test_compacted_topics_are_refused(
    spark: SparkSession, broker: Broker, topic: Callable[..., str]
) -> None:
    name = topic(cleanup_policy="compact", name="compacted")
    with pytest.raises(DataError, match=f"`{name}` is compacted"):
        ended(spark, f"Temp=kafka://{broker.address}/{name}")
    assert (
        hot(
            ended(spark, f"Temp=kafka://{broker.address}/{name}", kafka={"failOnDataLoss": "false"})
        )
        == []
    )


def test_expired_offsets_are_refused(
    spark: SparkSession,
    broker: Broker,
    topic: Callable[..., str],
    client: Client,
    tmp_path: Path,
) -> None:
    """What the stream has not read is gone: it says so, by the name of the topic."""
    name = topic(*temps(5, 6, 7, 8))
    more: dict[str, Any] = {
        "checkpoint": tmp_path / "checkpoint",
        "sink": f"jsonl:{tmp_path / 'out.jsonl'}",
        "trigger": {"availableNow": True},
    }
    address = f"Temp=kafka://{broker.address}/{name}"
    running = stream(spark, RULES, "Hot", inputs=address, **more)
    running.awaitTermination()
    running.stop()
    client.send(name, temps(9, 9, 9, since=4))
    client.forget(name, before=6)
    with pytest.raises(
        DataError, match=f"topic `{name}`, partition 0: .* offset 4 on were deleted"
    ):
        ended(spark, address, **{k: v for k, v in more.items() if k != "trigger"})


def test_the_command_keeps_secrets(
    spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Options reach neither checkpoint nor output, from a file or not, also when it fails."""
    name = topic(*temps(5, 6, 7), "{oops")
    rules = tmp_path / "rules.tdl"
    rules.write_text(
        "input Temp(device: text, level: float) @ at.\noutput Hot.\nHot(X) @ T :- Temp(X, V) @ T.\n"
    )
    secret = "xyzzy-7741"
    jaas = f'PlainLoginModule required username="u" password="{secret}";'
    (tmp_path / "jaas").write_text(jaas)
    run = ["run", str(rules), "--checkpoint", str(tmp_path / "c"), "--sink"]
    run += [f"jsonl:{tmp_path / 'out.jsonl'}", "--kafka-option"]
    run += [f"kafka.sasl.jaas.config=@{tmp_path / 'jaas'}", "--facts"]
    result = CliRunner().invoke(cli, [*run, f"Temp=kafka://{broker.address}/{name}", "--close"])
    assert result.exit_code == 0, result.output
    assert f"{name}, partition 0, offset 3: not JSON" in result.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3
    failed = CliRunner().invoke(
        cli, [*run, f"Temp=kafka://{broker.address}/nowhere", "--kafka-option", f"x={secret}"]
    )
    assert failed.exit_code == 1
    assert "Traceback" not in failed.output
    for text in (result.output, failed.output):
        assert secret not in text
    for path in (tmp_path / "c").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_without_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without the connector says so, and so does a jar that is not there."""
    rules = tmp_path / "rules.tdl"
    rules.write_text("input P(x: text) @ t.\noutput Q.\nQ(X) @ T :- P(X) @ T.\n")
    run = ["run", str(rules), "--facts", "P=kafka://127.0.0.1:1/t"]
    result = CliRunner().invoke(cli, [*run, "--jars", str(tmp_path / "none.jar")])
    assert result.exit_code == 1
    assert "none.jar: no such file" in result.stderr
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(cli, run)
    assert result.exit_code == 1
    assert "install Maven (mvn), which fetches them once, or bring the jars" in result.stderr


def test_in_process_there_is_no_connector(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tdl"
    rules.write_text("input P(x: text) @ t.\noutput Q.\nQ(X) @ T :- P(X) @ T.\n")
    run = ["run", str(rules), "--engine", "duckdb", "--facts", "kafka://127.0.0.1:1/t"]
    result = CliRunner().invoke(cli, run)
    assert result.exit_code == 1
    assert "topics of Kafka are read by `tidelog run`, on Spark" in result.stderr


def test_a_topic_may_begin_with_bad_messages(
    spark: SparkSession, broker: Broker, topic: Callable[..., str]
) -> None:
    """They are others', and nobody can take them away: the stream goes on after them."""
    name = topic("{oops", *temps(5, 6, 7))
    running = ended(
        spark, f"Temp=kafka://{broker.address}/{name}", kafka={"maxOffsetsPerTrigger": "1"}
    )
    assert hot(running) == HOT


@pytest.mark.parametrize("how", ["no value", "a line"])
def test_heartbeats_move_time(
    how: str, spark: SparkSession, broker: Broker, topic: Callable[..., str], client: Client
) -> None:
    """Wind is silent; what it says of time lets answers go that would wait for it."""
    noon, minutes = 1_714_564_800, 600  # 2024-05-01 12:00 UTC
    stamp = "2024-05-01T12:{}0:00Z"
    temp = topic(*({"device": "a", "level": 5, "at": stamp.format(t)} for t in range(4)))
    # Kafka would soon delete a message of so long ago.
    wind, silent = topic(retention_ms="-1"), topic()
    if how == "a line":
        client.send(wind, [{"time": stamp.format(3)}])
    else:
        client.send(wind, [None], at=(noon + 3 * minutes + 5) * 1000)

    def answered(second: str) -> tuple[int | None, int | None]:
        address = f"kafka://{broker.address}"
        inputs = {"Temp": f"{address}/{temp}", "Wind": f"{address}/{second}"}
        running = stream(
            spark,
            RULES,
            ("Hot", "Storm"),
            inputs=inputs,
            tick="10m",
            heartbeats=True,
            trigger={"availableNow": True},
        )
        running.awaitTermination()
        running.stop()
        assert running.committed is not None
        assert running.committed.totals["dead"] == 0
        return running.committed.clock.tin, running.committed.tout

    # All before the fourth tick has arrived: the third one is complete.
    complete = noon // minutes + 2
    assert answered(wind) == (complete, complete)
    assert answered(silent)[0] is None
