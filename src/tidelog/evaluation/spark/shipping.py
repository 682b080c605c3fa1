"""What a cluster needs before it can work: this package on its way to the executors, and a look.

Executors need Python, pyarrow and duckdb; pyspark is there already, and this package is sent. In
local mode nothing is sent: workers run the Python of this process, unless somebody names another.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.errors import DataError

KERNEL = "tidelog.pipeline.modes"  # what the partitions run, with all it imports

_prepared: dict[str, set[str]] = {}  # executors that were looked at, by application


def prepare(spark: SparkSession) -> None:
    """Send this package to the executors, and see that they can work; DataError if they cannot."""
    if is_local(spark):
        _prepare_here(spark)
        return
    context = spark.sparkContext
    if context.applicationId not in _prepared:
        context.addPyFile(archive())
    known = _prepared.setdefault(context.applicationId, set())
    there = _executors(spark)
    if known and there <= known:
        return
    for executor in _everywhere(spark, _looking()):
        problem = executor.problem()
        if problem is not None:
            raise DataError(problem)
    known |= there


def _prepare_here(spark: SparkSession) -> None:
    """See that workers on this machine have this package; DataError if they cannot.

    Where nobody has named a Python for them they are `python3` of the PATH, which is another one
    in a virtual environment that was not activated.
    """
    context = spark.sparkContext
    if _is_this_python(context.pythonExec):
        return
    if "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # of what is planned from now on
        return
    known = _prepared.setdefault(context.applicationId, set())
    if context.pythonExec not in known:
        for worker in _everywhere(spark, _looking()):
            problem = worker.problem_here()
            if problem is not None:
                raise DataError(problem)
        known.add(context.pythonExec)


def _is_this_python(name: str) -> bool:
    """Whether a command starts the Python of this process, with its packages.

    An environment is known by its folder: its Python is a link to one that has other packages.

    >>> import sys
    >>> _is_this_python(sys.executable), _is_this_python("no-python")
    (True, False)
    """
    found = shutil.which(name)
    if found is None:
        return False
    ours, other = Path(os.path.abspath(sys.executable)), Path(os.path.abspath(found))
    return other.parent == ours.parent and other.resolve() == ours.resolve()


def check_shared(spark: SparkSession, *paths: str | None) -> None:
    """See that the executors find some local files of the driver's; DataError if they do not."""
    wanted = [path for path in paths if path is not None]
    if is_local(spark) or not wanted:
        return
    for executor in _everywhere(spark, _looking(wanted)):
        for path in executor.unseen:
            raise DataError(
                f"{Path(path).parent} cannot be seen by the Spark executor on {executor.host}: on a"
                " cluster checkpoint and answers lie where every machine sees them, such as"
                " hdfs:// or a shared mount"
            )


def is_local(spark: SparkSession) -> bool:
    """Whether executors are threads of the driver."""
    return re.match(r"local(\[|$)", spark.sparkContext.master or "") is not None


def cores(spark: SparkSession) -> int:
    """How many tasks run at a time."""
    return spark.sparkContext.defaultParallelism


def threads_here(spark: SparkSession) -> int:
    """How many threads this process may use: all cores where the executors are in it."""
    return cores(spark) if is_local(spark) else 1


def version() -> str:
    """Of this package, which is above all its layers and so not imported by name."""
    return str(import_module("tidelog").__version__)


@cache
def archive() -> str:
    """A zip of this package's sources; its name says what is in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, source in sorted(_sources(files("tidelog"), "tidelog")):
            packed.writestr(zipfile.ZipInfo(name), source, zipfile.ZIP_DEFLATED)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()[:12]
    path = Path(_folder().name) / f"tidelog-{version()}-{digest}.zip"
    path.write_bytes(data)
    return str(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Executors may fetch the archive at any time, so that it stays until this process ends."""
    return tempfile.TemporaryDirectory(prefix="tidelog-archive-")


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_bytes()


def _executors(spark: SparkSession) -> set[str]:
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return {f"{info.host()}:{info.port()}" for info in infos}


# What an executor tells


@dataclass(frozen=True)
class ExecutorCheck:
    """What there is on an executor: the version of each module, or why it cannot be imported."""

    host: str
    python: str
    versions: dict[str, str]
    failed: dict[str, str]
    unseen: list[str]

    def problem_here(self) -> str | None:
        """What keeps a worker on the driver's machine from working, which nothing is sent to."""
        for name, reason in self.failed.items():
            cause = reason if name in reason else f"{name}: {reason}"
            return (
                f"Spark's workers run {self.python}, which PYSPARK_PYTHON names, and it cannot"
                f" load tidelog ({cause}): set PYSPARK_PYTHON to {sys.executable}, or leave it out"
            )
        return None

    def problem(self) -> str | None:
        """What keeps it from working, in one sentence; None when it can."""
        ours = {"pyarrow": pa.__version__, "duckdb": duckdb.__version__}
        remedy = (
            f"for the Python that runs there, {self.python}, `pip install"
            f" duckdb=={ours['duckdb']} pyarrow=={ours['pyarrow']}`; or name another Python with"
            " PYSPARK_PYTHON"
        )
        where = f"the Spark executor on {self.host}"
        for name, parts in (("pyarrow", 1), ("duckdb", 2)):
            if name in self.failed:
                missing = self.failed[name] == f"No module named '{name}'"
                said = "" if missing else f" that can be imported ({self.failed[name]})"
                return f"{where} has no {name}{said}: {remedy}"
            there = self.versions[name]
            if there.split(".")[:parts] != ours[name].split(".")[:parts]:
                return f"{where} has {name} {there}, and the driver {ours[name]}: {remedy}"
        if KERNEL in self.failed:
            return f"{where} cannot load tidelog {version()}: {self.failed[KERNEL]}"
        return None


Look: TypeAlias = Callable[[Iterable[int]], Iterator[tuple[Any, ...]]]


def _looking(paths: Iterable[str] = ()) -> Look:
    """A function that travels by value: it must run where this package cannot be imported."""
    modules, wanted = ("pyarrow", "duckdb", KERNEL), list(paths)

    def look(_: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        import importlib
        import os
        import socket
        import sys
        import time

        versions: dict[str, str] = {}
        failed: dict[str, str] = {}
        for name in modules:
            try:
                versions[name] = str(getattr(importlib.import_module(name), "__version__", ""))
            except Exception as error:
                failed[name] = str(error)
        unseen = [path for path in wanted if not os.path.exists(path)]
        time.sleep(0.1)  # or one executor might do the tasks of all
        yield socket.gethostname(), sys.executable, versions, failed, unseen

    return look


def _everywhere(spark: SparkSession, look: Look) -> list[ExecutorCheck]:
    """What each executor tells, as far as tasks reach them all."""
    context = spark.sparkContext
    tasks = max(context.defaultParallelism, len(_executors(spark)))
    try:
        told = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    except Py4JJavaError as error:
        message = str(error.java_exception.getMessage())
        raise DataError(unable(message, context.pythonExec)) from None
    except PySparkException as error:
        raise DataError(unable(str(error), context.pythonExec)) from None
    return [ExecutorCheck(*each) for each in told]


def unable(message: str, python: str) -> str:
    """Why not even a look was possible, in one sentence."""
    host = re.search(r"\((\S+) executor \S+\)", message)
    where = f"the Spark executor on {host[1]}" if host else "a Spark executor"
    version = platform.python_version()
    remedy = f"name a Python {version.rpartition('.')[0]} there with PYSPARK_PYTHON"
    other = re.search(r"PYTHON_VERSION_MISMATCH\].*?version: ?(\d+\.\d+)", message, re.DOTALL)
    if other:
        return f"{where} has Python {other[1]}, and the driver {version}: {remedy}"
    if "Cannot run program" in message:
        return f"{where} has no Python called {python}: {remedy}"
    said = next((line for line in message.splitlines()[::-1] if line.strip()), "no reason given")
    return f"{where} cannot run Python: {said.strip()}; see its log"
