"""A Pygments lexer for rules: `tidelog` blocks in docs and notebooks are coloured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import Lexer
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, String, Whitespace

from tidelog.language.diagnostics import Source
from tidelog.language.tokens import Kind, tokenize
from tidelog.lsp.roles import Scanner, WordRole

__all__ = ["TidelogLexer"]

_TYPES: dict[WordRole, Any] = {
    WordRole.KEYWORD: Keyword.Declaration,
    WordRole.PREDICATE: Name.Class,
    WordRole.VARIABLE: Name.Variable,
    WordRole.TIME: Name.Variable.Magic,
    WordRole.CONSTANT: Name.Constant,
    WordRole.TEXT: String.Double,
    WordRole.NUMBER: Number,
    WordRole.COLUMN: Name.Attribute,
    WordRole.TYPE: Keyword.Type,
    WordRole.OPERATOR: Operator,
    WordRole.COMMENT: Comment.Single,
    WordRole.OTHER: Error,
}


class TidelogLexer(Lexer):
    """For the rules of Tidelog, by the language's own tokens.

    >>> kinds = [str(kind) for kind, text in TidelogLexer().get_tokens("P(X) :- E(X, high).")]
    >>> kinds[0], kinds[2], "Token.Name.Constant" in kinds
    ('Token.Name.Class', 'Token.Name.Variable', True)
    """

    name = "Tidelog"
    aliases: ClassVar[list[str]] = ["tidelog", "tdl"]
    filenames: ClassVar[list[str]] = ["*.tdl"]
    mimetypes: ClassVar[list[str]] = ["text/x-tidelog"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        tokens = [t for t in tokenize(Source("", text), []) if t.kind is not Kind.END]
        at = 0
        for word in Scanner().words(tokens, text):
            token = word.token
            if token.start > at:
                yield at, Whitespace, text[at : token.start]
            yield token.start, _TYPES[word.role], token.text
            at = token.end
        if at < len(text):
            yield at, Whitespace, text[at:]
