"""Every session in the pages is run, and must print what the page says.

In a block marked `console` a line that starts with `$ ` is a command, run from the root of the
project; the lines up to the next command are all that it prints. Blocks marked `python` are
doctests, run there too; those of one page share their names. Links lead somewhere.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.places import ROOT

from tidelog.cli import cli

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

ON_SPARK = ("spark.md", "cluster.md")  # their Python uses a session


def sessions(page: str, language: str = "console") -> list[tuple[int, str]]:
    """The line on which each block of a page in one language starts, and its text."""
    block = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [
        (page.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in block.finditer(page)
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
    """What a command prints, as a person would run it."""
    return shell(command, stderr=subprocess.STDOUT).decode("utf-8")


def shell(command: str, given: bytes = b"", stderr: int | None = None) -> bytes:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "COLUMNS")}
    result = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env={**plain, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        input=given,
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=300,
        check=False,
    )
    return result.stdout


# `tidelog WORDS`, with something before or after it in a pipe.
PLAIN = re.compile(r"(?:([^|]+) \| )?tidelog ([^|<>;&$`]+)(?: \| (.+))?")


def run_here(command: str) -> str:
    """The same without starting a Python, or a Spark, where the command is plain enough."""
    match = PLAIN.fullmatch(command)
    if match is None:
        return run(command)
    before, words, after = match.groups()
    given = b"" if before is None else shell(before)
    result = CliRunner().invoke(cli, shlex.split(words), input=given, catch_exceptions=False)
    if after is None:
        return str(result.output)
    return result.stderr + shell(after, result.stdout.encode()).decode("utf-8")


def on_spark(block: str) -> bool:
    """Whether a block starts a stream on Spark; standard input is read in process."""
    runs = [command for command, _ in steps(block) if "tidelog run" in command]
    return any("duckdb" not in command and "--facts -" not in command for command in runs)


# Typed as they are: the first page that people read.
AS_TYPED = ("README.md",)


BLOCKS = [
    pytest.param(
        block,
        page.name in AS_TYPED,
        id=f"{page.relative_to(ROOT)}:{line}",
        marks=[pytest.mark.xdist_group("spark")] if on_spark(block) else [],
    )
    for page in PAGES
    for line, block in sessions(page.read_text("utf-8"))
]


@pytest.mark.parametrize(("block", "as_typed"), BLOCKS)
def test_session(
    block: str, as_typed: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_spark(block) and not as_typed:
        request.getfixturevalue("spark")
    monkeypatch.chdir(ROOT)
    for command, expected in steps(block):
        printed = run(command) if as_typed else run_here(command)
        assert printed.rstrip("\n") == expected.rstrip("\n"), command


def failures(page: str, name: str) -> str:
    """What the doctests of a page report: nothing when they hold."""
    blocks = ["\n" * (line - 1) + block for line, block in sessions(page, "python")]
    runner = doctest.DocTestRunner(verbose=False)
    names: dict[str, object] = {}
    said: list[str] = []
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, names, name, name, 0)
        assert test.examples, f"{name}: a python block shows a session: >>> "
        test.globs = names
        runner.run(test, out=said.append, clear_globs=False)
    return "".join(said)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[pytest.mark.xdist_group("spark")] if page.name in ON_SPARK else [],
        )
        for page in PAGES
    ],
)
def test_python(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert failures(page.read_text("utf-8"), page.name) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    here = [link for link in links if "://" not in link]
    assert [link for link in here if not (page.parent / link).exists()] == []


GLOSSARY = ROOT / "docs" / "glossary.md"
# The words that nobody can guess: an anchor leads to each.
WORDS = re.findall(r'<a id="([\w-]+)"></a>', GLOSSARY.read_text("utf-8"))


def unlinked(page: str) -> list[str]:
    """Words of the glossary whose first use on a page leads nowhere.

    A use is in a sentence or in what a command prints; where only commands print a word, a link
    anywhere on the page will do.

    >>> unlinked("Rigid facts. [rigid](docs/glossary.md#rigid)")
    ['rigid']
    >>> unlinked("[Rigid](docs/glossary.md#rigid) facts are rigid.")
    []
    """
    printed = "".join(output for _, block in sessions(page) for _, output in steps(block))
    prose = re.sub(r"^```.*?^```$|^#[^\n]*$", "", page, flags=re.MULTILINE | re.DOTALL)
    missing = []
    for word in WORDS:
        # Not in addresses, file names and identifiers.
        use = rf"(?<![\w/#.]){word.replace('-', '[- ]')}(?:s|es)?(?![\w/]|\.\w)"
        link = re.search(rf"\[[^\]]*\]\((?:docs/)?glossary\.md#{word}\)", prose)
        first = re.search(use, prose, re.IGNORECASE)
        if first is None:
            first = re.search(use, printed, re.IGNORECASE)
            missing += [word] if first is not None and link is None else []
        elif link is None or first.start() < link.start():
            missing.append(word)
    return missing


EXPLAINED = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {GLOSSARY})]


@pytest.mark.parametrize("page", EXPLAINED, ids=lambda page: page.name)
def test_the_first_use_of_a_word_leads_to_the_glossary(page: Path) -> None:
    assert unlinked(page.read_text("utf-8")) == []


def test_there_are_sessions() -> None:
    assert len(BLOCKS) >= 10


def test_a_wrong_session_would_be_found() -> None:
    page = "Text.\n\n```console\n$ echo right\nwrong\n```\n"
    ((line, block),) = sessions(page)
    assert line == 4
    ((command, expected),) = steps(block)
    assert run(command) == "right\n" != expected


def test_no_block_is_overlooked() -> None:
    """Blocks that are indented or not closed would never be run."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for language in ("console", "python"):
            starts = re.findall(rf"```\s*{language}", text)
            assert len(sessions(text, language)) == len(starts), page


def test_wrong_python_would_be_found() -> None:
    page = "```python\n>>> x = 1\n```\n\n```python\n>>> x\n2\n```\n"
    assert "Expected:\n    2\nGot:\n    1\n" in failures(page, "page")
    assert failures(page.replace("2", "1"), "page") == ""
