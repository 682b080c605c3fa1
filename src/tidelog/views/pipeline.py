"""The plan of a stream on Spark as text and as JSON, for `explain --show pipeline`.

Everything is read off the plan that `run` runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, assert_never

from tidelog.analysis.blocks import rule_text
from tidelog.analysis.dependencies import Class, Dependencies
from tidelog.analysis.stages import Stage, StageKind
from tidelog.evaluation.plan import Scan
from tidelog.language.printer import print_literal, print_term
from tidelog.language.program import Constant
from tidelog.logic.core import Core, Role
from tidelog.pipeline.plan import OfflineWork, OnlineWork, PipelinePlan, pipeline_plan
from tidelog.streaming.options import StreamMode, StreamOptions
from tidelog.streaming.schedule import Blocking, Schedule

_SHOWN_BY_NAME = (Role.WINDOW, Role.GATHERED, Role.TOTAL, Role.BLOCK, Role.STEP)
_IN_RULES_WORDS = (Role.WINDOW, Role.GATHERED, Role.TOTAL, Role.BLOCK, Role.BEGUN)
# Who reads facts and packs them, and why.
READ = {
    "files": "by DuckDB in the tasks, which give packed rows",
    "DataFrames": "by Catalyst, which has their rows",
}


def pipeline_lines(deps: Dependencies, mode: StreamMode = "offline") -> list[str]:
    """Stages, keys and state of some queries, with reasons; or why there is no pipeline."""
    try:
        return lines_of(pipeline_plan(deps.core.program, deps.queries, StreamOptions(mode)))
    except Blocking as error:
        return [f"no pipeline: {error}"]


def pipeline_json(deps: Dependencies, mode: StreamMode = "offline") -> dict[str, Any]:
    """The same as data; `refused` says why there is none."""
    try:
        return json_of(pipeline_plan(deps.core.program, deps.queries, StreamOptions(mode)))
    except Blocking as error:
        return {"refused": str(error)}


def lines_of(plan: PipelinePlan) -> list[str]:
    """What a plan does in each batch, one thing after the other."""
    shown = json_of(plan)
    lines = ["pipeline", *(f"  read    {what}: {how}" for what, how in shown["read"].items())]
    for scan in shown["select"]:
        wanted = f" where {', '.join(scan['where'])}" if scan["where"] else ""
        lines.append(f"  select  {scan['input']}({', '.join(scan['columns'])}){wanted}, packed")
    lines += [f"  rigid   {name}, in every partition" for name in shown["rigid"]]
    shards = isinstance(plan.work, OnlineWork)
    word = "turn" if shards else "wave"
    lines.append(f"  {word}    when everything up to tin has arrived")
    if len(shown["waits_for"]) > 1:
        names = shown["waits_for"]
        lines.append(f"            of {', '.join(names[:-1])} and {names[-1]}: tin waits for each")
    settles = {step["predicate"]: _ago(step["settles"]) for step in shown["wave"]}
    for stage in shown["stages"]:
        if stage["kind"] == "keyed":
            keys = ", ".join(f"{name}[{where}]" for name, where in stage["key"].items())
            lines.append(f"  split   by key: {keys}")
        else:
            where = {"whole": "in one partition", "catalyst": "by Catalyst"}[stage["kind"]]
            where = "in the driver" if shards else where
            lines.append(f"  whole   {where}: {stage['because']}")
        lines += [
            f"            {name} @ {settles[name]}" if name in settles else f"            {name}"
            for name in stage["derives"]
        ]
        lines += [
            f"            {sent['predicate']} @ {_ago(sent['settles'])}, for a later stage"
            for sent in stage["sends"]
        ]
    lines += [f"  state   {p['table']}: {p['kept']}; {p['because']}" for p in shown["state"]]
    if not shown["state"]:
        lines.append("  state   none but facts after tin")
    lines.append("  write   dead letters, answers, state, then the commit")
    return lines


def _ago(ticks: int) -> str:
    return "tin" if ticks == 0 else f"tin - {ticks}" if ticks > 0 else f"tin + {-ticks}"


def json_of(plan: PipelinePlan) -> dict[str, Any]:
    """What a plan reads, derives, keeps and where, as data."""
    waits_for = {"waits_for": list(plan.pace.held)}
    match plan.work:
        case OfflineWork() as work:
            told = _offline(work)
        case OnlineWork() as work:
            told = _online(work)
        case _ as never:
            assert_never(never)
    return {"read": READ, **_in_rules_words(told, work.core), **waits_for}


def _in_rules_words(data: dict[str, Any], core: Core) -> dict[str, Any]:
    """Data with what rules say in place of the keys of windows and aggregates."""
    made = [p for p in core.predicates.values() if p.role in _IN_RULES_WORDS]
    texts = {p.name: rule_text(core, p) for p in made}
    if not texts:
        return data
    keys = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))))

    def worded(value: object) -> Any:
        match value:
            case str():
                return keys.sub(lambda found: texts[found[0]], value)
            case dict():
                return {worded(name): worded(one) for name, one in value.items()}
            case list():
                return [worded(one) for one in value]
            case _:
                return value

    return {name: worded(value) for name, value in data.items()}


def _offline(work: OfflineWork) -> dict[str, Any]:
    schedule, core = work.schedule, work.core
    scans = [step for step in schedule.plan.steps if isinstance(step, Scan)]
    return {
        "select": [_scan(scan) for scan in scans if scan.predicate.temporal],
        "rigid": [scan.predicate.base for scan in scans if not scan.predicate.temporal],
        "stages": [_stage(work, stage) for stage in work.layout.stages],
        "wave": [
            {"predicate": name, "settles": schedule.phi[name]}
            for name in schedule.plan.tables
            if name in schedule.phi and not _is_sent(core, name)
        ],
        "state": _window_state(work) if work.options.strict else _state(work),
    }


def _is_sent(core: Core, name: str) -> bool:
    """Whether a predicate is only what some rule derives for a later stage."""
    return core.predicates[name].role is Role.SENT


def _called(core: Core, name: str) -> str:
    """The user's name of a predicate; a part of a window has one of its own."""
    predicate = core.predicates[name]
    return predicate.name if predicate.role in _SHOWN_BY_NAME else predicate.base


def _stage(work: OfflineWork, stage: Stage) -> dict[str, Any]:
    layout, core = work.layout, work.core
    looked_at = {*layout.reads(stage), *layout.own(stage)}
    names = {table: name for name, table in layout.plan.tables.items()}
    scans = {s.name: s.predicate.name for s in layout.plan.steps if isinstance(s, Scan)}
    involved = {names.get(table, scans.get(table, "")) for table in looked_at}
    where = f" ({stage.clause.origin})" if stage.clause is not None else ""
    return {
        "kind": stage.kind.value,
        "derives": [name for name in stage.predicates if not _is_sent(core, name)],
        "sends": [
            {"predicate": core.predicates[name].base, "settles": work.schedule.phi[name]}
            for name in stage.predicates
            if _is_sent(core, name)
        ],
        "key": {
            _called(core, name): i + 1
            for name, i in stage.positions.items()
            if name in involved and not _is_sent(core, name)
        },
        "because": f"{stage.reason}{where}" if stage.reason else "",
    }


def _state(work: OfflineWork) -> list[dict[str, str]]:
    """What is kept of each table, told from where its predicate settles at any input time."""
    schedule, core = work.schedule, work.core
    names = {table: name for name, table in schedule.plan.tables.items()}
    scans = {s.name: s.predicate.name for s in schedule.plan.steps if isinstance(s, Scan)}
    state = []
    for table in work.layout.tables:
        predicate = scans.get(table) or names[table]
        source = _called(core, predicate)
        # Input time 0 stands for any.
        first = schedule.kept_from(table, 0, -1)
        settled = 0 if table in scans else schedule.frontier(predicate, 0, -1)
        if first is not None and first <= settled:
            because = _first_use(schedule, core, table, source)
            kept = _ticks(settled - first + 1)
            if core.predicates[predicate].role is Role.BLOCK:
                kept = f"{kept}, one row per group and tick"
            state.append(_kept(source, kept, because))
        pinned = sorted(schedule.pinned.get(table, ()))
        if pinned:
            times = ", ".join(map(str, pinned))
            state.append(_kept(source, f"@ {times}, for ever", "a rule names it"))
    return state


def _first_use(schedule: Schedule, core: Core, table: str, source: str) -> str:
    """The rule that looks back furthest."""
    head, offset, _ = min(
        schedule.uses[table], key=lambda use: schedule.frontier(use[0], 0, -1) + use[1]
    )
    at = "T" if offset == 0 else f"T{offset:+}"
    return f"{_called(core, head)} @ T looks at {source} @ {at}"


def _window_state(work: OfflineWork) -> list[dict[str, str]]:
    assert work.window is not None
    sources = dict.fromkeys(p.base for p in work.core.inputs if p.temporal)
    because = "the strict style keeps input facts in the window"
    return [_kept(source, _ticks(work.window), because) for source in sources]


def _ticks(count: int) -> str:
    return f"{count} {'tick' if count == 1 else 'ticks'}"


def _kept(table: str, kept: str, because: str) -> dict[str, str]:
    return {"table": table, "kept": kept, "because": because}


def _scan(scan: Scan) -> dict[str, Any]:
    terms = scan.premise.args
    where = [
        f"argument {i} = {print_term(term)}"
        for i, term in enumerate(terms, 1)
        if isinstance(term, Constant)
    ]
    where += [print_literal(c) for c in scan.tests]
    columns = [print_term(terms[i]) for i in scan.columns]
    return {"input": scan.predicate.base, "columns": columns, "where": where}


def _online(work: OnlineWork) -> dict[str, Any]:
    shards, core = work.shards, work.core
    deps = shards.deps
    inputs = [p for p in core.inputs if p.temporal]
    blocking = deps.cls is Class.BLOCKING
    kept, because = "facts that are live", "an answer may still need them"
    if shards.whole:
        kept, because = "every fact", deps.reason.message
    return {
        "select": [
            {"input": p.base, "columns": _letters(len(p.types)), "where": []} for p in inputs
        ],
        "rigid": [p.base for p in core.inputs if not p.temporal],
        "stages": [
            {
                "kind": (StageKind.WHOLE if shards.positions is None else StageKind.KEYED).value,
                "derives": [name for name, p in core.predicates.items() if not p.input],
                "sends": [],
                "key": {
                    core.predicates[n].base: i + 1 for n, i in (shards.positions or {}).items()
                },
                "because": deps.reason.message if blocking else deps.key.reason,
            }
        ],
        "wave": [],
        "state": [_kept(p.base, kept, because) for p in inputs]
        + [_kept(name, "what is carried on", "rules carry it on") for name in shards.carried],
    }


def _letters(count: int) -> Iterable[str]:
    return [f"X{i}" for i in range(1, count + 1)]
