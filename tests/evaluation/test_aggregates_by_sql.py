"""Aggregates against SQL that is written row by row, over the data of the examples."""

from __future__ import annotations

from datetime import datetime

import duckdb
import pytest
from support.places import ROOT

import tidelog

PAY = ROOT / "examples" / "payments"
FARM = ROOT / "examples" / "la_haute_borne"
# A minute is a tick.
PAID = f"""(SELECT *, epoch_us("at") // 60000000 AS t FROM '{PAY}/facts/Pay.csv')"""
SCADA = f"(SELECT DISTINCT * FROM '{FARM}/facts/Scada.parquet')"
# A row for each of the ticks that a reading is looked at.
LATER = f"(SELECT *, time + ago AS later FROM {SCADA} s, range(6) r(ago))"

BUSY = f"""
    SELECT DISTINCT p.card, count(DISTINCT q), p.t FROM {PAID} p, {PAID} q
    WHERE q.card = p.card AND q.t BETWEEN p.t - 9 AND p.t GROUP BY p.card, p.id, p.t
    HAVING count(DISTINCT q) >= 4
"""
LARGEST = f"""
    SELECT p.id, p.amount, p.t FROM {PAID} p
    WHERE p.amount = (SELECT max(q.amount) FROM {PAID} q WHERE q.t = p.t)
"""
FARM_POWER = f"SELECT sum(power_kw), time FROM {SCADA} s GROUP BY time"
SILENT = f"""
    SELECT p.turbine, count(*), p.time FROM (SELECT DISTINCT turbine, time FROM {SCADA} r) p,
    {LATER} q WHERE q.turbine = p.turbine AND q.later = p.time
    GROUP BY p.turbine, p.time HAVING count(*) < 4
"""
HOUR = f"""
    SELECT p.turbine, CAST(sum(q.power_kw) AS DOUBLE) / count(*), p.time
    FROM (SELECT DISTINCT turbine, time FROM {SCADA} r) p, {LATER} q
    WHERE q.turbine = p.turbine AND q.later = p.time
    GROUP BY p.turbine, p.time
"""


def rows(program: str, facts: str, query: str, tick: str | None = None) -> set[tuple[object, ...]]:
    table = tidelog.load(program).query(query, facts, tick=tick)
    return set(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(("query", "sql"), [("Busy", BUSY), ("Largest", LARGEST)])
def test_payments(query: str, sql: str) -> None:
    got = rows(str(PAY / "totals.tdl"), str(PAY / "facts" / "Pay.csv"), query, "1m")
    with duckdb.connect() as connection:
        want = set(connection.execute(sql).fetchall())
    assert {(*row[:-1], minute(row[-1])) for row in got} == want


def minute(moment: object) -> int:
    assert isinstance(moment, datetime)
    return int(moment.timestamp()) // 60


@pytest.mark.parametrize(
    ("query", "sql"), [("Farm", FARM_POWER), ("Silent", SILENT), ("Hour", HOUR)]
)
def test_a_wind_farm(query: str, sql: str) -> None:
    got = rows(str(FARM / "fleet.tdl"), str(FARM / "facts" / "Scada.parquet"), query)
    with duckdb.connect() as connection:
        assert got == set(connection.execute(sql).fetchall())
