"""The plan of a pipeline is what `explain` shows and what runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import tidelog
from tidelog.cli import cli
from tidelog.pipeline.plan import OnlineWork, pipeline_plan
from tidelog.spark import stream
from tidelog.streaming.options import StreamOptions
from tidelog.views.pipeline import json_of, lines_of

RULES = """
input E(x: text) @ t. input N(x: text, y: text).
S(X) @ T :- E(X) @ T, E(X) @ T-3.
R(Y) @ T :- S(X) @ T, N(X, Y).
R(X) @ T+1 :- R(X) @ T, E(X) @ T+1.
"""


def test_explain_shows_the_plan_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "facts" / "E").mkdir(parents=True)
    (tmp_path / "facts" / "E" / "0.csv").write_text("x,t\na,0\n")
    (tmp_path / "facts" / "N.csv").write_text("x,y\na,b\n")
    (tmp_path / "rules.tdl").write_text(RULES)
    running = stream(spark, tidelog.parse(RULES), ["R"], inputs=tmp_path / "facts")
    running.stop()
    words = ["explain", str(tmp_path / "rules.tdl"), "--query", "R", "--show", "pipeline"]
    shown = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert [line[2:] for line in shown.stdout.splitlines()[1:]] == lines_of(running.plan)


def test_what_one_stage_derives_for_another_goes_by_the_users_name() -> None:
    plan = pipeline_plan(tidelog.parse(RULES), ("R",))
    assert json_of(plan)["stages"] == [
        {
            "kind": "keyed",
            "derives": ["S"],
            "sends": [{"predicate": "R", "settles": 0}],
            "key": {"E": 1, "S": 1},
            "because": "",
        },
        {"kind": "keyed", "derives": ["R"], "sends": [], "key": {"E": 1, "R": 1}, "because": ""},
    ]
    assert ">" not in "\n".join(lines_of(plan))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (StreamOptions(), "  state   E: 3 ticks; S @ T looks at E @ T-3"),
        (StreamOptions(mode="online"), "  turn    when everything up to tin has arrived"),
        (StreamOptions(mode="online"), "  whole   in the driver: a rule shares no argument"),
        (StreamOptions(mode="online"), "  state   E: facts that are live;"),
    ],
)
def test_modes_and_styles_show(options: StreamOptions, wanted: str) -> None:
    lines = lines_of(pipeline_plan(tidelog.parse(RULES), ("R",), options))
    assert any(line.startswith(wanted) for line in lines), lines


def test_the_strict_style_shows_its_window() -> None:
    program = tidelog.parse("P(X) @ T+1 :- E(X) @ T, E(X) @ T+1.")
    plan = pipeline_plan(program, ("P",), StreamOptions(history="strict"))
    kept = "  state   E: 1 tick; the strict style keeps input facts in the window"
    assert kept in lines_of(plan)


def test_what_a_first_start_settled_is_not_looked_for_again() -> None:
    program = tidelog.parse(RULES)
    settled = {"delays": {"R": 7}, "large": ["N"], "window": None}
    plan = pipeline_plan(program, ("R",), settled=settled)
    identity = plan.identity("memory")
    assert {name: identity[name] for name in settled} == settled


def test_online_leaves_out_queries_without_any_time() -> None:
    program = tidelog.parse("P(X) @ T :- E(X) @ T. Q(X) :- N(X, Y).")
    plan = pipeline_plan(program, ("Q", "P"), StreamOptions(mode="online"))
    assert isinstance(plan.work, OnlineWork)
    assert (plan.work.shards.deps.queries, plan.constant) == (("P",), ["Q"])
