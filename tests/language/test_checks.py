"""Each check, at its edges; the rendered texts are cases (tests/cases)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidelog
from tidelog import Code, ProgramError, Severity
from tidelog.language.checks import Similar, check, derivable_predicates
from tidelog.language.diagnostics import Diagnostic, Source, render
from tidelog.language.program import Origin


def codes(text: str) -> list[str]:
    return [d.code.id for d in check(text).diagnostics]


def diagnostics(text: str, code: Code) -> list[Diagnostic]:
    return [d for d in check(text).diagnostics if d.code is code]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("P(X) @ T :- E(X) @ T.", []),
        ("P(X) @ T :- E(X) @ T+1, F(X) @ T.", []),
        # safety
        ("P(X) :- E(Y), F(Y).", ["E101"]),
        ("P(X) @ T :- E(X).", ["E101"]),
        ("P @ T :- E @ T, X > 1.", ["E102"]),
        ("P :- E(X), X > Y, Y > 1.", ["E102"]),
        ("P(X, X) :- E, X = 1.", []),
        ("P(X, X) :- X = 1.", ["E101"]),
        ("P(X, X) :- E, X = Y.", ["E101", "E102"]),
        ("P(X, X) :- E, 1 = X.", ["E101"]),
        ("P(X) :- E(Y), X = Y + 1.", []),
        ("P(X) :- P(Y), X = Y + 1. P(1).", ["E208"]),
        ("P(X) :- P(Y), X = Y. P(1).", []),
        ("P(X) :- Q(Y), X = Y + 1. Q(X) :- P(X). P(1).", ["E208"]),
        ("P(X) :- E(X), X + 1 > 2.", []),
        ("P(X) :- E(X), X + a = X.", ["E203"]),
        ("P(_) :- E(_).", ["E101"]),
        ("P(X).", ["E101"]),
        ("P(a) @ T.", ["E101"]),
        ("P(a) @ 3.", []),
        ("P :- 1 < 2.", []),
        # one name for a time and an object
        ("P(T) @ T :- E(T) @ T.", ["E103"]),
        ("P(X) @ T :- E(X) @ T, T < 5.", ["E103"]),
        # arity and sort
        ("P(X) :- E(X), E(X, X).", ["E201"]),
        ("P(X) :- E(X). P(a, b).", ["E201"]),
        ("P(X) @ T :- E(X) @ T, E(X).", ["E202"]),
        ("P(X) :- E(X). P(a) @ 3.", ["E202"]),
        ("input E(a) @ t. P(X) :- E(X).", ["E202"]),
        ("input E(a). input F(a) @ t. P(X) @ T :- E(X) @ T, F(X, X).", ["E202", "E201", "E202"]),
        # declarations
        ("input E(a). input E(a). P(X) :- E(X).", ["E204"]),
        ("output P, P. P(X) :- E(X).", ["E204"]),
        ("output P. output P. P(X) :- E(X).", ["E204"]),
        ("input E(a, a). P(X) :- E(X, X).", ["E204"]),
        ("input E(a) @ a. P(X) @ T :- E(X) @ T.", ["E204"]),
        ("output P(time). P(X) @ T :- E(X) @ T.", ["E204"]),
        ("output P(time). P(X) :- E(X).", []),
        ("output P(a, b). P(X) :- E(X).", ["E201"]),
        ("output Q. P(X) :- E(X).", ["E205"]),
        ("output E. P(X) :- E(X).", []),
        # what nothing can derive
        ("P(X) :- P(X).", ["W302"]),
        ("P(X) :- Q(X). Q(X) :- P(X).", ["W302", "W302"]),
        ("P(X) :- Q(X). Q(X) :- P(X). P(a).", []),
        ("P(X) :- P(X). P(X) :- E(X).", []),
        # unused
        ("input E(a).", ["W303"]),
        ("input E(a). output E.", []),
        ("input E(a). E(b).", []),
        # once
        ("P :- E(X).", ["W304"]),
        ("P :- E(_X).", []),
        ("P :- E(X, X).", []),
        ("P :- E @ T.", ["W304"]),
        # twice the same
        ("P(X) :- E(X). P(Y) :- E(Y).", ["W305"]),
        ("P(X) @ T :- E(X) @ T-1. P(X) @ T+1 :- E(X) @ T.", ["W305"]),
        ("P(X) @ T :- E(X) @ T-1. P(X) @ T :- E(X) @ T.", []),
        ("P(X) :- E(X), F(X). P(X) :- F(X), E(X).", ["W305"]),
        ("P(X) :- E(X), E(X). P(X) :- E(X).", ["W305"]),
        ("P(X, Y) :- E(X, Y). P(X, Y) :- E(Y, X).", []),
        ("P(1). P(1.0).", []),
        ('P("1"). P(1).', ["E203"]),
        ("P @ 1. P @ 1. P @ 2.", ["W305"]),
    ],
)
def test_codes(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


def test_findings_that_need_the_whole_file_wait_until_it_can_be_read() -> None:
    """A rule that could not be read may define what seems to be missing."""
    text = "input E(a: text). output Q. P(X) :- Falg(X). R(X) :- R(X). Flag(X) :- E(X)"
    assert codes(text) == ["E001"]
    assert set(codes(text + ".")) == {"E205", "W301", "W302"}


def test_errors_of_rules_that_could_be_read_do_not_wait() -> None:
    assert codes("P(X) :- E(Y), F(Y). Q(") == ["E101", "E001"]


def test_everything_is_sorted_by_place() -> None:
    text = "P(X) :- E(Y, Z), F(Z).\ninput E(a, a).\nP(X) :- Q(X, X.\n"
    places = [(d.origin.line, d.origin.column) for d in check(text).diagnostics]
    assert places == sorted(places)
    assert len(places) >= 4


# Did you mean


@pytest.mark.parametrize(
    ("known", "wrong", "meant"),
    [
        ("Flag", "Falg", "Flag"),
        ("Flag", "Flg", "Flag"),
        ("Flag", "Flaag", "Flag"),
        ("Flag", "Flap", "Flag"),
        ("Flag", "flag", "Flag"),
        ("Flag", "FLAG", "Flag"),
        ("Flag", "Cool", None),
        ("Flag", "Fl", None),
        ("E", "F", None),
        ("E", "e", "E"),
        ("Step1", "Step2", None),
        ("Step10", "Step1", None),
        ("Step1", "Stpe1", "Step1"),
        ("Überhitzt", "Uberhitzt", "Überhitzt"),
    ],
)
def test_similar_names(known: str, wrong: str, meant: str | None) -> None:
    assert Similar([known, "Zebra"]).to(wrong) == meant


def test_the_nearest_name_is_meant() -> None:
    assert Similar(["Temps", "Tamp", "temp"]).to("Temp") == "temp"
    assert Similar(["Shutdown", "Shutdowns"]).to("Shutdwon") == "Shutdown"


def test_a_name_is_not_similar_to_itself() -> None:
    assert Similar(["Flag"]).to("Flag") is None


def test_undeclared_names_are_reported_once() -> None:
    text = "input Temp(a: text). P(X) :- Tmep(X). Q(X) :- Tmep(X)."
    assert len(diagnostics(text, Code.UNDECLARED)) == 1


def test_a_file_without_declarations_may_leave_inputs_undeclared() -> None:
    assert codes("P(X) :- E(X), F(X).") == []
    assert codes("input E(a). P(X) :- E(X), F(X).") == ["W301"]


def test_the_suggested_declaration_is_one() -> None:
    text = "input E(a: text). P(X) @ T :- E(X), Wind(X, V, _) @ T, V > 2.5.\n"
    (diagnostic,) = diagnostics(text, Code.UNDECLARED)
    assert diagnostic.hint is not None
    declaration = diagnostic.hint.split("`")[1]
    assert declaration == "input Wind(arg1: text, arg2: float, arg3) @ time."
    assert codes(declaration + text) == []


# Derivable: against the definition, by brute force


def test_derivable_predicates() -> None:
    text = "A :- B, C. B :- A. C :- E. B :- D. D :- F, D. G. H :- G, C. I :- H, B."
    program = check(text).program
    known = {"E", "F"}
    while True:
        more = {r.head.predicate for r in program.rules if {a.predicate for a in r.atoms} <= known}
        if more <= known:
            break
        known |= more
    assert known == {"E", "F", "C", "G", "H"}
    assert derivable_predicates(program) == known


# Cycles through `not`


def test_a_cycle_that_looks_ahead_beside_one_through_not() -> None:
    """Going round the first often enough, the second looks ahead, too."""
    text = "input E @ t. P @ T :- E @ T, not Q @ T-1. Q @ T :- P @ T. Q @ T :- Q @ T+1."
    (finding,) = check(text).errors
    assert finding.code is Code.NOT_STRATIFIED
    assert finding.hint is not None
    assert finding.hint.startswith("`Q` also needs itself at later ticks")


# Columns of answers


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("output P(a, b). P(X, Y) :- E(X, Y).", ("a", "b")),
        ("P(X, Device) :- E(X, Device).", ("x", "device")),
        ("P(a, X) :- E(X). P(Y, b) :- E(Y).", ("y", "x")),
        ("P(a, 1).", ("arg1", "arg2")),
        ("P(X, X) :- E(X).", ("x", "x2")),
        ("P(X, X, X2) :- E(X, X2).", ("x", "x3", "x2")),
        ("P(Time) @ T :- E(Time) @ T.", ("time2",)),
        ("input P(left, right).", ("left", "right")),
        ("input P(time, v) @ at. output P.", ("time2", "v")),
        ("P :- E.", ()),
    ],
)
def test_output_columns(text: str, columns: tuple[str, ...]) -> None:
    assert check(text).program.output_columns("P") == columns


def test_outputs() -> None:
    assert check("output Q. P :- E. Q :- P.").program.outputs == ("Q",)
    assert check("P :- E. Q :- P. P :- F.").program.outputs == ("P", "Q")


# The Python interface


def test_one_exception_carries_everything() -> None:
    with pytest.raises(ProgramError) as raised:
        tidelog.parse("P(X) :- E(Y).\nQ(X) :- E(X, Z), F(Z).\n", "my.tdl")
    error = raised.value
    assert [d.code.id for d in error.diagnostics] == ["E101", "W304", "E201"]
    assert {d.severity for d in error.diagnostics} == {Severity.ERROR, Severity.WARNING}
    assert "my.tdl:1:3" in str(error)


def test_warnings_are_no_exception() -> None:
    assert tidelog.parse("P :- E(X).").outputs == ("P",)


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "rules.tdl"
    path.write_bytes(b"\xef\xbb\xbfP(X) :- E(X).\r\n")
    assert tidelog.load(path).outputs == tidelog.load(str(path)).outputs == ("P",)
    path.write_bytes(b"P(\xff).")
    with pytest.raises(ProgramError, match="E002"):
        tidelog.load(path)
    with pytest.raises(FileNotFoundError):
        tidelog.load(tmp_path / "none.tdl")


# Rendering


def caret(text: str) -> str:
    """What the caret of the first diagnostic underlines, by its place in the rendered text."""
    report = check(text)
    shown = render(report.diagnostics[0], report.source).split("\n")
    line, marks = shown[3], shown[4]
    return line[marks.index("^") : marks.rindex("^") + 1]


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("P(Long, Y) :- E(Y).", "Long"),
        ("P(X) :-\n    E(X),\n    Other > 5.", "Other"),
        ("P(X)\t:-\tE(X),\tY > 1.", "Y"),
        ('P(X) :- E(X, "' + "x" * 200 + '"), Y > 1.', "Y"),
        ("P(X) :- E(X), Y > 1, " + ", ".join(["E(X)"] * 60) + ".", "Y"),
        ("P(X) :- F(X) :- G(X).", ":-"),
    ],
)
def test_the_caret_is_under_the_mistake(text: str, underlined: str) -> None:
    assert caret(text) == underlined


def test_wide_and_combining_characters_take_their_room() -> None:
    """Two cells for an ideograph, none for a mark on the letter before it."""
    report = check('P(X) :- E(X, "温度", "e\u0301"), Y > 1.')
    marks = render(report.diagnostics[0], report.source).split("\n")[4]
    before = 'P(X) :- E(X, "____", "e"), '
    assert marks == "  | " + " " * len(before) + "^"


def test_the_line_number_sets_the_margin() -> None:
    report = check("\n" * 11 + "P(X).")
    assert render(report.diagnostics[0], report.source).split("\n")[1:5] == [
        "  --> <text>:12:3",
        "   |",
        "12 | P(X).",
        "   |   ^",
    ]


def test_nothing_reaches_the_terminal_as_a_command() -> None:
    report = check('P(X) :- E("\x1b]0;x\x07\x9b31m").', "a\x1b[31m.tdl")
    assert report.diagnostics
    for diagnostic in report.diagnostics:
        assert all(c.isprintable() or c == "\n" for c in render(diagnostic, report.source))


def test_an_origin_at_the_very_end() -> None:
    source = Source("f", "P")
    assert source.origin(1, 2) == Origin("f", 1, 2, 1, 3)
    assert Source("f", "P\n").origin(2, 2) == Origin("f", 2, 1, 2, 1)


def test_json() -> None:
    report = check("P(X) :- E(X). P(X, Y) :- E(X), F(Y).", "my.tdl")
    (diagnostic,) = report.diagnostics
    data = json.loads(json.dumps(diagnostic.as_json()))
    place = {"file": "my.tdl", "line": 1, "column": 15, "end_line": 1, "end_column": 22}
    first = {"file": "my.tdl", "line": 1, "column": 1, "end_line": 1, "end_column": 5}
    assert data == {
        "code": "E201",
        "title": "arity clash",
        "severity": "error",
        "message": "`P` has 2 arguments here and 1 elsewhere",
        **place,
        "notes": [{"message": "here it has 1 argument", **first}],
        "hint": None,
    }


def test_codes_are_unique_and_say_their_severity() -> None:
    assert len({code.id for code in Code}) == len(Code)
    assert all(code.id[0] in "EWN" and code.id[1:].isdigit() for code in Code)
    assert {c.severity for c in Code if c.id[0] == "E"} == {Severity.ERROR}
