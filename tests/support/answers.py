"""Cases with facts and expected answers: a folder, run through every engine and mode that applies.

rules.tdl       the program
facts.tdl       its facts, as rules without a body; or facts/, a folder that Spark can read, too
expected/Q.csv  what `tidelog query rules.tdl --facts facts.tdl --out expected/` writes, once a
                person has seen that it is right
ways.txt        the ways it is run, where they are not the USUAL: one a line; after a colon, what
                the error says where this way refuses it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from support.places import ROOT
from tidelog.cli import cli

WAYS: dict[str, tuple[str, ...]] = {
    "query": ("query",),
    "offline": ("run", "--engine", "duckdb"),
    "offline eager": ("run", "--engine", "duckdb", "--emit", "eager"),
    "offline strict": ("run", "--engine", "duckdb", "--history", "strict"),
    "online": ("run", "--engine", "duckdb", "--mode", "online"),
    "online eager": ("run", "--engine", "duckdb", "--mode", "online", "--emit", "eager"),
    "spark query": ("query", "--engine", "spark"),
    "spark offline": ("run", "--engine", "spark"),
    "spark online": ("run", "--engine", "spark", "--mode", "online"),
}
EXAMPLES = ("turbines", "la_haute_borne", "auctions")  # those whose times are whole ticks
USUAL = ("query", "offline", "offline eager", "online", "online eager")


@dataclass(frozen=True)
class Run:
    """A case, a way to run it, and what the error says if it is refused that way."""

    folder: Path
    way: str
    refusal: str | None = None

    @property
    def on_spark(self) -> bool:
        return self.way.startswith("spark")

    def __str__(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}-{self.way}"


def runs() -> list[Run]:
    """Every way of every case, and the main ones of the examples."""
    cases = sorted(path.parent for path in (ROOT / "tests" / "cases").glob("*/*/expected"))
    examples = [ROOT / "examples" / name for name in EXAMPLES]
    main = [Run(folder, way) for folder in examples for way in ("query", "offline", "online")]
    return [*(run for folder in cases for run in _runs(folder)), *main]


def _runs(folder: Path) -> list[Run]:
    listed = folder / "ways.txt"
    if not listed.exists():
        return [Run(folder, way) for way in USUAL]
    all_runs = []
    for line in listed.read_text("utf-8").splitlines():
        way, colon, refusal = line.partition(": ")
        assert way in WAYS, f"{listed}: no way is called {way!r}; there are {', '.join(WAYS)}"
        all_runs.append(Run(folder, way, refusal if colon else None))
    return all_runs


def invoke(run: Run, out: Path) -> Result:
    command, *options = WAYS[run.way]
    to = ["--out", f"{out}/"] if command == "query" else ["--sink", f"csv:{out}"]
    (facts,) = run.folder.glob("facts*")
    words = [command, str(run.folder / "rules.tdl"), "--facts", str(facts)]
    asked = [word for name in expected(run.folder) for word in ("--query", name)]
    return CliRunner().invoke(cli, [*words, *asked, *options, *to], catch_exceptions=False)


def expected(folder: Path) -> dict[str, list[str]]:
    """The lines of each file of answers."""
    return {p.stem: _lines(p) for p in sorted((folder / "expected").glob("*.csv"))}


def written(out: Path, name: str) -> list[str] | None:
    """The header and the answers in one file, or in those of all batches; None if there are none.

    A stream that has told no answer has not written the header either.
    """
    paths = [*out.glob(f"{name}.csv"), *out.glob(f"{name}/batch=*/*.csv")]
    files = [lines for lines in map(_lines, paths) if lines]
    if not files:
        return None
    assert all(lines[0] == files[0][0] for lines in files)
    return [files[0][0], *(line for lines in files for line in lines[1:])]


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()
