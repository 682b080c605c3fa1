"""Facts of any type, in any way, under any setting of the session: as Spark's SQL, or refused.

A combination is a DataFrame of three columns that rules read and one that they do not, a rule, a
way in which the facts are given, and settings of the session. The oracle is a statement of Spark's
SQL over the same rows. What rules cannot use is refused with the name of its column.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.deep import DEEP, times
from support.sessions import settings

import tidelog
from tidelog.errors import DataError
from tidelog.spark import query

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.xdist_group("spark")

COMBINATIONS = 2_000 if DEEP > 1 else times(20)


@dataclass(frozen=True)
class Kind:
    """A type of Spark's: what it is in rules, if it is anything there, and values as SQL."""

    sql: str
    type: str | None
    values: tuple[str, ...]


def texts(*values: str) -> tuple[str, ...]:
    return tuple(f"'{value}'" for value in values)


FLOATS = texts("0.1", "-0.0", "0", "1e-45", "Infinity", "-Infinity", "NaN", "3.4e38")
STRINGS = texts("", " a ", "abc", "ABC", "ä", "\U0001f600", "a\\0b", "null", "abc ", "\uffff")
KINDS = (
    Kind("BOOLEAN", "bool", ("true", "false")),
    Kind("TINYINT", "int", ("-128", "127", "0")),
    Kind("SMALLINT", "int", ("-32768", "32767", "0")),
    Kind("INT", "int", ("-2147483648", "2147483647", "7")),
    Kind("BIGINT", "int", texts("-9223372036854775808", "9223372036854775807", "0")),
    Kind("BIGINT", "int", ("9007199254740992", "9007199254740993", "9007199254740994", "-1")),
    Kind("FLOAT", "float", FLOATS),
    Kind(
        "DOUBLE",
        "float",
        (*FLOATS, *texts("1.7976931348623157e308", "5e-324", "0.30000000000000004")),
    ),
    Kind("DECIMAL(1,0)", "float", ("-9", "9", "0")),
    Kind("DECIMAL(10,10)", "float", texts("0.1234567891", "-0.9999999999", "0.1")),
    Kind("DECIMAL(15,2)", "float", texts("9999999999999.98", "9999999999999.99", "-0.01")),
    Kind("DECIMAL(20,0)", "float", texts("9007199254740992", "9007199254740993", "5")),
    Kind("DECIMAL(38,18)", "float", texts("0.100000000000000001", "0.1", "0.25")),
    Kind("DECIMAL(38,0)", "float", texts("9" * 38, "1", "-1")),
    Kind("STRING", "text", STRINGS),
    Kind("STRING COLLATE UTF8_BINARY", "text", STRINGS),
    Kind("STRING COLLATE UTF8_LCASE", None, texts("abc", "ABC")),
    Kind("STRING COLLATE UNICODE_CI_AI", None, texts("a", "ä")),
    Kind("BINARY", None, ("X'00ff'", "X''")),
    Kind("DATE", None, ("'2026-03-08'", "'0001-01-01'")),
    Kind("TIMESTAMP", None, ("'2026-03-08 02:30:00Z'", "'1500-01-01 00:00:00Z'")),
    Kind("TIMESTAMP_NTZ", None, ("'2026-03-08 02:30:00'",)),
    Kind("TIME", None, ("'12:30:00.123456'",)),
    Kind("INTERVAL DAY TO SECOND", None, ("INTERVAL '1 02:03:04.5' DAY TO SECOND",)),
    Kind("INTERVAL HOUR", None, ("INTERVAL '5' HOUR",)),
    Kind("INTERVAL YEAR TO MONTH", None, ("INTERVAL '1-2' YEAR TO MONTH",)),
    Kind("ARRAY<INT>", None, ("array(1, NULL)", "array()")),
    Kind("MAP<STRING, INT>", None, ("map('a', 1)",)),
    Kind("STRUCT<a: INT, b: STRING>", None, ("named_struct('a', 1, 'b', NULL)",)),
    Kind("ARRAY<STRUCT<m: MAP<STRING, ARRAY<DECIMAL(38,18)>>>>", None, ("array()",)),
    Kind("VARIANT", None, ("parse_json('{\"a\": [1, null]}')",)),
    Kind("VOID", None, ("NULL",)),
)
USABLE = [kind for kind in KINDS if kind.type]
DAYS = ("0001-01-01", "1582-10-14", "1500-02-28", "1969-12-31", "2026-03-08", "9999-12-28")
STARTS = ("0001-01-01 00", "1500-02-28 22", "1969-12-31 23", "2026-03-08 01", "2026-11-01 00")
STARTS += ("9999-12-31 20", "1883-11-18 16")


@dataclass(frozen=True)
class Clock:
    """A type of times: the length of a tick, where times may start, and a step of one tick."""

    sql: str
    tick: str
    starts: tuple[str, ...]
    step: str

    def at(self, start: str, steps: int) -> str:
        return f"{start} + {steps} * {self.step}"


HOURS = "INTERVAL '1' HOUR"
CLOCKS = (
    Clock("BIGINT", "", ("0L", "-4611686018427387903L", "4611686018427387900L"), "1L"),
    Clock("TINYINT", "", ("CAST(-128 AS TINYINT)", "CAST(100 AS TINYINT)"), "1"),
    Clock("DATE", "tick 1d.", tuple(f"DATE'{day}'" for day in DAYS), "INTERVAL '1' DAY"),
    Clock("TIMESTAMP", "tick 1h.", tuple(f"TIMESTAMP'{s}:00:00Z'" for s in STARTS), HOURS),
    Clock("TIMESTAMP_NTZ", "tick 1h.", tuple(f"TIMESTAMP_NTZ'{s}:00:00'" for s in STARTS), HOURS),
)

# Rules, with the statement that says the same of `f`, the rows of which may be facts.
RULES = {
    "copy": ("O(X, Y) @ T :- r(X, Y) @ T.", "SELECT DISTINCT x, y, at FROM f WHERE {x} AND {y}"),
    "next": (
        "O(X) @ T :- r(X, _) @ T-1, r(X, _) @ T.",
        "SELECT DISTINCT b.x, b.at FROM (SELECT * FROM f WHERE {x}) a"
        " JOIN f b ON a.x = b.x AND b.at = a.at + {step}",
    ),
    "less": (
        "O(X, Y) @ T :- r(X, Y) @ T, X < Y.",
        "SELECT DISTINCT x, y, at FROM f WHERE {x} AND {y} AND x < y",
    ),
    "count": (
        "O(X, N) @ T :- r(X, _) @ T, N = count(r(X, _) @ [T-1, T]).",
        "WITH g AS (SELECT DISTINCT x, y, at FROM f WHERE {x} AND {y})"
        " SELECT b.x, count(*) AS n, b.at FROM (SELECT DISTINCT x, at FROM g) b"
        " JOIN g ON g.x = b.x AND g.at IN (b.at, b.at - {step}) GROUP BY b.x, b.at",
    ),
}

SETTINGS: dict[str, tuple[str, ...]] = {
    "spark_sql_session_timeZone": ("America/New_York", "Asia/Kathmandu", "UTC", "+14:00"),
    "spark_sql_ansi_enabled": ("true", "false"),
    "spark_sql_legacy_timeParserPolicy": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark_sql_caseSensitive": ("true", "false"),
    "spark_sql_timestampType": ("TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
    "spark_sql_parquet_fieldId_read_enabled": ("true", "false"),
    "spark_sql_parquet_fieldId_write_enabled": ("true", "false"),
    "spark_sql_parquet_datetimeRebaseModeInRead": ("LEGACY", "CORRECTED", "EXCEPTION"),
    "spark_sql_parquet_int96RebaseModeInRead": ("LEGACY", "CORRECTED"),
    "spark_sql_parquet_outputTimestampType": ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"),
    "spark_sql_parquet_inferTimestampNTZ_enabled": ("true", "false"),
    "spark_sql_parquet_writeLegacyFormat": ("true", "false"),
    "spark_sql_parquet_enableVectorizedReader": ("true", "false"),
    "spark_sql_execution_arrow_maxRecordsPerBatch": ("2", "10000"),
    "spark_sql_execution_arrow_useLargeVarTypes": ("true", "false"),
    "spark_sql_execution_arrow_pyspark_enabled": ("true", "false"),
    "spark_sql_legacy_charVarcharAsString": ("true", "false"),
    "spark_sql_parser_escapedStringLiterals": ("false",),
    "spark_sql_ansi_doubleQuotedIdentifiers": ("true", "false"),
    "spark_sql_adaptive_enabled": ("true", "false"),
}


# Ways in: the facts as they are given, and the DataFrame whose rows they are


def _parquet(frame: DataFrame, folder: Path) -> DataFrame:
    frame.coalesce(1).write.parquet(str(folder / "r"))
    return frame.sparkSession.read.parquet(str(folder / "r"))


def _path(frame: DataFrame, folder: Path) -> tuple[Any, DataFrame]:
    _parquet(frame, folder)
    return str(folder / "r"), frame


def _read(frame: DataFrame, folder: Path) -> tuple[Any, DataFrame]:
    there = _parquet(frame, folder)
    return there, there


def _filtered(frame: DataFrame, folder: Path) -> tuple[Any, DataFrame]:
    there = _parquet(frame, folder).where("at IS NOT NULL OR x IS NULL OR true")
    return there.union(there), there


def _table(frame: DataFrame, folder: Path) -> tuple[Any, DataFrame]:
    frame.sparkSession.sql("DROP TABLE IF EXISTS generated_facts")
    frame.coalesce(1).write.option("path", str(folder / "t")).saveAsTable("generated_facts")
    return "generated_facts", frame.sparkSession.table("generated_facts")


def _view(frame: DataFrame, folder: Path) -> tuple[Any, DataFrame]:
    frame.createOrReplaceTempView("generated_view")
    return "generated_view", frame


def _delta(frame: DataFrame, folder: Path) -> tuple[Any, DataFrame]:
    deltalake.write_deltalake(str(folder / "d"), frame.toArrow())
    return f"delta:{folder / 'd'}", frame


WAYS: dict[str, Callable[[DataFrame, Path], tuple[Any, DataFrame]]] = {
    "frame": lambda frame, _: (frame, frame),
    "cached": lambda frame, _: (cached := frame.cache(), cached),
    "read": _read,
    "filtered": _filtered,
    "path": _path,
    "table": _table,
    "view": _view,
    "delta": _delta,
    "arrow": lambda frame, _: (frame.toArrow(), frame),
    "pandas": lambda frame, _: (frame.toArrow().to_pandas(), frame),
    "rows": lambda frame, _: (frame.toArrow().select(["x", "y", "at"]).to_pylist(), frame),
}
# Spark gives these the rows, so that nothing but a type may be refused.
OWN = {"frame", "cached", "read", "filtered", "view", "table"}


@dataclass(frozen=True)
class Combination:
    """What is tried at once."""

    x: Kind
    y: Kind
    other: Kind
    clock: Clock
    rule: str
    way: str
    declared: tuple[str, str]  # types in the rules
    settings: dict[str, str]
    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(number: int) -> Combination:
        random = Random(number)
        x = random.choice(USABLE if random.random() < 0.8 else KINDS)
        y = (
            x
            if random.random() < 0.4
            else random.choice(USABLE if random.random() < 0.9 else KINDS)
        )
        clock, rule = random.choice(CLOCKS), random.choice(list(RULES))
        if rule == "less" and "bool" in (x.type, y.type):
            rule = "copy"
        if rule == "less" and (x.type is None or x.type != y.type):
            y = x
        types = [k.type or "text" for k in (x, y)]
        if random.random() < (0.3 if "int" in types else 0):
            types = ["float" if type_ == "int" else type_ for type_ in types]
        if rule == "less" and types[0] != types[1]:
            rule = "copy"
        other = random.choice(KINDS)
        starts = random.sample(clock.starts, random.randint(1, 2))
        rows = []
        for _ in range(random.randint(1, 7)):
            at = clock.at(random.choice(starts), random.randint(0, 3))
            values = [
                "NULL" if random.random() < 0.1 else random.choice(kind.values)
                for kind in (x, y, other)
            ]
            values.append("NULL" if random.random() < 0.05 else at)
            rows.append(tuple(values))
        chosen = random.sample(sorted(SETTINGS), random.randint(0, 4))
        if random.random() < 0.6:
            chosen.append("spark_sql_session_timeZone")
        how = {name: random.choice(SETTINGS[name]) for name in sorted(set(chosen))}
        way = random.choice(list(WAYS))
        return Combination(x, y, other, clock, rule, way, (types[0], types[1]), how, tuple(rows))

    @property
    def program(self) -> tidelog.Program:
        x, y = self.declared
        rules = f"{self.clock.tick} input r(x: {x}, y: {y}) @ at. {RULES[self.rule][0]}"
        return tidelog.parse(rules)

    def frame(self, spark: SparkSession) -> DataFrame:
        types = [self.x.sql, self.y.sql, self.other.sql, self.clock.sql]
        casts = ", ".join(
            f"{name} AS {name}" if type_ == "VOID" else f"CAST({name} AS {type_}) AS {name}"
            for name, type_ in zip(("x", "y", "z", "at"), types, strict=True)
        )
        values = ", ".join(f"({', '.join(row)})" for row in self.rows)
        return spark.sql(f"SELECT {casts} FROM VALUES {values} AS v(x, y, z, at)")

    def expected(self, rows: DataFrame) -> list[tuple[Any, ...]]:
        """What Spark's SQL says."""
        used = rows.where("at IS NOT NULL").select("x", "y", "at")
        there = {
            name: f"{name} IS NOT NULL AND NOT coalesce(isnan(CAST({name} AS DOUBLE)), false)"
            if kind.sql in ("FLOAT", "DOUBLE")
            else f"{name} IS NOT NULL"
            for name, kind in (("x", self.x), ("y", self.y))
        }
        select = RULES[self.rule][1].format(**there, step=self.clock.step)
        select = re.sub(r"\bf\b", "{f}", select)
        return sorted(shown(rows.sparkSession.sql(select, f=used)), key=str)

    @property
    def is_refused(self) -> bool:
        """Whether a column of it has a type that rules cannot use.

        In a file or in memory, one of no values at all may be of any type.
        """
        none = {"VOID"} if self.way not in OWN else set()
        return any(kind.type is None and kind.sql not in none for kind in (self.x, self.y))

    @property
    def is_collated(self) -> bool:
        """Whether texts of a column are not compared by their bytes."""
        return any("COLLATE" in kind.sql and kind.type is None for kind in (self.x, self.y))

    def is_rounded(self, name: str) -> bool:
        """Whether decimals of a column are not what their floats are."""
        kind = self.x if name == "x" else self.y
        position = "xy".index(name)
        there = {row[position] for row in self.rows if "DECIMAL" in kind.sql} - {"NULL"}
        numbers = [Decimal(value.strip("'")) for value in there]
        return any(Decimal(repr(float(n))) != n for n in numbers)

    @property
    def has_no_float(self) -> bool:
        """Whether an integer is in a float column, and no float."""
        read = 1 if self.rule == "next" else 2
        sides = list(zip((self.x, self.y), self.declared, strict=True))[:read]
        return any(
            kind.sql == "BIGINT" and type_ == "float" and not self.has_floats(i)
            for i, (kind, type_) in enumerate(sides)
        )

    def has_floats(self, position: int) -> bool:
        """Whether all integers of a column are floats."""
        there = [row[position].strip("'") for row in self.rows if row[position] != "NULL"]
        return all(int(float(text)) == int(text) for text in there)


def shown(answers: DataFrame) -> list[tuple[Any, ...]]:
    """Rows whose times are texts and whose numbers are of one type each."""
    columns = []
    for field in answers.schema.fields:
        kind = field.dataType.typeName()
        cast = "STRING" if kind in ("date", "timestamp", "timestamp_ntz") else None
        cast = "DOUBLE" if kind in ("decimal", "float") else cast
        columns.append(f"CAST(`{field.name}` AS {cast})" if cast else f"`{field.name}`")
    rows = answers.selectExpr(*columns).collect()
    return [tuple(v + 0.0 if isinstance(v, float) else v for v in row) for row in rows]


def attempt(spark: SparkSession, it: Combination, folder: Path) -> str:
    """Try a combination; what came of it, in a word."""
    try:
        frame = it.frame(spark)
        facts, rows = WAYS[it.way](frame, folder)
        expected = None if it.is_refused else it.expected(rows)
    except (
        PySparkException,
        deltalake.exceptions.DeltaError,
        NotImplementedError,
        ArithmeticError,
    ):
        return "no such facts"  # Spark or Delta itself has no such rows
    except Exception as error:
        if type(error).__module__.startswith("pyarrow") or "for Delta Lake" in str(error):
            return "no such facts"
        raise
    if it.is_collated and it.way not in OWN:
        return "no such facts"  # what Spark gives away has no collation
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            answers = query(spark, it.program, "O", {"r": facts})
            found = sorted(shown(answers), key=str)
        except DataError as error:
            refused = str(error)
            found = []
        else:
            refused = ""
    if refused:
        assert re.search("`(x|y|at)`", refused), refused
        assert it.is_refused or it.has_no_float or it.way not in OWN, refused
        return "refused"
    assert not it.is_refused, f"{it.x.sql}, {it.y.sql} were taken"
    assert not it.has_no_float, found
    if it.is_rounded("x") or (it.is_rounded("y") and it.rule != "next"):
        assert any("more than 15" in str(one.message) for one in said), "no warning"
        return "warned"
    assert found == expected, (found, expected)
    time = answers.schema["time"].dataType
    assert time.typeName() == (frame.schema["at"].dataType.typeName() if it.clock.tick else "long")
    return "equal"


@pytest.mark.grows
def test_any_facts_give_what_sql_gives_or_are_refused(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outcomes: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(COMBINATIONS):
        it = Combination.of(number)
        folder = tmp_path_factory.mktemp("facts")
        try:
            with settings(spark, **it.settings):
                outcome = attempt(spark, it, folder)
        except Exception as error:
            wrong.append(f"{number}: {it}\n    {type(error).__name__}: {error}"[:3000])
            outcome = "wrong"
        finally:
            spark.catalog.clearCache()
        outcomes[outcome] += 1
        ways[it.way] += outcome == "equal"
    spark.sql("DROP TABLE IF EXISTS generated_facts")
    assert not wrong, f"{len(wrong)} of {COMBINATIONS}, {outcomes}:\n" + "\n".join(wrong[:20])
    # Most combinations get past a refusal, and all ways are among them once there are many.
    assert outcomes["equal"] + outcomes["warned"] >= 0.6 * COMBINATIONS, outcomes
    assert outcomes["equal"] >= 0.4 * COMBINATIONS, outcomes
    assert outcomes["refused"] > 0, outcomes
    assert COMBINATIONS < 200 or set(ways) == set(WAYS), ways
