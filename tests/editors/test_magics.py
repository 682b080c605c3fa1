"""`%%tidelog` and `%tidelog` in IPython."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import tidelog


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    started = InteractiveShell()
    started.run_line_magic("load_ext", "tidelog")
    yield started
    InteractiveShell.clear_instance()


def define(shell: InteractiveShell, line: str, cell: str) -> None:
    shell.run_cell_magic("tidelog", line, cell)


def test_rules_in_a_cell_and_questions_in_a_line(shell: InteractiveShell) -> None:
    define(shell, "rules", "P(X) @ T :- E(X) @ T, E(X) @ T+1.\n")
    assert isinstance(shell.user_ns["rules"], tidelog.Program)
    shell.user_ns["facts"] = {"E": [("a", 0), ("a", 1)]}
    answers = shell.run_line_magic("tidelog", "P facts")
    assert answers.to_dict("records") == [{"x": "a", "time": 0}]
    proof = shell.run_line_magic("tidelog", 'why "P(a) @ 0" facts')
    assert proof.holds
    missed = shell.run_line_magic("tidelog", 'why "P(a) @ 1" facts --program rules')
    assert not missed.holds
    analysis = shell.run_line_magic("tidelog", "analyze P")
    assert analysis.delay.upper == 1


def test_mistakes_are_shown_with_carets(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns.pop("program", None)
    define(shell, "", "P(X :- E(X).\n")
    assert "hint: close the arguments with `)`" in capsys.readouterr().out
    assert "program" not in shell.user_ns


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "QUERY"),
        ("Q", "no predicate Q"),
        ("P --program other", "no program in `other`"),
        ("P nowhere.csv", "nowhere.csv"),
        ('why "P(" ', "not a fact"),
        ('why "', "No closing quotation"),
    ],
)
def test_wrong_questions_are_a_sentence(shell: InteractiveShell, line: str, said: str) -> None:
    define(shell, "", "P(X) @ T :- E(X) @ T.\n")
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        shell.run_line_magic("tidelog", line)


def test_tests(
    shell: InteractiveShell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tdl").write_text("P(X) :- E(X).\n")
    (tmp_path / "a.test.yaml").write_text(
        'rules: a.tdl\ntests:\n- {name: a, facts: "E(a).", expect: {P: ["(a)"]}}\n'
    )
    shell.run_line_magic("tidelog", "test")
    assert capsys.readouterr().out == "a.test.yaml: 1 passed\n1 passed in 1 file\n"
