"""Cases that are run in every way, what they cover, and how that is reported."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import fastjsonschema
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from support.deep import DEEP
from support.places import ROOT

import tidelog.testing
from tidelog.cli import cli
from tidelog.testing import WrongFile, parse
from tidelog.testing.series import series

EXAMPLES = tidelog.testing.find([ROOT / "examples"])
SCHEMA = json.loads((ROOT / "src/tidelog/testing/schema.json").read_text("utf-8"))


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["test", *args], input=stdin)


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rules.tdl"
    path.write_text("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+1.\n")
    return path


def write(text: str, name: str = "rules.test.yaml") -> Path:
    path = Path(name)
    path.write_text(f"rules: rules.tdl\n{text}")
    return path


ONE = """\
tests:
- name: two highs
  series: {"Temp(a, _)": "high high low"}
  expect: {Hot: ["(a) @ 0"]}
"""


# Examples


def test_every_rules_file_of_the_examples_is_tested() -> None:
    tested = {tidelog.testing.load(path).rules for path in EXAMPLES}
    texts = {str(p) for p in (ROOT / "examples").rglob("*.tdl")}
    facts = {t for t in texts if Path(t).stem in ("facts", "alarms", "alone", "starts", "tasks")}
    assert tested == texts - facts


# What tests of these cover takes most of the time of all examples.
LARGE = ("datacentre", "la_haute_borne", "oncall", "payments")


@pytest.mark.grows
def test_the_examples_pass_and_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    report = tidelog.testing.run([f"examples/{name}" for name in LARGE], coverage=DEEP > 1)
    assert report.passed, str(report)
    assert report.coverage is None or not any(f.uncovered for f in report.coverage.files)
    small = {Path(path).parent.name for path in EXAMPLES} - set(LARGE)
    report = tidelog.testing.run([f"examples/{name}" for name in sorted(small)], coverage=True)
    assert report.passed, str(report)
    assert report.coverage is not None
    uncovered = {(f.file, u.origin.line) for f in report.coverage.files for u in f.uncovered}
    # What long.tdl is for is that no budget is enough for it.
    assert {(Path(file).name, line) for file, line in uncovered} == {
        ("long.tdl", 7),
        ("long.tdl", 8),
    }


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_the_same_cases_as_streams(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    report = tidelog.testing.run(["examples/turbines", "examples/first"], mode=mode)
    assert report.passed, str(report)
    assert report.counts()["skipped"] == 0


@pytest.mark.xdist_group("spark")
def test_the_same_cases_on_spark(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    report = tidelog.testing.run(["examples/first"], engine="spark", start=lambda *_: spark)
    assert report.passed, str(report)
    assert report.counts() == {"passed": 3, "failed": 0, "skipped": 0}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: Path(path).parent.name)
def test_examples_fit_the_schema(path: str) -> None:
    fastjsonschema.compile(SCHEMA)(yaml.safe_load(Path(path).read_text("utf-8")))


def test_what_the_schema_refuses_is_refused() -> None:
    wrong = [
        {"tests": []},
        {"rules": "a.tdl", "tests": [{"name": "a"}]},
        {"rules": "a.tdl", "tests": [{"name": "a", "expects": {}}]},
    ]
    for document in wrong:
        with pytest.raises(fastjsonschema.JsonSchemaException):
            fastjsonschema.compile(SCHEMA)(document)


# Series


def test_series() -> None:
    assert series("low high*3 _*2 low") == ["low", "high", "high", "high", None, None, "low"]
    assert series("10+5x2 10-5x2 1.5+0.1x2") == [10, 15, 20, 10, 5, 0, 1.5, 1.6, 1.7]
    assert series('"two words"*2 true -3') == ["two words", "two words", True, -3]
    assert series("") == []


@given(st.text(max_size=30))
def test_a_series_is_read_or_refused_with_a_sentence(text: str) -> None:
    with suppress(ValueError):
        series(text)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
def test_any_bytes_are_a_test_file_or_wrong(raw: bytes) -> None:
    with pytest.raises(WrongFile) as caught:
        parse(b"rules: nowhere.tdl\n" + raw, "a.test.yaml")
    assert caught.value.problems


@pytest.mark.parametrize(
    "text",
    ["a: &a [*a]", "tests: &a [*a]", "x" + "[" * 5000, "&a [*b]", "? [a]: b", "--- 1\n--- 2"],
)
def test_yaml_that_is_a_trap(text: str) -> None:
    with pytest.raises(WrongFile):
        parse(text.encode(), "a.test.yaml")


# Times, types and other ways to say things


def test_timestamps(rules: Path) -> None:
    write(
        """\
tick: 10m
origin: 2024-01-01T00:00Z
tests:
- name: at ten past
  series: {"Temp(a, _) @ 2024-01-01T00:10Z": "high*2"}
  facts: ["Temp(b, high) @ 2024-01-01T00:10Z..2024-01-01T00:30Z"]
  expect: {Hot: ["(a) @ 1", "(b) @ 2024-01-01T00:10Z..2024-01-01T00:20Z"]}
- name: shown as times
  series: {"Temp(a, _)": "high*2"}
  expect: {Hot: []}
"""
    )
    result = run()
    assert result.exit_code == 1
    assert "+ (a) @ 2024-01-01T00:00:00Z\n" in result.output
    assert "Temp(a, high) @ 2024-01-01T00:10:00Z" in result.output
    assert "1 passed, 1 failed" in result.output


def test_types_of_data_where_the_rules_leave_them_open(rules: Path) -> None:
    rules.write_text("P(X) @ T :- E(X) @ T.\nR(X) :- F(X).\nN @ T :- E(_) @ T.\nK :- F(_).\n")
    write(
        """\
tests:
- name: numbers, texts and nothing
  facts: 'E(1) @ 0. E(2) @ 1. F("A b").'
  expect: {P: ["(1) @ 0", "(2) @ 1"], R: ['("A b")'], N: ["@ 0..1"], K: ["K"]}
"""
    )
    for mode in ("query", "online", "offline"):
        result = run("--mode", mode)
        assert result.exit_code == 0, result.output


def test_facts_in_files_join_those_in_the_test(rules: Path) -> None:
    Path("facts").mkdir()
    Path("facts/Temp.csv").write_text("arg1,arg2,time\na,high,0\n")
    write(
        """\
files: facts
tests:
- name: one from each
  facts: "Temp(a, high) @ 1."
  expect: {Hot: ["(a) @ 0"]}
- name: from the file alone
  expect: {Hot: none}
"""
    )
    assert run().output == "rules.test.yaml: 2 passed\n2 passed in 1 file\n"


def test_facts_at_intervals(rules: Path) -> None:
    rules.write_text(
        "input Temp(x: text) @ t. Hot(X) @ T :- always Temp(X) @ [T-2, T]. Hot(b) @ [7, 9]."
    )
    write(
        """\
tests:
- name: three on end, and what the rules say
  facts: "Temp(a) @ [1, 4]."
  expect: {Hot: ["(a) @ 3..4", "(b) @ 7..9"]}
"""
    )
    assert run().output == "rules.test.yaml: 1 passed\n1 passed in 1 file\n"
    write('tests:\n- {name: a, facts: "Temp(a) @ [1, 9000000].", expect: {Hot: []}}\n')
    assert "`Temp` has a fact for each of 9,000,000 ticks\n" in run().output


def test_what_cannot_be_streamed_is_skipped(rules: Path) -> None:
    rules.write_text("Late(X) @ T :- Alarm(X) @ T.\nLate(X) @ T :- Late(X) @ T+1.\n")
    write(
        """\
tests:
- {name: a, facts: "Alarm(a) @ 2.", from: 0, expect: {Late: ["(a) @ 0..2"]}}
"""
    )
    assert run().exit_code == run("--mode", "online").exit_code == 0
    result = run("--mode", "offline")
    assert result.exit_code == 0
    assert "1 skipped" in result.output
    assert "--mode online streams it" in result.output


def test_data_that_is_wrong_is_a_sentence(rules: Path) -> None:
    Path("Temp.csv").write_text("arg1,arg2,time\na,high,noon\n")
    write("tests:\n- {name: a, files: Temp.csv, expect: {Hot: []}}\n")
    result = run()
    assert result.exit_code == 1
    assert "Temp.csv:2: column `time`: `noon` is not int" in result.output
    assert "Traceback" not in result.output


# Coverage


def test_coverage_of_comparisons(rules: Path) -> None:
    rules.write_text(
        "input E(v: int) @ time.\n"
        "Low(V) @ T :- E(V) @ T, V < 5, V > 0.\n"
        "Odd(V) @ T :- E(V) @ T, V = 7.\n"
        "Never(V) @ T :- E(V) @ T, V = 9.\n"
    )
    write(
        """\
tests:
- name: in between
  series: {"E(_)": "3 7"}
  expect: {Low: ["(3) @ 0"], Odd: ["(7) @ 1"], Never: none}
"""
    )
    result = run("--coverage")
    assert result.output == (
        "rules.test.yaml: 1 passed\n"
        "coverage: 72%\n"
        "  rules.tdl: 2 of 3 rules, 6 of 8 ways of comparisons\n"
        "    line 2: V > 0  never the only thing that fails\n"
        "    line 4: Never(V) @ T :- E(V) @ T, V = 9.  in no proof of an expected answer\n"
        "1 passed in 1 file\n"
    )
    assert run("--min-coverage", "72").exit_code == 0
    short = run("--min-coverage", "73")
    assert short.exit_code == 1
    assert "coverage is 72%, less than 73%" in short.output


def test_a_rule_that_only_another_proof_uses_is_covered(rules: Path) -> None:
    """Not the smallest proof alone counts."""
    rules.write_text("P(X) @ T :- E(X) @ T.\nP(X) @ T :- Q(X) @ T.\nQ(X) @ T :- E(X) @ T.\n")
    write('tests:\n- {name: a, facts: "E(a) @ 0.", expect: {P: ["(a) @ 0"]}}\n')
    report = tidelog.testing.run(coverage=True)
    assert report.coverage is not None
    assert report.coverage.percent == 100


def test_a_rule_of_answers_that_nobody_expects_is_not_covered(rules: Path) -> None:
    rules.write_text("P(X) @ T :- E(X) @ T.\nQ(X) @ T :- E(X) @ T.\n")
    write('tests:\n- {name: a, facts: "E(a) @ 0.", expect: {P: ["(a) @ 0"]}}\n')
    report = tidelog.testing.run(coverage=True)
    assert report.coverage is not None
    assert [u.origin.line for f in report.coverage.files for u in f.uncovered] == [2]


# Limits


def test_an_edit_that_makes_an_alarm_slower_fails(rules: Path) -> None:
    write(f"{ONE}limits: {{Hot: {{delay: 1, window: 1, class: 1, state: {{Temp: 1}}}}}}\n")
    assert run().exit_code == 0
    rules.write_text("Hot(X) @ T :- Temp(X, high) @ T, Temp(X, high) @ T+2.\n")
    result = run("-k", "limits")
    assert result.exit_code == 1
    assert "Hot: delay: 2 ticks" in result.output
    assert "the limit is 1" in result.output
    assert "<- without this" in result.output


# Reports


def test_junit_fits_its_schema(rules: Path) -> None:
    write(ONE.replace("@ 0", "@ 1").replace("two highs", "two \\x07 <highs>"))
    write("tests: 5\n", "wrong.test.yaml")
    write(ONE, "right.test.yaml")
    result = run("--junit", "build/report.xml")
    assert result.exit_code == 1
    schema = etree.XMLSchema(etree.parse(str(ROOT / "tests/schemas/junit-10.xsd")))
    report = etree.parse("build/report.xml")
    schema.assertValid(report)
    outcomes = {case.get("name"): [child.tag for child in case] for case in report.iter("testcase")}
    assert outcomes["two highs"] == []
    assert outcomes["the test file can be read"] == ["error"]
    assert ["failure"] in outcomes.values()


def test_json(rules: Path) -> None:
    write(ONE)
    report = json.loads(run("--json", "--coverage").stdout)
    assert (report["passed"], report["failed"], report["wrong_files"]) == (1, 0, 0)
    assert report["coverage"]["percent"] == 100
    assert report["files"][0]["tests"][0]["outcome"] == "passed"


def test_names_choose(rules: Path) -> None:
    write(ONE + ONE.removeprefix("tests:\n").replace("two highs", "again"))
    assert run("-v", "-k", "TWO").output == (
        "ok   rules.test.yaml:3: two highs\nrules.test.yaml: 1 passed\n1 passed in 1 file\n"
    )


@pytest.mark.parametrize(
    "args",
    [["nowhere"], ["--yes"], ["--update", "--json"], ["--mode", "fast"], ["--min-coverage", "200"]],
)
def test_wrong_use(rules: Path, args: list[str]) -> None:
    write(ONE)
    result = run(*args)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_a_folder_without_tests(tmp_path: Path) -> None:
    assert "no *.test.yaml in" in run(str(tmp_path)).stderr


def test_the_schema_is_printed() -> None:
    assert json.loads(run("--schema").stdout) == SCHEMA


# --update


LAID_OUT = """\
tests:
- name: a   # a comment that stays
  series: {"Temp(a, _)": "high*4"}
  expect: {Hot: []}   # wrong
  final: {"Hot(a) @ 0": 7}
- name: b
  series: {"Temp(b, _)": "low high high low"}
  expect:
    Hot:
    - "(b) @ 0"
    - "(b) @ 3"
  pending: {at: 1, exactly: []}
- name: c
  series: {"Temp(c, _)": "low"}
  expect:
    Hot:
    - "(c) @ 0"
"""


def test_update_asks_and_keeps_the_layout(rules: Path) -> None:
    path = write(LAID_OUT)
    before = path.read_text()
    refused = run("--update", stdin="n\n")
    assert refused.exit_code == 1
    assert path.read_text() == before
    nobody = run("--update", stdin="")
    assert "nothing is written" in nobody.output
    assert path.read_text() == before
    agreed = run("--update", stdin="y\n")
    assert agreed.exit_code == 0, agreed.output
    expected = (
        LAID_OUT.replace("{Hot: []}", '{Hot: ["(a) @ 0..2"]}')
        .replace('@ 0": 7', '@ 0": 1')
        .replace('    - "(b) @ 0"\n    - "(b) @ 3"\n', '    - "(b) @ 1"\n')
        .replace("exactly: []", 'exactly: ["Hot(b) @ 1"]')
        .replace('    Hot:\n    - "(c) @ 0"\n', "    Hot: []\n")
    )
    assert path.read_text() == f"rules: rules.tdl\n{expected}"


def test_update_keeps_the_ends_of_lines(rules: Path) -> None:
    path = write(ONE.replace("@ 0", "@ 5"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert run("--update", "--yes").exit_code == 0
    assert path.read_bytes().startswith(b"\xef\xbb\xbfrules: rules.tdl\r\n")
    assert b'["(a) @ 0"]' in path.read_bytes()


def test_update_never_touches_what_is_meant(rules: Path) -> None:
    path = write(ONE.replace('["(a) @ 0"]', '{has: ["(b) @ 0"]}') + "limits: {Hot: {delay: 0}}\n")
    before = path.read_text()
    assert run("--update", "--yes").exit_code == 1
    assert path.read_text() == before


# The README's promise: failures say why


def test_each_line_of_a_difference_is_explained(rules: Path) -> None:
    write(ONE.replace('["(a) @ 0"]', '["(a) @ 1"]'))
    text = run().output
    missing, extra = re.split(r"^    \+ ", text, flags=re.MULTILINE)
    assert "└─ missing  Temp(a, high) @ 2  there is Temp(a, low) @ 2" in missing
    assert "└─ Temp(a, high) @ 1  input" in extra


# Ticks that the rules give a length


TIMED = """\
tests:
- name: for two minutes
  facts: ["Temp(a, high) @ 2026-03-02T08:00Z", "Temp(a, high) @ 2026-03-02T08:01Z"]
  expect: {Hot: ["(a) @ 2026-03-02T08:00Z"]}
  final: {"Hot(a) @ 2026-03-02T08:00Z": 2026-03-02T08:01Z}
"""


def test_the_rules_say_how_long_a_tick_is(rules: Path) -> None:
    rules.write_text("tick 1m.\n" + rules.read_text().replace("T+1", "T+1m"))
    write(TIMED)
    assert run("rules.test.yaml").exit_code == 0
    write("tick: 60s\norigin: 2026-01-01T00:00Z\n" + TIMED)
    assert run("rules.test.yaml").exit_code == 0


def test_a_test_file_does_not_contradict_the_rules(rules: Path) -> None:
    rules.write_text("tick 1m.\n" + rules.read_text())
    write("tick: 10m\n" + TIMED)
    done = run("rules.test.yaml")
    assert done.exit_code == 1
    assert "the rules say `tick 1m.`, and ticks of 10m are asked for" in done.output
    assert "1 problem" in done.output
