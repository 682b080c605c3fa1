"""Pictures as inline SVG: what depends on what, and a delay and a window on a line of time.

They use the colour of the text around them, so that they can be read on light and on dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from tidelog.analysis.analyze import Analysis
from tidelog.analysis.containment import Witness
from tidelog.analysis.definitive import shown
from tidelog.analysis.dependencies import Dependencies, Edge
from tidelog.language.diagnostics import visible

_CHARACTER = 7.3  # the width of one, about
_COLUMN, _ROW, _HEIGHT = 90, 62, 44
_LONGEST = 26
# Ticks that a line of time shows on either side of its answer.
_FURTHEST = 40


def escaped(text: object) -> str:
    """Text that is text in HTML, whatever it holds."""
    return html.escape(visible(str(text)), quote=True)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# Dependencies


def graph_svg(deps: Dependencies) -> str:
    """Predicates as boxes with phi and keep, inputs at the left; edges with their offsets."""
    columns = _layers(deps)
    places: dict[str, tuple[float, float, float]] = {}  # x, y, width
    x = 16.0
    tallest = max((len(column) for column in columns), default=1)
    for column in columns:
        wide = max(_width(deps, name) for name in column)
        top = 34 + (tallest - len(column)) * _ROW / 2
        for i, name in enumerate(column):
            places[name] = (x, top + i * _ROW, wide)
        x += wide + _COLUMN
    width, height = max(x - _COLUMN + 16, 80), 34 + tallest * _ROW + 12
    parts = [
        f'<svg class="graph" role="img" aria-label="{escaped(_spoken(deps))}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        ' font-family="ui-monospace, monospace" font-size="12" fill="currentColor">'
    ]
    together: dict[tuple[str, str], list[Edge]] = {}
    for edge in deps.edges:
        together.setdefault((edge.body, edge.head), []).append(edge)
    parts += [_arrow(places, body, head, edges) for (body, head), edges in together.items()]
    parts += [_box(deps, name, *place) for name, place in places.items()]
    return "".join(parts) + "</svg>"


def _layers(deps: Dependencies) -> list[list[str]]:
    """Predicates by how many steps they are from the inputs; components stay together."""
    level: dict[str, int] = {}
    for component in deps.components:
        below = [e.body for e in deps.edges if e.head in component and e.body not in component]
        here = max((level[name] + 1 for name in below), default=0)
        level.update(dict.fromkeys(component, here))
    columns: list[list[str]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for name, n in level.items():
        columns[n].append(name)
    row = {name: i for column in columns for i, name in enumerate(column)}
    for column in columns[1:]:  # near what they are derived from

        def middle(name: str) -> float:
            below = [row[e.body] for e in deps.edges if e.head == name and e.body != name]
            return sum(below) / len(below) if below else 0.0

        column.sort(key=middle)
        row.update({name: i for i, name in enumerate(column)})
    return columns


def _width(deps: Dependencies, name: str) -> float:
    label = _short(deps.core.predicates[name].source)
    return max(len(label), len(_numbers(deps, name))) * _CHARACTER + 20


def _numbers(deps: Dependencies, name: str) -> str:
    if not deps.core.predicates[name].temporal:
        return "rigid"
    keep = deps.keep.get(name, math.inf)
    return f"phi {_bound(deps.phi[name])}, keep {_bound(keep)}"


def _bound(value: float) -> str:
    return "∞" if value == math.inf else "-" if value == -math.inf else str(int(value))


def _box(deps: Dependencies, name: str, x: float, y: float, width: float) -> str:
    predicate = deps.core.predicates[name]
    kind = "input" if predicate.input else "query" if name in deps.queries else "derived"
    dash = ' stroke-dasharray="4 3"' if predicate.input else ""
    thick = 2 if kind == "query" else 1
    label = escaped(_short(predicate.source))
    return (
        f'<g class="node {kind}"><title>{escaped(predicate.source)} ({kind})</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_HEIGHT}" rx="6"'
        f' fill="currentColor" fill-opacity="0.07" stroke="currentColor"'
        f' stroke-width="{thick}"{dash}/>'
        f'<text x="{x + 10:.1f}" y="{y + 19:.1f}" font-weight="600">{label}</text>'
        f'<text x="{x + 10:.1f}" y="{y + 35:.1f}" font-size="11" fill-opacity="0.75">'
        f"{escaped(_numbers(deps, name))}</text></g>"
    )


def _arrow(
    places: dict[str, tuple[float, float, float]], body: str, head: str, edges: Sequence[Edge]
) -> str:
    bx, by, bw = places[body]
    hx, hy, hw = places[head]
    label = ", ".join(dict.fromkeys(map(_offset, edges)))
    where = ", ".join(dict.fromkeys(str(e.rule.origin) for e in edges))
    if body == head:
        x, y = hx + hw / 2, hy
        path = f"M{x - 14:.1f} {y:.1f} C{x - 30:.1f} {y - 32:.1f} {x + 30:.1f} {y - 32:.1f}"
        path += f" {x + 14:.1f} {y:.1f}"
        at, tip, way = (x, y - 26), (x + 14, y), (-0.35, -1.0)
    elif bx < hx:
        x1, y1, x2, y2 = bx + bw, by + _HEIGHT / 2, hx, hy + _HEIGHT / 2
        bend = (x2 - x1) / 2
        path = f"M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f}"
        path += f" {x2:.1f} {y2:.1f}"
        at, tip, way = (x2 - 12 - len(label) * 3.4, (y1 + 2 * y2) / 3 - 5), (x2, y2), (-1.0, 0.0)
    else:  # within a component
        down = 1 if hy > by else -1
        x1, y1 = bx + bw * 0.7, by + (_HEIGHT if down > 0 else 0)
        x2, y2 = hx + hw * 0.7, hy + (0 if down > 0 else _HEIGHT)
        if down < 0:
            x1, x2 = bx + bw * 0.3, hx + hw * 0.3
        path = f"M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}"
        at, tip, way = ((x1 + x2) / 2 + 8 * down, (y1 + y2) / 2 + 4), (x2, y2), (0.0, -1.0 * down)
    return (
        f'<g class="edge"><title>{escaped(where)}</title>'
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.55"/>'
        f"{_tip(tip, way)}"
        f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="middle" font-size="11">'
        f"{escaped(label)}</text></g>"
    )


def _tip(tip: tuple[float, float], way: tuple[float, float]) -> str:
    """An arrow head at a point, whose line comes from a direction."""
    (x, y), (dx, dy) = tip, way
    size = math.hypot(dx, dy)
    dx, dy = 7 * dx / size, 7 * dy / size
    points = [(x, y), (x + dx - dy / 2, y + dy + dx / 2), (x + dx + dy / 2, y + dy - dx / 2)]
    return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>'


def _offset(edge: Edge) -> str:
    if edge.offset is not None:
        return f"{edge.offset:+d}" if edge.offset else "0"
    if edge.point is not None:
        return f"@ {edge.point}"
    return "any" if any(a.predicate == edge.body and a.time for a in edge.rule.atoms) else "rigid"


def _spoken(deps: Dependencies) -> str:
    return "dependencies: " + "; ".join(
        f"{e.head} needs {e.body} ({_offset(e)})" for e in deps.edges[:40]
    )


# Delay and window


def timeline_svg(analysis: Analysis) -> str:
    """The delay and the window around an answer's time, and the facts that prove them least."""
    if analysis.delay is None or analysis.window is None:
        return ""
    d, s = analysis.delay.upper, analysis.window.upper
    at = 0
    times = [at, at + min(d or 0, _FURTHEST)]
    if s is not None:
        times.append(at + (d or 0) - min(s, _FURTHEST))
    rows: list[tuple[str, str, Witness]] = []
    for kind, measure in (("delay", analysis.delay), ("window", analysis.window)):
        if measure.witness is not None and measure.lower:
            rows.append((kind, f"{measure.lower - 1} would not do", measure.witness))
            times += [offset for _, offsets in _lanes(measure.witness) for offset in offsets]
    low = max(min(times), -_FURTHEST) - 1
    high = min(max(times), _FURTHEST) + 1
    unit = max(14, min(44, 560 // (high - low + 1)))
    left = 250
    lanes: list[str] = []
    y = 84
    for kind, title, witness in rows:
        lanes.append(f'<text x="8" y="{y + 4}" font-style="italic">{kind}: {escaped(title)}</text>')
        y += 20
        for label, offsets in _lanes(witness):
            lanes.append(f'<text x="20" y="{y + 4}">{escaped(_short(label))}</text>')
            for offset in offsets:
                if low <= offset <= high:
                    x = left + (offset - low) * unit + unit / 2
                    lanes.append(
                        f'<circle class="given" data-time="{offset}" cx="{x:.1f}" cy="{y}" r="5"'
                        f"><title>{escaped(label)} at {offset:+d}</title></circle>"
                    )
            y += 20
        y += 6
    width = left + (high - low + 1) * unit + 12

    def across(first: float, last: float) -> tuple[float, float]:
        a, b = max(first, low), min(last, high)
        return left + (a - low) * unit, max((b - a + 1) * unit, 0)

    parts = [
        f'<svg class="timeline" role="img" viewBox="0 0 {width:.0f} {y + 6}" width="{width:.0f}"'
        f' height="{y + 6}" font-family="ui-monospace, monospace" font-size="12"'
        f' fill="currentColor" data-delay="{"" if d is None else d}"'
        f' aria-label="{escaped(analysis.query)}: delay {_bound(_inf(d))},'
        f' window {_bound(_inf(s))}">'
    ]
    x, wide = across((d or 0) - (s if s is not None else 10**6), d or 0)
    parts.append(
        f'<rect class="window" x="{x:.1f}" y="44" width="{wide:.1f}" height="{y - 40}"'
        ' fill="currentColor" fill-opacity="0.08"/>'
        f'<text x="8" y="40">window {_bound(_inf(s))}</text>'
    )
    x, wide = across(0, d if d is not None else 10**6)
    parts.append(
        f'<rect class="delay" x="{x + unit / 2:.1f}" y="50" width="{max(wide - unit, 2):.1f}"'
        f' height="6" fill="currentColor" fill-opacity="0.6"/>'
        f'<text x="8" y="58">delay {_bound(_inf(d))}</text>'
    )
    every = 1 if high - low <= 24 else 5 if high - low <= 60 else 10
    for tick in range(low, high + 1):
        x = left + (tick - low) * unit + unit / 2
        parts.append(f'<line x1="{x:.1f}" y1="22" x2="{x:.1f}" y2="28" stroke="currentColor"/>')
        if tick % every == 0:
            name = "answer" if tick == 0 else f"{tick:+d}"
            weight = 600 if tick == 0 else 400
            parts.append(
                f'<text x="{x:.1f}" y="16" text-anchor="middle" font-size="11"'
                f' font-weight="{weight}">{name}</text>'
            )
    return "".join([*parts, *lanes, "</svg>"])


def _inf(value: int | None) -> float:
    return math.inf if value is None else value


def _time(witness: Witness) -> int:
    return witness.answer.time or 0


def _lanes(witness: Witness) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for fact in witness.facts:
        label = shown(fact.predicate, fact.args, None)
        found.setdefault(label, [])
        if fact.time is not None:
            found[label].append(fact.time - _time(witness))
    return list(found.items())
