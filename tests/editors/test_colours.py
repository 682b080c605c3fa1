"""Colours for docs and notebooks, and what the VS Code extension shares with the package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.token import Comment, Error, Keyword, Name, Number, String
from support.places import ROOT

from tidelog.lexer import TidelogLexer

VSCODE = ROOT / "editors" / "vscode"
RULES = sorted((ROOT / "examples").rglob("*.tdl"))


def kinds(text: str) -> list[tuple[object, str]]:
    return [(kind, value) for kind, value in TidelogLexer().get_tokens(text) if value.strip()]


def test_what_is_coloured_how() -> None:
    coloured = kinds('input E(a: text) @ time.\nP(X, "b") @ T+1 :- E(X) @ T, X != c.  % why\n')
    for expected in (
        (Keyword.Declaration, "input"),
        (Name.Class, "E"),
        (Name.Attribute, "a"),
        (Keyword.Type, "text"),
        (Name.Variable, "X"),
        (String.Double, '"b"'),
        (Name.Variable.Magic, "T"),
        (Number, "1"),
        (Name.Constant, "c"),
        (Comment.Single, "% why"),
    ):
        assert expected in coloured


def test_windows_are_coloured() -> None:
    coloured = kinds("Q(X) @ [T, T+9] :- always E(X) @ [T-4, T], not at least 3 F(X) @ [5, 9].\n")
    assert [text for kind, text in coloured if kind is Keyword.Declaration] == [
        "always",
        "not",
        "at",
        "least",
    ]
    assert [text for kind, text in coloured if kind is Name.Variable.Magic] == [*"TTTT"]
    assert Error not in [kind for kind, _ in coloured]


def test_calculations_are_coloured() -> None:
    coloured = kinds(
        "Q(D) @ T :- E(V, W) @ T-1, D = V - W * 2, abs(D) > least(V, abs(W)), abs(V) @ T.\n"
    )
    functions = [text for kind, text in coloured if kind is Keyword.Declaration]
    assert functions == ["abs", "least", "abs"]
    assert [text for kind, text in coloured if kind is Name.Class] == ["Q", "E", "abs"]
    assert [text for kind, text in coloured if kind is Name.Variable] == [*"DVWDVWDVWV"]
    assert [text for kind, text in coloured if kind is Name.Variable.Magic] == [*"TTT"]


def test_aggregates_are_coloured() -> None:
    coloured = kinds(
        "Q(A) @ T :- E(X) @ T, A = avg(V : F(X, V) @ [T-4, T]),"
        " count(F(X, b) @ T) > 2, sum(X) @ T.\n"
    )
    assert [text for kind, text in coloured if kind is Keyword.Declaration] == ["avg", "count"]
    assert [text for kind, text in coloured if kind is Name.Class] == [*"QEFF", "sum"]
    assert [text for kind, text in coloured if kind is Name.Variable] == [*"AXAVXVXX"]
    assert [text for kind, text in coloured if kind is Name.Constant] == ["b"]
    assert [text for kind, text in coloured if kind is Name.Variable.Magic] == [*"TTTTTT"]


def test_lengths_of_time_are_coloured() -> None:
    coloured = kinds("tick 1m.\nQ(X) @ T :- some E(X) @ [T-10m, T], F(X) @ T-1h, tick(X) @ T.\n")
    assert [text for kind, text in coloured if kind is Keyword.Declaration] == ["tick", "some"]
    numbers = [text for kind, text in coloured if kind is Number]
    assert numbers == ["1", "m", "10", "m", "1", "h"]
    assert [text for kind, text in coloured if kind is Name.Class] == ["Q", "E", "F", "tick"]


@pytest.mark.parametrize("path", RULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_of_the_examples_is_wrong(path: object) -> None:
    text = path.read_text("utf-8")  # type: ignore[attr-defined]
    assert [value for kind, value in kinds(text) if kind is Error] == []


@given(st.text())
def test_any_text_comes_back_whole(text: str) -> None:
    lexer = TidelogLexer(stripnl=False, ensurenl=False)
    whole = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    assert "".join(value for _, value in lexer.get_tokens(text)) == whole


def test_pygments_finds_the_lexer_once_the_package_is_installed() -> None:
    probe = (
        "import importlib.metadata as m;"
        "print([e.value for e in m.entry_points(group='pygments.lexers') if e.name == 'tidelog'])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout in ("['tidelog.lexer:TidelogLexer']\n", "[]\n")


# The VS Code extension's own tests run on Node: make test-editors


def test_the_extension_has_the_schema_of_the_package() -> None:
    own = (VSCODE / "schemas" / "test.schema.json").read_text("utf-8")
    assert own == (ROOT / "src/tidelog/testing/schema.json").read_text("utf-8")


def test_versions_are_pinned_and_name_no_registry() -> None:
    manifest = json.loads((VSCODE / "package.json").read_text("utf-8"))
    versions = [*manifest["dependencies"].values(), *manifest["devDependencies"].values()]
    assert all(version[0].isdigit() for version in versions)
    lock = (VSCODE / "package-lock.json").read_text("utf-8")
    assert '"resolved"' not in lock


def test_a_machine_without_npm_is_told_in_one_sentence(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    lock = tmp_path / "editors" / "vscode" / "package-lock.json"
    lock.parent.mkdir(parents=True)
    lock.write_text("{}")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "make", "pwd", "cat"):
        path = shutil.which(name)
        assert path is not None
        (tools / name).symlink_to(path)
    done = subprocess.run(
        ["make", "vsix"],
        cwd=tmp_path,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == (
        "Node and npm are needed for the VS Code extension: apt install nodejs npm\n"
    )
