"""What executors get and need."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.places import ROOT

import tidelog
from tidelog.errors import DataError
from tidelog.evaluation.spark import shipping
from tidelog.evaluation.spark.shipping import (
    KERNEL,
    ExecutorCheck,
    archive,
    check_shared,
    prepare,
    unable,
)

pytestmark = pytest.mark.xdist_group("spark")

OURS = {"pyarrow": pa.__version__, "duckdb": duckdb.__version__}


def test_the_archive_has_every_source_and_a_name_that_says_which() -> None:
    with zipfile.ZipFile(archive()) as packed:
        names = set(packed.namelist())
    there = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "tidelog").rglob("*.py")}
    if Path(str(tidelog.__file__)).is_relative_to(ROOT):
        assert names == there
    name = Path(archive()).name
    assert name.startswith(f"tidelog-{tidelog.__version__}-")
    before = Path(archive()).read_bytes()
    archive.cache_clear()
    assert Path(archive()).name == name
    assert Path(archive()).read_bytes() == before


def test_the_kernel_needs_pyarrow_duckdb_and_pyspark_only() -> None:
    """Loaded from the archive, with every other library of ours out of reach."""
    others = ("click", "rich", "numpy", "pandas", "clingo", "hypothesis")
    code = (
        f"import sys; sys.path.insert(0, {archive()!r})\n"
        f"sys.modules.update(dict.fromkeys({others}))\n"
        f"import {KERNEL}, tidelog; print(tidelog.__file__)\n"
        "from tidelog.evaluation.spark.shipping import archive; print(archive())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.stdout.startswith(archive()), done.stderr
    # From there it can be sent on: the driver may have got it so as well.
    assert Path(done.stdout.splitlines()[1]).name == Path(archive()).name


def test_in_local_mode_nothing_is_sent(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "archive", lambda: pytest.fail("sent"))
    prepare(spark)


@pytest.mark.parametrize(
    ("versions", "failed", "message"),
    [
        (OURS, {}, None),
        ({**OURS, "pyarrow": f"{pa.__version__.split('.')[0]}.999.0"}, {}, None),
        (
            {**OURS, "pyarrow": "1.0.0"},
            {},
            f"the Spark executor on w7 has pyarrow 1.0.0, and the driver {pa.__version__}: for the"
            f" Python that runs there, /py, `pip install duckdb=={duckdb.__version__}"
            f" pyarrow=={pa.__version__}`; or name another Python with PYSPARK_PYTHON",
        ),
        (
            {"pyarrow": pa.__version__},
            {"duckdb": "No module named 'duckdb'", KERNEL: "No module named 'duckdb'"},
            "the Spark executor on w7 has no duckdb: for the Python",
        ),
        (
            {"pyarrow": pa.__version__},
            {"duckdb": "libstdc++.so.6: version not found"},
            "has no duckdb that can be imported (libstdc++.so.6: version not found): for the",
        ),
        (OURS, {KERNEL: "bad magic number"}, "cannot load tidelog"),
    ],
)
def test_what_an_executor_lacks(
    versions: dict[str, str], failed: dict[str, str], message: str | None
) -> None:
    problem = ExecutorCheck("w7", "/py", versions, failed, []).problem()
    assert problem is None if message is None else message in str(problem)


def test_a_folder_that_executors_do_not_see(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here, nowhere = tmp_path / "here", tmp_path / "nowhere"
    here.write_text("")
    check_shared(spark, str(nowhere))  # in local mode nothing is looked at
    monkeypatch.setattr(shipping, "is_local", lambda _: False)
    check_shared(spark, str(here), None)
    with pytest.raises(DataError, match=f"^{tmp_path} cannot be seen by the Spark executor on "):
        check_shared(spark, str(here), str(nowhere))


def test_why_not_even_a_look_was_possible() -> None:
    at = "Lost task 0.3 in stage 1.0 (TID 9) (10.0.0.7 executor 1): "
    other = f"{at}[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that"
    assert "on 10.0.0.7 has Python 3.9, and the driver 3." in unable(other, "python3")
    none = f'{at}java.io.IOException: Cannot run program "py9": error=2'
    assert "on 10.0.0.7 has no Python called py9: name a Python 3." in unable(none, "py9")
    assert unable("Job aborted\n\nworse\n", "p") == (
        "a Spark executor cannot run Python: worse; see its log"
    )
