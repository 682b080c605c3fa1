"""Every output of the shared data, against answers that were computed elsewhere."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import tidelog

OUTPUTS = {
    "la_haute_borne": "Idle Outage Onset AtRisk FarmFault Trip Cold Ice IceWatch",
    "nab": "High Low Alarm Cascade Incident Sagging Plunge TruePos Onset",
}
CASES = [(name, output) for name, outputs in OUTPUTS.items() for output in outputs.split()]
# The first head variable of AtRisk's second argument is D, the first rule having a constant there;
# whoever made the expected files called it c. The rows are the same.
RENAMED = {("la_haute_borne", "AtRisk"): ["y", "c", "time"]}


@pytest.mark.parametrize(("name", "output"), CASES)
def test_expected_answers(shared_data: Path, name: str, output: str) -> None:
    folder = shared_data / name
    table = tidelog.load(folder / "rules.tdl").query(output, folder / "facts")
    with (folder / "expected" / f"{output}.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == RENAMED.get((name, output), table.column_names)
    answers = zip(*(map(str, column.to_pylist()) for column in table.columns), strict=True)
    assert sorted(map(list, answers)) == sorted(rows)
    times = table["time"].to_pylist()
    assert times == sorted(times)


def test_no_expected_file_is_left_out(shared_data: Path) -> None:
    for name, outputs in OUTPUTS.items():
        files = {path.stem for path in (shared_data / name / "expected").iterdir()}
        assert files == set(outputs.split())
        assert set(tidelog.load(shared_data / name / "rules.tdl").outputs) == files
