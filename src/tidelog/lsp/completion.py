"""What can be written next: predicates, columns, variables, constants and keywords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidelog.language.diagnostics import Source
from tidelog.language.printer import print_type, print_value
from tidelog.language.program import Constant, Program, Type, Variable
from tidelog.language.tokens import Kind, Token, is_name, quote, tokenize
from tidelog.lsp import facts
from tidelog.lsp.document import Document
from tidelog.lsp.roles import Scanner, StatementPart, Word, WordRole

# Constants of one column that are suggested, the most frequent first.
MOST_CONSTANTS = 30
# Predicates that are suggested; of more, those that begin with what is written already.
MOST_PREDICATES = 200
_QUANTIFIED = ("some", "always")
_MEASURES = {
    "sum": "all values added up",
    "min": "the least value",
    "max": "the greatest value",
    "avg": "the mean of all values",
}
_BEFORE_ATOMS = (":-", ",", "not", *_QUANTIFIED)


class Sort(StrEnum):
    PREDICATE = "predicate"
    COLUMN = "column"
    VARIABLE = "variable"
    CONSTANT = "constant"
    KEYWORD = "keyword"
    TYPE = "type"


@dataclass(frozen=True)
class Completion:
    """A word, what to insert for it (a snippet, with `$1` and `${1:name}`), and what it is."""

    label: str
    sort: Sort
    insert: str
    detail: str = ""


@dataclass(frozen=True)
class Completions:
    """Where the word that is being written starts, and what it may become."""

    start: int
    words: list[Completion]
    whole: bool = True  # or one letter more will bring others


def completions(document: Document, offset: int) -> Completions:
    around = document.chunk_at(offset)
    start, text = (0, "") if around is None else (around[0], around[1].text)
    if text[: offset - start].endswith("."):
        start, text = offset, ""  # a statement has just ended
    tokens = [t for t in tokenize(Source("", text[: offset - start]), []) if t.kind is not Kind.END]
    begun = tokens[-1] if tokens else None
    if begun is not None and (begun.kind is Kind.COMMENT or _open_text(begun)):
        return Completions(offset, [])
    if begun is not None and begun.kind is Kind.NAME and begun.end == offset - start:
        tokens.pop()
    else:
        begun = None
    scanner = Scanner()
    words = list(scanner.words(tokens, text))
    at = offset if begun is None else start + begun.start
    names = _names(document, scanner)
    if len(names) <= MOST_PREDICATES:
        return Completions(at, list(_suggested(document, scanner, words, names)))
    letters = "" if begun is None else begun.text.casefold()
    some = [name for name in names if name.casefold().startswith(letters)][:MOST_PREDICATES]
    return Completions(at, list(_suggested(document, scanner, words, some)), whole=False)


def _open_text(token: Token) -> bool:
    return token.kind is Kind.BAD and token.text.startswith('"')


def _names(document: Document, scanner: Scanner) -> tuple[str, ...]:
    """The predicates that may come next."""
    program, before = document.program, scanner.before
    if (scanner.depth and scanner.predicate is not None) or before == "@" or scanner.interval:
        return ()
    if scanner.part is StatementPart.START:
        return program.heads
    if scanner.part is StatementPart.OUTPUT and before in ("output", ","):
        return program.heads
    if scanner.part is StatementPart.BODY and (before in _BEFORE_ATOMS or _counted(scanner)):
        return tuple(dict.fromkeys((*program.inputs, *program.heads, *program.clocks)))
    return ()


def _suggested(
    document: Document, scanner: Scanner, words: list[Word], names: Sequence[str]
) -> Iterator[Completion]:
    before = scanner.before
    if scanner.depth and scanner.predicate is not None:
        if scanner.part is StatementPart.INPUT:
            yield from _types() if before == ":" else ()
        elif scanner.part is StatementPart.OUTPUT:
            yield from _columns(document, scanner.predicate, scanner.argument)
        else:
            yield from _terms(document, scanner, words)
    elif before == "@" or (scanner.interval and before in ("[", ",")):
        yield from _times(scanner, words)
    elif scanner.part is StatementPart.START:
        yield Completion("input", Sort.KEYWORD, "input ${1:P}(${2:a: text}) @ time.", "a stream")
        yield Completion("output", Sort.KEYWORD, "output ${1:P}.", "what is asked for")
        yield Completion("clock", Sort.KEYWORD, "clock ${1:Tick}.", "every tick of the data")
        yield Completion("tick", Sort.KEYWORD, "tick ${1:1m}.", "how long a tick is")
        yield from _predicates(document, names)
    elif scanner.part is StatementPart.OUTPUT:
        for name in names:
            yield Completion(name, Sort.PREDICATE, name, facts.kind(document, name))
    elif scanner.part is StatementPart.BODY and (before in _QUANTIFIED or _counted(scanner)):
        yield from _predicates(document, names, interval=True)
    elif scanner.part is StatementPart.BODY and before == "not":
        yield from _predicates(document, names)
        yield from _quantifiers()
    elif scanner.part is StatementPart.BODY and before in (":-", ","):
        yield from _predicates(document, names)
        yield Completion("not", Sort.KEYWORD, "not ${1:P}(${2:X}) @ T", "there is no such fact")
        yield from _quantifiers()
        yield from _aggregates()
        for name in _variables(scanner, words, WordRole.VARIABLE):
            yield Completion(name, Sort.VARIABLE, name, "compare it")


def _counted(scanner: Scanner) -> bool:
    """Whether the number of `at least 3` has just been written."""
    return scanner.quantified and scanner.before.isdigit()


def _quantifiers() -> Iterator[Completion]:
    asked = "${1:P}(${2:X}) @ [T-${3:4}, T]"
    yield Completion("some", Sort.KEYWORD, f"some {asked}", "at one tick or more")
    yield Completion("always", Sort.KEYWORD, f"always {asked}", "at every tick")
    counted = "at least ${4:3} ${1:P}(${2:X}) @ [T-${3:59}, T]"
    yield Completion("at least", Sort.KEYWORD, counted, "at so many ticks or more")


def _aggregates() -> Iterator[Completion]:
    gathered = "${1:P}(${2:X}, _) @ [T-${3:59}, T]) >= ${4:3}"
    yield Completion("count", Sort.KEYWORD, f"count({gathered}", "how many facts there are")
    each = "${1:P}(${2:X}, V) @ [T-${3:59}, T])"
    for measure, told in _MEASURES.items():
        yield Completion(measure, Sort.KEYWORD, f"${{4:A}} = {measure}(V : {each}", told)


def _predicates(
    document: Document, names: Sequence[str], *, interval: bool = False
) -> Iterator[Completion]:
    for name in names:
        arguments = facts.columns(document, name)
        shown = ", ".join(f"${{{i}:{_variable(c)}}}" for i, c in enumerate(arguments, 1))
        ticks = "[T-${%d:4}, T]" if interval else "${%d:T}"
        time = f" @ {ticks % (len(arguments) + 1)}" if name in document.temporal else ""
        insert = f"{name}{f'({shown})' if shown else ''}{time}"
        detail = f"{facts.kind(document, name)} {facts.signature(document, name)}"
        yield Completion(name, Sort.PREDICATE, insert, detail)


def _variable(column: str) -> str:
    """A variable named after a column.

    >>> _variable("wind_ms"), _variable("wind speed"), _variable("温度")
    ('Wind_ms', 'X', 'X')
    """
    name = column[:1].upper() + column[1:]
    return name if is_name(name) and name[0].isupper() else "X"


def _types() -> Iterator[Completion]:
    return (Completion(type_.value, Sort.TYPE, type_.value, "a type") for type_ in Type)


def _columns(document: Document, predicate: str, argument: int) -> Iterator[Completion]:
    names = facts.columns(document, predicate)
    order = (*names[argument:], *names[:argument])
    for name in order:
        written = name if is_name(name) else quote(name)
        yield Completion(name, Sort.COLUMN, written, f"a column of {predicate}")


def _terms(document: Document, scanner: Scanner, words: list[Word]) -> Iterator[Completion]:
    """An argument: a variable of the rule, a new one named after the column, or a constant."""
    predicate, i = scanner.predicate or "", scanner.argument
    types = document.types.get(predicate, ())
    names = facts.columns(document, predicate)
    seen = _variables(scanner, words, WordRole.VARIABLE)
    if i < len(names):
        fresh = _variable(names[i])
        if fresh not in seen:
            column = f"column {names[i]}: {print_type(types[i] if i < len(types) else None)}"
            yield Completion(fresh, Sort.COLUMN, fresh, column)
    for name in seen:
        yield Completion(name, Sort.VARIABLE, name, "a variable of this rule")
    for text, times in _constants(document.program, predicate, i).most_common(MOST_CONSTANTS):
        yield Completion(text, Sort.CONSTANT, text, f"used {times} times here")
    yield Completion("_", Sort.VARIABLE, "_", "any value")


def _constants(program: Program, predicate: str, i: int) -> Counter[str]:
    constants: Counter[str] = Counter()
    for rule in program.rules:
        for atom in (rule.head, *rule.atoms):
            if atom.predicate == predicate:
                term = atom.args[i] if i < len(atom.args) else Variable("X")
                if isinstance(term, Constant):
                    constants[print_value(term.value)] += 1
    return constants


def _times(scanner: Scanner, words: list[Word]) -> Iterator[Completion]:
    if scanner.part is StatementPart.INPUT:
        yield Completion("time", Sort.COLUMN, "time", "the time column")
        return
    for name in dict.fromkeys((*_variables(scanner, words, WordRole.TIME), "T")):
        for text in (name, f"{name}+1", f"{name}-1"):
            yield Completion(text, Sort.VARIABLE, text, "a time")


def _variables(scanner: Scanner, words: list[Word], role: WordRole) -> list[str]:
    """The variables of the statement that is being written."""
    names = (
        word.token.text
        for word in words
        if word.role is role and word.statement == scanner.statement and word.token.text != "_"
    )
    return list(dict.fromkeys(names))
