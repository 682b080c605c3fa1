"""Reports for the terminal: plain text first, coloured only where a person is looking."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.text import Text

from tidelog.analysis.advice import Suggestion, advice
from tidelog.analysis.blocks import blocks_kept
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.language.checks import Report
from tidelog.language.diagnostics import Diagnostic, Source, render, visible
from tidelog.language.graph import Bound
from tidelog.language.printer import print_literal, print_rule
from tidelog.language.program import Rule
from tidelog.views.plans import plan_lines, ucq_lines

if TYPE_CHECKING:
    from tidelog.data.readers.places import FactsLike
    from tidelog.data.ticks import Ticks
    from tidelog.streaming.options import StreamMode

WIDTH = 80


def stdout() -> Console:
    """A console that writes text as it is: no markup, no wrapping, colour on a terminal only."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def stderr() -> Console:
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


class Progress:
    """What is being done, on a terminal's standard error, once it has taken a second."""

    def __enter__(self) -> Callable[[str], None]:
        self._console = stderr()
        self._status = self._console.status("working")
        self._timer = threading.Timer(1.0, self._status.start)
        self._timer.daemon = True
        if self._console.is_terminal:
            self._timer.start()
        return lambda text: self._status.update(visible(text))

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()
        self._status.stop()


# Diagnostics

_Styles: TypeAlias = "Sequence[tuple[re.Pattern[str], str]]"

_STYLES = (
    (re.compile(r"^error\[\w+\]"), "bold red"),
    (re.compile(r"^warning\[\w+\]"), "bold yellow"),
    (re.compile(r"^note(\[\w+\]|:)"), "bold blue"),
    (re.compile(r"^hint:"), "bold green"),
    (re.compile(r"^ *--> .*"), "dim"),
    (re.compile(r"(?<= \| ) *\^+$"), "bold red"),
)


def diagnostic_text(diagnostic: Diagnostic, source: Source) -> Text:
    lines = []
    for line in render(diagnostic, source).split("\n"):
        text = Text(line)
        for pattern, style in _STYLES:
            text.highlight_regex(pattern, style)
        lines.append(text)
    return Text("\n").join(lines)


def print_diagnostics(console: Console, report: Report, shown: Iterable[Diagnostic]) -> None:
    for diagnostic in shown:
        if console.is_terminal:
            console.print(diagnostic_text(diagnostic, report.source), end="\n\n")
        else:  # many times faster, and long lists go to files
            console.file.write(render(diagnostic, report.source) + "\n\n")


def report_summary(report: Report) -> str:
    """`rules.tdl: 2 errors, 1 warning`, or what the file holds."""
    name = visible(report.source.file)
    counts = [(len(report.errors), "error"), (len(report.warnings), "warning")]
    problems = [plural(n, word) for n, word in counts if n]
    notes = [plural(len(report.notes), "note")] if report.notes else []
    if problems:
        return f"{name}: {', '.join(problems + notes)}"
    program = report.program
    facts = sum(not rule.body for rule in program.rules)
    parts = [
        plural(len(program.rules) - facts, "rule"),
        *([plural(facts, "fact")] if facts else []),
        plural(len(program.inputs), "input"),
        plural(len(program.outputs), "output"),
    ]
    return "; ".join([f"{name}: no problems in {', '.join(parts)}", *notes])


def plural(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


# Dependencies

SECTIONS = ("class", "graph", "phi", "ucq", "plan", "sql", "pipeline")


def explain_lines(
    deps: Dependencies,
    sections: Sequence[str],
    mode: StreamMode = "offline",
    facts: FactsLike = None,
    ticks: Ticks | None = None,
) -> list[str]:
    """What the rules say about one query, a section after the other; a pipeline in this mode.

    With facts, the SQL is what runs over these.
    """
    show: dict[str, Callable[[Dependencies], list[str]]] = {
        "class": lambda deps: _class_lines(deps.folded, blocks_kept(deps)),
        "graph": lambda deps: _graph_lines(deps.folded),
        "phi": lambda deps: _phi_lines(deps.folded),
        "ucq": ucq_lines,
        "plan": plan_lines,
        "sql": lambda deps: _sql_lines(deps, facts, ticks),
        "pipeline": lambda deps: _pipeline_lines(deps, mode),
    }
    (query,) = deps.queries
    lines = [f"{query}: class {deps.cls.value}, {deps.cls.title}"]
    for section in sections:
        lines += ["  " + line for line in show[section](deps)]
    return lines


def _sql_lines(deps: Dependencies, facts: FactsLike, ticks: Ticks | None) -> list[str]:
    from tidelog.views.statements import sql_lines  # opens DuckDB

    return sql_lines(deps, facts, ticks)


def _pipeline_lines(deps: Dependencies, mode: StreamMode) -> list[str]:
    from tidelog.views.pipeline import pipeline_lines  # streams are more than most commands load

    return [part for line in pipeline_lines(deps, mode) for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    """A line that is too long, continued below its text."""
    indent = " " * 10
    first, *rest = _wrap(line.strip(), WIDTH - 16)
    start = line[: len(line) - len(line.lstrip())]
    return [start + first, *(start + indent[len(start) :] + more for more in rest)]


def _class_lines(deps: Dependencies, blocks: Sequence[str]) -> list[str]:
    (query,) = deps.queries
    rows = [("because", f"{deps.reason.message}{_at(deps)}")]
    rows.append(("settles", _settles(deps, query)))
    if deps.rank is not None:
        rows.append(("rank", str(deps.rank)))
    if deps.radius is not None:
        rows.append(("radius", str(deps.radius)))
    rows.append(("state", _state(deps)))
    if blocks:
        rows.append(("blocks", f"{', '.join(blocks)}; one row per group and tick, not the facts"))
    rows.append(("key", _key(deps)))
    if deps.cls is Class.BLOCKING:
        rows.append(("promise", _promise(deps)))
    lines = [line for name, text in rows for line in _row(name, text)]
    if deps.cls is Class.BLOCKING:
        for suggestion in advice(deps.core.program, query):
            lines += _suggestion_lines(suggestion)
    return lines


def _row(name: str, text: str) -> list[str]:
    first, *rest = _wrap(text, WIDTH - 12)
    return [f"{name:<10}{first}", *(" " * 10 + more for more in rest)]


def _promise(deps: Dependencies) -> str:
    """What holds of every query, blocking ones too."""
    (query,) = deps.queries
    always = "what holds stays true, and answers over finite data are exact"
    if not deps.core.predicates[query].temporal:
        return always
    return f"{always}; `tidelog definitive` says of one time whether they can still change"


def _suggestion_lines(suggestion: Suggestion) -> list[str]:
    """What to write instead, as a difference."""
    lines = _row("suggest", f"for class {suggestion.cls.value}: {suggestion.text}")
    for sign, rules in (("-", suggestion.before), ("+", suggestion.after)):
        for rule in rules:
            first, *rest = _filled(_parts(rule), WIDTH - 18)
            lines += [f"{'':<10}{sign} {first}", *(" " * 16 + more for more in rest)]
    return lines


def _at(deps: Dependencies) -> str:
    places = dict.fromkeys(str(rule.origin) for rule in deps.reason.rules)
    return f" ({', '.join(places)})" if places else ""


def _settles(deps: Dependencies, query: str) -> str:
    phi = deps.phi[query]
    if deps.cls is Class.BLOCKING:
        return "possibly never: an answer may have to wait for any later input"
    # Slices at explicit times that a stream reaches hold every answer back until they settle.
    pin = max((k + deps.phi[name] for name, k in deps.pinned), default=-math.inf)
    rigid = any(not p.temporal for p in deps.core.inputs)
    if not deps.core.predicates[query].temporal and rigid:
        text = "once its rigid inputs are known"
    elif phi > 0:
        text = f"{plural(int(phi), 'tick')} after its time (phi {phi})"
    elif phi > -math.inf:
        text = f"at its own time (phi {phi})"
    else:
        text = "known from the start: no stream reaches it"
        if pin > -math.inf:
            return f"once tick {pin} is known"
    return text if pin == -math.inf else f"{text}, and not before tick {pin}"


def _state(deps: Dependencies) -> str:
    if deps.cls is Class.BLOCKING:
        return "may grow with the stream"
    names = _names(deps)
    kept = [f"{names[name]} {deps.keep[name]}" for name in deps.predicates if deps.keep.get(name)]
    kept += [f"{names[name]} @ {k} for ever" for name, k in deps.pinned]
    return f"older slices kept: {', '.join(kept)}" if kept else "no older slices"


def _key(deps: Dependencies) -> str:
    key = deps.key
    if key.positions is not None:
        # What comes in of a predicate is split as the predicate itself.
        places = {deps.core.predicates[name].base: i for name, i in key.positions.items()}
        return ", ".join(f"{name}[{i + 1}]" for name, i in places.items())
    return f"none: {key.reason}{f' ({key.clause.origin})' if key.clause else ''}"


def _names(deps: Dependencies) -> dict[str, str]:
    """Predicates as people read them."""
    return {name: predicate.shown for name, predicate in deps.core.predicates.items()}


def _phi_lines(deps: Dependencies) -> list[str]:
    names = _names(deps)
    rows: list[tuple[str, ...]] = [("predicate", "phi", "keep", "offsets", "input offsets")]
    for name in deps.predicates:
        above, below = deps.offsets[name], deps.input_offsets[name]
        rows.append(
            (
                names[name],
                _bound(deps.phi[name]),
                _bound(deps.keep.get(name, -math.inf)),
                _interval(above.low, above.high),
                _interval(below.low, below.high),
            )
        )
    if deps.negated:
        safe = ["psi", *(_bound(deps.psi[name]) for name in deps.predicates)]
        rows = [(*row[:2], psi, *row[2:]) for row, psi in zip(rows, safe, strict=True)]
    return table(rows)


def _graph_lines(deps: Dependencies) -> list[str]:
    rows = [("head", "offset", "needs", "rule")]
    order = {name: i for i, name in enumerate(deps.predicates)}
    names = _names(deps)
    rows += [
        (
            names[edge.head],
            edge.distance,
            edge.asks + names[edge.body],
            str(edge.clause.origin),
        )
        for edge in sorted(deps.edges, key=lambda e: order[e.head])
    ]
    lines = table(rows)
    if deps.negated:
        for number, layer in enumerate(deps.strata, 1):
            lines.append(f"stratum {number}: {', '.join(names[name] for name in layer)}")
    for component in deps.components:
        if component[0] in deps.recursive:
            ways = ["`not`"] if component in deps.cycles_through_not else []
            ways += ["aggregates"] if component in deps.cycles_through_aggregates else []
            back = f", through {' and '.join(ways)}, strictly back" if ways else ""
            together = ", ".join(names[name] for name in component)
            lines.append(f"recursive together: {together}{back}")
    return lines


def _bound(value: Bound) -> str:
    if value == math.inf:
        return "inf"
    return "-" if value == -math.inf else str(value)


def _interval(low: Bound, high: Bound) -> str:
    if low > high:
        return "-"
    left = "-inf" if low == -math.inf else str(low)
    right = "inf" if high == math.inf else str(high)
    return f"[{left}, {right}]"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns padded to their widest cell, two spaces apart."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _parts(rule: Rule) -> list[str]:
    """A rule in parts that stay whole: the head, then literal by literal."""
    if not rule.body:
        return [print_rule(rule)]
    *body, last = map(print_literal, rule.body)
    return [f"{print_literal(rule.head)} :-", *(f"{literal}," for literal in body), f"{last}."]


def _wrap(text: str, width: int) -> list[str]:
    return _filled(text.split(" "), width)


def _filled(words: Iterable[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def explain_json(deps: Dependencies) -> dict[str, object]:
    """Everything `explain` knows of one query; unbounded numbers are null."""
    (query,) = deps.queries
    deps = deps.folded
    key, names = deps.key, _names(deps)
    return {
        "query": query,
        "class": deps.cls.value,
        "title": deps.cls.title,
        "reason": deps.reason.message,
        "rules": [
            {"rule": print_rule(r), "file": r.origin.file, "line": r.origin.line}
            for r in deps.reason.rules
        ],
        "recursive": bool(deps.recursive),
        "connected": deps.unconnected is None,
        "rank": deps.rank,
        "radius": deps.radius,
        "phi": _number(deps.phi[query]),
        "pinned": [{"predicate": names[name], "time": k} for name, k in deps.pinned],
        "advice": [
            {
                "text": s.text,
                "before": [print_rule(r) for r in s.before],
                "after": [print_rule(r) for r in s.after],
                "class": s.cls.value,
            }
            for s in advice(deps.core.program, query)
        ],
        "key": key.positions and {names[name]: i + 1 for name, i in key.positions.items()},
        "no_key": key.reason or None,
        "components": [[names[name] for name in c] for c in deps.components],
        "predicates": [_predicate_json(deps, name) for name in deps.predicates],
        "strata": [[names[name] for name in layer] for layer in deps.strata],
        "edges": [
            {
                "head": names[e.head],
                "needs": names[e.body],
                "negated": e.negated,
                "offset": e.offset,
                **({} if e.first == e.offset else {"from": e.first}),
                "time": e.point,
                "file": e.clause.origin.file,
                "line": e.clause.origin.line,
            }
            for e in deps.edges
        ],
    }


def _predicate_json(deps: Dependencies, name: str) -> dict[str, object]:
    predicate = deps.core.predicates[name]
    return {
        "predicate": predicate.shown,
        "input": predicate.input,
        "temporal": predicate.temporal,
        "types": [t.value if t else None for t in predicate.types],
        "phi": _number(deps.phi[name]),
        "keep": _number(deps.keep.get(name, math.inf)),
        "offsets": _pair(deps.offsets[name].low, deps.offsets[name].high),
        "input_offsets": _pair(deps.input_offsets[name].low, deps.input_offsets[name].high),
    }


def _number(value: Bound) -> int | None:
    return None if math.isinf(value) else int(value)


def _pair(low: Bound, high: Bound) -> list[int | None] | None:
    return None if low > high else [_number(low), _number(high)]


def print_lines(lines: Iterable[str], styles: _Styles = ()) -> None:
    """Lines as they are, coloured on a terminal."""
    console = stdout()
    for line in lines:
        _print_styled(console, visible(line), styles)


def _print_styled(console: Console, line: str, styles: _Styles) -> None:
    text = Text(line)
    if console.is_terminal:
        for pattern, style in styles:
            text.highlight_regex(pattern, style)
    console.print(text)


_LABELS = "because|settles|rank|radius|state|key|promise|suggest"
EXPLAIN_STYLES = (
    (re.compile(r"^\S+(?=: class )"), "bold"),
    (re.compile(rf"^  ({_LABELS})(?= )"), "bold"),
    (re.compile(r"\([^()\s]+:\d+\)"), "dim"),
    (re.compile(r"^ {12}- .*"), "red"),
    (re.compile(r"^ {12}[+] .*"), "green"),
)


# Answers to questions

_ANSWER_STYLES = (
    (re.compile(r"^(yes|no)(?=:|$)"), "bold"),
    (re.compile(r"^ *(delay|window|redundant|derived state)(?=:)"), "bold"),
    (re.compile(r"^\S+(?=: class )"), "bold"),
    (re.compile(r"<- without this$"), "red"),
    (re.compile(r"(?<= waits for ).*"), "yellow"),
    (re.compile(r"(?<= holds unless ).*"), "yellow"),
    (re.compile(r"\([^()\s]+:\d+\)"), "dim"),
)


def print_answer(lines: Iterable[str]) -> None:
    """Lines of an answer: on a terminal coloured, and no wider than it is."""
    console = stdout()
    for line in lines:
        text = visible(line)
        if not console.is_terminal:
            console.print(text)
            continue
        indent = len(text) - len(text.lstrip(" "))
        room = max(min(console.width, WIDTH) - indent - 2, 20)
        first, *rest = _wrap(text.strip(" "), room)
        for i, part in enumerate([first, *rest]):
            _print_styled(console, " " * (indent + (2 if i else 0)) + part, _ANSWER_STYLES)


# Proofs

_PROOF_STYLES = (
    (re.compile(r"^[│├└─ ]+"), "dim"),
    (re.compile(r"(?<= )\S+:\d+$|^\S+:\d+(?=  |$)"), "dim"),
    (re.compile(r" input$| as above$"), "green"),
    (re.compile(r"(?<=─ )holds(?= )"), "green"),
    (re.compile(r"(?<=─ )(missing|fails)(?= )"), "red"),
    (re.compile(r"(?<=─ )open(?= )"), "yellow"),
)


def print_proof(lines: Iterable[str]) -> None:
    """Lines of a proof or a miss, coloured on a terminal."""
    title, *rest = lines
    print_lines([title], [(re.compile(".*"), "bold")])
    print_lines(rest, _PROOF_STYLES)
