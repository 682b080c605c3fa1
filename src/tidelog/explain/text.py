"""Proofs and near misses as text that fits a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from tidelog.analysis.containment import Ground
from tidelog.analysis.definitive import shown
from tidelog.data.ticks import Ticks, time_text
from tidelog.evaluation.goal_directed.model import Absence, Gathered, Stretch
from tidelog.explain.misses import Miss, Missing, Unmet
from tidelog.explain.proofs import Proof
from tidelog.explain.why import Why
from tidelog.language.printer import (
    print_expression,
    print_literal,
    print_rule,
    print_term,
    print_value,
)
from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Operator,
    Rule,
    Value,
    Variable,
)
from tidelog.logic.clause import Over
from tidelog.logic.windows import quantified

WIDTH = 80
# A chain of steps by one rule that is longer is shown by its two ends.
LONGEST_CHAIN = 5
# Of more lines below a window or an aggregate only the first are shown, unless all are asked for.
MOST_COUNTED = 6
FIRST_COUNTED = 3


@dataclass(frozen=True)
class _TreeLine:
    text: str
    note: str
    below: tuple[_TreeLine, ...] = ()


def why_lines(why: Why) -> list[str]:
    """Everything there is to say about one fact, a line each."""
    ticks = why.ticks
    fact = fact_text(why.fact, ticks)
    if why.holds:
        lines, shortened = [], False
        for number, proof in enumerate(why.proofs, 1):
            lines += [] if number == 1 else [""]
            tree = _Tree(proof, ticks, why.full)
            lines += [_title(why, fact, proof, number), *_drawn([tree.line(0)])]
            shortened = shortened or tree.shortened
        if shortened:
            lines += ["", "only the first of many facts are shown: --full shows all"]
        if why.more:
            lines += ["", "there are more proofs: --all N"]
        used = [step.rule for proof in why.proofs for step in proof.steps if step.rule is not None]
        rules = rule_lines(used)
        return [*lines, "", *rules] if rules else lines
    if why.input and not why.misses:
        there = f"; there is {_facts(why.instead, ticks)}" if why.instead else ""
        return [f"{fact} is not among the facts{there}"]
    if not why.misses:
        return [f"{fact} does not hold, and no rule comes near it"]
    lines = [f"{fact} does not hold; what comes nearest"]
    for i, miss in enumerate(why.misses):
        lines += [*([""] if i else []), *miss_lines(miss, ticks)]
    return [*lines, "", *rule_lines(_miss_rules(why.misses))]


def _title(why: Why, fact: str, proof: Proof, number: int) -> str:
    count = "1 fact" if proof.size == 1 else f"{proof.size} facts"
    if number > 1:
        return f"proof {number}, of {count}"
    least = "the smallest proof has" if why.smallest else "a proof has"
    return f"{fact} holds; {least} {count}"


# Proofs


class _Tree:
    """The lines of a proof; what is proved twice is shown once.

    Long chains by one rule are shortened, and, unless it is `full`, long lists of counted facts.
    """

    def __init__(self, proof: Proof, ticks: Ticks | None, full: bool) -> None:
        self.proof = proof
        self.ticks = ticks
        self.full = full
        self.shortened = False  # whether counted facts were left out
        self.seen: set[int] = set()

    def line(self, index: int) -> _TreeLine:
        step = self.proof.steps[index]
        text = fact_text(step.fact, self.ticks)
        if isinstance(step.fact, Stretch):
            return _TreeLine(text, "", tuple(self._counted(step.premises)))
        if step.rule is None:
            return _TreeLine(text, "kept" if step.kept else "input")
        if not step.rule.body:
            return _TreeLine(text, f"fact, {place(step.rule)}")
        if index in self.seen:
            return _TreeLine(text, "as above")
        self.seen.add(index)
        chain = list(self._chain(index))
        if len(chain) <= LONGEST_CHAIN:
            below = [self.line(i) for i in step.premises]
        else:
            last = chain[-1]
            self.seen.update(chain[:-1])
            skipped = len(chain) - 2
            below = [
                _TreeLine(f"... {skipped} more steps like this, back to", "", (self.line(last),))
                if i == chain[1]
                else self.line(i)
                for i in step.premises
            ]
        below += [
            _TreeLine(absence_text(a, self.ticks), "absent" if a.input else "nothing gives it")
            for a in step.absent
        ]
        below += [_TreeLine(comparison_text(*c), "") for c in step.comparisons]
        return _TreeLine(text, place(step.rule), tuple(below))

    def _counted(self, indices: tuple[int, ...]) -> Iterator[_TreeLine]:
        """What a window counts: input facts that differ only in their ticks, a line a stretch."""
        runs: list[list[int]] = []
        for index in indices:
            if runs and self._goes_on(runs[-1][-1], index):
                runs[-1].append(index)
            else:
                runs.append([index])
        cut = len(runs) > MOST_COUNTED and not self.full
        yield from (self._run(run) for run in (runs[:FIRST_COUNTED] if cut else runs))
        if cut:
            self.shortened = True
            yield _TreeLine(f"... {sum(map(len, runs[FIRST_COUNTED:]))} more facts", "")

    def _goes_on(self, index: int, following: int) -> bool:
        """Whether a step is the same input fact a tick before."""
        one, other = self.proof.steps[index], self.proof.steps[following]
        if one.rule is not None or one.fact.time is None:
            return False
        before = replace(one, fact=replace(one.fact, time=one.fact.time - 1))
        return before == other

    def _run(self, run: list[int]) -> _TreeLine:
        if len(run) == 1:
            return self.line(run[0])
        last, first = (self.proof.steps[i].fact for i in (run[0], run[-1]))
        text = shown(first.predicate, first.args, None)
        note = "kept" if self.proof.steps[run[0]].kept else "input"
        return _TreeLine(f"{text} @ {_interval(first.time, last.time, self.ticks)}", note)

    def _chain(self, index: int) -> Iterator[int]:
        """Steps by one rule, each the only premise of the one before that the rule proves."""
        while True:
            yield index
            step = self.proof.steps[index]
            same = [i for i in step.premises if self.proof.steps[i].rule is step.rule]
            if len(same) != 1 or same[0] in self.seen:
                return
            index = same[0]


def absence_text(absence: Absence, ticks: Ticks | None = None) -> str:
    """`not Beat(a, _) @ 5`"""
    atom = shown(absence.predicate, absence.args, None)
    if absence.over is None:
        return _timed(f"not {atom}", absence.time, ticks)
    return f"not {_over(atom, absence.over, absence.time, ticks)}"


def _over(atom: str, over: Over, time: int | None, ticks: Ticks | None) -> str:
    """`always Hot(a) @ [1, 5]`; at one tick `Hot(a) @ 5`."""
    if over.ticks == 1 and time is not None:
        return _timed(atom, time, ticks)
    first = None if time is None else time - over.ticks + 1
    return f"{quantified(over)} {atom} @ {_interval(first, time, ticks)}"


def _interval(first: int | None, last: int | None, ticks: Ticks | None) -> str:
    ends = ("_" if end is None else str(moment(end, ticks)) for end in (first, last))
    return f"[{', '.join(ends)}]"


def comparison_text(comparison: Comparison, left: Value, right: Value) -> str:
    """`V = 81.5 > 80`; of a calculation that is given a name, `D = V - W = 12.5`."""
    defines = isinstance(comparison.left, Variable) and isinstance(comparison.right, Calculation)
    if defines and comparison.operator is Operator.EQ and left == right:
        return f"{print_literal(comparison)} = {print_value(right)}"
    one, other = (
        print_term(side)
        if isinstance(side, Constant)
        else f"{print_expression(side)} = {print_value(value)}"
        for side, value in ((comparison.left, left), (comparison.right, right))
    )
    return f"{one} {comparison.operator} {other}"


# Misses


def miss_lines(miss: Miss, ticks: Ticks | None = None) -> list[str]:
    below = tuple(_missing(miss, ticks))
    return list(_drawn([_TreeLine(fact_text(miss.fact, ticks), place(miss.rule), below)]))


def _missing(miss: Miss, ticks: Ticks | None) -> Iterator[_TreeLine]:
    for fact in miss.holds:
        yield _TreeLine(f"holds    {fact_text(fact, ticks)}", "")
    for missing in miss.missing:
        text = f"missing  {missing_text(missing, ticks)}"
        if missing.over is not None:
            yield _TreeLine(text, f"holds at {missing.there}, {missing.over.least} are needed")
        elif missing.because is not None:
            below = tuple(_missing(missing.because, ticks))
            yield _TreeLine(text, place(missing.because.rule), below)
        else:
            there = f"there is {_facts(missing.instead, ticks)}" if missing.instead else ""
            known = missing.input or missing.gathered is not None
            yield _TreeLine(text, there if known else "no rule comes near it")
    for fact in miss.in_the_way:
        yield _TreeLine(
            f"present  {fact_text(fact, ticks)}", "in the way: its absence is asked for"
        )
    for unmet in miss.unmet:
        yield _TreeLine(f"fails    {unmet_text(unmet)}", "")
    for comparison in miss.undecided:
        yield _TreeLine(f"open     {print_literal(comparison)}", "")


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def unmet_text(unmet: Unmet) -> str:
    """`V = 79.5, needs >= 80`"""
    comparison, operator = unmet.comparison, unmet.comparison.operator.value
    one, other = comparison.left, comparison.right
    for side, value in ((one, unmet.left), (other, unmet.right)):
        if value is None:
            return f"{print_expression(side)} has no value"
    assert unmet.left is not None
    assert unmet.right is not None
    left, right = print_value(unmet.left), print_value(unmet.right)
    if not isinstance(one, Constant):
        wanted = print_expression(other)
        wanted += "" if isinstance(other, Constant) else f" = {right}"
        return f"{print_expression(one)} = {left}, needs {operator} {wanted}"
    if not isinstance(other, Constant):
        return f"{print_expression(other)} = {right}, needs {_TURNED[operator]} {print_term(one)}"
    return f"{left} {operator} {right} is false"


def _miss_rules(misses: Iterable[Miss]) -> list[Rule]:
    rules: list[Rule] = []
    for miss in misses:
        rules.append(miss.rule)
        rules += _miss_rules(m.because for m in miss.missing if m.because is not None)
    return rules


# Drawing


def fact_text(fact: Ground, ticks: Ticks | None = None) -> str:
    """A fact as the language writes it, with a timestamp where ticks have a length."""
    if isinstance(fact, Gathered):
        return gathered_text(fact, ticks)
    if isinstance(fact, Stretch):
        return _over(shown(fact.predicate, fact.pattern, None), fact.over, fact.time, ticks)
    return _timed(shown(fact.predicate, fact.args, None), fact.time, ticks)


def gathered_text(fact: Gathered, ticks: Ticks | None = None) -> str:
    """`avg(V : Temp(a, V) @ [1, 5]) = 20.5`; without a value where none is known."""
    args = ["_" if value is None else print_value(value) for value in fact.pattern]
    of = ""
    if fact.of is not None:
        args[fact.of], of = "V", "V : "
    atom = f"{fact.predicate}({', '.join(args)})" if args else fact.predicate
    if fact.time is not None and fact.over.ticks > 1:
        atom += f" @ {_interval(fact.time - fact.over.ticks + 1, fact.time, ticks)}"
    else:
        atom = _timed(atom, fact.time, ticks)
    value = "" if fact.value is None else f" = {print_value(fact.value)}"
    return f"{fact.measure}({of}{atom}){value}"


def missing_text(missing: Missing, ticks: Ticks | None = None) -> str:
    """With the rule's own names for values that are not known."""
    if missing.gathered is not None:
        return gathered_text(missing.gathered, ticks)
    args = ", ".join(
        name or ("_" if value is None else print_value(value))
        for name, value in zip(missing.variables, missing.args, strict=True)
    )
    text = f"{missing.predicate}({args})" if args else missing.predicate
    if missing.over is not None:
        return _over(text, missing.over, missing.time, ticks)
    if missing.temporal and missing.time is None:
        return f"{text} @ _"
    return _timed(text, missing.time, ticks)


def _timed(text: str, time: int | None, ticks: Ticks | None) -> str:
    return text if time is None else f"{text} @ {moment(time, ticks)}"


def moment(time: int, ticks: Ticks | None) -> int | str:
    """A tick, or the timestamp at which it starts."""
    return time if ticks is None else time_text(time, ticks)


def _facts(facts: Iterable[Ground], ticks: Ticks | None) -> str:
    return ", ".join(fact_text(fact, ticks) for fact in facts)


def place(rule: Rule) -> str:
    """`rules.tdl:7`; the whole path is said once, below."""
    return f"{PurePath(rule.origin.file).name}:{rule.origin.line}"


def _drawn(tops: list[_TreeLine]) -> Iterator[str]:
    rows: list[tuple[str, str]] = []
    stack = [(line, "", "") for line in reversed(tops)]
    while stack:
        line, first, rest = stack.pop()
        rows.append((first + line.text, line.note))
        for i, below in reversed(list(enumerate(line.below))):
            last = i == len(line.below) - 1
            stack.append(
                (below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
            )
    notes = max((len(note) for _, note in rows), default=0)
    widest = max((len(text) for text, note in rows if note), default=0)
    column = min(widest + 2, max(WIDTH - notes, 40))
    for text, note in rows:
        yield (
            f"{text:<{column}}{note}".rstrip() if len(text) < column else f"{text}  {note}".rstrip()
        )


def rule_lines(rules: Iterable[Rule]) -> list[str]:
    """The rules used, each once, with the whole path."""
    lines = []
    kept = {(rule.origin, print_rule(rule)): rule for rule in rules if rule.body}
    for rule in sorted(kept.values(), key=lambda r: (r.origin.line, r.origin.column)):
        where = str(rule.origin)
        head, *body = _parts(rule)
        room = WIDTH - len(where) - 2
        if len(print_rule(rule)) <= room:
            lines.append(f"{where}  {print_rule(rule)}")
            continue
        lines.append(where)
        line = f"  {head}"
        for part in body:
            if len(line) + 1 + len(part) > WIDTH:
                lines.append(line)
                line = f"     {part}"
            else:
                line = f"{line} {part}"
        lines.append(line)
    return lines


def _parts(rule: Rule) -> list[str]:
    if not rule.body:
        return [print_rule(rule)]
    *body, last = map(print_literal, rule.body)
    return [f"{print_literal(rule.head)} :-", *(f"{literal}," for literal in body), f"{last}."]


# JSON


def why_json(why: Why) -> dict[str, object]:
    ticks = why.ticks
    said: dict[str, object] = {"fact": fact_json(why.fact, ticks), "holds": why.holds}
    if why.holds:
        return {
            **said,
            "smallest": why.smallest,
            "more": why.more,
            "proofs": [proof_json(proof, ticks, why.full) for proof in why.proofs],
        }
    return {
        **said,
        "instead": [fact_json(fact, ticks) for fact in why.instead],
        "misses": [miss_json(miss, ticks) for miss in why.misses],
    }


def fact_json(fact: Ground, ticks: Ticks | None) -> dict[str, object]:
    if isinstance(fact, Gathered):
        return {"aggregate": gathered_text(replace(fact, value=None), ticks), "value": fact.value}
    if isinstance(fact, Stretch):
        window = _window_json(fact.over, fact.time, ticks)
        return {"predicate": fact.predicate, "args": list(fact.pattern), **window}
    rigid: dict[str, object] = {"predicate": fact.predicate, "args": list(fact.args)}
    return rigid if fact.time is None else {**rigid, "time": moment(fact.time, ticks)}


def _window_json(over: Over, time: int | None, ticks: Ticks | None) -> dict[str, object]:
    """At how many ticks of an interval."""
    ends = (None, None) if time is None else (time - over.ticks + 1, time)
    first, last = (None if end is None else moment(end, ticks) for end in ends)
    return {"from": first, "to": last, "ticks": over.ticks, "at_least": over.least}


def absence_json(absence: Absence, ticks: Ticks | None) -> dict[str, object]:
    rigid: dict[str, object] = {"predicate": absence.predicate, "args": list(absence.args)}
    if absence.over is not None:
        return {**rigid, **_window_json(absence.over, absence.time, ticks)}
    return rigid if absence.time is None else {**rigid, "time": moment(absence.time, ticks)}


def proof_json(proof: Proof, ticks: Ticks | None = None, full: bool = True) -> dict[str, object]:
    """Steps in order; premises are positions among them, so many of which are `omitted`."""
    premises = {0: _first_premises(proof, 0, full)}
    todo = [0]
    while todo:
        for index in premises[todo.pop()]:
            if index not in premises:
                premises[index] = _first_premises(proof, index, full)
                todo.append(index)
    positions = {index: position for position, index in enumerate(sorted(premises))}
    return {
        "size": proof.size,
        "steps": [
            {
                "fact": fact_json(step.fact, ticks),
                **_rule_json(step.rule),
                "kept": step.kept,
                "premises": [positions[i] for i in premises[index]],
                **_omitted_json(len(step.premises) - len(premises[index])),
                "comparisons": [comparison_text(*c) for c in step.comparisons],
                **_if_any("absent", [absence_json(a, ticks) for a in step.absent]),
            }
            for index, step in enumerate(proof.steps)
            if index in positions
        ],
    }


def _first_premises(proof: Proof, index: int, full: bool) -> tuple[int, ...]:
    """Where the premises of a step are proved; of many counted facts the first."""
    step = proof.steps[index]
    many = isinstance(step.fact, Stretch) and len(step.premises) > MOST_COUNTED
    return step.premises[:FIRST_COUNTED] if many and not full else step.premises


def _omitted_json(premises: int) -> dict[str, object]:
    return {"omitted": premises} if premises else {}


def _if_any(name: str, values: list[dict[str, object]]) -> dict[str, object]:
    """Under a name, unless there is nothing: only rules with `not` have it."""
    return {name: values} if values else {}


def _rule_json(rule: Rule | None) -> dict[str, object]:
    if rule is None:
        return {"rule": None, "file": None, "line": None}
    return {"rule": print_rule(rule), "file": rule.origin.file, "line": rule.origin.line}


def miss_json(miss: Miss, ticks: Ticks | None = None) -> dict[str, object]:
    return {
        "fact": fact_json(miss.fact, ticks),
        **_rule_json(miss.rule),
        "holds": [fact_json(fact, ticks) for fact in miss.holds],
        "missing": [_missing_json(m, ticks) for m in miss.missing],
        **_if_any("in_the_way", [fact_json(fact, ticks) for fact in miss.in_the_way]),
        "unmet": [
            {
                "comparison": print_literal(u.comparison),
                "left": u.left,
                "right": u.right,
                "gap": u.gap,
            }
            for u in miss.unmet
        ],
        "open": [print_literal(c) for c in miss.undecided],
    }


def _missing_json(missing: Missing, ticks: Ticks | None) -> dict[str, object]:
    said: dict[str, object] = {"predicate": missing.predicate, "args": list(missing.args)}
    if any(missing.variables):
        said["variables"] = list(missing.variables)
    if missing.gathered is not None:
        instead = [fact_json(fact, ticks) for fact in missing.instead]
        return {**fact_json(missing.gathered, ticks), "instead": instead}
    if missing.over is not None:
        window = _window_json(missing.over, missing.time, ticks)
        return {**said, **window, "there": missing.there, "input": missing.input}
    if missing.temporal:
        said["time"] = None if missing.time is None else moment(missing.time, ticks)
    return {
        **said,
        "input": missing.input,
        "instead": [fact_json(fact, ticks) for fact in missing.instead],
        "because": None if missing.because is None else miss_json(missing.because, ticks),
    }
