"""The formatter keeps the meaning and every comment, and has nothing to do the second time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.deep import examples
from support.strategies import programs

from tidelog.language.diagnostics import ProgramError, Source
from tidelog.language.formatter import WIDTH, format_source
from tidelog.language.parser import parse_source
from tidelog.language.printer import print_program
from tidelog.language.program import Program
from tidelog.language.tokens import Kind, tokenize


def formatted(text: str) -> str:
    return format_source(Source("rules.tdl", text))


def comments(text: str) -> list[str]:
    """What the comments say, in order: spaces around it are the formatter's business."""
    tokens = tokenize(Source("", text), [])
    return [t.text[1:].strip() for t in tokens if t.kind is Kind.COMMENT]


# Between two tokens: nothing to several blank lines, and comments, which end their line.
spaces = st.sampled_from([" ", " ", "\n", "\n\n\n", "  \t", "\n    "])
remarks = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=6
).map(lambda text: f"%{text}\n") | st.sampled_from(["%\n", "%x\n", "%% y %\n", "% P(X) :- E(X).\n"])
gaps = st.lists(spaces | spaces | remarks, min_size=1, max_size=3).map("".join)


@st.composite
def scattered(draw: st.DrawFn) -> tuple[Program, str]:
    """A program and a text of it with spaces and comments anywhere between tokens."""
    program = draw(programs)
    tokens = [t for t in tokenize(Source("", print_program(program)), []) if t.text]
    pieces = [draw(gaps)] if draw(st.booleans()) else []
    for token in tokens:
        pieces += [token.text, draw(gaps)]
    return program, "".join(pieces)


@examples(100, deep=2500)
@given(scattered())
def test_meaning_comments_and_idempotence(example: tuple[Program, str]) -> None:
    program, text = example
    result = formatted(text)
    parsed = parse_source(Source("", result))
    assert parsed.diagnostics == ()
    assert parsed.program == program
    assert comments(result) == comments(text)
    assert formatted(result) == result


@examples(40, deep=1000)
@given(scattered())
def test_layout(example: tuple[Program, str]) -> None:
    lines = formatted(example[1]).split("\n")
    assert lines[-1] == ""
    assert all(line == line.rstrip() for line in lines)
    assert all(a or b for a, b in pairwise(lines[:-1])), "two blank lines"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("\n\n", ""),
        ("p(X)@T:-e( X )@T -1,X!=-3.", "p(X) @ T :- e(X) @ T-1, X != -3.\n"),
        ("P @-5.P@T:-E@T + 1.", "P @ -5.\nP @ T :- E @ T+1.\n"),
        ("input  E(a:text,\n b)@time  .", "input E(a: text, b) @ time.\n"),
        ("output P,Q( a ,b ).", "output P, Q(a, b).\n"),
        ("P(a).\n\n\n\nP(b).", "P(a).\n\nP(b).\n"),
        ("\n\n%why\nP(a).% because", "% why\nP(a).  % because\n"),
        ("%%% Banner\n%\n%-----\nP(a).", "%%% Banner\n%\n%-----\nP(a).\n"),
        ("P(a).   %", "P(a).  %\n"),
        (
            "P(X) :- % first\nE(X), % second\n% third\nF(X).",
            "P(X) :-  % first\n    E(X),  % second\n    % third\n    F(X).\n",
        ),
        ("P(X, % x\nY) :- E(X,Y).", "P(X,  % x\n    Y) :-\n    E(X, Y).\n"),
        (
            "P(X)@[ T ,T +9 ]:-not  at least 3 E(X)@[T -2,T],some\nF @[-5 , -3].",
            "P(X) @ [T, T+9] :- not at least 3 E(X) @ [T-2, T], some F @ [-5, -3].\n",
        ),
        (
            "P(X) @ T :- always E(X) @ [T-2, % why\nT].",
            "P(X) @ T :-\n    always E(X) @ [T-2,  % why\n    T].\n",
        ),
        ("P @ T :- some E @ [T-4..T].", None),
        ("X==1.", None),
    ],
)
def test_examples(before: str, after: str | None) -> None:
    if after is None:
        with pytest.raises(ProgramError):
            formatted(before)
    else:
        assert formatted(before) == after


def test_equality_is_left_as_it_was_written() -> None:
    assert formatted("P(X) :- E(X), X==a, X=b.") == "P(X) :- E(X), X == a, X = b.\n"


def test_text_is_left_as_it_was_written() -> None:
    """Escapes and quotes are the author's choice, even where they are not needed."""
    assert formatted('P("a", "\\u{e9}","x  y").') == 'P("a", "\\u{e9}", "x  y").\n'


def test_long_rules_have_a_literal_a_line() -> None:
    names = [f"Predicate{i}" for i in range(12)]
    rule = "P(X) :- " + ", ".join(f"{n}(X, Y)" for n in names) + "."
    lines = formatted(rule).split("\n")
    assert lines[0] == "P(X) :-"
    assert lines[1:-1] == [f"    {n}(X, Y)," for n in names[:-1]] + [f"    {names[-1]}(X, Y)."]


def test_a_rule_that_just_fits_stays_on_its_line() -> None:
    fits = "P(X) :- E(" + "x" * (WIDTH - len("P(X) :- E().")) + ")."
    assert len(fits) == WIDTH
    assert formatted(fits) == fits + "\n"
    too_long = fits.replace("x)", "xx)")
    assert formatted(too_long).count("\n") == 2


def test_syntax_errors_are_refused_all_at_once() -> None:
    with pytest.raises(ProgramError) as raised:
        formatted("P(X :- E.\nQ(X) :- .\nR(a).\n")
    assert [d.origin.line for d in raised.value.diagnostics] == [1, 2]


def test_other_errors_are_no_obstacle() -> None:
    """Rules that are wrong can still be laid out."""
    assert formatted("P(X):-E(Y).") == "P(X) :- E(Y).\n"
