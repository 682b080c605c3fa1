"""Test files that fail, or are wrong: exactly what is printed is kept beside them.

To make one, write `NAME.test.yaml`, run `tidelog test NAME.test.yaml > NAME.txt` there, and read
the text: is the line right, would the hint help?
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog.cli import cli

FOLDER = Path(__file__).parent / "failing"
FILES = sorted(path.name.removesuffix(".test.yaml") for path in FOLDER.glob("*.test.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_what_is_printed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    result = CliRunner().invoke(cli, ["test", f"{name}.test.yaml"])
    assert result.exit_code == 1
    assert result.output == (FOLDER / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", FILES)
def test_every_mistake_has_a_line_and_a_hint(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    mistakes = [block for block in text.split("\n\n") if block.startswith("error: ")]
    for block in mistakes:
        assert re.search(rf"--> {re.escape(name)}\.test\.yaml:\d+:\d+\n", block), block
        assert "\nhint: " in block, block
    failures = re.findall(rf"^FAIL {re.escape(name)}\.test\.yaml:\d+: ", text, re.MULTILINE)
    assert mistakes or failures
