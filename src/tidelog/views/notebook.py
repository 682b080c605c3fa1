"""How programs, analyses, steps of a stream and proofs show themselves in a notebook.

Imports point one way, so that the classes of lower layers get their HTML from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.analysis.passes import passes
from tidelog.explain.text import why_lines
from tidelog.explain.why import Why
from tidelog.language.program import Program
from tidelog.views.pictures import escaped, graph_svg
from tidelog.views.report import analysis_html, escaped_lines, table_html

if TYPE_CHECKING:
    from tidelog.streaming.stream import Step

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
    parts = [
        f"<p>everything up to {escaped(step.tin)} has arrived, answered up to"
        f" {escaped(step.tout)}; {escaped(step.history)} facts kept</p>"
    ]
    for name, answers in step.answers.items():
        shown = answers.slice(0, MOST_ROWS)
        rows = [tuple(row.values()) for row in shown.to_pylist()]
        more = answers.num_rows - len(rows)
        title = f"{name}: {answers.num_rows} final" + (f", {more} not shown" if more else "")
        parts.append(table_html(title, answers.column_names, rows))
    late = sum(map(len, step.late.values()))
    parts += [f"<p>{late} facts came too late</p>"] if late else []
    return "".join(parts)


def why_html(why: Why) -> str:
    return f"<pre>{escaped_lines(chr(10).join(why_lines(why)))}</pre>"


def attach(*kinds: type) -> None:
    """Give classes their HTML; those not named here keep what they have."""
    for kind in kinds:
        show = {"Analysis": analysis_html, "Step": step_html, "Why": why_html}[kind.__name__]
        setattr(kind, "_repr_html_", show)  # noqa: B010
