"""One page to look at: rules, dependencies, delay and window, and with facts what holds when.

The page is self-contained. Pictures are inline SVG, and the facts are data that a script draws;
nothing of a user's is ever markup: it is escaped here, and set as text there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeAlias

from tidelog.analysis.analyze import Analysis, analyze
from tidelog.analysis.containment import Budget
from tidelog.analysis.definitive import Awaited
from tidelog.analysis.dependencies import Dependencies
from tidelog.analysis.passes import passes
from tidelog.data.readers.places import FactsLike
from tidelog.data.ticks import Ticks
from tidelog.data.types import json_value
from tidelog.evaluation.duckdb import Engine
from tidelog.evaluation.goal_directed.model import Stretch
from tidelog.explain.record import Lane, Record, Waiting, objects_of, record, waiting
from tidelog.explain.text import absence_text, comparison_text, fact_text, moment, place
from tidelog.language.diagnostics import visible
from tidelog.language.printer import print_rule, print_value
from tidelog.language.program import Program, Value
from tidelog.logic.core import Predicate, Role
from tidelog.views.pictures import escaped, graph_svg, timeline_svg
from tidelog.views.terminal import plural
from tidelog.views.verdicts import measure_lines

# A predicate and the objects of one of its lanes.
_LaneKey: TypeAlias = "tuple[str, tuple[Value, ...]]"
# Characters of lanes, and of proofs: a page is looked at in a browser, and sent by mail.
MOST_OF_LANES = 500_000
MOST_OF_PROOFS = 1_000_000
# What may end a script or be read as a line's end in it, wherever it stands in the data.
_UNSAFE = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def embedded(value: object) -> str:
    """JSON that can stand in a page: no character of it can end the script around it.

    >>> embedded("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(json_value(value), ensure_ascii=False, separators=(",", ":"))
    return "".join(_UNSAFE.get(c, c) for c in text) if not _UNSAFE.keys().isdisjoint(text) else text


@dataclass(frozen=True)
class Looked:
    """What a page is about: rules by name, with or without facts."""

    name: str
    text: str
    program: Program
    queries: tuple[str, ...]
    facts: FactsLike
    low: int | None = None
    high: int | None = None
    ticks: Ticks | None = None
    budget: float = 10.0
    command: str = ""
    progress: Callable[[str], None] = lambda _: None


def report_page(looked: Looked) -> tuple[str, Record | None]:
    """The page, and what was recorded for it."""
    recorded, pending = None, None
    asked, progress = looked.queries, looked.progress
    if looked.facts is not None:
        with Engine(
            looked.program, looked.facts, looked.ticks, True, progress, None, asked
        ) as engine:
            recorded = record(engine, asked, looked.low, looked.high, looked.budget)
            pending = waiting(engine, asked, recorded.range, looked.budget)
    analyses = []
    for query in asked:
        progress(f"analysing {query}")
        share = Budget(looked.budget / max(len(asked), 1))
        analyses.append(analyze(looked.program, query, share))
    deps = passes(looked.program, asked).dependencies
    about = (looked.name, looked.text, deps, analyses)
    return page(*about, recorded, pending, looked.ticks, looked.command), recorded


def page(
    title: str,
    text: str,
    deps: Dependencies,
    analyses: Sequence[Analysis],
    recorded: Record | None = None,
    pending: Sequence[Waiting] | None = None,
    ticks: Ticks | None = None,
    command: str = "",
) -> str:
    """The whole page as HTML. `command` is how `tidelog why` is called for a fact."""
    style, script = (
        files("tidelog.views").joinpath(name).read_text("utf-8")
        for name in ("report.css", "report.js")
    )
    data = {} if recorded is None else record_data(recorded, ticks)
    data["command"] = command
    data["waiting"] = None if pending is None else [_waits(w, ticks) for w in pending]
    sections = [
        _section("rules", "Rules", rules_html(text)),
        _section("graph", "What depends on what", _graph(deps)),
        _section("waits", "How long to wait, what to keep", "".join(map(analysis_html, analyses))),
    ]
    if recorded is not None:
        sections.insert(0, _section("lanes", "What holds when", _LANES))
    names = {
        "lanes": "facts",
        "rules": "rules",
        "graph": "dependencies",
        "waits": "delay and window",
    }
    if recorded is None:
        del names["lanes"]
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name in names.items())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escaped(title)}</title><style>{style}</style></head>\n<body>"
        f"<header><h1>{escaped(title)}</h1><nav>{links}</nav>"
        '<button id="theme" type="button">dark or light</button></header>\n<main>'
        + "\n".join(sections)
        + '</main>\n<script type="application/json" id="data">'
        + embedded(data)
        + f"</script>\n<script>{script}</script>\n</body></html>\n"
    )


def _section(key: str, title: str, body: str) -> str:
    return f'<section id="{key}"><h2>{escaped(title)}</h2>{body}</section>'


def rules_html(text: str) -> str:
    """The rules with their line numbers."""
    lines = text.split("\n")
    lines = lines[:-1] if lines and not lines[-1] else lines
    rows = "".join(f'<li id="line{i}">{escaped(line)}</li>' for i, line in enumerate(lines, 1))
    return f'<ol class="code">{rows}</ol>'


def _graph(deps: Dependencies) -> str:
    about = (
        "<p>Inputs are dashed, outputs have a thick border. An edge says how many ticks from its"
        " head a rule looks. Where they are not 0, phi is how many ticks a predicate takes to"
        " settle, and keep how many older slices of it a stream holds.</p>"
    )
    return f'{about}<div class="scroll">{graph_svg(deps)}</div>'


def analysis_html(analysis: Analysis) -> str:
    """One query: its class, delay and window in words and on a line of time."""
    deps = analysis.deps
    lines = [f"class {deps.cls.value}, {deps.cls.title}: {deps.reason.message}"]
    lines += [analysis.refused] if analysis.refused is not None else []
    for name, measure in (("delay", analysis.delay), ("window", analysis.window)):
        if measure is not None:
            lines += measure_lines(name, measure, analysis.window_delay)[:1]
    words = "".join(f"<p>{escaped(line)}</p>" for line in lines)
    picture = timeline_svg(analysis)
    replay = (
        '<p class="replay" hidden><label>everything up to <input type="range"> has arrived</label>'
        ' <output aria-live="polite"></output></p>'
        if 'class="given"' in picture
        else ""
    )
    return (
        f'<article class="query"><h3>{escaped(analysis.query)}</h3>{words}'
        f'<div class="scroll">{picture}</div>{replay}</article>'
    )


_LANES = (
    '<div class="tools">'
    '<label>filter <input id="filter" type="search" placeholder="predicate or object"></label>'
    '<label>complete up to <input id="tin" type="range"></label>'
    '<output id="when" for="tin"></output>'
    '<input id="number" type="number" aria-label="complete up to this tick">'
    '<span class="zoom"><button id="out" type="button" aria-label="zoom out">&minus;</button>'
    '<button id="in" type="button" aria-label="zoom in">+</button>'
    '<button id="all" type="button">all</button></span>'
    '<button id="fold" type="button">show or hide inputs</button></div>'
    '<p id="status" role="status" aria-live="polite"></p>'
    '<ul class="legend"><li class="final">answer, final</li><li class="derived">derived</li>'
    '<li class="input">input</li><li class="open">not final yet</li>'
    '<li class="kept">kept</li><li class="gone">forgotten</li><li class="later">to come</li></ul>'
    '<div class="split"><div id="scroll"><canvas id="canvas" tabindex="0" role="application"'
    ' aria-label="lanes of facts: arrows move, Enter explains, plus and minus zoom"></canvas>'
    '<div id="spacer"></div></div>'
    '<aside id="proof" aria-live="polite"><p>Choose a fact to see why it holds.</p></aside></div>'
    '<div id="pending"></div><ul id="notes"></ul>'
)


# Data for the script


def record_data(record: Record, ticks: Ticks | None) -> dict[str, object]:
    deps = record.deps.folded
    predicates = [p for p in deps.core.predicates.values() if p.role is not Role.GIVEN]
    place_of = {p.base: i for i, p in enumerate(predicates)}
    lanes, places, notes = _lanes(record, place_of)
    rules, facts = _proved(record, {p.base: p for p in predicates}, ticks, places)
    if len(facts) < len(record.facts):
        missing = len(record.facts) - len(facts)
        notes.append(f"{missing} steps of proofs are left out; `tidelog why` proves any fact")
    low, high = (0, 0) if record.range.empty else (int(record.range.low), int(record.range.high))
    return {
        "low": low,
        "high": high,
        "ticks": None if ticks is None else [ticks.length, ticks.origin],
        "predicates": [
            {
                "name": p.base,
                "input": p.base in deps.core.input_of,
                "output": p.name in deps.queries,
                "phi": _number(deps.phi[p.name], 0),
                "keep": _number(deps.keep.get(p.name, math.inf), None),
                "pinned": [k for name, k in deps.pinned if name == p.name],
            }
            for p in predicates
        ],
        "lanes": lanes,
        "rules": rules,
        "facts": facts,
        "notes": list(dict.fromkeys(notes)),
    }


def _lanes(
    record: Record, place_of: Mapping[str, int]
) -> tuple[list[list[object]], dict[_LaneKey, int], list[str]]:
    """The lanes that a page has room for, where each is, and what is left out.

    Predicates with little to draw come first, so that none crowds out the others.
    """
    drawn: dict[str, list[tuple[Lane, list[object], int]]] = {}
    for lane in record.lanes:
        shown: list[object] = [
            place_of[lane.predicate],
            ", ".join(map(_value, lane.objects)),
            [n for stretch in lane.stretches for n in stretch],
            *([[n for point in lane.numbers for n in point]] if lane.numbers else []),
        ]
        drawn.setdefault(lane.predicate, []).append((lane, shown, len(embedded(shown)) + 1))
    left, notes, kept = MOST_OF_LANES, list(record.notes), set[_LaneKey]()
    for name in sorted(drawn, key=lambda name: sum(size for *_, size in drawn[name])):
        for lane, _, size in drawn[name]:
            left -= size
            if left < 0:
                notes.append(f"{name} has more lanes than are shown")
                break
            kept.add((name, lane.objects))
        left = max(left, 0)
    lanes = [
        ((name, lane.objects), shown)
        for name, some in drawn.items()
        for lane, shown, _ in some
        if (name, lane.objects) in kept
    ]
    places = {key: i for i, (key, _) in enumerate(lanes)}
    return [shown for _, shown in lanes], places, notes


def _proved(
    record: Record,
    predicates: Mapping[str, Predicate],
    ticks: Ticks | None,
    lanes: Mapping[_LaneKey, int],
) -> tuple[list[list[str | int]], list[list[object]]]:
    """The rules that prove recorded facts, and the facts, each with its lane and its rule."""
    rules: dict[str, int] = {}
    written: list[list[str | int]] = []
    facts: list[list[object]] = []
    room = _room(record, ticks)
    for recorded in record.facts[:room]:
        fact = recorded.fact
        rule = -1
        if recorded.rule is not None:
            where, text = place(recorded.rule), print_rule(recorded.rule)
            rule = rules.setdefault(f"{where}  {text}", len(rules))
            if rule == len(written):
                written.append([where, text, recorded.rule.origin.line])
        predicate = predicates[fact.predicate]
        lane = -1
        if predicate.temporal and not isinstance(fact, Stretch):  # which is of many facts
            lane = lanes.get((predicate.base, objects_of(record.keys[predicate.name], fact)), -1)
        compared = [absence_text(absence, ticks) for absence in recorded.absent]
        compared += [comparison_text(*c) for c in recorded.comparisons]
        premises = [premise for premise in recorded.premises if premise < room]
        omitted = recorded.omitted + len(recorded.premises) - len(premises)
        compared += [f"... {plural(omitted, 'more fact')}"] if omitted else []
        about: list[object] = [fact_text(fact, ticks), lane, fact.time, rule]
        facts.append([*about, premises, *([compared] if compared else [])])
    return written, facts


def _room(record: Record, ticks: Ticks | None) -> int:
    """How many steps of proofs a page has room for."""
    left = MOST_OF_PROOFS
    for number, recorded in enumerate(record.facts):
        left -= len(fact_text(recorded.fact, ticks)) + 50 * (2 + len(recorded.comparisons))
        if left < 0:
            return number
    return len(record.facts)


def _value(value: Value) -> str:
    return visible(print_value(value))


def _waits(waiting: Waiting, ticks: Ticks | None) -> list[object]:
    def said(awaited: Awaited) -> str:
        return visible(awaited.text(lambda time: str(moment(time, ticks))))

    waits = [said(awaited) for awaited in waiting.waits_for]
    unless = [[said(awaited) for awaited in way] for way in waiting.unless]
    return [waiting.tin, said(waiting.answer), waits, *([unless] if unless else [])]


def _number(value: float, least: int | None) -> int | None:
    """A finite number; None for what never ends, `least` for what is known from the start."""
    if value == math.inf:
        return None
    return least if value == -math.inf else int(value)


# Notebooks


def escaped_lines(text: str) -> str:
    return "\n".join(map(escaped, text.split("\n")))


def table_html(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escaped(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{escaped(value)}</td>' for value in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{escaped(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
