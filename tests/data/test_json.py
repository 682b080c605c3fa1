"""JSON lines: whatever is wrong is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.facts import refused


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"x": "a", "time": 0', "not JSON"),
        ("E,a,0", "not JSON"),
        ("[1, 2]", "a line is an object"),
        ("[" * 100_000, "recursion"),
        ('{"predicate": "F", "x": 1.5, "time": 0}', "`F` in a file of `E` facts"),
        ('{"predicate": 7, "x": 1.5, "time": 0}', 'no "predicate" says'),
        ('{"x": "a", "time": 0}', "column `x`: 'a' is not float"),
        ('{"x": true, "time": 0}', "column `x`: True is not float"),
        ('{"x": {}, "time": 0}', "column `x`: {} is not float"),
        ('{"x": 1e400, "time": 0}', "`1e400` does not fit a float"),
        (f'{{"x": 1{"0" * 400}, "time": 0}}', "column `x`: an integer too large for a float"),
        ('{"x": 1, "time": 0.5}', "column `time`: 0.5 is not int"),
        ('{"x": 1, "time": "0"}', "column `time`: '0' is not int"),
        ('{"x": 1, "time": 4611686018427387904}', "does not fit 62 bits"),
        ('{"x": 1}', "no column `time`"),
    ],
)
def test_a_bad_json_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text(f'{{"x": 1, "time": 0}}\n\n{line}\n')
    (message,) = refused("input E(x: float) @ time. P(X) @ T :- E(X) @ T.", path)
    assert message.startswith(f"{path}:3: ")
    assert problem in message


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    path = tmp_path / "E.jsonl"
    path.write_text('{"x": "\\ud83c\\udf0a", "time": 0}\n{"x": "\\ud83c", "time": 0}\n')
    (message,) = refused("P(X) @ T :- E(X) @ T.", path)
    assert message == f"{path}:2: column `arg1`: '\\ud83c' has half a surrogate pair"
