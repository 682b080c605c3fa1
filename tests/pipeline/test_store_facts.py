"""Facts on a store that Spark reaches through Hadoop: here its view of a local folder."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.errors import DataError, Refused
from tidelog.pipeline.commit import Checkpoint
from tidelog.pipeline.store import open_store
from tidelog.spark import query, stream

pytestmark = pytest.mark.xdist_group("spark")

RULES = """
input Temp(device: text, level: float) @ at.
input Wind(v, site) @ at.
input Near(a: text, b: text).
output Hot.
Hot(Y) @ T :- Temp(X, V) @ T, V >= 5, Near(X, Y).
Windy(S) @ T :- Wind(V, S) @ T, V > 3.
"""


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> str:
    """The address of a file system that ends at a local folder, `in` there has facts."""
    name = f"box{uuid.uuid4().hex}"
    conf = spark._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{name}.link./data", f"file://{tmp_path}")
    facts = tmp_path / "in"
    (facts / "Temp").mkdir(parents=True)
    (facts / "Wind").mkdir()
    (facts / "Temp" / "1 x.csv").write_text("device,level,at\na,5,0\na,6,1\na,oops,1\n")
    (facts / "Temp" / "2.jsonl").write_text('{"device": "a", "level": 7, "at": 2}\n')
    (facts / "Temp" / "_half.csv").write_text("device,level,at\na,9,3\n")
    for moment, file in enumerate(("1 x.csv", "2.jsonl")):  # Spark takes older files first
        os.utime(facts / "Temp" / file, (1_700_000_000 + moment,) * 2)
    (facts / "Near.csv").write_text("a,b\na,ä\n")
    wind = pa.table({"v": [2, 4], "site": ["n", "n"], "at": [0, 1]})
    pq.write_table(wind, facts / "Wind" / "a.parquet")
    return f"viewfs://{name}/data"


def run(spark: SparkSession, inputs: Any, asked: str = "Hot", **more: Any) -> Any:
    running = stream(
        spark,
        tidelog.parse(RULES),
        asked,
        inputs=inputs,
        trigger={"availableNow": True},
        files_per_batch=1,
        **more,
    )
    running.awaitTermination()
    running.close()
    return running


def rows(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("where", ["driver", pytest.param("executors", marks=pytest.mark.deep)])
def test_a_folder_as_a_stream(
    where: str,
    spark: SparkSession,
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rigid facts lie there too; a row that is not used names the file there."""
    if where == "executors":
        monkeypatch.setattr("tidelog.pipeline.sites.LITTLE", -1)
    running = run(spark, f"{store}/in", checkpoint=tmp_path / "c", sink=f"json:{store}/out")
    answers = [
        json.loads(line)
        for path in (tmp_path / "out").glob("Hot/batch=*/*.json")
        for line in path.read_text().splitlines()
    ]
    assert sorted((a["y"], a["time"]) for a in answers) == [("ä", 0), ("ä", 1), ("ä", 2)]
    assert running.committed.totals["dead"] == 1
    letters = [
        json.loads(line)
        for path in (tmp_path / "c" / "dead_letters").rglob("*.json")
        for line in path.read_text().splitlines()
    ]
    assert [letter["file"] for letter in letters] == [f"{store}/in/Temp/1 x.csv"]


def test_types_that_the_data_settles(spark: SparkSession, store: str) -> None:
    (answers,) = run(spark, f"{store}/in", "Windy").answers.values()
    assert rows(answers) == [("n", 1)]


def test_one_input_and_rigid_facts_elsewhere(
    spark: SparkSession, store: str, tmp_path: Path
) -> None:
    near = tmp_path / "in" / "Near.csv"
    for inputs, rigid in (
        ({"Temp": f"{store}/in/Temp"}, near),
        (f"Temp={store}/in/Temp", [f"{store}/in/Near.csv"]),
        ([f"Temp={store}/in/Temp/2.jsonl"], {"Near": f"{store}/in/Near.csv"}),
    ):
        answers = run(spark, inputs, rigid=rigid).answers["Hot"]
        assert ("ä", 2) in rows(answers)


def test_a_query_is_that_over_the_folder(spark: SparkSession, store: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "Temp" / "1 x.csv").write_text("device,level,at\na,5,0\na,6,1\n")
    program = tidelog.parse(RULES)
    for asked in ("Hot", "Windy"):
        wanted = rows(program.query(asked, tmp_path / "in"))
        assert wanted
        assert rows(query(spark, program, asked, f"{store}/in").toArrow()) == wanted
    result = CliRunner().invoke(cli, ["query", *rules(tmp_path), "--facts", f"{store}/in", *SPARK])
    assert result.exit_code == 0, result.output
    assert result.stdout == "y,time\nä,0\nä,1\nä,2\n"


SPARK = ("--engine", "spark")


def rules(folder: Path) -> list[str]:
    (folder / "rules.tdl").write_text(RULES)
    return [str(folder / "rules.tdl")]


def test_problems_name_the_address(spark: SparkSession, store: str, tmp_path: Path) -> None:
    program = tidelog.parse(RULES)
    with pytest.raises(DataError, match=f"{store}/in/Temp/1 x.csv: .*oops"):
        query(spark, program, "Hot", f"{store}/in")
    (tmp_path / "in" / "Temp" / "1 x.csv").write_text("device,at\na,0\n")
    for asked in (query, run):
        more = (program, "Hot") if asked is query else ()
        with pytest.raises(DataError, match=f"^{store}/in/Temp/1 x.csv:1: no column"):
            asked(spark, *more, f"{store}/in")  # type: ignore[operator]
    with pytest.raises(DataError, match=f"^{store}/nowhere: no such file or folder$"):
        run(spark, f"{store}/nowhere")
    with pytest.raises(DataError, match=r"viewfs://\*\*\*@box/x: Spark cannot read this place: "):
        run(spark, "viewfs://me:pw@box/x")
    with pytest.raises(DataError, match="patterns are for local files: name the folder"):
        run(spark, f"{store}/in/*.csv")
    with pytest.raises(DataError, match="from this machine or from a store, not from both"):
        run(spark, [f"{store}/in/Temp", str(tmp_path / "in")])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--facts", "s3a://b/in", "--engine", "duckdb"], "are read by Spark only: use"),
        (["query", "--facts", "s3a://b/in"], "s3a://b/in: facts on a store are read by Spark only"),
        (["query", "--facts", "FACTS", "--out", "s3a://b/out"], "go to this machine; write them"),
        (
            ["run", "--facts", "FACTS", "--engine", "duckdb", "--sink", "csv:s3a://b/out"],
            "`csv:s3a://b/out`: in process answers go to a folder on this machine",
        ),
        (
            ["run", "--facts", "FACTS", "--engine", "duckdb", "--checkpoint", "s3a://b/c"],
            "s3a://b/c: in process a checkpoint is a folder on this machine",
        ),
    ],
)
def test_what_is_refused_in_process(
    words: list[str], said: str, store: str, tmp_path: Path
) -> None:
    given = [str(tmp_path / "in") if word == "FACTS" else word for word in words]
    result = CliRunner().invoke(cli, [given[0], *rules(tmp_path), *given[1:]])
    assert result.exit_code in (1, 2), result.output
    assert said in " ".join(result.stderr.split())
    assert not Path("s3a:").exists()


def test_a_store_that_renames_by_copying_is_no_checkpoint(
    spark: SparkSession, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.pipeline.store._kind_of", lambda fs, _: fs.getUri().getScheme())
    said = rf"^{store}/c cannot be a checkpoint: on this store \(viewfs\) a rename may be a copy"
    with pytest.raises(Refused, match=said):
        run(spark, f"{store}/in", checkpoint=f"{store}/c", sink=f"json:{store}/out")
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "out").exists()
    run(spark, f"{store}/in", checkpoint=tmp_path / "c", sink=f"csv:{store}/out")
    batches = [path.name for path in (tmp_path / "out" / "Hot").iterdir()]
    assert batches
    assert all((tmp_path / "out" / "Hot" / name / "_complete").exists() for name in batches)


@pytest.mark.parametrize("kind", ["s3", "oss", "cosn", "dbfs", "gs", "new"])
def test_a_store_that_nobody_knows_is_no_checkpoint(
    kind: str, spark: SparkSession, store: str, tmp_path: Path
) -> None:
    """Only stores that are known to rename at once are, whatever others say of themselves."""
    conf, mount = spark._jsc.hadoopConfiguration(), "org.apache.hadoop.fs.viewfs"
    name = f"box{uuid.uuid4().hex}"
    settings = {
        f"fs.{kind}.impl": f"{mount}.ViewFileSystemOverloadScheme",
        f"fs.viewfs.mounttable.{name}.link./data": f"file://{tmp_path}",
    }
    for setting, value in settings.items():
        conf.set(setting, value)
    try:
        place = open_store(spark, f"{kind}://{name}/data/c")
        assert place.copies
        with pytest.raises(Refused, match=rf"cannot be a checkpoint: on this store \({kind}\) a"):
            Checkpoint(place).take()
    finally:
        for setting in settings:
            conf.unset(setting)
    assert not open_store(spark, f"{store}/c").copies  # a mount of this machine's disk
    assert not (tmp_path / "c").exists()
