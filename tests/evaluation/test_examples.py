"""The examples give the answers that come with them, and those worked out by hand."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from support.places import ROOT

from tidelog.cli import cli

EXAMPLES = ROOT / "examples"


def answers(example: str, out: Path) -> dict[str, str]:
    folder = EXAMPLES / example
    command = ["query", str(folder / "rules.tdl"), "--facts", str(folder / "facts")]
    result = CliRunner().invoke(cli, [*command, "--out", f"{out}/"], catch_exceptions=False)
    assert (result.exit_code, result.output) == (0, "")
    return {path.stem: path.read_text("utf-8") for path in out.iterdir()}


def test_la_haute_borne(tmp_path: Path) -> None:
    expected = (EXAMPLES / "la_haute_borne" / "expected").glob("*.csv")
    wanted = {path.stem: path.read_text("utf-8") for path in expected}
    assert len(wanted) == 9
    assert answers("la_haute_borne", tmp_path / "out") == wanted


def test_turbines(tmp_path: Path) -> None:
    """North is high at 1, 2, 3, 4 and east at 6, 7, 8: three runs of three, ending at 3, 4 and 8.

    East stands near north and south near east: at risk from 3 and from 8 on, to the last tick, 11.
    South is high at 0, 1, 9 and 10 only.
    """
    at_risk = [(t, d) for d, start in (("east", 3), ("south", 8)) for t in range(start, 12)]
    assert answers("turbines", tmp_path / "out") == {
        "Malfunc": "x,time\nnorth,1\nnorth,2\neast,6\n",
        "AtRisk": "y,time\n" + "".join(f"{d},{t}\n" for t, d in sorted(at_risk)),
    }
