"""A standalone Spark cluster on loopback: a master and two workers, of one core each.

The workers' Python is an environment of its own without tidelog: TIDELOG_WORKER_PYTHON names it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from support.places import ROOT

OPTIONS = {
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def until(done: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} seconds"
        time.sleep(0.1)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                after = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(after[1]) == pid and after[0] != "Z":
                pids.append(int(entry.name))
    return sorted(pids)


class Cluster:
    """The processes of a cluster, each known by its id."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"spark://127.0.0.1:{free.getsockname()[1]}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.drivers: list[subprocess.Popen[str]] = []
        self.spark: SparkSession | None = None
        self.before = dict(os.environ)

    @property
    def environment(self) -> dict[str, str]:
        """Of drivers as well as workers; nothing leads to tidelog here."""
        empty = self.folder / "conf"
        empty.mkdir(exist_ok=True)
        plain = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
        return plain | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(empty),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": self.python,
        }

    def start(self) -> None:
        deploy = "org.apache.spark.deploy"
        port = self.url.rpartition(":")[2]
        self._run("master", f"{deploy}.master.Master", "--port", port)
        until(lambda: "Starting Spark master" in self.said("master"), "the master")
        for name in ("worker1", "worker2"):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name))
            self._run(name, f"{deploy}.worker.Worker", *more, self.url)
        until(lambda: self.said("master").count("Registering worker") == 2, "two workers")

    def _run(self, name: str, class_: str, *words: str) -> None:
        import pyspark

        command = Path(pyspark.__file__).parent / "bin" / "spark-class"
        common = ("--host", "127.0.0.1", "--webui-port", "0")
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [str(command), class_, *common, *words],
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def said(self, name: str) -> str:
        assert all(process.poll() is None for process in self.processes), f"see {self.folder}"
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @property
    def executors(self) -> list[int]:
        """The executors that run, each the child of a worker."""
        return [pid for worker in self.processes[1:] for pid in children(worker.pid)]

    def session(self, **options: str) -> SparkSession:
        """This process as the driver; only one driver at a time has the cluster's two cores."""
        from tidelog.spark import session

        os.environ.update({k: v for k, v in self.environment.items() if "SPARK" in k})
        self.spark = session(self.url, **OPTIONS, **options)
        until(lambda: len(self.executors) == 2, "two executors")
        return self.spark

    def alone(self) -> None:
        """No driver any more, and no executor."""
        if self.spark is not None:
            self.spark.stop()
            self.spark = None
        until(lambda: not self.executors, "executors to end")

    def driver(self, *words: str, **changed: str) -> subprocess.Popen[str]:
        """A driver in a process of its own, with tidelog from this checkout."""
        self.alone()
        self.drivers.append(
            subprocess.Popen(
                [sys.executable, *words],
                env=self.environment | {"PYTHONPATH": str(ROOT / "src")} | changed,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return self.drivers[-1]

    def stop(self) -> None:
        for driver in self.drivers:
            if driver.poll() is None:  # a test gave up on it
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
        if self.spark is not None:
            self.spark.stop()
        os.environ.clear()
        os.environ.update(self.before)
        left = self.executors
        for process in self.processes[::-1]:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def worker_python() -> str:
    python = os.environ.get("TIDELOG_WORKER_PYTHON", str(ROOT / "build/cluster-venv/bin/python"))
    assert Path(python).exists(), f"{python} is missing: run `make test-cluster`"
    lacks = subprocess.run([python, "-c", "import tidelog"], capture_output=True, cwd="/", env={})
    assert b"No module named 'tidelog'" in lacks.stderr, "the workers' Python must not have tidelog"
    return python
