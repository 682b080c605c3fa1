"""The steps of a plan on an engine, over facts that are new and facts that are kept.

Finite queries in Spark's partitions and waves of streams go this way; a query in process, which
looks at its data first, has its own (`duckdb.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from tidelog.evaluation.engine import SqlEngine
from tidelog.evaluation.plan import Derive, Fixpoint, Plan, PlanStep, Scan, tables_of
from tidelog.evaluation.recursion import SHORTER, Recursion
from tidelog.evaluation.sql import Writer, narrowed
from tidelog.logic.core import Predicate


@dataclass
class StepRunner:
    """Runs steps of plans on one engine: a table for each scan and each derived predicate."""

    engine: SqlEngine
    progress: Callable[[str], None] = lambda _: None
    shorter: str = SHORTER  # what to do where something would hold at too many ticks
    own: Callable[[Predicate, str], str] | None = None  # see Writer.own
    done: frozenset[str] = frozenset()  # tables that are there already

    def run(
        self,
        plan: Plan,
        steps: Iterable[PlanStep],
        state: Mapping[str, str],
        facts: Mapping[str, str],
    ) -> dict[str, str]:
        """Run some steps; by scan, the table of its new facts.

        `facts` names tables of new facts by input or, packed already, by scan; `state` names
        tables of facts that are kept, by scan or derived table.
        """
        writer = Writer(plan)
        writer.own = self.own
        for name, table in plan.inputs.items():
            if name in facts:
                self.engine.view(table, f"SELECT * FROM {facts[name]}")
        new: dict[str, str] = {}
        for step in steps:
            if self.done.issuperset(tables_of(step)):
                continue
            match step:
                case Scan():
                    new[step.name] = self._scan(step, writer, facts, state)
                case Derive():
                    self._derive(step, writer, state)
                case Fixpoint():
                    Recursion(self.engine, self.progress, self.shorter).run(step, writer, state)
                case _:
                    assert_never(step)
        return new

    def _scan(
        self, step: Scan, writer: Writer, facts: Mapping[str, str], state: Mapping[str, str]
    ) -> str:
        """New facts and kept ones together; the table of the new ones is returned."""
        self.progress(f"packing {step.predicate.base}")
        packed = facts.get(step.name)
        new = writer.scan(step) if packed is None else f"SELECT * FROM {packed}"
        if step.name not in state:
            self.engine.table(step.name, new)
            if packed is not None:
                writer.unmerged.add(step.name)  # each task packed its own facts
            return step.name
        self.engine.table(f"{step.name}_now", new)
        narrow = narrowed(step.predicate, step.columns)
        self.engine.table(step.name, writer.merged(narrow, f"{step.name}_now", state[step.name]))
        return f"{step.name}_now"

    def _derive(self, step: Derive, writer: Writer, state: Mapping[str, str]) -> None:
        self.progress(f"deriving {step.predicate.name}")
        if not step.predicate.temporal:
            self.engine.table(step.table, writer.derive(step))
            return
        if step.over is not None:
            now = writer.derive(step)
        else:
            now = writer.union(step.predicate, step.joins, writer.clip(step.predicate))
        if step.table not in state:
            self.engine.table(step.table, now)
            return
        self.engine.table(f"{step.table}_now", now)
        names = ", ".join(writer.names(step.predicate))
        # Kept slices are older than new ones: both together hold every bit once, though a chunk
        # may have a row of each.
        writer.unmerged.add(step.table)
        self.engine.view(
            step.table,
            f"SELECT {names} FROM {state[step.table]}"
            f" UNION ALL SELECT {names} FROM {step.table}_now",
        )
