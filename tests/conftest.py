"""What every test may use: the shared data, one Spark session, the Hypothesis settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import NodeId
from hypothesis import is_hypothesis_test, settings
from support.deep import DEEP
from support.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every Spark here lives for a minute, in a process of its own or in this one: compiling its code
# well takes longer than running it. There is room for all of it: else some is made again and again.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m",
)

# Test files of rules that are wrong on purpose: tests/testing looks at what is said of them.
collect_ignore_glob = ["testing/failing/*"]

# The same examples in every run: a failure here is a failure everywhere.
settings.register_profile("default", derandomize=True, deadline=None)
settings.load_profile("default")


def shared_data_folder() -> Path | None:
    """The folder named by TIDELOG_DATA, or `shared/data` beside the checkout."""
    named = os.environ.get("TIDELOG_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what nobody has to mark, and leaves out what is not of this run.

    What uses Spark or the large data is slow; generated tests grow with `TIDELOG_DEEP`.
    """
    for item in items:
        if isinstance(item, pytest.Function):
            if {"spark", "shared_data"} & set(item.fixturenames):
                item.add_marker(pytest.mark.slow)
            if "spark" in item.fixturenames:
                item.add_marker(pytest.mark.xdist_group("spark"))  # else there would be two Sparks
            if is_hypothesis_test(item.obj):
                item.add_marker(pytest.mark.grows)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        wanted = bool(marks & {"deep", "grows"}) if DEEP > 1 else "deep" not in marks
        (kept if wanted else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
    if config.getoption("loadgroup", default=False):
        for item in kept:
            _name_group(item)


def _name_group(item: pytest.Item) -> None:
    """Puts the group of a test into its id, where the scheduler of pytest-xdist looks for it.

    pytest-xdist 3.8 means to do so itself, but writes to an attribute that pytest 9.2 no longer
    reads: tests on Spark would go to all workers, and each would start a Spark.
    """
    for mark in item.iter_markers("xdist_group"):
        item._id = NodeId.parse(f"{item.nodeid}@{mark.args[0]}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = shared_data_folder()
    if folder is None:
        pytest.skip(
            "shared data not found: set TIDELOG_DATA to the folder that holds la_haute_borne/ "
            "and nab/, or put it at ../shared/data beside the checkout"
        )
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The suite's one session; tests that use it are in the group `spark`, on one worker."""
    from support.stopping import stop

    from tidelog.spark import session

    options = {
        "spark.sql.shuffle.partitions": "2",
        # Compiling takes longer than running when there are ten rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    started = session("local[2]", **options)
    yield started
    stop(started)
