"""Records programs, facts and their answers; run it only where answers are meant to change.

`python tests/digests/record.py corpus` draws new programs from the generators of `oracle/`, and
records their answers;
`python tests/digests/record.py answers` records the answers of the code as it is.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from oracle.aggregates import (
    programs_with_aggregates,
    programs_with_cycles,
    programs_with_reached_values,
)
from oracle.generate import Case, programs_and_facts
from oracle.negation import programs_with_not
from oracle.numbers import programs_with_numbers
from oracle.windows import programs_with_windows
from support.digests import ANSWERS, CORPUS, Recorded, answers_of, read, write

FAMILIES = {
    "plain": (programs_and_facts(connected=True), 300),
    "not": (programs_with_not(connected=True), 300),
    "windows": (programs_with_windows(connected=True), 450),
    "aggregates": (programs_with_aggregates(connected=True), 450),
    "reached": (programs_with_reached_values(connected=True), 200),
    "cycles": (programs_with_cycles(connected=True), 150),
    "numbers": (programs_with_numbers(connected=True), 150),
}
# A program that takes longer in any mode is left out: what its stream proves may hang on time.
MOST_SECONDS = 6


def drawn(strategy: st.SearchStrategy[Case], count: int) -> Iterator[Case]:
    """Distinct cases of a strategy, the same ones at every call."""
    cases: dict[str, Case] = {}

    @settings(
        max_examples=count * 4,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: Case) -> None:
        if any(case.facts.values()):
            cases.setdefault(f"{case.text}{case.facts}", case)

    collect()
    yield from cases.values()


def quick_answers(recorded: Recorded) -> dict[str, Any] | None:
    """The answers in all modes; None if they take many seconds of a core.

    They are computed in a process of their own: DuckDB goes on when Python gets a signal.
    """
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        try:
            answers = json.dumps(answers_of(recorded)).encode()
        except Exception as error:
            print(f"{recorded.name}: {error!r}\n{recorded.text}", file=sys.stderr, flush=True)
            os._exit(1)
        with os.fdopen(target, "wb") as file:
            file.write(answers)
        os._exit(0)
    os.close(target)
    with os.fdopen(source, "rb") as file:
        answers = file.read()
    _, status = os.waitpid(child, 0)
    return None if status else json.loads(answers)


def record_corpus() -> None:
    corpus: list[Recorded] = []
    answers: dict[str, Any] = {}
    for family, (strategy, count) in FAMILIES.items():
        cases = [
            Recorded(
                f"{family}/{number}",
                case.text,
                {name: [list(row) for row in rows] for name, rows in case.facts.items()},
                list(case.queries),
                case.low,
                case.high,
            )
            for number, case in enumerate(drawn(strategy, count))
        ]
        kept = 0
        with get_context("spawn").Pool(2) as pool:
            for case, found in zip(cases, pool.imap(quick_answers, cases), strict=True):
                if found is not None:
                    corpus.append(case)
                    answers[case.name] = found
                    kept += 1
                if kept == count:
                    break
            pool.terminate()
        print(f"{family}: {kept} of {len(cases)}", file=sys.stderr, flush=True)
    write(CORPUS, [list(recorded) for recorded in corpus])
    write(ANSWERS, answers)
    print(f"{len(corpus)} programs", file=sys.stderr)


def record_answers() -> None:
    corpus = [Recorded(*values) for values in read(CORPUS)]
    with get_context("spawn").Pool(2) as pool:
        answers = pool.map(answers_of, corpus, chunksize=5)
    names = (recorded.name for recorded in corpus)
    write(ANSWERS, dict(zip(names, answers, strict=True)))


if __name__ == "__main__":
    {"corpus": record_corpus, "answers": record_answers}[sys.argv[1]]()
