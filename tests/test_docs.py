"""Every console session in README.md and docs/ is run, and must print what the page says.

In a block marked `console` a line that starts with `$ ` is a command, run from the root of the
project; the lines up to the next command are all that it prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sessions(page: str) -> list[tuple[int, str]]:
    """The line on which each console block of a page starts, and its text."""
    return [
        (page.count("\n", 0, found.start(1)) + 1, found.group(1)) for found in _BLOCK.finditer(page)
    ]


def steps(block: str) -> list[tuple[str, str]]:
    """Commands and what they should print.

    >>> steps("$ echo a\\na\\n$ true\\n")
    [('echo a', 'a\\n'), ('true', '')]
    """
    before, *rest = re.split(r"^\$ ", block, flags=re.MULTILINE)
    if before:
        raise ValueError(f"a console block starts with a command, not with {before!r}")
    return [(command, output) for command, _, output in (part.partition("\n") for part in rest)]


def run(command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "COLUMNS")}
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**plain, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    return result.stdout.decode("utf-8")


BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}:{line}")
    for page in PAGES
    for line, block in sessions(page.read_text("utf-8"))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_session(block: str) -> None:
    for command, expected in steps(block):
        assert run(command).rstrip("\n") == expected.rstrip("\n"), command


def test_there_are_sessions() -> None:
    assert len(BLOCKS) >= 10


def test_a_wrong_session_would_be_found() -> None:
    page = "Text.\n\n```console\n$ echo right\nwrong\n```\n"
    ((line, block),) = sessions(page)
    assert line == 4
    ((command, expected),) = steps(block)
    assert run(command) == "right\n" != expected


def test_no_console_block_is_overlooked() -> None:
    """Blocks that are indented or not closed would never be run."""
    for page in PAGES:
        text = page.read_text("utf-8")
        assert len(sessions(text)) == len(re.findall(r"```\s*console", text)), page
