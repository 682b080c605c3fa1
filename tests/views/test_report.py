"""The report and the notebook views as text; tests/browser opens them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from oracle import naive
from oracle.generate import Case, programs_and_facts
from oracle.horizon import temporal_predicates
from support.deep import examples
from support.places import ROOT

import tidelog
from tidelog.analysis.containment import Ground
from tidelog.cli import cli
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.timeline import TooHard
from tidelog.explain.record import objects_of, record
from tidelog.views.report import embedded

TURBINES = ("examples/turbines/rules.tdl", "--facts", "examples/turbines/facts")


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


class Page(HTMLParser):
    """The tags of a page, the data of its first script, and the text of the rest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


def test_a_page_is_self_contained(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = run("report", *TURBINES, "--out", out)
    assert (result.exit_code, result.output) == (0, f"{out}: 2 outputs, 18 lanes, 43 proofs\n")
    page = Page(out.read_text("utf-8"))
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"https?://", out.read_text("utf-8"))
    assert page.data["low"] == 0
    assert page.data["high"] == 11
    assert "svg" in page.tags
    assert "Shdn(X) @ T+1 :- Cool(X) @ T, Flag(X) @ T+1." in page.text


def test_the_data_of_a_page(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    run("report", *TURBINES, "--query", "Malfunc", "--from", 2, "--to", 8, "--out", out)
    data = Page(out.read_text("utf-8")).data
    names = [p["name"] for p in data["predicates"]]
    lanes = {(names[p], label): runs for p, label, runs in data["lanes"]}
    assert lanes["Malfunc", "north"] == [2, 1]
    assert lanes["Malfunc", "east"] == [6, 1]
    assert lanes["Temp", "north, high"] == [2, 3, 7, 2]
    texts = [fact[0] for fact in data["facts"]]
    proof = data["facts"][texts.index("Malfunc(east) @ 6")]
    assert [texts[i] for i in proof[4]] == ["Shdn(east) @ 8"]
    assert data["rules"][proof[3]][:2] == ["rules.tdl:10", "Malfunc(X) @ T-2 :- Shdn(X) @ T."]
    assert [3, "Malfunc(north) @ 2", ["Temp(north, high) @ 4"]] in data["waiting"]


def test_times_of_a_page_are_timestamps_where_ticks_have_a_length(tmp_path: Path) -> None:
    rules, out, facts = tmp_path / "rules.tdl", tmp_path / "report.html", tmp_path / "E.csv"
    rules.write_text("input E(x: text) @ t.\nP(X) @ T :- E(X) @ T, E(X) @ T+1.\n")
    facts.write_text("x,t\na,2024-05-01T00:00:10Z\na,2024-05-01T00:01:10Z\n")
    run("report", rules, "--facts", facts, "--tick", "1m", "--out", out)
    data = Page(out.read_text("utf-8")).data
    assert data["ticks"] == [60_000_000, 0]  # the axis and the slider reckon with it
    assert "P(a) @ 2024-05-01T00:00:00Z" in [fact[0] for fact in data["facts"]]
    (waits,) = [w for w in data["waiting"] if w[1].startswith("P(a) @ 2024-05-01T00:00")]
    assert waits[1:3] == ["P(a) @ 2024-05-01T00:00:00Z", ["E(a) @ 2024-05-01T00:01:00Z"]]


def test_answers_come_first_and_numbers_are_lines(tmp_path: Path) -> None:
    rules, out = tmp_path / "rules.tdl", tmp_path / "report.html"
    rules.write_text(
        "input cpu(host: text, load: float) @ t.\nBusy(H) @ T :- cpu(H, L) @ T, L > 1.\n"
        "Alarm(H) @ T+1 :- Busy(H) @ T, Busy(H) @ T+1.\noutput Alarm.\n"
    )
    facts = tmp_path / "cpu.csv"
    facts.write_text("host,load,t\n" + "".join(f"a,{n}.5,{n}\n" for n in range(4)))
    assert run("report", rules, "--facts", facts, "--out", out).exit_code == 0
    page = Page(out.read_text("utf-8"))
    names = [p["name"] for p in page.data["predicates"]]
    assert [names[lane[0]] for lane in page.data["lanes"]] == ["Alarm", "Busy", "cpu"]
    assert page.data["lanes"][-1][3] == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert len(page.data["lanes"][0]) == 3  # no numbers
    for legend in ("answer, final", "derived", "input", "not final yet"):
        assert legend in page.text
    text = out.read_text("utf-8")
    assert all(f'id="{name}"' in text for name in ("fold", "when"))


def test_proofs_over_windows_and_with_aggregates_are_shown(tmp_path: Path) -> None:
    rules, out = tmp_path / "rules.tdl", tmp_path / "report.html"
    rules.write_text(
        "input Pay(card: text, shop: text, sum: float) @ t.\n"
        "Spent(C, S) @ T :- some Pay(C, _, _) @ [T-1, T], S = sum(V : Pay(C, _, V) @ [T-9, T]).\n"
    )
    facts = tmp_path / "Pay.csv"
    facts.write_text("card,shop,sum,t\nc,a,1.5,0\nc,b,2,1\n")
    assert run("report", rules, "--facts", facts, "--out", out).exit_code == 0
    data = Page(out.read_text("utf-8")).data
    texts = [fact[0] for fact in data["facts"]]
    proof = data["facts"][texts.index("Spent(c, 3.5) @ 1")]
    premises = {texts[i]: data["facts"][i] for i in proof[4]}
    assert set(premises) == {"some Pay(c, _, _) @ [0, 1]", "sum(V : Pay(c, _, V) @ [-8, 1]) = 3.5"}
    names = [p["name"] for p in data["predicates"]]
    (spent,) = [lane for lane in data["lanes"] if names[lane[0]] == "Spent"]
    assert spent[3] == [0, 1.5, 1, 3.5]  # the numbers of its lane


def test_a_page_says_what_aggregates_are_waited_for(tmp_path: Path) -> None:
    rules, out, facts = tmp_path / "rules.tdl", tmp_path / "report.html", tmp_path / "E.csv"
    rules.write_text(
        "input E(x: text, v: int) @ t.\n"
        "P(X, M) @ T :- E(X, _) @ T, M = max(V : E(X, V) @ [T, T+1]).\n"
    )
    facts.write_text("x,v,t\na,1,0\na,2,1\n")
    assert run("report", rules, "--facts", facts, "--out", out).exit_code == 0
    waits = Page(out.read_text("utf-8")).data["waiting"]
    assert waits[0] == [0, "P(a, _) @ 0", ["max(V : E(a, V) @ [0, 1])"]]


def test_many_recursive_facts_are_proved_where_they_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of 200 machines took most of a minute for proofs that nobody looked at."""
    monkeypatch.setattr("tidelog.explain.record.MOST_PROVED", 10)
    program = tidelog.parse(
        "Up(X) @ T :- E(X) @ T. Up(X) @ T+1 :- Up(X) @ T, E(X) @ T+1.", "up.tdl"
    )
    rows = [(f"m{i}", t) for i in range(8) for t in range(50)]
    page = Page(program.report(tmp_path / "page.html", {"E": rows}).read_text("utf-8"))
    assert "Up has too many facts for a proof of each" in page.data["notes"]
    proved = [fact[0] for fact in page.data["facts"] if fact[3] >= 0]
    assert sorted(proved) == [f"Up(m{i}) @ 0" for i in range(8)]


def test_json_says_what_was_written(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    said = json.loads(run("report", TURBINES[0], "--out", out, "--json").output)
    size = len(out.read_bytes())
    assert said == {
        "file": str(out), "outputs": 2, "lanes": 0, "proofs": 0, "bytes": size, "notes": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--out", ""], 2, "--out names no file"),
        (["--facts", "", "--out", "x"], 2, "--facts names no file"),
        (["--out", "README.md/x.html"], 2, "cannot write"),
        (["--from", "1", "--out", "x"], 2, "go with --facts"),
        (["--facts", "examples/turbines/facts", "--to", "inf", "--out", "x"], 2, "finite"),
        (["--facts", "examples/turbines/facts", "--to", "soon", "--out", "x"], 2, "whole number"),
        (["--facts", "nowhere", "--out", "x"], 1, "no such file"),
        (
            ["--facts", "examples/turbines/facts", "--to", "99999999", "--out", "x"],
            1,
            "choose with",
        ),
        (["--query", "Malfunk", "--out", "x"], 2, "did you mean Malfunc?"),
        ([], 2, "--out"),
    ],
)
def test_wrong_use(args: list[str], code: int, said: str) -> None:
    result = run("report", TURBINES[0], *args)
    assert result.exit_code == code
    assert said in result.output
    assert "Traceback" not in result.output


@given(st.text())
@examples(40, deep=1000)
def test_embedded_data_comes_back_and_cannot_end_its_script(text: str) -> None:
    data = embedded({"x": [text, "</script><!--"]})
    assert json.loads(data) == {"x": [text, "</script><!--"]}
    assert not set(data) & set("<>&\u2028\u2029")


def test_markup_is_text_without_a_browser(tmp_path: Path) -> None:
    bad = "</script></title></pre><script>bad()</script>\"'&"
    rules = tmp_path / "rules.tdl"
    rules.write_text(f'% {bad}\nP(X) @ T :- E(X) @ T, X != "</ol><img>".\n')
    program = tidelog.load(rules)
    out = tmp_path / "report.html"
    facts = tmp_path / "facts.jsonl"
    facts.write_text(json.dumps({"predicate": "E", "a": bad, "time": 0}) + "\n")
    assert run("report", rules, "--facts", facts, "--out", out).exit_code == 0
    page = Page(out.read_text("utf-8"))
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert bad in page.text
    assert page.data["facts"][0][0] == f"P({tidelog.language.printer.print_value(bad)}) @ 0"
    step = tidelog.Stream(program).push(0, {"E": [(bad,)]})
    why = program.why("P(a) @ 0", {"E": [(bad, 0)]})
    for thing in (program, tidelog.analyze(program, "P"), step, why):
        shown = Page(thing._repr_html_())
        assert not {"script", "img", "ol"} & set(shown.tags)
    assert bad in Page(step._repr_html_()).text


MEASURED = """
    input Load(x: text, n: int) @ t.
    input Level(n: int) @ t.
    Farm(S) @ T :- Load(_, _) @ T, S = sum(N : Load(_, N) @ T).
    Same(S) @ T :- Farm(S) @ T.
    Twice(M) @ T :- Level(N) @ T, M = 2 * N.
    Best(X, N) @ T :- Load(X, N) @ T, N = max(M : Load(_, M) @ T).
"""


def test_a_number_that_a_rule_makes_is_a_line_in_one_lane() -> None:
    facts = {"Load": [("a", 3, 0), ("b", 4, 0), ("a", 5, 1)], "Level": [(7, 0), (8, 1)]}
    program = tidelog.parse(MEASURED)
    with Engine(program, facts) as engine:
        lanes = record(engine, ["Same", "Twice", "Best"]).lanes
    drawn = {(lane.predicate, lane.objects): (lane.stretches, lane.numbers) for lane in lanes}
    assert drawn["Farm", ()] == drawn["Same", ()] == (((0, 2),), ((0, 7.0), (1, 5.0)))
    assert drawn["Twice", ()] == (((0, 2),), ((0, 14.0), (1, 16.0)))
    assert drawn["Best", ("b",)] == (((0, 1),), ((0, 4.0),))
    # Numbers that come in may be names of things.
    assert drawn["Level", (7,)] == (((0, 1),), ())


@given(programs_and_facts(huge=False, max_rules=5))
@examples(10, deep=250)
def test_lanes_and_proofs_hold_what_holds(case: Case) -> None:
    """Against the naive evaluator: each lane's ticks, and a proof for each derived fact."""
    temporal = set(temporal_predicates(case.program))
    names = [*case.program.heads, *case.program.inputs]
    with Engine(case.program, case.facts) as engine:
        try:
            recording = record(engine, case.queries, case.low, case.high, budget=3.0)
        except TooHard:
            return
    true = naive.evaluate(case.program, case.facts, names, case.low, case.high)
    predicates = {p.base: p for p in recording.deps.core.predicates.values()}
    wanted = {
        (name, objects_of(recording.keys[predicates[name].name], Ground(name, row[:-1])), row[-1])
        for name in predicates
        if name in temporal
        for row in true[name]
    }
    shown = [
        (lane.predicate, lane.objects, tick)
        for lane in recording.lanes
        for first, n in lane.stretches
        for tick in range(first, first + n)
    ]
    assert len(shown) == len(set(shown))
    assert set(shown) == wanted
    proved = {(f.fact.predicate, (*f.fact.args, f.fact.time)) for f in recording.facts}
    derived = {n for n in predicates if n in temporal and n in case.program.heads}
    assert {(n, row) for n in derived for row in true[n]} <= proved
