"""What is shown where the pointer rests."""

from __future__ import annotations

from tidelog.language.printer import print_type
from tidelog.language.program import Constant, Rule, Type, Variable
from tidelog.lsp import facts
from tidelog.lsp.document import Document
from tidelog.lsp.names import Spot
from tidelog.lsp.roles import WordRole

_AT_LEAST = "`at least 3 P(X) @ [T-59, T]`: at three ticks of the interval or more."
_KEYWORDS = {
    "input": "`input P(a: text, b: int) @ time.` declares a stream; without `@` it is rigid.",
    "output": "`output P, Q(a, b).` names the predicates whose answers are wanted.",
    "clock": "`clock Tick.` declares a predicate that holds at every tick of the data and after.",
    "tick": "`tick 1m.` says how long a tick is; rules may then say `T-10m`, `[T-1h, T]`.",
    "not": '`not P(X, _) @ T`: there is no such fact; `_` reads "no such value".',
    "some": "`some P(X) @ [T-4, T]`: at one tick of the interval or more.",
    "always": "`always P(X) @ [T-4, T]`: at every tick of the interval; `_` may differ.",
    "count": "`count(P(X, _) @ [T-59, T]) >= 3`: so many facts; of nothing it is 0.",
    "sum": "`A = sum(V : P(X, V) @ [T-59, T])`: the exact sum, rounded once; of nothing it is 0.",
    "min": "`A = min(V : P(X, V) @ [T-59, T])`: the least value of all facts, if there is one.",
    "max": "`A = max(V : P(X, V) @ [T-59, T])`: the greatest value of all facts, if there is one.",
    "avg": "`A = avg(V : P(X, V) @ [T-59, T])`: the sum by the count, a float, if there is one.",
    "at": _AT_LEAST,
    "least": _AT_LEAST,
}
_TYPES = {
    "text": "text, ordered by code points",
    "int": "a whole number of 64 bits",
    "float": "a decimal number, IEEE double",
    "bool": "`true` or `false`, without an order",
}


def hover(document: Document, spot: Spot, analyses: facts.Analyses) -> str | None:
    """Markdown about the word at a spot."""
    word = spot.word
    match word.role:
        case WordRole.PREDICATE:
            return _predicate(document, word.token.text, analyses)
        case WordRole.VARIABLE | WordRole.CONSTANT | WordRole.TEXT | WordRole.NUMBER:
            return _term(document, spot)
        case WordRole.TIME:
            return "a time: one tick for all atoms of this rule that have it"
        case WordRole.KEYWORD:
            return _KEYWORDS.get(word.token.text)
        case WordRole.TYPE:
            return _TYPES.get(word.token.text)
        case WordRole.COLUMN if word.predicate is not None and word.argument is not None:
            return _argument(document, word.predicate, word.argument)
        case _:
            return None


def _predicate(document: Document, name: str, analyses: facts.Analyses) -> str:
    program = document.program
    lines = [f"```tidelog\n{facts.signature(document, name)}\n```", facts.kind(document, name)]
    comment = facts.comment_of(document, name)
    lines += [comment] if comment else []
    if name in program.heads_of:
        analysis = analyses.of(document, name)
        lines.append("\n".join(f"- {line}" for line in facts.details(analysis, document)))
    return "\n\n".join(lines)


def _argument(document: Document, predicate: str, i: int) -> str | None:
    known = document.types.get(predicate, ())
    if i >= len(known):
        return None
    name = facts.columns(document, predicate)[i]
    return f"`{name}: {print_type(known[i])}`, argument {i + 1} of `{predicate}`"


def _term(document: Document, spot: Spot) -> str | None:
    """The type of a variable or a constant, and the argument that it is."""
    word = spot.word
    lines: list[str] = []
    if word.role is WordRole.VARIABLE and word.token.text != "_":
        type_ = _type_of_variable(document, spot)
        lines.append(f"`{word.token.text}: {print_type(type_)}`")
    if word.predicate is not None and word.argument is not None:
        argument = _argument(document, word.predicate, word.argument)
        lines += [argument] if argument else []
    return "\n\n".join(lines) or None


def _type_of_variable(document: Document, spot: Spot) -> Type | None:
    around = document.chunk_at(spot.chunk + 1)
    rules = [s for s in around[1].statements if isinstance(s, Rule)] if around else []
    name = spot.word.token.text
    for rule in rules:
        for atom in (*rule.atoms, rule.head):
            known = document.types.get(atom.predicate, ())
            for term, type_ in zip(atom.args, known, strict=False):
                if isinstance(term, Variable) and term.name == name and type_ is not None:
                    return type_
        for comparison in rule.comparisons:
            if any(variable.name == name for variable in comparison.variables):
                for side in (comparison.left, comparison.right):
                    if isinstance(side, Constant):
                        return side.type
    return None
