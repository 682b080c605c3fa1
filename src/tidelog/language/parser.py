"""The parser: tokens to a program, with every syntax error of the file in one run.

After an error the parser goes on after the next `.`, or at the next name in the first column,
where a new statement usually starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from tidelog.language.diagnostics import Code, Diagnostic, Note, Source
from tidelog.language.durations import duration
from tidelog.language.habits import (
    LEADING,
    PATTERNS,
    UNITS,
    function_remedy,
    symbol_remedy,
    word_remedy,
)
from tidelog.language.printer import print_time
from tidelog.language.program import (
    INT_MAX,
    INT_MIN,
    TIME_MAX,
    Aggregate,
    Aggregated,
    Atom,
    Calculation,
    Clock,
    Column,
    Comparison,
    Constant,
    Expression,
    Function,
    Input,
    Instant,
    Interval,
    Literal,
    Measure,
    Negated,
    Operator,
    Origin,
    Output,
    Outputs,
    Program,
    Quantifier,
    Rule,
    Statement,
    Term,
    TickLength,
    Time,
    TimeOffset,
    TimePoint,
    Type,
    Variable,
    time_variable_of,
)
from tidelog.language.tokens import Kind, Token, is_variable_name, shorten, tokenize, unquote

_TICKS_ONLY = "times are whole ticks: with ticks of one minute, five minutes are `T+5`"
_SAY_TICK = "say so, as in `tick 1m.`, or write ticks: if one is a minute, five minutes are `T+5`"
_DEFINE = "numbers are made in the body, as in `D = V - W`"

_OPERATORS = {**{o.value: o for o in Operator}, "==": Operator.EQ}
_SUMS = {f.value: f for f in (Function.PLUS, Function.MINUS)}
_PRODUCTS = {f.value: f for f in (Function.TIMES, Function.DIVIDED)}
_NAMED = {f.value: f for f in (Function.ABS, Function.LEAST, Function.GREATEST)}
_MEASURES = {m.value: m for m in Measure}
_FUNCTIONS = "the functions of numbers are `+`, `-`, `*`, `/`, `abs`, `least` and `greatest`"
_NAME_IT = (
    "an aggregate is one side of a comparison: name it, as in `A = avg(..)`, and use the name"
)
_CONDITIONS = (
    "parentheses are for numbers: separate conditions by `,`, and write one rule for each"
    " alternative"
)
_NOT_ONE = "`not` is of one atom: have a rule for what is meant, and write `not` before its head"
_NOT_COMPARED = "a comparison is negated by its operator: `!=` for `=`, `>=` for `<`"
_BY_POSITION = "arguments have no names: they stand in the order of the declaration"
_TWO_SIDES = "a comparison has two sides: write two of them, as in `5 < V, V < 7`"
_COUNT_FACTS = "`count` counts the facts of an atom, as in `count(P(X, _) @ [T-4, T])`"
_PERCENT = "`%` starts a comment: there is no remainder, and no per cent"
_OFFSET = "an offset is a whole number, as in `T-5`, or a length of time, as in `T-5m`"
# Text that is a comment only by mistake: `V % 2`, `5%.`
_NO_COMMENT = re.compile(r"[ \t]*%[ \t]*[0-9.]")
# A pattern, or a decimal without its first digit.
_NO_VALUE = re.compile(r"/[^/\n]{0,200}/|\.[0-9]+")
# How many operations of an expression may lie within one another.
DEEPEST = 30


@dataclass(frozen=True)
class Parsed:
    """What could be read, what was wrong, and whether anything was left out for it."""

    program: Program
    diagnostics: tuple[Diagnostic, ...]

    @property
    def complete(self) -> bool:
        return not self.diagnostics


def parse_source(source: Source, tick: str | None = None) -> Parsed:
    """Read a source as far as it can be read.

    Lengths of time in it are told in ticks as long as it says; a piece of a file that says it
    elsewhere is given `tick`.
    """
    parser = _Parser(source, tick)
    statements = parser.statements()
    order = sorted(parser.diagnostics, key=lambda d: (d.origin.line, d.origin.column))
    return Parsed(Program(tuple(statements)), tuple(order))


# What may follow the word `not`, whether or not it belongs there; else it is a name as any other.
_AFTER_NOT = (Kind.NAME, Kind.INT, Kind.DECIMAL, Kind.TEXT)


# The words that quantifiers begin with, where a name follows.
_QUANTIFIERS = ("some", "always", "at")


def tick_length(tokens: Sequence[Token]) -> str | None:
    """What `tick 1m.` says among some tokens, the first time."""
    last = None
    for i, token in enumerate(tokens[:-2]):
        if token.text == "tick" and (last is None or last.text == "."):
            number, unit = tokens[i + 1 : i + 3]
            if number.kind is Kind.INT and duration(number.text + unit.text):
                return number.text + unit.text
        last = token
    return None


def _follows_closely(one: Token, two: Token) -> bool:
    """Whether nothing stands between two tokens."""
    return one.end == two.start and two.kind is not Kind.END


class _GiveUp(Exception):
    """The current statement cannot be read; its error is already reported."""


class _Parser:
    def __init__(self, source: Source, tick: str | None) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.tokens = [t for t in tokenize(source, self.diagnostics) if t.kind is not Kind.COMMENT]
        self.tick_length = tick or tick_length(self.tokens)
        self.at = 0
        self.anonymous = 0
        self.broken = False  # the current statement has an error that reading could go on after
        self.depth = 0  # how many expressions the current one lies within

    # Tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def is_symbol(self, *symbols: str) -> bool:
        return self.token.kind is Kind.SYMBOL and self.token.text in symbols

    def advance(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self.at += 1
        return token

    def take(self, symbol: str) -> bool:
        if self.is_symbol(symbol):
            self.at += 1
            return True
        return False

    def expect(self, symbol: str, wanted: str, hint: str | None = None) -> Token:
        if not self.is_symbol(symbol):
            raise self.unexpected(wanted, hint)
        return self.advance()

    def origin(self, start: int) -> Origin:
        """From an offset to the end of the last token taken."""
        return self.source.origin(start, max(start, self.tokens[self.at - 1].end))

    def report(
        self, code: Code, message: str, origin: Origin, hint: str | None, *notes: Note
    ) -> None:
        self.diagnostics.append(Diagnostic(code, message, origin, notes, hint))
        self.broken = True

    def unexpected(self, wanted: str, hint: str | None = None, *, firm: bool = False) -> _GiveUp:
        """The error of a token; its hint is of a habit of other languages unless it is `firm`."""
        token = self.token
        if token.kind is Kind.BAD:
            return _GiveUp()
        if token.kind is Kind.END:
            there, origin = "the end of the file", self.after_last()
        else:
            there = f"`{shorten(token.text)}`"
            origin = self.source.origin(token.start, token.end)
        foreign = None if firm else self.foreign_symbol() or self.foreign_word()
        calculates = token.kind is Kind.SYMBOL and token.text in {**_SUMS, **_PRODUCTS}
        if calculates and hint not in (_NAME_IT, _COUNT_FACTS):
            hint = _DEFINE
        hint = foreign or hint
        self.report(Code.SYNTAX, f"expected {wanted}, found {there}", origin, hint)
        return _GiveUp()

    def foreign_symbol(self) -> str | None:
        """The remedy for a symbol that other languages have, which was read as two of ours."""
        token, text = self.token, self.source.text
        last = self.tokens[self.at - 1] if self.at else token
        if token.text == "/" and last.text in _OPERATORS:
            return PATTERNS
        if _NO_COMMENT.match(text, last.end) and last.kind is not Kind.SYMBOL:
            return _PERCENT
        if token.text == "." and _follows_closely(token, self.peek()) and last.text in _OPERATORS:
            return f"a decimal has a digit before its point: `0.{shorten(self.peek().text)}`"
        # This one begins or ends it.
        begins = symbol_remedy(text[token.start : token.start + 2])
        return begins or symbol_remedy(text[max(0, token.start - 1) : token.start + 1])

    def foreign_word(self) -> str | None:
        """The remedy for a word or a form that other languages have at this place."""
        token, last = self.token, self.tokens[self.at - 1] if self.at else self.token
        if token.kind is Kind.NAME and last.kind is Kind.INT:
            if token.text.casefold() in UNITS:
                size = f"{shorten(last.text)}{UNITS[token.text.casefold()]}"
                return f"a length of time is written `{size}`"
            if token.start == last.end:
                digits = token.text.strip("_").isdigit()
                return "write a number without `_`" if digits else _TICKS_ONLY
        if token.kind is Kind.NAME:
            said = self.peek() if token.text == "not" else token
            calls = self.peek().text == "(" and _follows_closely(token, self.peek())
            if not calls or token.text in ("in", "or", "and"):
                remedy = word_remedy(said.text) if said.kind is Kind.NAME else None
                if remedy is not None:
                    return remedy
        if last.kind is Kind.NAME and last is not token and last.text.casefold() in LEADING:
            return word_remedy(last.text)
        if token.kind is Kind.SYMBOL and token.text == "(" and last.kind is Kind.NAME:
            return f"`{shorten(last.text)}(...)` would be a function: {_DEFINE}"
        if token.kind is Kind.SYMBOL and token.text in _OPERATORS and last.text == ")":
            return f"what is in front of `{token.text}` is no value"
        return None

    def after_last(self) -> Origin:
        """The place right after the last token taken."""
        end = self.tokens[self.at - 1].end if self.at else 0
        return self.source.origin(end, end + 1)

    # Statements

    def statements(self) -> list[Statement]:
        statements: list[Statement] = []
        while self.token.kind is not Kind.END:
            self.anonymous, self.broken, self.depth = 0, False, 0
            begin = self.at
            try:
                statement = self.statement()
            except _GiveUp:
                self.recover(begin)
            else:
                # A number out of range has no value that later checks could look at.
                statements += [] if self.broken else [statement]
        return statements

    def recover(self, begin: int) -> None:
        while self.token.kind is not Kind.END:
            token = self.token
            if self.at > begin and token.kind is Kind.NAME and self.first_column(token):
                return
            self.at += 1
            if token.kind is Kind.SYMBOL and token.text == ".":
                return

    def first_column(self, token: Token) -> bool:
        return token.start == 0 or self.source.text[token.start - 1] == "\n"

    def statement(self) -> Statement:
        token = self.token
        if token.kind is Kind.NAME and self.peek().kind is Kind.NAME:
            if token.text == "input":
                return self.input()
            if token.text == "output":
                return self.outputs()
            if token.text == "clock":
                return self.clock()
        if token.text == "tick" and self.peek().kind is Kind.INT:
            return self.length_of_tick()
        return self.rule()

    def length_of_tick(self) -> TickLength:
        start = self.advance().start
        number = self.advance()
        unit = self.token
        if unit.kind is not Kind.NAME or not duration(f"1{unit.text}"):
            raise self.unexpected(
                "a unit", "a tick has a length such as `500ms`, `10s`, `1m`, `1h`"
            )
        self.advance()
        if not duration(number.text + unit.text):
            place = self.origin(number.start)
            self.report(Code.NUMBER, "this is no length for a tick", place, "write it as `1m`")
        self.end("`.`")
        return TickLength(number.text + unit.text, self.origin(start))

    def end(self, wanted: str, hint: str = "end the statement with `.`") -> None:
        if not self.take("."):
            last = self.tokens[self.at - 1]
            if self.token.kind is Kind.NAME and self.first_column(self.token):
                # The next statement begins: the mistake is after the last token, not here.
                message = f"expected {wanted} after `{shorten(last.text)}`"
                hint = self.foreign_symbol() or hint
                self.report(Code.SYNTAX, message, self.after_last(), hint)
                raise _GiveUp
            raise self.unexpected(wanted, hint)

    def input(self) -> Input:
        start = self.advance().start
        name = self.advance().text
        columns: list[Column] = []
        if self.take("("):
            if self.is_symbol(")"):
                raise self.unexpected(
                    "a column name", f"without columns write `input {name}`, no parentheses"
                )
            while True:
                columns.append(self.column())
                if not self.take(","):
                    break
            self.expect(")", "`,` or `)`")
        time = None
        if self.take("@"):
            time = self.column_name("the name of the time column")
        self.end("`.`" if time else "`@` or `.`" if columns else "`(`, `@` or `.`")
        return Input(name, tuple(columns), time, self.origin(start))

    def column(self) -> Column:
        start = self.token.start
        name = self.column_name("a column name")
        type_: Type | None = None
        if self.take(":"):
            token = self.token
            if token.kind is not Kind.NAME or token.text not in set(Type):
                raise self.unexpected("a type", "the types are `text`, `int`, `float` and `bool`")
            type_ = Type(self.advance().text)
        return Column(name, type_, self.origin(start))

    def column_name(self, wanted: str) -> str:
        if self.token.kind is Kind.TEXT:
            return self.text()
        if self.token.kind is not Kind.NAME:
            raise self.unexpected(wanted)
        return self.advance().text

    def outputs(self) -> Outputs:
        start = self.advance().start
        items = [self.output()]
        while self.take(","):
            items.append(self.output())
        self.end("`,` or `.`")
        return Outputs(tuple(items), self.origin(start))

    def output(self) -> Output:
        start = self.token.start
        if self.token.kind is not Kind.NAME:
            raise self.unexpected("a predicate")
        name = self.advance().text
        columns: list[str] | None = None
        if self.take("("):
            if self.is_symbol(")"):
                raise self.unexpected(
                    "a column name", f"without columns write `{name}`, no parentheses"
                )
            columns = [self.column_name("a column name")]
            while self.take(","):
                columns.append(self.column_name("a column name"))
            self.expect(")", "`,` or `)`")
        return Output(name, None if columns is None else tuple(columns), self.origin(start))

    def clock(self) -> Clock:
        start = self.advance().start
        name = self.advance().text
        hint = f"a clock has no arguments and no time here: `clock {name}.`"
        if self.is_symbol("(", "@"):
            place = self.source.origin(self.token.start, self.token.end)
            self.report(Code.SYNTAX, f"expected `.`, found `{self.token.text}`", place, hint)
            raise _GiveUp
        self.end("`.`", hint)
        return Clock(name, self.origin(start))

    def rule(self) -> Rule:
        start = self.token.start
        if self.token.text == "not" and self.peek().kind is Kind.NAME:
            hint = "a head says what holds; `not` stands in bodies"
            raise self.unexpected("a rule, a fact or a declaration", hint)
        if self.token.text in _QUANTIFIERS and self.peek().kind is Kind.NAME:
            hint = (
                f"a head holds at every tick of its interval; `{self.token.text}` stands in bodies"
            )
            raise self.unexpected("a rule, a fact or a declaration", hint)
        head = self.atom("a rule, a fact or a declaration")
        if isinstance(head.time, Interval):
            self.ordered(head.time)
        body: list[Literal] = []
        if self.take(":-"):
            body.append(self.literal())
            while self.take(","):
                body.append(self.literal())
            if self.is_symbol(*_OPERATORS) and not isinstance(body[-1], Atom):
                raise self.unexpected("`,` or `.`", _TWO_SIDES)
            self.end("`,` or `.`")
        elif self.is_symbol(*_OPERATORS) and head.time is not None:
            raise self.unexpected("`:-` or `.`", "a rule is written `head :- body.`")
        else:
            self.end("`:-` or `.`" if head.time else "`@`, `:-` or `.`")
        return Rule(head, tuple(body), self.origin(start))

    # Literals and terms

    def literal(self) -> Literal:
        start = self.token.start
        if self.token.kind is Kind.NAME and not self.is_value() and not self.of_an_atom():
            if self.token.text == "not" and self.peek().text == "(" and self.opens_atom(2):
                self.advance()
                raise self.unexpected("an atom after `not`", _NOT_ONE, firm=True)
            if self.token.text == "not" and self.peek().text == "(" and self.compares(2):
                self.advance()
                raise self.unexpected("an atom after `not`", _NOT_COMPARED, firm=True)
            if self.token.text == "not" and self.peek().kind in _AFTER_NOT:
                return self.negated()
            return self.asked("an atom or a comparison")
        if self.at_aggregate():
            aggregate = self.aggregate()
            operator = self.operator(_NAME_IT)
            value = self.expression("a variable, a constant or an expression")
            return Aggregated(aggregate, operator, value, True, self.origin(start))
        left = self.expression("an atom or a comparison")
        operator = self.operator()
        if self.at_aggregate():
            aggregate = self.aggregate()
            if self.is_symbol(*_SUMS, *_PRODUCTS):
                raise self.unexpected("`,` or `.`", _NAME_IT)
            return Aggregated(aggregate, operator, left, False, self.origin(start))
        right = self.expression("a variable, a constant or an expression")
        return Comparison(left, operator, right, self.origin(start))

    def operator(self, hint: str | None = None) -> Operator:
        if not (self.token.kind is Kind.SYMBOL and self.token.text in _OPERATORS):
            raise self.unexpected("a comparison such as `<=`", hint)
        return _OPERATORS[self.advance().text]

    def at_aggregate(self) -> bool:
        """Whether `count(`, `sum(` and so on follows; the words are names everywhere else."""
        nxt = self.peek()
        opens = nxt.kind is Kind.SYMBOL and nxt.text == "("
        return opens and self.token.kind is Kind.NAME and self.token.text in _MEASURES

    def of_an_atom(self) -> bool:
        """Whether an aggregate follows for certain, since no argument has parentheses."""
        return self.at_aggregate() and (self.opens_atom(2) or self.peek(2).text == "*")

    def opens_atom(self, ahead: int) -> bool:
        """Whether an atom with arguments or a time begins so many tokens ahead."""
        name = self.peek(ahead)
        return name.kind is Kind.NAME and self.peek(ahead + 1).text in ("(", "@", ":")

    def compares(self, ahead: int) -> bool:
        """Whether a comparison of a variable begins so many tokens ahead."""
        operator = self.peek(ahead + 1)
        named = self.peek(ahead).kind is Kind.NAME
        return named and operator.kind is Kind.SYMBOL and operator.text in _OPERATORS

    def aggregate(self) -> Aggregate:
        name = self.advance()
        self.advance()
        measure, of = _MEASURES[name.text], None
        nxt = self.peek()
        if self.token.kind is Kind.NAME and nxt.kind is Kind.SYMBOL and nxt.text == ":":
            if not is_variable_name(self.token.text) or self.token.text == "_":
                raise self.unexpected("a variable", "name the argument that is meant: `V : P(V)`")
            of = self.variable()
            self.advance()
        if self.token.text in (*_QUANTIFIERS, "not") and self.peek().kind is Kind.NAME:
            hint = f"`{measure}` looks at every fact; for more than an atom have a rule of its own"
            raise self.unexpected("an atom", hint)
        if self.is_symbol("*"):
            raise self.unexpected("an atom", _COUNT_FACTS)
        atom = self.atom("an atom")
        self.expect(")", "`)`", f"`{measure}(..)` is of one atom: for more have a rule of its own")
        place = self.origin(name.start)
        if (of is None) is not (measure is Measure.COUNT):
            said = "counts facts" if of is not None else "needs a value of each fact"
            name_of = atom.predicate if atom.args else "P"
            example = "count(" if of is not None else f"{measure}(V : "
            hint = f"as in `{example}{name_of}(..) @ [T-59, T])`"
            self.report(Code.AGGREGATE, f"`{measure}` {said}", place, hint)
        if isinstance(atom.time, Interval):
            self.ordered(atom.time)
        return Aggregate(measure, of, atom, place)

    def is_value(self) -> bool:
        """Whether a name begins a comparison and not an atom: what follows it, or its closing
        parenthesis, compares or calculates.
        """
        ahead, open_ = 1, 0
        while self.peek(ahead).kind is not Kind.END:
            token = self.peek(ahead)
            if token.kind is Kind.SYMBOL:
                open_ += (token.text == "(") - (token.text == ")")
                if token.text in (".", ":-"):
                    return False
            if not open_:
                after = self.peek(ahead + (token.text == ")"))
                calculates = after.text in {**_OPERATORS, **_SUMS, **_PRODUCTS}
                return after.kind is Kind.SYMBOL and calculates
            ahead += 1
        return False

    # Expressions

    def expression(self, wanted: str) -> Expression:
        """Sums of products, from left to right."""
        return self.chain(_SUMS, lambda: self.chain(_PRODUCTS, lambda: self.factor(wanted)))

    def chain(self, functions: dict[str, Function], part: Callable[[], Expression]) -> Expression:
        start = self.token.start
        left = part()
        depth = 0
        while self.token.kind is Kind.SYMBOL and self.token.text in functions:
            function = functions[self.advance().text]
            left = Calculation(function, (left, part()), self.origin(start))
            depth += 1
            self.not_too_deep(depth)
        return left

    def factor(self, wanted: str) -> Expression:
        start, nxt = self.token.start, self.peek()
        if self.take("("):
            self.depth += 1
            self.not_too_deep(self.depth)
            if self.opens_atom(0) and self.token.text not in _NAMED:
                raise self.unexpected("a number", _CONDITIONS, firm=True)
            inside = self.expression(wanted)
            self.depth -= 1
            compares = self.is_symbol(*_OPERATORS, ",") or self.token.kind is Kind.NAME
            if compares:
                raise self.unexpected("`)`", _CONDITIONS, firm=True)
            self.expect(")", "`)`", "close what `(` opens")
            return inside
        if self.is_symbol("-") and nxt.kind not in (Kind.INT, Kind.DECIMAL):
            self.advance()
            zero = Constant(0, Type.INT, self.origin(start))
            return Calculation(Function.MINUS, (zero, self.factor(wanted)), self.origin(start))
        if self.token.kind is Kind.NAME and nxt.kind is Kind.SYMBOL and nxt.text == "(":
            return self.call()
        foreign = _NO_VALUE.match(self.source.text, start)
        if foreign is not None:
            error = self.unexpected(wanted)
            while self.token.start < foreign.end():
                self.advance()
            raise error
        return self.term(wanted)

    def call(self) -> Calculation:
        name = self.token
        if name.text in _MEASURES:
            raise self.unexpected("a variable, a constant or a function", _NAME_IT)
        if name.text not in _NAMED:
            hint = function_remedy(name.text) or _FUNCTIONS
            raise self.unexpected("a variable, a constant or a function", hint)
        self.advance()
        self.advance()
        self.depth += 1
        self.not_too_deep(self.depth)
        args = [self.expression("a number")]
        while self.take(","):
            args.append(self.expression("a number"))
        self.depth -= 1
        self.expect(")", "`,` or `)`", "close the arguments with `)`")
        function, place = _NAMED[name.text], self.origin(name.start)
        if (len(args) == 1) is not (function is Function.ABS):
            many = "one number" if function is Function.ABS else "two numbers or more"
            self.report(Code.SYNTAX, f"`{function}` is of {many}", place, None)
        return Calculation(function, tuple(args), place)

    def not_too_deep(self, depth: int) -> None:
        if depth > DEEPEST:
            raise self.unexpected(
                "a shorter expression", "say it in steps: `D = V - W`, then use `D`"
            )

    def negated(self) -> Negated:
        start = self.advance().start
        if self.token.text == "not" and self.peek().kind is Kind.NAME:
            raise self.unexpected("an atom after `not`", "`not not P` is `P`")
        nxt = self.peek()
        if nxt.kind is Kind.SYMBOL and nxt.text in _OPERATORS:
            raise self.unexpected("an atom after `not`", _NOT_COMPARED)
        return Negated(self.asked("an atom after `not`"), self.origin(start))

    def asked(self, wanted: str) -> Atom:
        """An atom of a body: at a tick, or after a quantifier over an interval."""
        start, words = self.token.start, self.source.origin(self.token.start, self.token.end)
        quantifier, least = self.quantifier()
        if quantifier is not None:
            wanted = f"an atom after `{quantifier}`"
            self.one_atom(wanted)
        atom = self.atom(wanted)
        time = atom.time
        if not isinstance(time, Interval):
            if quantifier is not None:
                message = f"`{quantifier}` asks about an interval, and `{atom.predicate}` has none"
                hint = "write the ticks that are meant, as in `@ [T-4, T]`"
                self.report(Code.INTERVAL, message, words, hint)
            return atom
        if quantifier is None:
            message = "at how many ticks of this interval must it hold?"
            hint = f"write `some {atom.predicate}`, `always {atom.predicate}` or `at least 2 ..`"
            self.report(Code.INTERVAL, message, time.origin, hint)
        elif self.ordered(time) and quantifier is Quantifier.AT_LEAST:
            self.within_reach(least, time.ticks, self.origin(start))
        asked = replace(time, quantifier=quantifier, least=least)
        return replace(atom, time=asked, origin=self.origin(start))

    def one_atom(self, wanted: str) -> None:
        """Refuses what people write after a quantifier and what does not belong there."""
        nxt = self.peek()
        if nxt.kind is Kind.SYMBOL and nxt.text in _OPERATORS:
            raise self.unexpected(wanted, "a comparison has no ticks")
        if self.token.text == "not" and nxt.kind is Kind.NAME:
            raise self.unexpected(
                wanted, "`some not P` is `not always P`, `always not P` is `not some P`"
            )
        if self.token.text in _QUANTIFIERS and nxt.kind is Kind.NAME:
            raise self.unexpected(
                wanted, "one quantifier is enough; another needs a rule of its own"
            )

    def within_reach(self, least: int, ticks: int, origin: Origin) -> None:
        if not 1 <= least <= ticks:
            how = "always" if least < 1 else "never"
            message = f"at least {least} of {ticks} ticks is {how} true"
            hint = f"the interval has {ticks} ticks: ask for 1 to {ticks} of them"
            self.report(Code.INTERVAL, message, origin, hint)

    def quantifier(self) -> tuple[Quantifier | None, int]:
        """`some`, `always` or `at least 3`, if one stands here; they are words of this place only,
        where a name follows.
        """
        nxt = self.peek()
        if self.token.text in ("some", "always") and nxt.kind is Kind.NAME:
            return Quantifier(self.advance().text), 0
        if self.token.text == "at" and nxt.text == "least" and nxt.kind is Kind.NAME:
            self.advance()
            self.advance()
            if self.token.kind is not Kind.INT:
                raise self.unexpected("a number of ticks", "as in `at least 3 Trip(X) @ [T-59, T]`")
            before = len(self.diagnostics)
            least = self.tick()
            return Quantifier.AT_LEAST, least if len(self.diagnostics) == before else 1
        if self.token.text == "at" and nxt.text == "most" and nxt.kind is Kind.NAME:
            self.advance()
            raise self.unexpected("`least`", "`at most 2 P` is `not at least 3 P`")
        self.misspelt()
        return None, 0

    def misspelt(self) -> None:
        """Refuses a word before an atom or a number that is nearly a quantifier."""
        words = [self.token]
        if self.peek().kind is Kind.NAME and self.peek(2).kind is Kind.INT:
            words.append(self.peek())
        if self.peek(len(words)).kind not in (Kind.NAME, Kind.INT):
            return
        written = " ".join(word.text for word in words)
        near = get_close_matches(written.casefold(), ("some", "always", "at least"), 1)
        if near and near[0] != written and self.token.kind is Kind.NAME:
            origin = self.source.origin(words[0].start, words[-1].end)
            message = f"expected an atom or a quantifier, found `{shorten(written)}`"
            self.report(Code.SYNTAX, message, origin, f"did you mean `{near[0]}`?")
            raise _GiveUp

    def ordered(self, interval: Interval) -> bool:
        """Whether an interval has its ends on one variable, and the earlier one first."""
        low, high = interval.low, interval.high
        if time_variable_of(low) != time_variable_of(high):
            message = "the ends of an interval are told from one time"
            hint = "write both with the same variable, as in `[T-4, T]`, or both as whole numbers"
        elif interval.ticks < 1:
            message = "this interval ends before it begins"
            hint = f"the earlier end comes first: `[{print_time(high)}, {print_time(low)}]`"
        else:
            return True
        self.report(Code.INTERVAL, message, interval.origin, hint)
        return False

    def atom(self, wanted: str) -> Atom:
        if self.token.kind is not Kind.NAME:
            raise self.unexpected(wanted)
        token = self.advance()
        args: list[Term] = []
        if self.take("("):
            if self.is_symbol(")"):
                raise self.unexpected(
                    "an argument", f"without arguments write `{token.text}`, no parentheses"
                )
            args.append(self.term("an argument"))
            while self.take(","):
                args.append(self.term("an argument"))
            hint = _BY_POSITION if self.is_symbol("=", ":") else "close the arguments with `)`"
            self.expect(")", "`,` or `)`", hint)
        time = self.time() if self.take("@") else None
        return Atom(token.text, tuple(args), time, self.origin(token.start))

    def time(self) -> Time:
        start = self.token.start
        if not self.take("["):
            return self.instant()
        low = self.instant()
        wanted, hint = "`,` and the end of the interval", "an interval is written `[T-4, T]`"
        if self.is_symbol(".") and self.peek().text == ".":
            # A dot ends a statement: what follows two of them would be read as another one.
            self.advance()
            origin = self.source.origin(self.tokens[self.at - 1].start, self.token.end)
            self.report(Code.SYNTAX, f"expected {wanted}, found `..`", origin, hint)
            self.advance()
        else:
            self.expect(",", wanted, hint)
        high = self.instant()
        self.expect("]", "`]`", "both ends belong to an interval: `[T-4, T]`")
        return Interval(low, high, origin=self.origin(start))

    def instant(self) -> Instant:
        token = self.token
        wanted = "a time: `T`, `T+1`, `T-1` or a whole number"
        if token.kind is Kind.NAME:
            if not is_variable_name(token.text):
                raise self.unexpected(wanted, "a time variable starts with an upper-case letter")
            variable = self.variable()
            offset, written = 0, None
            if self.is_symbol("+", "-"):
                way = self.advance().text
                if self.token.kind is not Kind.INT:
                    raise self.unexpected("a whole number of ticks", _OFFSET)
                length = self.length()
                offset = (-1 if way == "-" else 1) * self.ticks()
                written = None if length is None else (way + length, offset)
            return TimeOffset(variable, offset, self.origin(token.start), written)
        sign = -1 if self.take("-") else 1
        if self.is_symbol("("):
            raise self.unexpected(wanted, "both ends belong to an interval: `[T-4, T]`")
        if self.token.kind is not Kind.INT:
            raise self.unexpected(wanted, "times are whole numbers of ticks")
        return TimePoint(sign * self.tick(), self.origin(token.start))

    def length(self) -> str | None:
        """The length of time that is written here; None for a bare number."""
        number, unit = self.token, self.peek()
        close = unit.kind is Kind.NAME and unit.start == number.end
        return number.text + unit.text if close else None

    def ticks(self) -> int:
        """A number of ticks, or a length of time that is one."""
        number, written = self.token, self.length()
        if written is None:
            return self.tick()
        size = duration(written)
        if size is None and number.text.strip("0"):
            self.tick()
            raise self.unexpected("a unit of time", "units are `us`, `ms`, `s`, `m`, `h` and `d`")
        self.at += 2
        place = self.origin(number.start)
        one = duration(self.tick_length) if self.tick_length else None
        if one is None:
            message = f"`{written}` is a length of time, and nothing says how long a tick is"
            self.report(Code.SYNTAX, message, place, _SAY_TICK)
        elif (size or 0) % one:
            message = f"`{written}` is not a whole number of ticks of {self.tick_length}"
            self.report(Code.SYNTAX, message, place, "round it, or have shorter ticks")
        else:
            return (size or 0) // one
        return 0

    def tick(self) -> int:
        token = self.advance()
        return self.whole(token, token.start, 0, TIME_MAX, 1, "a time", "62")

    def whole(
        self, token: Token, start: int, low: int, high: int, sign: int, what: str, bits: str
    ) -> int:
        # The length is checked first: Python refuses to convert very long digit strings.
        digits = token.text.lstrip("0") or "0"
        value = sign * int(digits) if len(digits) <= 20 else sign * (high + 2)
        if not low <= value <= high:
            self.report(
                Code.NUMBER,
                f"{what} must fit {bits} bits",
                self.source.origin(start, token.end),
                f"the largest is {high}" if value > high else f"the smallest is {low}",
            )
            return 0
        return value

    def variable(self) -> Variable:
        token = self.advance()
        name = token.text
        if name == "_":
            self.anonymous += 1
            name = f"_#{self.anonymous}"
        return Variable(name, self.origin(token.start))

    def term(self, wanted: str) -> Term:
        token = self.token
        match token.kind:
            case Kind.NAME:
                if is_variable_name(token.text):
                    return self.variable()
                self.advance()
                if token.text in ("true", "false"):
                    return Constant(token.text == "true", Type.BOOL, self.origin(token.start))
                return Constant(token.text, Type.TEXT, self.origin(token.start))
            case Kind.TEXT:
                return Constant(self.text(), Type.TEXT, self.origin(token.start))
            case Kind.INT | Kind.DECIMAL:
                return self.number(token.start, 1)
            case Kind.SYMBOL if token.text == "-" and self.peek().kind in (Kind.INT, Kind.DECIMAL):
                self.advance()
                return self.number(token.start, -1)
            case _:
                raise self.unexpected(wanted)

    def number(self, start: int, sign: int) -> Constant:
        token = self.advance()
        if token.kind is Kind.INT:
            whole = self.whole(token, start, INT_MIN, INT_MAX, sign, "an integer", "64")
            return Constant(whole, Type.INT, self.origin(start))
        value = sign * float(token.text)
        if value in (float("inf"), float("-inf")):
            self.report(
                Code.NUMBER,
                "this decimal is too large",
                self.origin(start),
                "floats end at 1.8e308",
            )
            value = 0.0
        # There is one zero: 0.0 and -0.0 are the same value.
        return Constant(value or 0.0, Type.FLOAT, self.origin(start))

    def text(self) -> str:
        token = self.advance()
        try:
            return unquote(token.text)
        except ValueError as error:
            self.report(
                Code.SYNTAX,
                f"`{error}` is not an escape",
                self.origin(token.start),
                'the escapes are `\\"`, `\\\\`, `\\n`, `\\t`, `\\r` and `\\u{1F600}`',
            )
            return ""
