"""Pictures as inline SVG: what depends on what, and a delay and a window on a line of time.

They use the colour of the text around them, so that they can be read on light and on dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.analysis.analyze import Analysis
from tidelog.analysis.containment import Witness
from tidelog.analysis.definitive import shown
from tidelog.analysis.dependencies import Dependencies, Edge
from tidelog.language.diagnostics import visible
from tidelog.views.verdicts import not_enough

_CHARACTER = 7.3  # the width of one, about
_SMALL = 6.4  # that of one in a label
_COLUMN, _ROW, _HEIGHT = 90, 72, 44
_LONGEST = 26
# Ticks that a line of time shows on either side of its answer.
_FURTHEST = 40
# Where the ticks of a line of time begin: labels are to the left of it.
_LEFT = 250


def escaped(text: object) -> str:
    """Text that is text in HTML, whatever it holds."""
    return html.escape(visible(str(text)), quote=True)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# Dependencies


def graph_svg(deps: Dependencies) -> str:
    """Predicates as boxes with phi and keep, inputs at the left; edges with their offsets."""
    deps = deps.folded
    columns = _layers(deps)
    tall = [sum(_slot(cell) for cell in column) for column in columns]
    height = 26 + max(tall, default=_slot("")) + 6
    places: dict[_Cell, tuple[float, float, float]] = {}  # x, y, width
    x = 16.0
    gaps = _gaps(deps, columns)
    for column, used, gap in zip(columns, tall, gaps, strict=True):
        wide = max((_width(deps, cell) for cell in column if isinstance(cell, str)), default=60.0)
        y = 26 + (height - 32 - used) / 2
        for cell in column:
            places[cell] = (x, y + _slot(cell) - _HEIGHT - 6 if isinstance(cell, str) else y, wide)
            y += _slot(cell)
        x += wide + gap
    width = max(x - gaps[-1] + max(50, gaps[-1] - _COLUMN + 50), 80)
    parts = [
        f'<svg class="graph" role="img" aria-label="{escaped(_spoken(deps))}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        ' font-family="ui-monospace, monospace" font-size="12" fill="currentColor">'
    ]
    together = _together(deps)
    arriving: dict[str, list[str]] = {}  # from the left, by where they come from
    for body, head in together:
        if places[body][0] < places[head][0]:
            arriving.setdefault(head, []).append(body)
    for bodies in arriving.values():
        bodies.sort(key=lambda body: (places[body][1], places[body][0]))
    for (body, head), edges in together.items():
        others = arriving.get(head, [])
        port = (others.index(body) + 1) / (len(others) + 1) if body in others else 0.5
        parts.append(_arrow(places, body, head, edges, port))
    parts += [_box(deps, cell, *place) for cell, place in places.items() if isinstance(cell, str)]
    return "".join(parts) + "</svg>"


# A predicate, or a place between two columns that an edge of one passes through.
_Cell: TypeAlias = "str | tuple[str, int]"


def _slot(cell: _Cell) -> int:
    return _ROW if isinstance(cell, str) else 16


def _layers(deps: Dependencies) -> list[list[_Cell]]:
    """Predicates by how many steps they are from the inputs, and room for edges that go further."""
    level: dict[str, int] = {}
    for component in deps.components:
        below = [e.body for e in deps.edges if e.head in component and e.body not in component]
        here = max((level[name] + 1 for name in below), default=0)
        level.update(dict.fromkeys(component, here))
    columns: list[list[_Cell]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for name, n in level.items():
        columns[n].append(name)
        furthest = max((level[e.head] for e in deps.edges if e.body == name), default=0)
        for between in range(n + 1, furthest):
            columns[between].append((name, between))
    row: dict[_Cell, int] = {cell: i for column in columns for i, cell in enumerate(column)}
    for n, column in enumerate(columns[1:], 1):  # near what they are derived from

        def middle(cell: _Cell, n: int = n) -> float:
            if isinstance(cell, str):
                bodies = [e.body for e in deps.edges if e.head == cell and level[e.body] < n]
            else:
                bodies = [cell[0]]
            below = [row[body if level[body] == n - 1 else (body, n - 1)] for body in bodies]
            return sum(below) / len(below) if below else 0.0

        column.sort(key=middle)
        row.update({cell: i for i, cell in enumerate(column)})
    return columns


def _gaps(deps: Dependencies, columns: Sequence[Sequence[_Cell]]) -> list[float]:
    """The space to the right of each column, which has room for the labels in it."""
    column_of = {cell: i for i, column in enumerate(columns) for cell in column}
    gaps = [float(_COLUMN)] * len(columns)
    before = [0.0] * (len(columns) + 1)  # labels that end at the column to the right
    after = [0.0] * len(columns)  # labels that begin at the column itself
    for (body, head), edges in _together(deps).items():
        wide = len(_label(edges)) * _SMALL
        here = column_of[head]
        if column_of[body] < here:
            before[here] = max(before[here], wide)
        elif body != head:
            after[here] = max(after[here], wide)
    for i in range(len(columns)):
        gaps[i] = max(gaps[i], before[i + 1] + after[i] + 50)
    return gaps


def _together(deps: Dependencies) -> dict[tuple[str, str], list[Edge]]:
    """The edges by what they lead from and to: they are drawn as one."""
    together: dict[tuple[str, str], list[Edge]] = {}
    for edge in deps.edges:
        together.setdefault((edge.body, edge.head), []).append(edge)
    return together


def _label(edges: Sequence[Edge]) -> str:
    return ", ".join(dict.fromkeys(e.asks + e.distance for e in edges))


def _width(deps: Dependencies, name: str) -> float:
    label = _short(deps.core.predicates[name].base)
    return max(len(label), len(_numbers(deps, name))) * _CHARACTER + 20


def _numbers(deps: Dependencies, name: str) -> str:
    if not deps.core.predicates[name].temporal:
        return "rigid"
    phi, keep = deps.phi[name], deps.keep.get(name, math.inf)
    parts = [f"phi {_bound(phi)}"] if phi not in (0, -math.inf) else []
    parts += [f"keep {_bound(keep)}"] if keep > 0 else []
    return ", ".join(parts)


def _bound(value: float) -> str:
    return "∞" if value == math.inf else "-" if value == -math.inf else str(int(value))


def _box(deps: Dependencies, name: str, x: float, y: float, width: float) -> str:
    predicate = deps.core.predicates[name]
    kind = "input" if predicate.input else "query" if name in deps.queries else "derived"
    dash = ' stroke-dasharray="4 3"' if predicate.input else ""
    thick = 2 if kind == "query" else 1
    label = escaped(_short(predicate.base))
    numbers = escaped(_numbers(deps, name))
    below = (
        f'<text x="{x + 10:.1f}" y="{y + 35:.1f}" font-size="11" fill-opacity="0.75">'
        f"{numbers}</text>"
        if numbers
        else ""
    )
    line = y + (19 if numbers else 26)
    return (
        f'<g class="node {kind}"><title>{escaped(predicate.base)} ({kind})</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_HEIGHT}" rx="6"'
        f' fill="currentColor" fill-opacity="0.07" stroke="currentColor"'
        f' stroke-width="{thick}"{dash}/>'
        f'<text x="{x + 10:.1f}" y="{line:.1f}" font-weight="600">{label}</text>{below}</g>'
    )


def _arrow(
    places: Mapping[_Cell, tuple[float, float, float]],
    body: str,
    head: str,
    edges: Sequence[Edge],
    port: float,
) -> str:
    bx, by, bw = places[body]
    hx, hy, hw = places[head]
    label = _label(edges)
    dash = ' stroke-dasharray="5 3"' if all(e.negated for e in edges) else ""
    where = ", ".join(dict.fromkeys(str(e.clause.origin) for e in edges))
    anchor = "end"
    if body == head:
        x, y = hx + hw - 30, hy
        path = f"M{x - 10:.1f} {y:.1f} C{x - 18:.1f} {y - 20:.1f} {x + 18:.1f} {y - 20:.1f}"
        path += f" {x + 10:.1f} {y:.1f}"
        at, tip, way = (x - 16, y - 6), (x + 10, y), (0.35, -1.0)
    elif bx < hx:
        points = [(bx + bw, by + _HEIGHT / 2)]
        for cell in sorted(c for c in places if isinstance(c, tuple) and c[0] == body):
            cx, cy, cw = places[cell]
            if cx < hx:
                points += [(cx, cy + 8), (cx + cw, cy + 8)]
        points.append((hx, hy + _HEIGHT * port))
        path = _curve(points)
        at, tip, way = (hx - 9, hy + _HEIGHT * port - 3), points[-1], (-1.0, 0.0)
    elif abs(hy - by) > 1.5 * _ROW:  # within a component, around what lies between
        x1, y1, x2, y2 = bx + bw, by + _HEIGHT / 2, hx + hw, hy + _HEIGHT / 2
        path = f"M{x1:.1f} {y1:.1f} C{x1 + 40:.1f} {y1:.1f} {x2 + 40:.1f} {y2:.1f}"
        path += f" {x2:.1f} {y2:.1f}"
        at, tip, way = (x2 + 12, y2 - 4), (x2, y2), (1.0, 0.0)
        anchor = "start"
    else:  # within a component
        down = 1 if hy > by else -1
        share = 0.35 if down > 0 else 0.55
        x1, y1 = bx + bw * share, by + (_HEIGHT if down > 0 else 0)
        x2, y2 = hx + hw * share, hy + (0 if down > 0 else _HEIGHT)
        path = f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}"
        at, tip, way = ((x1 + x2) / 2 + 4, (y1 + y2) / 2 + 4), (x2, y2), (0.0, -1.0 * down)
        anchor = "start"
    return (
        f'<g class="edge"><title>{escaped(where)}</title>'
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.55"{dash}/>'
        f"{_tip(tip, way)}"
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}" font-size="10.5">'
        f"{escaped(label)}</text></g>"
    )


def _curve(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for x2, y2 in rest:
        bend = (x2 - x) / 2
        path += f" C{x + bend:.1f} {y:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        x, y = x2, y2
    return path


def _tip(tip: tuple[float, float], way: tuple[float, float]) -> str:
    """An arrow head at a point, whose line comes from a direction."""
    (x, y), (dx, dy) = tip, way
    size = math.hypot(dx, dy)
    dx, dy = 7 * dx / size, 7 * dy / size
    points = [(x, y), (x + dx - dy / 2, y + dy + dx / 2), (x + dx + dy / 2, y + dy - dx / 2)]
    return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>'


def _spoken(deps: Dependencies) -> str:
    return "dependencies: " + "; ".join(
        f"{e.head} needs {'the absence of ' if e.negated else e.asks}{e.body} ({e.distance})"
        for e in deps.edges[:40]
    )


# Delay and window


@dataclass(frozen=True)
class _Scale:
    """Ticks, counted from the answer's, as places across the picture."""

    low: int
    high: int

    @property
    def unit(self) -> int:
        """How wide a tick is."""
        return max(14, min(44, 560 // (self.high - self.low + 1)))

    @property
    def width(self) -> int:
        return _LEFT + (self.high - self.low + 1) * self.unit + 12

    def middle(self, tick: int) -> float:
        return _LEFT + (tick - self.low) * self.unit + self.unit / 2

    def across(self, first: float, last: float) -> tuple[float, float]:
        """Where some ticks start, and how wide they are."""
        a, b = max(first, self.low), min(last, self.high)
        return _LEFT + (a - self.low) * self.unit, max((b - a + 1) * self.unit, 0)


def timeline_svg(analysis: Analysis) -> str:
    """The delay and the window around an answer's time, and the facts that prove them least."""
    if analysis.delay is None or analysis.window is None:
        return ""
    d, s = analysis.delay.upper, analysis.window.upper
    times = [0, min(d or 0, _FURTHEST)]
    if s is not None:
        times.append((d or 0) - min(s, _FURTHEST))
    witnesses: list[tuple[str, Witness]] = []
    for kind, measure in (("delay", analysis.delay), ("window", analysis.window)):
        if measure.witness is not None and measure.lower:
            lost = ", the answer is withdrawn" if measure.witness.withdrawn else ""
            title = f"{kind}: {not_enough(measure.lower - 1)}{lost}"
            witnesses.append((title, measure.witness))
            times += [offset for _, offsets in _lanes(measure.witness) for offset in offsets]
    scale = _Scale(max(min(times), -_FURTHEST) - 1, min(max(times), _FURTHEST) + 1)
    lanes, y = _witness_lanes(witnesses, scale)
    parts = [
        f'<svg class="timeline" role="img" viewBox="0 0 {scale.width:.0f} {y + 6}"'
        f' width="{scale.width:.0f}"'
        f' height="{y + 6}" font-family="ui-monospace, monospace" font-size="12"'
        f' fill="currentColor" data-delay="{"" if d is None else d}"'
        f' aria-label="{escaped(analysis.query)}: delay {_bound(_inf(d))},'
        f' window {_bound(_inf(s))}">'
    ]
    x, wide = scale.across((d or 0) - (s if s is not None else 10**6), d or 0)
    parts.append(
        f'<rect class="window" x="{x:.1f}" y="44" width="{wide:.1f}" height="{y - 40}"'
        ' fill="currentColor" fill-opacity="0.08"/>'
        f'<text x="8" y="40">window {_bound(_inf(s))}</text>'
    )
    x, wide = scale.across(0, d if d is not None else 10**6)
    parts.append(
        f'<rect class="delay" x="{x + scale.unit / 2:.1f}" y="50"'
        f' width="{max(wide - scale.unit, 2):.1f}"'
        f' height="6" fill="currentColor" fill-opacity="0.6"/>'
        f'<text x="8" y="58">delay {_bound(_inf(d))}</text>'
    )
    return "".join([*parts, *_axis(scale), *lanes, "</svg>"])


def _witness_lanes(witnesses: list[tuple[str, Witness]], scale: _Scale) -> tuple[list[str], int]:
    """The facts of witnesses under their titles, and how far down they reach."""
    lanes: list[str] = []
    y = 84
    for title, witness in witnesses:
        lanes.append(f'<text x="8" y="{y + 4}" font-style="italic">{escaped(title)}</text>')
        y += 20
        for label, offsets in _lanes(witness):
            lanes.append(f'<text x="20" y="{y + 4}">{escaped(_short(label))}</text>')
            lanes += [
                f'<circle class="given" data-time="{offset}" cx="{scale.middle(offset):.1f}"'
                f' cy="{y}" r="5"><title>{escaped(label)} at {offset:+d}</title></circle>'
                for offset in offsets
                if scale.low <= offset <= scale.high
            ]
            y += 20
        y += 6
    return lanes, y


def _axis(scale: _Scale) -> Iterator[str]:
    """A mark for every tick, and some of them by name."""
    ticks = scale.high - scale.low
    every = 1 if ticks <= 24 else 5 if ticks <= 60 else 10
    for tick in range(scale.low, scale.high + 1):
        x = scale.middle(tick)
        yield f'<line x1="{x:.1f}" y1="22" x2="{x:.1f}" y2="28" stroke="currentColor"/>'
        if tick % every == 0:
            name = "answer" if tick == 0 else f"{tick:+d}"
            weight = 600 if tick == 0 else 400
            yield (
                f'<text x="{x:.1f}" y="16" text-anchor="middle" font-size="11"'
                f' font-weight="{weight}">{name}</text>'
            )


def _inf(value: int | None) -> float:
    return math.inf if value is None else value


def _lanes(witness: Witness) -> list[tuple[str, list[int]]]:
    """The facts of a witness without their times, and how far these lie from the answer's."""
    lanes: dict[str, list[int]] = {}
    for fact in witness.facts:
        offsets = lanes.setdefault(shown(fact.predicate, fact.args, None), [])
        if fact.time is not None:
            offsets.append(fact.time - (witness.answer.time or 0))
    return list(lanes.items())
