"""Files and folders of facts: what is found, what is left alone, what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.facts import (
    COLUMNS,
    DECLARED,
    ROWS,
    WRITERS,
    Writer,
    ask,
    in_order,
    refused,
    write_csv,
    write_json,
    write_parquet,
)

from tidelog.errors import DataError, TidelogWarning


@pytest.mark.parametrize("write", WRITERS)
def test_files_and_folders(tmp_path: Path, write: Writer) -> None:
    path = write(tmp_path, "E", COLUMNS, ROWS)
    assert ask(DECLARED, path) == in_order(ROWS)
    assert ask(DECLARED, str(tmp_path)) == in_order(ROWS)


@pytest.mark.parametrize("write", WRITERS)
def test_a_subfolder_of_files(tmp_path: Path, write: Writer) -> None:
    """All files below it, those beginning with . or _ left out, as Spark leaves them behind."""
    folder = tmp_path / "E"
    (folder / "deep[1]" / "time=5").mkdir(parents=True)
    write(folder, "E", COLUMNS, ROWS[:2]).rename(folder / f"part 1{write.__name__[-3:]}")
    for place, rows in ((folder, ROWS[:2]), (folder / "deep[1]" / "time=5", ROWS[2:])):
        written = write(place, "E", COLUMNS, rows)
        written.rename(written.with_stem("part-*'1"))
    (folder / "_SUCCESS").write_text("")
    (folder / "_broken.csv").write_text("nothing")
    (folder / ".hidden.parquet").write_text("nothing")
    assert ask(DECLARED, tmp_path) == in_order(ROWS)


@pytest.mark.parametrize("name", ["E.CSV", "E.json", "E.csv.zip", "E"])
def test_a_file_that_would_be_overlooked(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("not about an input")
    (tmp_path / name).write_text("")
    with pytest.raises(DataError, match=r"facts in a folder end in \.csv, \.parquet, \.jsonl"):
        ask(DECLARED, tmp_path)


def test_a_subfolder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched, since root may read everything."""
    write_csv(tmp_path, "E", COLUMNS, ROWS)
    locked = tmp_path / "E" / "locked"
    locked.mkdir(parents=True)
    real = Path.iterdir

    def refuse(path: Path) -> Iterable[Path]:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match="locked: Permission denied"):
        ask(DECLARED, tmp_path)


def test_all_formats_together(tmp_path: Path) -> None:
    folder = tmp_path / "E"
    folder.mkdir()
    for i, write in enumerate(WRITERS):
        write(folder, "E", COLUMNS, ROWS[2 * i : 2 * i + 2])
    write_csv(tmp_path, "E", COLUMNS, ROWS[:3])  # duplicates: facts are sets
    assert ask(DECLARED, tmp_path) == in_order(ROWS)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    rules = "P(X) @ T :- E(X) @ T."
    for name in ("E.csv", "E.parquet", "E.jsonl", "facts.tdl", "nowhere"):
        path = tmp_path / name
        assert refused(rules, path) == [f"{path}: no such file or folder"]
    path = tmp_path / "E.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    assert refused(rules, path)[0].startswith(f"{path}: not Parquet")
    whole = write_parquet(tmp_path, "E", ("x", "time"), [("a", i) for i in range(1000)])
    raw = bytearray(whole.read_bytes())
    raw[4:200] = b"\xff" * 196
    path.write_bytes(raw)
    assert refused(rules, path)[0].startswith(str(path))
    path.unlink()
    path.symlink_to(tmp_path / "gone.parquet")
    assert refused(rules, tmp_path) == [f"{path}: No such file or directory"]
    path.unlink()
    path = tmp_path / "E.csv"
    path.symlink_to(tmp_path / "gone.csv")
    assert refused(rules, tmp_path) == [f"{path}: No such file or directory"]
    (tmp_path / "E.txt").write_text("")
    assert refused(rules, tmp_path / "E.txt")[0].startswith(f"{tmp_path / 'E.txt'}: facts are")


def test_facts_of_something_else(tmp_path: Path) -> None:
    rules = "input Temp(x: text) @ t. P(X) @ T :- Temp(X) @ T."
    for make in (
        lambda name: {name: [("a", 0)]},
        lambda name: write_csv(tmp_path, name, ("x", "t"), [("a", 0)]),
        lambda name: write_parquet(tmp_path, name, ("x", "t"), [("a", 0)]),
        lambda name: write_json(tmp_path, name, ("x", "t"), [("a", 0)]),
    ):
        (message,) = refused(rules, make("Tmep"))
        assert "no input is called `Tmep`; did you mean `Temp`?" in message
        (message,) = refused(rules, make("Zebra"))
        assert "no input is called `Zebra`; the inputs are Temp" in message
        path = make("Zebra")
        given = f"; to give it to one, write Temp={path}"
        assert message.endswith(given) is (isinstance(path, Path) and path.suffix != ".jsonl")
        (message,) = refused(rules, make("P"))
        assert message.endswith("`P` is derived by rules; declare it as an input to give it facts")
    with pytest.warns(TidelogWarning) as told:
        assert ask(rules, tmp_path) == []
    said = [str(warning.message) for warning in told]
    assert any(text.startswith(str(tmp_path / "P.")) for text in said)
    assert said[-1] == "no facts for input `Temp`, which P needs"


PLACES = [
    "a*b?",
    "[c]",
    "{d,e}",
    "it's",
    'q"q',
    "semi;--",
    "back\\slash",
    "~",
    "n\u00f6 \U0001f30a",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("write", WRITERS)
def test_awkward_places(tmp_path: Path, place: str, write: Writer) -> None:
    """Nothing in a path is a pattern: files beside it are not read."""
    for i, name in enumerate((place, "aXbY", "c", "d")):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, "E", ("x", "time"), [(name, i)])
    assert ask("P(X) @ T :- E(X) @ T.", tmp_path / place) == [(place, 0)]


def test_a_folder_that_looks_like_a_column(tmp_path: Path) -> None:
    folder = tmp_path / "time=99"
    folder.mkdir()
    write_parquet(folder, "E", ("x", "time"), [("a", 1)])
    assert ask("P(X) @ T :- E(X) @ T.", folder) == [("a", 1)]
