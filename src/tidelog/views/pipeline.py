"""The Spark pipeline of a query as text, before anything runs, for `explain --show pipeline`."""

from __future__ import annotations

from typing import Any

from tidelog.analysis.containment import reduced
from tidelog.analysis.dependencies import Dependencies, dependencies
from tidelog.analysis.stages import Stage, staged
from tidelog.evaluation.layout import Layout
from tidelog.evaluation.plan import Scan, planning_budget
from tidelog.language.printer import print_literal, print_term
from tidelog.language.program import Constant
from tidelog.streaming.schedule import Blocking, Schedule


def pipeline_lines(deps: Dependencies) -> list[str]:
    """Stages, keys and state, with reasons; or why there is no pipeline."""
    found = pipeline_json(deps)
    if "refused" in found:
        return [f"no pipeline: {found['refused']}"]
    lines = ["pipeline"]
    for scan in found["select"]:
        wanted = f" where {', '.join(scan['where'])}" if scan["where"] else ""
        lines.append(f"  select  {scan['input']}({', '.join(scan['columns'])}){wanted}, packed")
    lines += [f"  rigid   {name}, in every partition" for name in found["rigid"]]
    lines.append("  wave    when everything up to tin has arrived")
    settles = {step["predicate"]: _ago(step["settles"]) for step in found["wave"]}
    for stage in found["stages"]:
        if stage["kind"] == "keyed":
            keys = ", ".join(f"{name}[{where}]" for name, where in stage["key"].items())
            lines.append(f"  split   by key: {keys}")
        else:
            where = "in one partition" if stage["kind"] == "whole" else "by Catalyst"
            lines.append(f"  whole   {where}: {stage['because']}")
        lines += [
            f"            {name} @ {settles[name]}" if name in settles else f"            {name}"
            for name in stage["derives"]
        ]
    lines += [f"  state   {p['table']}: {p['kept']}; {p['because']}" for p in found["state"]]
    if not found["state"]:
        lines.append("  state   none but facts after tin")
    lines.append("  write   dead letters, answers, state, then the commit")
    return lines


def _ago(ticks: int) -> str:
    return "tin" if ticks == 0 else f"tin - {ticks}" if ticks > 0 else f"tin + {-ticks}"


def pipeline_json(deps: Dependencies) -> dict[str, Any]:
    """The same as data; `refused` says why there is none."""
    needed, _ = reduced(deps.core, deps.queries, planning_budget())
    try:
        split = staged(dependencies(needed, deps.queries))
        schedule = Schedule(split.deps)
        layout = Layout(schedule.plan, split.stages)
    except Blocking as error:
        return {"refused": str(error)}
    names = {table: name for name, table in schedule.plan.tables.items()}
    scans = [s for s in schedule.plan.steps if isinstance(s, Scan)]
    state = []
    for table in layout.tables:
        scan = next((s for s in scans if s.name == table), None)
        predicate = scan.predicate.name if scan is not None else names[table]
        # Input time 0 stands for any: what is kept is told from where a predicate settles.
        first = schedule.kept_from(table, 0, -1)
        settled = 0 if scan is not None else schedule.frontier(predicate, 0, -1)
        source = schedule.deps.core.predicates[predicate].source
        pinned = sorted(schedule.pinned.get(table, ()))
        if first is not None and first <= settled:
            head, offset = min(
                schedule.uses[table], key=lambda use: schedule.frontier(use[0], 0, -1) + use[1]
            )
            count = settled - first + 1
            state.append(
                {
                    "table": source,
                    "kept": f"{count} {'tick' if count == 1 else 'ticks'}",
                    "because": f"{head} @ T looks at {source} @ {_at(offset)}",
                }
            )
        if pinned:
            times = ", ".join(map(str, pinned))
            state.append(
                {"table": source, "kept": f"@ {times}, for ever", "because": "a rule names it"}
            )
    return {
        "select": [_scan(scan) for scan in scans if scan.predicate.temporal],
        "rigid": [scan.predicate.source for scan in scans if not scan.predicate.temporal],
        "stages": [_stage(layout, stage) for stage in layout.stages],
        "wave": [
            {"predicate": name, "settles": schedule.phi[name]}
            for name in schedule.plan.tables
            if name in schedule.phi
        ],
        "state": state,
    }


def _stage(layout: Layout, stage: Stage) -> dict[str, Any]:
    looked_at = {*layout.reads(stage), *layout.own(stage)}
    names = {table: name for name, table in layout.plan.tables.items()}
    scans = {s.name: s.predicate.name for s in layout.plan.steps if isinstance(s, Scan)}
    involved = {names.get(table, scans.get(table, "")) for table in looked_at}
    where = f" ({stage.rule.origin})" if stage.rule is not None else ""
    return {
        "kind": stage.kind.value,
        "derives": list(stage.predicates),
        "key": {name: i + 1 for name, i in stage.positions.items() if name in involved},
        "because": f"{stage.reason}{where}" if stage.reason else "",
    }


def _at(offset: int) -> str:
    return "T" if offset == 0 else f"T{offset:+}"


def _scan(scan: Scan) -> dict[str, Any]:
    terms = scan.atom.args
    where = [
        f"argument {i} = {print_term(term)}"
        for i, term in enumerate(terms, 1)
        if isinstance(term, Constant)
    ]
    where += [print_literal(c) for c in scan.comparisons]
    columns = [print_term(terms[i]) for i in scan.columns]
    return {"input": scan.predicate.source, "columns": columns, "where": where}
