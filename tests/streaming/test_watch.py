"""A pending answer appears once, and is confirmed when it comes and dead when it cannot."""

from __future__ import annotations

import warnings

from hypothesis import given
from oracle.generate import Case, programs_and_facts
from support.deep import examples

import tidelog
from tidelog.data.schema import schemas
from tidelog.streaming.stream import Growing
from tidelog.streaming.watch import Watch


@examples(8, deep=300)
@given(programs_and_facts(connected=True, huge=False, explicit_times=False))
def test_what_becomes_of_pending_answers(case: Case) -> None:
    layout = schemas(case.program)
    rigid = {n: r for n, r in case.facts.items() if layout[n].time is None}
    ticks: dict[int, dict[str, list[tuple[object, ...]]]] = {}
    for name, facts in case.facts.items():
        if name not in rigid:
            for row in facts:
                ticks.setdefault(int(row[-1]), {}).setdefault(name, []).append(row)
    if not ticks or len(ticks) > 12:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error", Growing)
        try:
            stream = tidelog.Stream(case.program, case.queries, mode="online", rigid=rigid)
        except Growing:
            return
    watch = Watch(stream, 10_000)
    waiting: dict[tuple[object, ...], str] = {}
    answers: set[tuple[object, ...]] = set()
    for tick in [*range(min(ticks), max(ticks) + 1), None]:
        step = stream.close() if tick is None else stream.push(tick, ticks.get(tick, {}))
        for query, table in step.answers.items():
            answers |= {(query, *row.values()) for row in table.to_pylist()}
        for change in watch.after(step):
            answer = change.answer
            key = (answer.predicate, *answer.args, answer.time)
            if change.what == "pending":
                assert key not in waiting
            else:
                assert waiting[key] == "pending"
                if None not in answer.args:
                    assert (key in answers) is (change.what == "confirmed")
            waiting[key] = change.what
    # Once the stream is closed nothing up to its last tick is left undecided.
    left = [k for k, what in waiting.items() if what == "pending"]
    assert all(step.tout is not None and int(str(key[-1])) > step.tout for key in left)
