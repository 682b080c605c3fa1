"""A real Kafka broker on loopback, and a client of it that speaks from Python."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tidelog.evaluation.spark.jars import jars_of

_SMALL = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def end_with_us() -> None:
    """Linux kills a process that says so when its parent has ended, however that ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Broker:
    """One node that is broker and controller (KRaft); it may be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._controller = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.check.interval.ms": 500,
            "log.cleaner.backoff.ms": 500,
            "log.segment.delete.delay.ms": 0,
            "log.initial.task.delay.ms": 500,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "server.properties").write_text(lines)
        self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c").wait(
            60
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        classpath = os.pathsep.join(jars_of(["kafka-broker"]))
        settings = str(self.folder / "server.properties")
        command = ["java", *_SMALL, "-cp", classpath, *arguments, settings]
        with (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, preexec_fn=end_with_us
            )

    def start(self) -> None:
        if self._process is not None:
            return
        self._process = self._java("kafka.Kafka")
        end = time.monotonic() + 180
        while time.monotonic() < end:
            assert self._process.poll() is None, (self.folder / "log.txt").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("the broker does not start")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Client:
    """Kafka's own Java client, in a JVM of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        jars = [*jars_of(["kafka-broker"]), *map(str, _py4j())]
        port, self.process = launch_gateway(
            jarpath=str(_py4j()[0]),
            classpath=os.pathsep.join(jars),
            javaopts=_SMALL,
            die_on_exit=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True)
        )
        self._jvm: Any = self._gateway.jvm
        kafka = self._jvm.org.apache.kafka
        self._admin = kafka.clients.admin.Admin.create(self._settings())
        serializer = kafka.common.serialization.ByteArraySerializer
        self._producer = kafka.clients.producer.KafkaProducer(
            self._settings(), serializer(), serializer()
        )

    def _settings(self) -> Any:
        settings = self._jvm.java.util.Properties()
        settings.put("bootstrap.servers", self.address)
        return settings

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """A topic, with `retention_ms="1"` for `retention.ms=1`."""
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic(
            topic, self._jvm.java.util.Optional.of(partitions), self._jvm.java.util.Optional.empty()
        )
        new.configs({name.replace("_", "."): value for name, value in settings.items()})
        self._admin.createTopics([new]).all().get()
        while not self._admin.listTopics().names().get().contains(topic):
            time.sleep(0.02)  # the controller knows it before the broker does

    def delete(self, topic: str) -> None:
        self._admin.deleteTopics([topic]).all().get()

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Have the broker delete messages before an offset, as retention does."""
        kafka = self._jvm.org.apache.kafka
        at = kafka.common.TopicPartition(topic, partition)
        # Java has an instance method of the same name, which hides it from Python.
        kinds = self._gateway.new_array(self._jvm.java.lang.Class, 1)
        kinds[0] = self._jvm.java.lang.Long.TYPE
        values = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        values[0] = self._jvm.java.lang.Long(before)
        kind = self._jvm.java.lang.Class.forName("org.apache.kafka.clients.admin.RecordsToDelete")
        until = kind.getMethod("beforeOffset", kinds).invoke(None, values)
        self._admin.deleteRecords({at: until}).all().get()

    def send(
        self,
        topic: str,
        values: Iterable[bytes | str | Mapping[str, Any] | None],
        key: bytes | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
        at: int | None = None,
    ) -> None:
        """Messages, as bytes, as text or as JSON; all of them are there when it returns.

        `at` is the time that Kafka has for them, in milliseconds; without it, now.
        """
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        for value in values:
            if isinstance(value, Mapping):
                value = json.dumps(value)
            data = value.encode() if isinstance(value, str) else value
            moment = None if at is None else self._jvm.java.lang.Long(at)
            one = record(topic, partition, moment, key, data, None)
            for name, content in (headers or {}).items():
                one.headers().add(name, content)
            self._producer.send(one)
        self._producer.flush()

    def transact(self, topic: str, values: Iterable[Mapping[str, Any]], *, commit: bool) -> None:
        """Messages of a transaction, which is committed or aborted."""
        kafka, settings = self._jvm.org.apache.kafka, self._settings()
        settings.put("transactional.id", "test")
        serializer = kafka.common.serialization.ByteArraySerializer
        producer = kafka.clients.producer.KafkaProducer(settings, serializer(), serializer())
        producer.initTransactions()
        producer.beginTransaction()
        for value in values:
            data = json.dumps(value).encode()
            producer.send(kafka.clients.producer.ProducerRecord(topic, 0, None, None, data, None))
        producer.flush()
        producer.commitTransaction() if commit else producer.abortTransaction()
        producer.close()

    def end(self, topic: str, partition: int = 0) -> int:
        """The offset of the next message."""
        kafka = self._jvm.org.apache.kafka
        at = kafka.common.TopicPartition(topic, partition)
        spec = kafka.clients.admin.OffsetSpec.latest()
        return int(self._admin.listOffsets({at: spec}).partitionResult(at).get().offset())

    def read(self, topic: str, partition: int = 0) -> list[dict[str, Any]]:
        """Every message of a partition that is there now."""
        kafka = self._jvm.org.apache.kafka
        reader = kafka.common.serialization.ByteArrayDeserializer
        consumer = kafka.clients.consumer.KafkaConsumer(self._settings(), reader(), reader())
        at, end = kafka.common.TopicPartition(topic, partition), self.end(topic, partition)
        consumer.assign([at])
        consumer.seekToBeginning([at])
        messages: list[dict[str, Any]] = []
        try:
            while consumer.position(at) < end:
                polled = consumer.poll(self._jvm.java.time.Duration.ofMillis(500))
                messages += map(_message, polled.records(at))
        finally:
            consumer.close()
        return messages

    def close(self) -> None:
        self._gateway.shutdown()
        self.process.kill()
        self.process.wait()


def _message(one: Any) -> dict[str, Any]:
    return {
        "offset": one.offset(),
        "key": None if one.key() is None else bytes(one.key()),
        "value": None if one.value() is None else bytes(one.value()),
        "headers": {h.key(): bytes(h.value()) for h in one.headers().toArray()},
    }


def _py4j() -> list[Path]:
    return sorted((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
