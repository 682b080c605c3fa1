"""Generated programs that calculate: in comparisons, in heads, and under `not`."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import reject
from hypothesis import strategies as st

from tidelog import Code
from tidelog.language.checks import check
from tidelog.language.program import (
    Calculation,
    Comparison,
    Constant,
    Expression,
    Function,
    Literal,
    Operator,
    Program,
    Rule,
    Term,
    Type,
    Value,
    Variable,
)

from .generate import Case, Shape
from .negation import WithNot

_NUMBERS = (Type.INT, Type.FLOAT)
# Where numbers end, and where they are lost in one another.
_FAR: dict[Type, tuple[Value, ...]] = {
    Type.INT: (0, 1, -1, 3, 2**62, -(2**63), 2**63 - 1, 10**9),
    Type.FLOAT: (0.0, 0.5, -1.5, 1e308, -1e308, 5e-324, 1e16, 1.0, 0.1),
}


def programs_with_numbers(
    *,
    recursive: bool = True,
    connected: bool = False,
    explicit_times: bool = True,
    max_rules: int = 6,
    negation: bool = True,
) -> st.SearchStrategy[Case]:
    """As `programs_with_not`, and every program calculates."""
    shape = Shape(recursive, connected, explicit_times, huge=False, max_rules=max_rules)
    return _cases(shape, negation)


@st.composite
def _cases(draw: st.DrawFn, shape: Shape, negation: bool) -> Case:
    return WithNumbers(draw, shape, negation).case()


class WithNumbers(WithNot):
    def __init__(self, draw: st.DrawFn, shape: Shape, negation: bool) -> None:
        self.negation = negation
        super().__init__(draw, shape, clock=False, both_ways=False)

    def _values(self, type_: Type) -> tuple[Value, ...]:
        usual = super()._values(type_)
        if type_ in _NUMBERS and self.chance(1, 2):
            return (*usual[:2], self.one_of(_FAR[type_]), self.one_of(_FAR[type_]))
        return usual

    def checked(self, text: str) -> Program:
        report = check(text)
        refused = {Code.NOT_STRATIFIED, Code.NUMBER, Code.MADE_AROUND_A_CYCLE}
        if {d.code for d in report.errors} & refused:
            reject()
        program = report.accepted()
        if not any(_calculates(rule) for rule in program.rules):
            reject()
        return program

    def finished(self, rule: Rule, bound: dict[Type, list[str]]) -> Rule:
        types = [type_ for type_ in _NUMBERS if type_ in bound]
        if types and self.chance(2, 3):
            rule = self.calculating(rule, bound, types)
        return super().finished(rule, bound) if self.negation else rule

    def calculating(self, rule: Rule, bound: dict[Type, list[str]], types: list[Type]) -> Rule:
        body: list[Literal] = list(rule.body)
        args: list[Term] = list(rule.head.args)
        names = {type_: set(bound[type_]) for type_ in types}
        own = [i for i, t in enumerate(args) if isinstance(t, Variable) and self._type(t, names)]
        if own and self.chance(1, 2):
            place = self.one_of(own)
            type_ = self._type(args[place], names)
            assert type_ is not None
            made = Variable("D")
            definition = Comparison(made, Operator.EQ, self.calculation(type_, bound, 2))
            body.insert(self.number(0, len(body)), definition)
            args[place] = made
            if self.chance(1, 2):
                body.append(Comparison(made, self.one_of(tuple(Operator)), self.constant(type_)))
        else:
            type_ = self.one_of(types)
            sides = [self.calculation(type_, bound, 2), self.operand(type_, bound, 1)]
            body.append(Comparison(sides[0], self.one_of(tuple(Operator)), sides[1]))
        return replace(rule, head=replace(rule.head, args=tuple(args)), body=tuple(body))

    def _type(self, term: Term, names: dict[Type, set[str]]) -> Type | None:
        name = term.name if isinstance(term, Variable) else ""
        return next((type_ for type_, known in names.items() if name in known), None)

    def calculation(self, type_: Type, bound: dict[Type, list[str]], depth: int) -> Calculation:
        """A calculation that makes a number of a type."""
        functions = [f for f in Function if type_ is Type.FLOAT or f is not Function.DIVIDED]
        function = self.one_of(functions)
        of = type_
        if function is Function.DIVIDED and Type.INT in bound and self.chance(1, 2):
            of = Type.INT
        count = 1 if function is Function.ABS else 2
        if function in (Function.LEAST, Function.GREATEST):
            count = self.number(2, 3)
        return Calculation(function, tuple(self.operand(of, bound, depth) for _ in range(count)))

    def operand(self, type_: Type, bound: dict[Type, list[str]], depth: int) -> Expression:
        if depth and self.chance(1, 3):
            return self.calculation(type_, bound, depth - 1)
        if type_ in bound and self.chance(3, 4):
            return Variable(self.one_of(bound[type_]))
        return Constant.of(self.one_of(self.values[type_]))


def _calculates(rule: Rule) -> bool:
    sides = [side for c in rule.comparisons for side in (c.left, c.right)]
    return any(isinstance(side, Calculation) for side in sides)
