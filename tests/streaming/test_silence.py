"""Inputs that fall silent, and heartbeats: what holds time back in process, and what does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tidelog
from tidelog.cli import cli
from tidelog.data.letters import DeadLetter
from tidelog.data.schema import resolve, schemas
from tidelog.errors import DataError
from tidelog.pipeline.plan import pipeline_plan
from tidelog.streaming.clock import Clock, Pace
from tidelog.streaming.feeds import Lines
from tidelog.streaming.options import StreamOptions, expect_inputs, silences
from tidelog.streaming.silence import Silence, patiently
from tidelog.views.pipeline import json_of, lines_of

RULES = """
input E(x: text) @ time.
input F(x: text) @ time.
Both(X) @ T :- E(X) @ T, F(X) @ T.
Alone(X) @ T :- E(X) @ T.
"""


class Wall:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def fed(*steps: str | float, lateness: int = 0, idle: str = "5s") -> tuple[Lines, list[Any]]:
    """Lines such as `E 3`, heartbeats such as `3`, and seconds in which nothing comes."""
    known = schemas(resolve(tidelog.parse(RULES), {}))
    wall, limits = Wall(), StreamOptions(idle=silences(idle)).silence_limits(known)
    lines = Lines(known, known, Pace(tuple(known), lateness), None)
    lines.silence = Silence(limits, wall)

    def arriving() -> Any:
        for step in steps:
            if isinstance(step, float):
                wall.seconds += step
                yield None
            elif " " in step:
                name, time = step.split()
                yield json.dumps({"predicate": name, "x": "a", "time": int(time)}).encode()
            else:
                yield json.dumps({"time": int(step)}).encode()

    return lines, [(tick, sorted(facts)) for tick, facts in lines.pushes(arriving())]


def test_an_input_that_goes_silent_lets_the_others_go_on() -> None:
    lines, pushes = fed("E 1", "F 1", "E 5", 6.0, "E 6", "E 7")
    assert pushes == [(0, ["E", "F"]), (4, ["E"]), (5, ["E"]), (6, ["E"])]
    assert (lines.tin, lines.idle) == (6, ("F",))
    assert lines.pace.waits_for(lines.clock) == ("E",)


def test_silence_is_noticed_where_nothing_comes_at_all() -> None:
    lines, pushes = fed("E 1", "F 1", "E 5", 6.0)
    # Both are silent: time stays where the furthest has brought it, and the last tick is open.
    assert pushes[:2] == [(0, ["E", "F"]), (4, ["E"])]
    assert (lines.tin, lines.idle, lines.pace.waits_for(lines.clock)) == (4, ("E", "F"), ())


def test_an_input_that_never_came() -> None:
    lines, pushes = fed("E 1", "E 2", 3.0, "E 3", 3.0, "E 4")
    assert pushes[0] == (2, ["E"])
    assert (lines.tin, lines.idle) == (3, ("F",))


def test_what_comes_back_is_late_and_says_why() -> None:
    lines, _ = fed("E 1", "F 1", "E 5", 6.0, "E 9", "F 3", "F 9", "E 12")
    # F holds time back again, from where it came back.
    assert (lines.tin, lines.idle) == (8, ())
    assert lines.pace.waits_for(lines.clock) == ("F",)
    assert [(n, r) for n, r in lines.late] == [("F", ("a", 3))]
    ((letter,),) = lines.late.values()
    assert isinstance(letter, DeadLetter)
    assert letter.reason == (
        "late: tick 3 came after everything up to 8 had arrived; time had gone on without F, which"
        " was silent"
    )


def test_without_idle_nothing_goes_on() -> None:
    known = schemas(resolve(tidelog.parse(RULES), {}))
    lines = Lines(known, known, Pace(tuple(known)), None)
    assert not lines.silence.silent()
    assert list(lines.pushes([None, None])) == []
    assert lines.pace.waits_for(lines.clock) == ("E", "F")


@pytest.mark.parametrize("lateness", [0, 2])
def test_heartbeats_move_time_whatever_the_lateness(lateness: int) -> None:
    lines, pushes = fed("E 1", "7", "E 9", "8", "3", lateness=lateness)
    assert pushes[:2] == [(6 + lateness, ["E"]), (7 + lateness, ["E"])]
    assert lines.tin == 7


def test_a_heartbeat_is_a_sign_of_life() -> None:
    lines, _ = fed("E 1", "F 1", 4.0, "2", 4.0, "E 9")
    assert (lines.tin, lines.idle) == (1, ())


def test_named_silences() -> None:
    lines, _ = fed("E 1", "F 1", 6.0, "E 9", idle="5s")
    assert lines.tin == 8
    options = StreamOptions.of(None, None, idle={"F": "5m"})
    assert options.silence_limits(["E", "F"]) == {"F": 300.0}
    for wrong in ("soon", "5", "0s", 5):
        with pytest.raises(ValueError, match="idle is a length of time on the clock"):
            StreamOptions.of(None, None, idle=wrong)
    with pytest.raises(DataError, match="`G` may be idle, and is no temporal input"):
        expect_inputs({"G": 1}, {"E"})


def test_a_sparse_input_leads_when_all_others_are_idle() -> None:
    pace = Pace(("E", "F"), sparse=frozenset({"F"}))
    clock = Clock().after(3, {"E": 3, "F": 8}, pace)
    assert clock.tin == 2
    assert clock.after(None, {}, pace, silent=["E"]).tin == 7


def test_time_never_goes_back() -> None:
    pace = Pace(("E", "F"))
    clock = Clock().after(1, {"E": 9, "F": 1}, pace).after(None, {}, pace, silent=["F"])
    assert (clock.tin, clock.idle, clock.overtaken) == (8, ("F",), {"F": 8})
    back = clock.after(3, {"F": 3}, pace, silent=["F"], heard=["F"])
    assert (back.tin, back.idle, back.overtaken) == (8, (), {"F": 8})
    assert pace.waits_for(back) == ("F",)


def test_lines_of_a_reader_that_fails() -> None:
    def broken() -> Any:
        yield b"a"
        raise OSError("gone")

    arriving = patiently(broken(), lambda: None)
    assert next(arriving) == b"a"
    with pytest.raises(OSError, match="gone"):
        next(arriving)


def test_a_plan_says_whom_tin_waits_for() -> None:
    plan = pipeline_plan(tidelog.parse(RULES), ("Both", "Alone"), StreamOptions(sparse=()))
    assert "            of E and F: tin waits for each" in lines_of(plan)
    assert json_of(plan)["waits_for"] == ["E", "F"]
    sparse = pipeline_plan(tidelog.parse(RULES), ("Both",), StreamOptions(sparse=("F",)))
    assert json_of(sparse)["waits_for"] == ["E"]
    assert "waits" not in "\n".join(lines_of(sparse))


def test_a_run_says_who_held_time_back(tmp_path: Path) -> None:
    (tmp_path / "r.tdl").write_text(RULES)
    lines = [("E", 1), ("E", 9), ("F", 4)]
    given = "".join(f'{{"predicate": "{n}", "x": "a", "time": {t}}}\n' for n, t in lines)
    words = ["run", str(tmp_path / "r.tdl"), "--facts", "-", "--idle", "F=1h", "--keep-open"]
    told = CliRunner().invoke(cli, [*words, "--metrics", str(tmp_path / "m")], input=given)
    assert told.stderr.splitlines()[-2:] == [
        "3 facts in 1 batch, 1 answer; complete up to 3, answered up to 3",
        "time waits for F; see --idle and --sparse",
    ]
    (step,) = map(json.loads, (tmp_path / "m").read_text().splitlines())
    assert (step["tin"], step["waits_for"], step["idle"]) == (3, ["F"], [])
    for wrong, said in (("soon", "--idle: idle is a length"), ("G=1s", "`G` may be idle")):
        refused = CliRunner().invoke(cli, [*words, "--idle", wrong], input=given)
        assert refused.exit_code != 0
        assert said in refused.stderr
