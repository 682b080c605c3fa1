"""Rows that rules do not tell apart are warned of, and nothing else is."""

import random
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.data import repeats
from tidelog.errors import TidelogWarning

REQUESTS = "input requests(service: text, status: int) @ time.\n"
READINGS = "input readings(device: text, sensor: text, v: float) @ at.\n"
COUNTED = f"{REQUESTS}Busy(S, N) @ T :- requests(S, _) @ T, N = count(requests(S, _) @ [T-4, T])."
HELPER = f"""{REQUESTS}Err(S) @ T :- requests(S, C) @ T, C >= 500.
Busy(S, N) @ T :- Err(S) @ T, N = count(Err(S) @ [T-4, T])."""
CARRIED = f"""{READINGS}Last(D, V) @ T :- readings(D, _, V) @ T.
Last(D, V) @ T+1 :- Last(D, V) @ T, not readings(D, _, _) @ T+1."""


def said(rules: str, query: str, facts: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TidelogWarning)
        tidelog.parse(rules).query(query, facts)  # type: ignore[arg-type]
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("rules", [COUNTED, HELPER])
@pytest.mark.parametrize("seed", range(3))
def test_equal_rows_that_a_rule_counts(rules: str, seed: int) -> None:
    random_ = random.Random(seed)
    rows = [
        (random_.choice("abc"), random_.choice([200, 500]), random_.randrange(9)) for _ in "x" * 30
    ]
    equal = sum(n for n in Counter(rows).values() if n > 1)
    assert said(rules, "Busy", {"requests": rows}) == [
        f"{equal} of 30 rows of `requests` are equal to another in all declared columns; equal rows"
        " are one fact, and a rule counts them: declare a column that tells them apart, such as an"
        " id"
    ]


@pytest.mark.parametrize("seed", range(3))
def test_values_of_a_tick_that_a_rule_carries_on(seed: int) -> None:
    random_ = random.Random(seed)
    rows = [
        (random_.choice("ab"), "x", float(random_.randrange(3)), random_.randrange(9))
        for _ in "x" * 20
    ]
    groups = defaultdict(list)
    for device, _, value, at in rows:
        groups[device, at].append(value)
    several = sum(len(values) for values in groups.values() if len(set(values)) > 1)
    assert said(CARRIED, "Last", {"readings": rows}) == [
        f"{several} of 20 rows of `readings` share device and at with a row of another v; `Last`"
        " carries each of them on: take shorter ticks, or let a rule choose one"
    ]


@pytest.mark.parametrize(
    ("rules", "query", "facts"),
    [
        (COUNTED, "Busy", {"requests": [("a", 500, 0), ("a", 500, 1), ("a", 200, 0)]}),
        (
            CARRIED,
            "Last",
            {"readings": [("a", "x", 1.0, 0), ("a", "x", 1.0, 0), ("b", "x", 2.0, 0)]},
        ),
        # Equal rows make no difference where nothing is counted.
        (f"{REQUESTS}P(S) @ T :- requests(S, _) @ T.", "P", {"requests": [("a", 1, 0)] * 2}),
        # The count belongs to another query.
        (f"{COUNTED} P(S) @ T :- requests(S, _) @ T.", "P", {"requests": [("a", 1, 0)] * 2}),
        # Two readings of a tick are of two sensors, and the key is a device and one of these.
        (
            f"""{READINGS}Last(D, V) @ T :- readings(D, heat, V) @ T.
            Last(D, V) @ T+1 :- Last(D, V) @ T, not readings(D, heat, _) @ T+1.""",
            "Last",
            {"readings": [("a", "heat", 1.0, 0), ("a", "wind", 2.0, 0)]},
        ),
        # A rule chooses one of the values.
        (
            f"""{READINGS}
            Best(D, V) @ T :- readings(D, _, _) @ T, V = max(W : readings(D, _, W) @ T).
            Last(D, V) @ T :- Best(D, V) @ T.
            Last(D, V) @ T+1 :- Last(D, V) @ T, not readings(D, _, _) @ T+1.""",
            "Last",
            {"readings": [("a", "x", 1.0, 0), ("a", "x", 2.0, 0)]},
        ),
    ],
)
def test_nothing_else(rules: str, query: str, facts: object) -> None:
    assert said(rules, query, facts) == []


def test_only_the_first_rows_of_a_long_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "MOST", 100)
    times = [t for t in range(1000) for _ in range(2)]
    columns = {"service": ["a"] * 2000, "status": [500] * 2000, "time": times}
    pq.write_table(pa.table(columns), tmp_path / "requests.parquet")
    (text,) = said(COUNTED, "Busy", str(tmp_path))
    assert text.startswith("100 of the first 100 rows of `requests` are equal to another")


def test_a_run_in_process_from_files_warns_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from click.testing import CliRunner

    from tidelog.cli import cli

    (tmp_path / "requests.csv").write_text("service,status,time\na,500,0\na,500,0\nb,500,1\n")
    (tmp_path / "r.tdl").write_text(COUNTED)
    asked = [
        "run",
        str(tmp_path / "r.tdl"),
        "--facts",
        str(tmp_path / "requests.csv"),
        "--engine",
        "duckdb",
    ]
    result = CliRunner().invoke(cli, asked)
    assert result.exit_code == 0, result.output
    assert result.stderr.count("2 of 3 rows of `requests` are equal to another") == 1
