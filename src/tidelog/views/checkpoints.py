"""What the commands on checkpoints print for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog.checkpoints.letters import LetterGroup
from tidelog.checkpoints.reports import UNITS, Audit, Commit, Problem, Rollback, Show
from tidelog.data.letters import letter_text
from tidelog.language.diagnostics import visible
from tidelog.views.terminal import plural, table

ENGINES = {"spark": "on Spark", "duckdb": "in process"}


def show_lines(show: Show) -> Iterator[str]:
    """A checkpoint in some paragraphs: what it is of, where it stands, what it holds."""
    last = show.commits[0] if show.commits else None
    unit = UNITS[show.engine]
    yield f"{show.place}: a stream {ENGINES[show.engine]} of {', '.join(show.queries)}"
    yield f"  sink     {show.sink}"
    yield f"  options  {_options(show)}"
    if last is None:
        yield "  nothing is committed yet"
        return
    ends = " and closed" if last.closed else ""
    yield f"  {unit} {last.number}, of {last.committed}{ends}"
    yield f"  input frontier   {show.time(last.tin) or 'nothing yet'}"
    yield f"  output frontier  {show.time(last.tout) or 'nothing yet'}"
    yield f"  ledger   {last.total}"
    answers = ", ".join(f"{n} {query}" for query, n in last.answered.items())
    yield f"  answers  {answers or 'none'}"
    if last.state.get("pending") is not None:
        yield f"  pending  {plural(last.state['pending'], 'answer')} may still come"
    yield from _inputs(show, last)
    yield from _state(show)
    yield from _commits(show)
    ways = ", ".join(map(str, show.possible)) or "none"
    yield f"rollback can go back to: {ways}"


def _options(show: Show) -> str:
    """The options that are not as usual, and how answers are given."""
    usual: tuple[object, ...] = (None, False, True, 0, [], "")
    told = {n: v for n, v in show.options.items() if v not in usual and not isinstance(v, dict)}
    return ", ".join(f"{name} {value}" for name, value in told.items())


def _inputs(show: Show, last: Commit) -> Iterator[str]:
    names = sorted({*last.seen, *last.by_input, *last.idle, *last.waits_for})
    if not names:
        return
    rows: list[tuple[str, ...]] = [("input", "seen up to", "facts", "late", "dead", "")]
    for name in names:
        ledger = last.by_input.get(name)
        counts = ("", "", "") if ledger is None else (ledger.facts, ledger.late, ledger.dead)
        state = "idle" if name in last.idle else "holds time back" if name in last.waits_for else ""
        seen = show.time(last.seen.get(name)) or "nothing yet"
        rows.append((name, seen, *map(str, counts), state))
    yield from table(rows)


def _state(show: Show) -> Iterator[str]:
    if not show.state:
        yield "state: none"
        return
    rows: list[tuple[str, ...]] = [("state", "kind", "rows", "bytes", "facts", "from", "to")]
    for size in show.state:
        ends = (show.time(size.first) or "", show.time(size.last) or "")
        counts = map(str, (size.rows, size.bytes, size.facts))
        rows.append((size.predicate, size.kind, *counts, *ends))
    yield from table(rows)


def _commits(show: Show) -> Iterator[str]:
    head = (UNITS[show.engine], "written", "rows", "facts", "late", "dead", "answers", "in", "out")
    rows: list[tuple[str, ...]] = [head]
    for commit in show.commits:
        ledger = commit.ledger
        counts = (ledger.rows, ledger.facts, ledger.late, ledger.dead, sum(commit.answers.values()))
        ends = (show.time(commit.tin) or "", show.time(commit.tout) or "")
        rows.append((str(commit.number), commit.committed, *map(str, counts), *ends))
    yield from table(rows)


def problem_lines(place: str, problems: Sequence[Problem]) -> Iterator[str]:
    """Every problem with its remedy, or that there is none."""
    for problem in problems:
        yield f"{problem.what}"
        if problem.remedy:
            yield f"  {problem.remedy}"
    yield f"{place}: {plural(len(problems), 'problem') if problems else 'no problems'}"


def audit_lines(place: str, audit: Audit) -> Iterator[str]:
    """What does not agree, and what could not be counted."""
    yield str(audit.ledger)
    for check in audit.wrong:
        yield f"{check}"
    for said in audit.unknown:
        yield f"not counted: {said}"
    agree = len(audit.checks) - len(audit.wrong)
    said = plural(len(audit.checks), "number")
    yield f"{place}: {agree} of {said} agree" if audit.wrong else f"{place}: all of {said} agree"


def rollback_lines(plan: Rollback) -> Iterator[str]:
    """What a rollback takes back."""
    if not plan.commits:
        yield f"{plan.unit} {plan.to} is the last one: nothing is taken back"
        return
    which = ", ".join(map(str, plan.commits))
    unit = plan.unit if len(plan.commits) == 1 else f"{plan.unit}s"
    counts = f"{plural(plan.facts, 'fact')} and {plural(plan.answers, 'answer')}"
    yield f"takes back {unit} {which}: {counts}"
    yield f"answers: {plan.sink}"


def letter_lines(groups: Iterable[LetterGroup]) -> Iterator[str]:
    """Dead letters by problem and input, each group with its first letter."""
    count = 0
    for group in groups:
        count += group.count
        about = f" of {group.input}" if group.input is not None else ""
        yield f"{plural(group.count, 'row')}{about}{_batches(group.batches)}: {group.problem}"
        if group.first is not None:
            value = {"file": None, **group.first.value}
            yield f"  {visible(letter_text(value))}"
    yield plural(count, "dead letter")


def _batches(numbers: set[int]) -> str:
    if not numbers:
        return ""
    first, last = min(numbers), max(numbers)
    return f" in batch {first}" if first == last else f" in batches {first} to {last}"
