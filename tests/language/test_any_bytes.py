"""No byte string makes `tidelog check` fail other than by saying what is wrong.

Together these try more than 5,000 byte strings through the command itself, as text and as JSON.
"""

from __future__ import annotations

import json
import random
import unicodedata
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.deep import times
from support.places import ROOT

from tidelog.cli import cli

SEEDS = range(10)
EACH = times(60)

GOOD = [
    (ROOT / "examples" / "turbines" / "rules.tdl").read_bytes(),
    'input Wärme(gerät: text, "Höhe": float) @ zeit.\noutput P("a b").\n'
    'P(X) @ T-1 :- Wärme(X, V) @ T, V >= -1.5e3, X != "q\\"\\u{0}😀".\nP(a) @ 5.\n'.encode(),
    b"Late @ T :- Alarm @ T.\nLate @ T :- Late @ T+1. R(X) :- E(X) @ _, X = true.\n",
    *sorted(p.read_bytes() for p in (ROOT / "tests" / "cases").glob("*/*/rules.tdl")),
]
TOKENS = (
    b"input output P Q(X) X _ T true high 'b 5 -3 2.5 1e999 99999999999999999999 ( ) , . :- : @ @T "
    b"@5 = == != < <= > >= + - % %c\n # // /* */ ; & | ! not <- -> => \\ \xc3\xa9 \xff \x00 \n \r "
    b"\xef\xbb\xbf \xe2\x80\xa8 \xf0\x9f\x98\x80 text int \xcc\x81 "
    b'"a" "a "\\q" "\\u{d800}" "\\u{0}"'
).split(b" ")


def random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(60))


def mostly_text(rng: random.Random) -> bytes:
    alphabet = "PQXT_ax019.,:-@()=<>!+%\"'\\\n\t #\u00e9\u6e29\u0301\u2028\U0001f600"
    return "".join(rng.choices(alphabet, k=rng.randrange(80))).encode()


def token_soup(rng: random.Random) -> bytes:
    glue = rng.choice([b"", b" ", b" "])
    return glue.join(rng.choices(TOKENS, k=rng.randrange(30)))


def mutated(rng: random.Random) -> bytes:
    """A good program with a few bytes or stretches deleted, doubled, changed or inserted."""
    text = bytearray(rng.choice(GOOD))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice([1, 1, 1, 5, 40]))
        match rng.randrange(4):
            case 0:
                del text[at:end]
            case 1:
                text[at:at] = text[at:end]
            case 2:
                text[at:end] = rng.randbytes(end - at)
            case _:
                text[at:at] = rng.choice(TOKENS)
    return bytes(text)


MAKERS = [random_bytes, mostly_text, token_soup, mutated, mutated]


def refuse_to_fail(raw: bytes) -> None:
    runner = CliRunner()
    text = runner.invoke(cli, ["check", "-"], input=raw)
    data = runner.invoke(cli, ["check", "-", "--json"], input=raw)
    for result in (text, data):
        assert result.exception is None or isinstance(result.exception, SystemExit), raw
        assert result.exit_code in (0, 1), raw
        assert result.stderr == "", raw
    report = json.loads(data.stdout)
    assert text.exit_code == data.exit_code == (1 if report["errors"] else 0), raw
    assert text.stdout.count("\nerror[") + text.stdout.startswith("error[") == report["errors"]
    # Nothing that a terminal would obey or that would turn text around.
    shown = text.stdout.replace("\n", "")
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}, raw
    assert "Traceback" not in text.stdout or b"Traceback" in raw


@pytest.mark.grows
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "maker", range(len(MAKERS)), ids=[m.__name__ for m in MAKERS[:-1]] + ["more"]
)
def test_any_bytes(maker: int, seed: int) -> None:
    rng = random.Random(f"{maker} {seed}")
    for _ in range(2 * EACH):
        refuse_to_fail(MAKERS[maker](rng))


@pytest.mark.slow
def test_more_than_five_thousand_are_tried() -> None:
    assert len(SEEDS) * len(MAKERS) * 2 * EACH >= 5_000


def test_every_single_byte_and_pair_of_symbols() -> None:
    for byte in range(256):
        refuse_to_fail(bytes([byte]))
    for first in b'"%().,:@=<>!+-_a1':
        for second in b'"%().,:@=<>!+-_a1':
            refuse_to_fail(bytes([first, second]))


@pytest.mark.parametrize("good", range(4))
def test_every_prefix_of_a_program(good: int) -> None:
    """What an editor sees while a rule is being typed."""
    text = GOOD[good]
    for end in range(len(text)):
        refuse_to_fail(text[:end])


def test_odd_file_names(tmp_path: Path) -> None:
    path = tmp_path / "\udcff\n[bold].tdl"
    path.write_bytes(b"P(X).")
    result = CliRunner().invoke(cli, ["check", str(path)])
    assert result.exit_code == 1
    assert "?[bold].tdl: 1 error" in result.output
    data = CliRunner().invoke(cli, ["check", "--json", str(path)])
    assert json.loads(data.output)["file"] == str(path)
