"""What each token of a statement is, also while the statement is still being written.

The parser gives up a statement at its first mistake; an editor wants colours, names and
suggestions in it nevertheless. So this follows the shape of statements token by token, and never
fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidelog.language.durations import UNITS
from tidelog.language.program import Function, Measure, Operator, Type
from tidelog.language.tokens import Kind, Token, is_variable_name

_OPERATORS = {"==", *(operator.value for operator in Operator)}
_SIGNS = {function.value for function in Function if not function.value.isalpha()}
_FUNCTIONS = {function.value for function in Function if function.value.isalpha()}
_MEASURES = {measure.value for measure in Measure}
_TYPES = {type_.value for type_ in Type}
# Words of bodies, where a name follows; a number follows `at least`.
QUANTIFIERS = ("some", "always", "at", "least")
_GO_ON = (",", ":-", "@", "input", "output", "clock", "not", *QUANTIFIERS)


class WordRole(StrEnum):
    KEYWORD = "keyword"
    PREDICATE = "predicate"
    VARIABLE = "variable"
    TIME = "time"
    CONSTANT = "constant"
    TEXT = "text"
    NUMBER = "number"
    COLUMN = "column"
    TYPE = "type"
    OPERATOR = "operator"
    COMMENT = "comment"
    OTHER = "other"


class StatementPart(StrEnum):
    """Where in a statement one is."""

    START = "start"
    INPUT = "input"
    OUTPUT = "output"
    HEAD = "head"
    BODY = "body"


@dataclass(frozen=True)
class Word:
    """A token with its role: of which predicate, which argument, in which statement of a chunk."""

    token: Token
    role: WordRole
    part: StatementPart
    statement: int
    predicate: str | None = None  # whose argument or column it is, or its own name
    argument: int | None = None


@dataclass
class Scanner:
    """Reads tokens one after the other and remembers where in a statement it is."""

    part: StatementPart = StatementPart.START
    statement: int = 0
    depth: int = 0
    predicate: str | None = None
    argument: int = 0
    before: str = ""  # the token before, unless it was a comment
    quantified: bool = False  # after `at least`, whose number and atom follow
    interval: bool = False  # between the brackets of one
    calculates: bool = False  # what follows the arguments of a function compares or calculates
    gathers: bool = False  # within the parentheses of an aggregate

    def words(self, tokens: Iterable[Token], text: str) -> Iterator[Word]:
        read = list(tokens)
        for i, token in enumerate(read):
            if token.text in _FUNCTIONS | _MEASURES:
                self.calculates = _after_parentheses(read, i + 1) in _OPERATORS | _SIGNS
            yield self.word(token, read[i + 1] if i + 1 < len(read) else None, text)

    def word(self, token: Token, after: Token | None, text: str) -> Word:
        """The next token; `after` is the one that follows it, which tells names apart."""
        if token.kind is Kind.COMMENT:
            return self._as(token, WordRole.COMMENT)
        if self._begins(token, text):
            self._reset()
        word = self._name(token, after) if token.kind is Kind.NAME else self._plain(token)
        self.before = token.text
        return word

    def _begins(self, token: Token, text: str) -> bool:
        """Whether a name in the first column starts a statement although none was ended."""
        if token.kind is not Kind.NAME or self.part is StatementPart.START:
            return False
        if self.depth or self.gathers:
            return False
        first = token.start == 0 or text[token.start - 1] == "\n"
        counted = self.quantified and self.before.isdigit()
        return first and self.before not in _GO_ON and not counted

    def _reset(self) -> None:
        self.part, self.depth, self.predicate, self.argument = StatementPart.START, 0, None, 0
        self.quantified = self.interval = self.gathers = False
        self.statement += 1
        self.before = ""

    def _as(self, token: Token, role: WordRole, argument: int | None = None) -> Word:
        return Word(token, role, self.part, self.statement, self.predicate, argument)

    def _plain(self, token: Token) -> Word:
        match token.kind:
            case Kind.TEXT:
                role = (
                    WordRole.COLUMN
                    if self.part in (StatementPart.INPUT, StatementPart.OUTPUT)
                    else WordRole.TEXT
                )
                return self._as(token, role, self.argument if self.depth else None)
            case Kind.INT | Kind.DECIMAL:
                time = self.before in ("@", "+", "-", "least") or self.interval
                time = time and not self.depth
                return self._as(token, WordRole.NUMBER, None if time else self.argument)
            case Kind.SYMBOL:
                return self._symbol(token)
            case _:
                return self._as(token, WordRole.OTHER)

    def _symbol(self, token: Token) -> Word:
        word = self._as(token, WordRole.OPERATOR)
        match token.text:
            case "(" if self.gathers and self.before in _MEASURES and not self.depth:
                pass
            case "(":
                self.depth, self.argument = self.depth + 1, 0
            case ")" if self.gathers and not self.depth:
                self.gathers, self.interval, self.predicate = False, False, None
            case ")":
                self.depth = max(0, self.depth - 1)
            case "[" | "]":
                self.interval = token.text == "[" and self.before == "@"
            case "," if self.depth:
                self.argument += 1
            case "," if self.interval:
                pass
            case ",":
                self.predicate = None
            case ":-":
                self.part, self.depth, self.predicate = StatementPart.BODY, 0, None
            case ".":
                self._reset()
        return word

    def _name(self, token: Token, after: Token | None) -> Word:
        follows = "" if after is None else after.text
        if self.part is StatementPart.START:
            named = after is not None and after.kind is Kind.NAME
            counted = after is not None and after.kind is Kind.INT
            if (token.text == "clock" and named) or (token.text == "tick" and counted):
                self.part = StatementPart.HEAD
                return self._as(token, WordRole.KEYWORD)
            if token.text in ("input", "output") and named:
                self.part = StatementPart(token.text)
                return self._as(token, WordRole.KEYWORD)
            self.part = StatementPart.HEAD
        if self.part in (StatementPart.INPUT, StatementPart.OUTPUT):
            return self._declared(token)
        if self._is_function(token, follows):
            self.predicate = None if not self.depth else self.predicate
            return self._as(token, WordRole.KEYWORD)
        if self._is_aggregate(token, follows):
            self.gathers, self.predicate = True, None
            return self._as(token, WordRole.KEYWORD)
        if self.depth or (self.gathers and follows == ":"):
            return self._term(token, self.argument if self.depth else None)
        if token.text in UNITS and self.before.isdigit() and not self.quantified:
            return self._as(token, WordRole.NUMBER)  # of a length: `tick 1m.`, `T-10m`
        if self.before == "@" or self.interval:
            return self._as(token, WordRole.TIME)
        if {follows, self.before} & (_OPERATORS | _SIGNS):
            return self._term(token, None)
        if self.part is StatementPart.BODY and self._is_keyword(token, after):
            self.quantified = token.text == "least"
            return self._as(token, WordRole.KEYWORD)
        self.quantified = False
        self.predicate = token.text
        return self._as(token, WordRole.PREDICATE)

    def _is_function(self, token: Token, follows: str) -> bool:
        """Whether a name is a function of numbers: as a part of an expression, or by itself."""
        if token.text not in _FUNCTIONS or follows != "(" or self.part is not StatementPart.BODY:
            return False
        return self.calculates or bool(self.depth) or self.before in _OPERATORS | _SIGNS

    def _is_aggregate(self, token: Token, follows: str) -> bool:
        """Whether a name begins an aggregate: a side of a comparison."""
        if token.text not in _MEASURES or follows != "(" or self.part is not StatementPart.BODY:
            return False
        compared = self.calculates or self.before in _OPERATORS
        return compared and not self.depth and not self.gathers

    def _is_keyword(self, token: Token, after: Token | None) -> bool:
        if after is None:
            return False
        match token.text:
            case "not" | "some" | "always":
                return after.kind is Kind.NAME
            case "at":
                return after.text == "least"
            case "least":
                return self.before == "at" and after.kind is Kind.INT
            case _:
                return False

    def _declared(self, token: Token) -> Word:
        if self.depth:
            if self.before == ":" and token.text in _TYPES:
                return self._as(token, WordRole.TYPE, self.argument)
            return self._as(token, WordRole.COLUMN, self.argument)
        if self.before == "@":
            return self._as(token, WordRole.COLUMN)
        self.predicate = token.text
        return self._as(token, WordRole.PREDICATE)

    def _term(self, token: Token, argument: int | None) -> Word:
        if is_variable_name(token.text):
            return self._as(token, WordRole.VARIABLE, argument)
        return self._as(token, WordRole.CONSTANT, argument)


def _after_parentheses(tokens: list[Token], start: int) -> str:
    """The symbol after the parentheses that open at a token; nothing if none do, or none follows.

    >>> from tidelog.language.diagnostics import Source
    >>> from tidelog.language.tokens import tokenize
    >>> _after_parentheses([*tokenize(Source("", "abs(V - (W)) > 3"), [])], 1)
    '>'
    """
    depth = 0
    for token in tokens[start:]:
        symbol = token.text if token.kind is Kind.SYMBOL else ""
        if not depth and symbol != "(":
            return symbol
        depth += (symbol == "(") - (symbol == ")")
        if symbol in (".", ":-"):
            return ""
    return ""
