"""What is printed is read back as the same program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from support.deep import examples
from support.strategies import programs

from tidelog.language.checks import decode
from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.printer import print_program, print_rule, print_time, print_value
from tidelog.language.program import (
    NOWHERE,
    Atom,
    Comparison,
    Constant,
    Operator,
    Program,
    Rule,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
)
from tidelog.language.tokens import quote, unquote


@examples(120, deep=3000)
@given(programs)
def test_round_trip(program: Program) -> None:
    text = print_program(program)
    parsed = parse_source(Source("generated", text))
    assert parsed.diagnostics == ()
    assert parsed.program == program
    assert print_program(parsed.program) == text


@examples(80, deep=2000)
@given(programs)
def test_round_trip_through_bytes(program: Program) -> None:
    """As a file: encoded, decoded, line ends of another system."""
    raw = print_program(program).replace("\n", "\r\n").encode()
    source, unreadable = decode(b"\xef\xbb\xbf" + raw, "generated")
    assert unreadable is None
    assert parse_source(source).program == program


def test_every_construct_as_it_is_written() -> None:
    text = (
        "input Temp(device: text, level) @ time.\n"
        'input Flag("two words": bool).\n'
        "input Tick @ at.\n"
        'output P, Q(a, "b c").\n'
        'P(X, a, "A b", -1, 2.5, true) @ T+1 :- E(X, _) @ T-2, F @ 5, G(X), X != -3, X >= "B".\n'
        "P(a) @ -4.\n"
        "Alarm @ T :- E(_, _) @ T.\n"
        "P(a) @ [-4, 100].\n"
        "Q(X) @ [T, T+9] :- some F(X) @ [T-4, T], always G(X, _) @ [T+1, T+2], E(X, _) @ T.\n"
        "R(X) @ T :- at least 3 F(X) @ [T-59, T], not some F(X) @ [5, 6].\n"
        "R(X) @ T :- F(X) @ T, not at least 2 F(X) @ [T, T+1].\n"
        "clock Now.\n"
        "Lost(X) @ T :- F(X) @ T-1, not F(X) @ T, not E(X, _) @ T+1, not G(X), Now @ T.\n"
    )
    parsed = parse_source(Source("rules.tdl", text))
    assert parsed.diagnostics == ()
    assert print_program(parsed.program) == text


def test_equality_tells_values_and_types_apart() -> None:
    facts = [Rule(Atom("P", (Constant.of(v),))) for v in (1, 1.0, True, "1")]
    assert len(set(facts)) == 4


def test_origins_do_not_take_part_in_equality() -> None:
    here = parse_source(Source("a", "P(X) @ T :- E(X) @ T.")).program
    there = parse_source(Source("b", "\n\n  P( X )@T:-E(X)@T .")).program
    assert here == there
    assert here.rules[0].origin != there.rules[0].origin
    assert there.rules[0].origin.line == 3
    assert here.rules[0].origin != NOWHERE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("high", "high"),
        ("High", '"High"'),
        ("_x", '"_x"'),
        ("true", '"true"'),
        (True, "true"),
        ("", '""'),
        ("5", '"5"'),
        (-5, "-5"),
        (5.0, "5.0"),
        (1e300, "1e+300"),
        (-1e-7, "-1e-07"),
        ("é", "é"),
        ("É", '"É"'),
        ("温", "温"),
        ("a b", '"a b"'),
        ("\x00\x1b\u202e", '"\\u{0}\\u{1b}\\u{202e}"'),
        ("😀", '"😀"'),
    ],
)
def test_values(value: str | int | float | bool, text: str) -> None:
    assert print_value(value) == text
    parsed = parse_source(Source("", f"P({text}).")).program.rules[0].head.args[0]
    assert parsed == Constant.of(value)


def test_times() -> None:
    t = Variable("T")
    rule = Rule(
        Atom("P", (), TimeOffset(t, -1)),
        (
            Atom("E", (), TimeOffset(t)),
            Atom("F", (), TimePoint(-7)),
            Atom("G", (), TimeOffset(t, 12)),
            Comparison(Constant(1, Type.INT), Operator.LT, Constant(-2, Type.INT)),
        ),
    )
    assert print_rule(rule) == "P @ T-1 :- E @ T, F @ -7, G @ T+12, 1 < -2."


def test_quote_is_undone_by_unquote() -> None:
    everything = "".join(map(chr, [*range(0, 0x300), 0x2028, 0xFEFF, 0xE000, 0x1F600, 0x10FFFF]))
    assert "\n" not in quote(everything)
    assert unquote(quote(everything)) == everything


def test_printed_text_hides_nothing() -> None:
    """Characters that change how a line is shown are escaped: no invisible or reversed text."""
    shown = quote("a\u202eb\u200bc\x07\u2028")
    assert shown.isprintable()


TIMED = """tick 1m.
Lost(X) @ T :- Beat(X) @ T-10m, not some Beat(X) @ [T-9m, T].
Late(X) @ T+1h :- at least 2 Beat(X) @ [T-120s, T+3], Beat(X) @ T.
"""


def test_lengths_stay_as_they_were_written() -> None:
    parsed = parse_source(Source("timed", TIMED))
    assert parsed.diagnostics == ()
    assert print_program(parsed.program) == TIMED
    again = parse_source(Source("again", print_program(parsed.program)))
    in_ticks = TIMED.replace("10m", "10").replace("9m", "9").replace("1h", "60")
    ticks = parse_source(Source("ticks", in_ticks.replace("120s", "2")))
    assert parsed.program == again.program == ticks.program


def test_an_offset_that_was_changed_is_in_ticks() -> None:
    (rule, *_) = parse_source(Source("timed", TIMED)).program.rules
    (beat, *_) = rule.atoms
    assert isinstance(beat.time, TimeOffset)
    assert print_time(beat.time) == "T-10m"
    assert print_time(replace(beat.time, offset=-11)) == "T-11"
