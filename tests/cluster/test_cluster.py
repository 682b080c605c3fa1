"""Streams whose executors are processes of their own, with a Python that has no tidelog."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from crash.test_crash import VICTIM, facts, told
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.generate import Case, programs_and_facts
from oracle.keyed import keyed
from pipeline.test_spark_stream import check, check_batch
from pyspark.sql import SparkSession
from support.deep import examples
from support.places import ROOT
from support.standalone import Cluster, until, worker_python
from support.victim import RULES

import tidelog
from tidelog.pipeline import loop as pipeline
from tidelog.pipeline import sites
from tidelog.pipeline.places import Executors
from tidelog.spark import stream

pytestmark = pytest.mark.skipif(
    not os.environ.get("TIDELOG_CLUSTER"), reason="make test-cluster runs these"
)

IN_PARTITIONS = -1  # rows that are little enough for the driver: none are


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"), worker_python())
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def there(cluster: Cluster) -> SparkSession:
    return cluster.spark or cluster.session()


def offline(spark: SparkSession, case: Case, random: Random) -> None:
    chosen = random.choice((case, keyed(case, random)))
    eager = random.random() < 0.5
    check(spark, chosen, random.randint(0, 3), 2, "offline", eager, random, IN_PARTITIONS)


def online(spark: SparkSession, case: Case, random: Random) -> None:
    eager = random.random() < 0.5
    lateness = random.randint(0, 3)
    check(spark, keyed(case, random), lateness, 2, "online", eager, random, IN_PARTITIONS)


def finite(spark: SparkSession, case: Case, random: Random) -> None:
    check_batch(spark, random.choice((case, keyed(case, random))), 2)


# What must hold of any generated program on the cluster.
CASES: list[Callable[[SparkSession, Case, Random], None]] = [offline, online, finite]


@pytest.mark.parametrize("holds", CASES)
@settings(examples(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs_and_facts(connected=True, huge=False), st.randoms(use_true_random=False))
def test_generated_programs(
    there: SparkSession,
    holds: Callable[[SparkSession, Case, Random], None],
    case: Case,
    random: Random,
) -> None:
    holds(there, case, random)


def run(spark: SparkSession, folder: Path, url: Callable[[Path], str] = str) -> dict[str, Any]:
    """The stream of the crash tests, in the partitions; what it has left behind."""
    if not (folder / "facts").exists():
        facts(folder / "facts")
    with (
        patch.object(sites, "LITTLE", IN_PARTITIONS),
        patch.object(pipeline, "MOST_PARTS", 2),
    ):
        running = stream(
            spark,
            tidelog.parse(RULES),
            inputs=folder / "facts",
            sink=f"csv:{url(folder / 'answers')}",
            checkpoint=url(folder / "checkpoint"),
            lateness=1,
            partitions=2,
            files_per_batch=1,
            trigger={"availableNow": True},
        )
        running.awaitTermination()
        running.close()
    for path in folder.rglob(".*.crc"):  # Hadoop's own, beside each file
        path.unlink()
    return told(folder)


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    outcome = run(cluster.spark or cluster.session(), tmp_path_factory.mktemp("undisturbed"))
    assert len(outcome["commits"]) == 11
    assert outcome["answers"]
    assert outcome["dead"]
    return outcome


class Killer:
    """Kills an executor after every so many steps of a batch, at once or a moment later."""

    def __init__(self, cluster: Cluster, every: int, random: Random) -> None:
        self.cluster, self.every, self.random = cluster, every, random
        self.steps = 0
        self.killed: list[int] = []
        self.timers: list[threading.Timer] = []

    def before(self) -> None:
        self.steps += 1
        if self.steps % self.every:
            return
        until(lambda: len(self.cluster.executors) == 2, "two executors")
        moment = self.random.choice((0.0, self.random.uniform(0, 0.6)))
        self.timers.append(threading.Timer(moment, self.kill))
        self.timers[-1].start()
        if not moment:
            self.timers[-1].join()

    def kill(self) -> None:
        pid = self.random.choice(self.cluster.executors)
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            self.before()
            return function(*args, **more)

        return call

    @contextmanager
    def about(self) -> Iterator[None]:
        steps = [(Executors, name) for name in ("take_in", "take", "keep", "dead_letters")]
        with ExitStack() as stack:
            for owner, name in steps:
                watched = self.watched(getattr(owner, name))
                stack.enter_context(patch.object(owner, name, watched))
            yield
        for timer in self.timers:
            timer.join()


@pytest.mark.parametrize("seed", range(2))
def test_executors_are_killed_in_the_middle_of_batches(
    seed: int,
    there: SparkSession,
    cluster: Cluster,
    tmp_path: Path,
    undisturbed: dict[str, Any],
) -> None:
    random = Random(seed)
    killer = Killer(cluster, random.choice((5, 7)), random)
    with killer.about():
        outcome = run(there, tmp_path)
    assert len(set(killer.killed)) >= 4
    assert outcome == undisturbed


def test_checkpoint_and_answers_as_file_urls(
    there: SparkSession, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    assert run(there, tmp_path, lambda path: f"file://{path}") == undisturbed


def test_checkpoint_and_answers_on_another_file_system(
    there: SparkSession, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Hadoop's ViewFs is reached as any remote store is: nothing is opened here."""
    name = f"tide{uuid.uuid4().hex}"
    conf = there._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{name}.link./data", f"file://{tmp_path}")
    outcome = run(there, tmp_path, lambda path: f"viewfs://{name}/data/{path.name}")
    assert outcome == undisturbed


def test_a_driver_is_killed_and_started_again(
    cluster: Cluster, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    facts(tmp_path / "facts")
    codes = []
    for fatal in (80, 30, 0):
        words = (str(VICTIM), str(tmp_path), str(fatal), "there", cluster.url)
        process = cluster.driver(*words)
        said = process.communicate(timeout=300)[1]
        codes.append(process.returncode)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0], said
    assert told(tmp_path) == undisturbed


# What the workers lack is said in one sentence, before anything is written


def refused(cluster: Cluster, folder: Path, python: Path) -> str:
    """What `tidelog run` says when the workers have some other Python."""
    rules = ROOT / "examples" / "turbines"
    words = ("-m", "tidelog.cli", "run", str(rules / "rules.tdl"), "--facts", str(rules / "facts"))
    more = ("--query", "Malfunc", "--master", cluster.url, "--checkpoint", str(folder / "c"))
    process = cluster.driver(*words, *more, PYSPARK_PYTHON=str(python))
    out, said = process.communicate(timeout=300)
    assert (process.returncode, out) == (1, "")
    assert "Traceback" not in said
    assert not (folder / "c").exists()
    (line,) = (line for line in said.splitlines() if line.startswith("error: "))
    return line


def bare(folder: Path, python: str, *modules: str) -> Path:
    """An environment with some of the modules of another one."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    inside = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    for name in modules:
        (folder / inside / name).symlink_to(Path(python).parents[1] / inside / name)
    return folder / "bin" / "python"


def test_workers_without_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    python = bare(tmp_path / "venv", cluster.python, "pyarrow", "pyarrow.libs")
    message = refused(cluster, tmp_path, python)
    assert re.search(r"^error: the Spark executor on \S+ has no duckdb: ", message)
    assert f"{python}, `pip install duckdb=={duckdb.__version__} pyarrow==" in message


def test_workers_with_an_older_duckdb(cluster: Cluster, tmp_path: Path) -> None:
    python = bare(tmp_path / "venv", cluster.python, "pyarrow", "pyarrow.libs")
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    (site / "duckdb.py").write_text("__version__ = '0.9.2'\n")
    message = refused(cluster, tmp_path, python)
    assert f"has duckdb 0.9.2, and the driver {duckdb.__version__}: " in message


def test_workers_with_another_python(cluster: Cluster, tmp_path: Path) -> None:
    python = bare(tmp_path / "venv", cluster.python)
    (site,) = (tmp_path / "venv").glob("lib/*/site-packages")
    next_ = f"{sys.version_info[0]}.{sys.version_info[1] + 1}"
    (site / "sitecustomize.py").write_text(
        "import sys, collections\n"
        "names = 'major minor micro releaselevel serial'\n"
        "major, minor, *rest = sys.version_info\n"
        "sys.version_info = collections.namedtuple('v', names)(major, minor + 1, *rest)\n"
    )
    message = refused(cluster, tmp_path, python)
    assert re.search(
        rf"^error: .* has Python {re.escape(next_)}, and the driver \S+: name ", message
    )


def test_workers_without_the_python_named(cluster: Cluster, tmp_path: Path) -> None:
    message = refused(cluster, tmp_path, tmp_path / "nowhere")
    assert f"has no Python called {tmp_path / 'nowhere'}: name a Python " in message
