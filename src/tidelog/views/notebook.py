"""How programs, analyses, verdicts, streams, answers and proofs show themselves in a notebook.

Imports point one way, so that the classes of lower layers get their HTML from here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.analysis.containment import Verdict
from tidelog.analysis.definitive import Definitive
from tidelog.analysis.delay import Measure
from tidelog.analysis.forgetting import Forgettable
from tidelog.analysis.passes import passes
from tidelog.analysis.unfolding import Cut
from tidelog.data.writers import as_text
from tidelog.explain.text import why_lines
from tidelog.explain.why import Why
from tidelog.language.program import Program
from tidelog.streaming.stream import stands
from tidelog.views.pictures import escaped, graph_svg
from tidelog.views.report import analysis_html, escaped_lines, table_html
from tidelog.views.verdicts import measure_lines, verdict_lines

if TYPE_CHECKING:
    from tidelog.streaming.stream import Step, Stream

# Rows of answers that a step shows.
MOST_ROWS = 20


def program_html(program: Program) -> str:
    """The rules, and what depends on what."""
    queries = program.outputs
    graph = ""
    if queries:
        deps = passes(program, queries).dependencies
        graph = f'<div style="overflow-x:auto">{graph_svg(deps)}</div>'
    return f"<pre>{escaped_lines(str(program))}</pre>{graph}"


def step_html(step: Step) -> str:
    """Where the stream stands, and the answers that became final."""
    where = stands(step.tin, step.tout, step.ticks)
    parts = [f"<p>{escaped(where)}; {escaped(step.history)} facts kept</p>"]
    for name, answers in step.answers.items():
        parts.append(answers_html(answers, f"{name}: {answers.num_rows} final"))
    late = sum(map(len, step.late.values()))
    parts += [f"<p>{late} facts came too late</p>"] if late else []
    return "".join(parts)


def answers_html(answers: pa.Table, title: str = "") -> str:
    """The first answers as a table."""
    rows = [
        tuple(as_text(value) for value in row.values())
        for row in answers.slice(0, MOST_ROWS).to_pylist()
    ]
    more = answers.num_rows - len(rows)
    title = title or f"{answers.num_rows} rows"
    return table_html(title + (f", {more} not shown" if more else ""), answers.column_names, rows)


def stream_html(stream: Stream) -> str:
    """Where a stream stands, and what it keeps."""
    kept = {name: sum(map(len, times.values())) for name, times in stream.facts().items()}
    about = f"<p>{escaped(repr(stream).strip('<>'))}</p>"
    return about + (table_html("facts kept", ("input", "facts"), kept.items()) if kept else "")


def verdict_html(verdict: object) -> str:
    """A yes or no, or a measure, with what proves it."""
    match verdict:
        case Measure():
            lines = measure_lines("least value", verdict, 0)
        case Definitive():
            lines = [
                "yes: the answers are final" if verdict.holds else "no: answers may still come"
            ]
            lines += [f"  {pending}" for pending in verdict.pending]
        case Forgettable():
            lines = [f"{'yes' if verdict.holds else 'no'}: {verdict.reason}"]
        case Verdict():
            lines = verdict_lines(verdict, Cut())
        case _:
            lines = [repr(verdict)]
    return f"<pre>{escaped_lines(chr(10).join(lines))}</pre>"


def why_html(why: Why) -> str:
    return f"<pre>{escaped_lines(chr(10).join(why_lines(why)))}</pre>"


def attach(*kinds: type) -> None:
    """Give classes their HTML; those not named here keep what they have."""
    for kind in kinds:
        show = _SHOWN.get(kind.__name__, verdict_html)
        setattr(kind, "_repr_html_", show)  # noqa: B010


_SHOWN: dict[str, Callable[[Any], str]] = {
    "Analysis": analysis_html,
    "Step": step_html,
    "Stream": stream_html,
    "Why": why_html,
}


def show_answers() -> None:
    """In a notebook, have tables of answers shown as tables; elsewhere do nothing."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pa.Table, answers_html)
