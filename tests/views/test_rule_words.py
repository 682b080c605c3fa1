"""What commands print names windows and aggregates as rules do, never by the keys of passes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.places import ROOT

from tidelog.cli import cli

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/*.tdl") if ":-" in path.read_text())
# Keys: `R[at 1 of 4 (_,#0) ticks]`, `P[for 3 ticks]`, `R(a tick's sum: _1, #1)`, `E[in]`, `P>1`;
# names of variables that a pass makes; the place of clauses that nobody wrote.
INTERNAL = re.compile(
    r"\[(?:at|for) \d|\(a tick's|\((?:count|sum|avg|min|max)(?: of \d+ ticks)?:|#\w|\[in\]"
    r"|\w>\d|\w~|<generated>"
)
COMMANDS = [
    ("check",),
    ("analyze", "--budget", "0.3"),
    ("analyze", "--budget", "0.1", "--json"),
    ("explain", "--show", "class,graph,phi,pipeline"),
    ("explain", "--show", "class,pipeline", "--mode", "online"),
    ("explain", "--json", "--show", "class,graph,phi,pipeline"),
]


def printed(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code in (0, 1), done.output
    return done.output


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_a_key(path: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    text = printed(name, str(path.relative_to(ROOT)), *options)
    assert not [line for line in text.splitlines() if INTERNAL.search(line)]


RULES = {
    "counts": "P(S, N) @ T :- R(_, S) @ T, N = count(R(_, S) @ [T-4, T]).",
    "averages": "P(S, A) @ T :- R(_, S, _) @ T, A = avg(V : R(_, S, V) @ [T-4, T]).",
    "ahead": "P(X) @ T :- some P(X) @ [T+1, T+3]. P(X) @ T :- E(X) @ T.",
    "back": "P(X) @ T :- always P(X) @ [T-3, T-1]. P(X) @ T :- E(X) @ T.",
    "lasting": "P(X) @ [T, T+4] :- E(X) @ T. Q(X) @ T :- E(X) @ T, not P(X) @ T-1.",
    "counted": "Q(X) @ T :- E(X) @ T, count(Q(X) @ [T-9, T-1]) < 3.",
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("command", [*COMMANDS, ("delay",), ("window",)], ids=" ".join)
def test_nor_of_short_programs(rules: str, command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "rules.tdl"
    path.write_text(rules)
    name, *options = command
    query = () if name == "check" or "Q(" not in rules else ("--query", "Q")
    if name in ("delay", "window"):
        query = ("--query", "Q" if "Q(" in rules else "P")
    text = printed(name, str(path), *options, *query).replace(str(tmp_path), "")
    assert not [line for line in text.splitlines() if INTERNAL.search(line)]


def test_analyze_and_explain_say_the_same_of_windows(tmp_path: Path) -> None:
    """Rank, radius and state are those of the rules, not of the clauses that windows become."""
    path = tmp_path / "rules.tdl"
    path.write_text("D(X) @ T :- E(X) @ T, E(X) @ T-1. P(X) @ T :- always D(X) @ [T-9, T].")
    (found,) = json.loads(printed("analyze", str(path), "--query", "P", "--json"))["queries"]
    said = printed("explain", str(path), "--query", "P")
    assert (found["rank"], found["radius"], found["derived_state"]) == (2, 18, {"D": 9})
    assert re.search(r"rank +2\n +radius +18\n +state +older slices kept: D 9, E 1", said)
