"""`tidelog check` on long files: the time per rule must not grow with the number of rules.

Each kind of file is checked at 5,000, 10,000 and 20,000 rules, findings rendered as text. The ratio
is to the smallest size, so that linear time shows as 2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import Result, best_of_each, print_table
from tidelog.language.checks import check
from tidelog.language.diagnostics import render

SIZES = (5_000, 10_000, 20_000)
QUICK = (100, 200, 400)


def plant(n: int) -> str:
    """What a plant's rules look like: a few inputs, several rules each for many predicates."""
    lines = [
        "input Reading(device: text, sensor: text, value: float) @ time.",
        "input Near(a: text, b: text).",
    ]
    for i in range(n // 4):
        lines += [
            f'High{i}(X) @ T :- Reading(X, "sensor {i}", V) @ T, V >= {i % 90}.',
            f"Alarm{i}(X) @ T+2 :- High{i}(X) @ T, High{i}(X) @ T+1, High{i}(X) @ T+2.",
            f"Alarm{i}(Y) @ T+1 :- Alarm{i}(X) @ T, Near(X, Y), High{i}(Y) @ T+1, X != Y.",
            f"Alarm{i}(X) @ T :- Alarm{max(i - 1, 0)}(X) @ T-1, High{i}(X) @ T.",
        ]
    return "\n".join(lines)


def predicates(n: int) -> str:
    """A predicate of its own for every rule, and for every body."""
    return "".join(f"Derived{i}(X, Y) @ T+1 :- Event{i}(X, Y, {i}) @ T.\n" for i in range(n))


def mistakes(n: int) -> str:
    """An unsafe variable and a misspelt predicate in every rule."""
    lines = ["input Temperature(device: text) @ time."]
    for i in range(n):
        name = f"Predicate{i}"
        lines.append(f"{name}(X, Y) @ T :- Temperature(X) @ T, Perdicate{i}(X) @ T+1.")
    return "\n".join(lines)


def integers(n: int) -> str:
    """One column that every rule gives another integer, its type known from the last rule only."""
    rules = "".join(f"Level(X, {i}, Y) @ T :- Raw(X, Y, {i}) @ T.\n" for i in range(n - 1))
    return rules + "Top(X) @ T :- Level(X, V, _) @ T, V >= 2.5.\n"


def absence(n: int) -> str:
    """A `not` in every rule, and one cycle through all of them."""
    rules = (f"Quiet{i}(X) @ T+1 :- Beat(X) @ T, not Quiet{(i + 1) % n}(X) @ T." for i in range(n))
    return "\n".join(["input Beat(device: text) @ time.", *rules])


def one_line(n: int) -> str:
    """Everything on one line, with a mistake in every rule."""
    return " ".join(f"P{i}(X, Y) @ T :- E{i}(X) @ T." for i in range(n))


def syntax(n: int) -> str:
    """A missing dot in every rule."""
    return "\n".join(f"P{i}(X) @ T :- E{i}(X) @ T" for i in range(n))


KINDS = (plant, predicates, mistakes, integers, absence, one_line, syntax)


def job(raw: bytes) -> Callable[[], None]:
    def checked() -> None:
        report = check(raw, "rules.tdl")
        for diagnostic in report.diagnostics:
            render(diagnostic, report.source)

    return checked


def run(quick: bool = False) -> list[Result]:
    sizes = QUICK if quick else SIZES
    results: list[Result] = []
    for kind in KINDS:
        times = best_of_each(3, *(job(kind(n).encode()) for n in sizes))
        smallest = f"check/{kind.__name__}/{sizes[0]}"
        for n, seconds in zip(sizes, times, strict=True):
            per_thousand = seconds * 1000 / n
            # A quarter more than linear is the noise of a shared machine; quadratic would be 16.
            target = f"<= {1.25 * n / sizes[0]:g}x" if n > sizes[0] and not quick else None
            results.append(
                Result(
                    f"check/{kind.__name__}/{n}",
                    per_thousand,
                    "s/1000 rules",
                    smallest if n > sizes[0] else None,
                    seconds / times[0] if n > sizes[0] else None,
                    target,
                )
            )
    return results


if __name__ == "__main__":
    print_table(run())
