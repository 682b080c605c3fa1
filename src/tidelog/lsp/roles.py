"""What each token of a statement is, also while the statement is still being written.

The parser gives up a statement at its first mistake; an editor wants colours, names and
suggestions in it nevertheless. So this follows the shape of statements token by token, and never
fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidelog.language.program import Operator, Type
from tidelog.language.tokens import Kind, Token, is_variable_name

_OPERATORS = {"==", *(operator.value for operator in Operator)}
_TYPES = {type_.value for type_ in Type}


class Role(StrEnum):
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


class Part(StrEnum):
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
    role: Role
    part: Part
    statement: int
    predicate: str | None = None  # whose argument or column it is, or its own name
    argument: int | None = None


@dataclass
class Scanner:
    """Reads tokens one after the other and remembers where in a statement it is."""

    part: Part = Part.START
    statement: int = 0
    depth: int = 0
    predicate: str | None = None
    argument: int = 0
    before: str = ""  # the token before, unless it was a comment

    def words(self, tokens: Iterable[Token], text: str) -> Iterator[Word]:
        found = list(tokens)
        for i, token in enumerate(found):
            yield self.word(token, found[i + 1] if i + 1 < len(found) else None, text)

    def word(self, token: Token, after: Token | None, text: str) -> Word:
        """The next token; `after` is the one that follows it, which tells names apart."""
        if token.kind is Kind.COMMENT:
            return self._as(token, Role.COMMENT)
        if self._begins(token, text):
            self._reset()
        word = self._name(token, after) if token.kind is Kind.NAME else self._plain(token)
        self.before = token.text
        return word

    def _begins(self, token: Token, text: str) -> bool:
        """Whether a name in the first column starts a statement although none was ended."""
        if token.kind is not Kind.NAME or self.part is Part.START or self.depth:
            return False
        first = token.start == 0 or text[token.start - 1] == "\n"
        return first and self.before not in (",", ":-", "@", "input", "output")

    def _reset(self) -> None:
        self.part, self.depth, self.predicate, self.argument = Part.START, 0, None, 0
        self.statement += 1
        self.before = ""

    def _as(self, token: Token, role: Role, argument: int | None = None) -> Word:
        return Word(token, role, self.part, self.statement, self.predicate, argument)

    def _plain(self, token: Token) -> Word:
        match token.kind:
            case Kind.TEXT:
                role = Role.COLUMN if self.part in (Part.INPUT, Part.OUTPUT) else Role.TEXT
                return self._as(token, role, self.argument if self.depth else None)
            case Kind.INT | Kind.DECIMAL:
                time = self.before in ("@", "+", "-") and not self.depth
                return self._as(token, Role.NUMBER, None if time else self.argument)
            case Kind.SYMBOL:
                return self._symbol(token)
            case _:
                return self._as(token, Role.OTHER)

    def _symbol(self, token: Token) -> Word:
        word = self._as(token, Role.OPERATOR)
        match token.text:
            case "(":
                self.depth, self.argument = self.depth + 1, 0
            case ")":
                self.depth = max(0, self.depth - 1)
            case "," if self.depth:
                self.argument += 1
            case ",":
                self.predicate = None
            case ":-":
                self.part, self.depth, self.predicate = Part.BODY, 0, None
            case ".":
                self._reset()
        return word

    def _name(self, token: Token, after: Token | None) -> Word:
        follows = "" if after is None else after.text
        if self.part is Part.START:
            named = after is not None and after.kind is Kind.NAME
            if token.text in ("input", "output") and named:
                self.part = Part(token.text)
                return self._as(token, Role.KEYWORD)
            self.part = Part.HEAD
        if self.part in (Part.INPUT, Part.OUTPUT):
            return self._declared(token)
        if self.depth:
            return self._term(token, self.argument)
        if self.before == "@":
            return self._as(token, Role.TIME)
        if follows in _OPERATORS or self.before in _OPERATORS:
            return self._term(token, None)
        self.predicate = token.text
        return self._as(token, Role.PREDICATE)

    def _declared(self, token: Token) -> Word:
        if self.depth:
            if self.before == ":" and token.text in _TYPES:
                return self._as(token, Role.TYPE, self.argument)
            return self._as(token, Role.COLUMN, self.argument)
        if self.before == "@":
            return self._as(token, Role.COLUMN)
        self.predicate = token.text
        return self._as(token, Role.PREDICATE)

    def _term(self, token: Token, argument: int | None) -> Word:
        if is_variable_name(token.text):
            return self._as(token, Role.VARIABLE, argument)
        return self._as(token, Role.CONSTANT, argument)
