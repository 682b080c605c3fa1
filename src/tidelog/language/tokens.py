"""The lexer: text to tokens, comments included, so that the formatter can keep them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tidelog.language.diagnostics import Code, Diagnostic, Source
from tidelog.language.habits import symbol_remedy


class Kind(StrEnum):
    NAME = "name"
    TEXT = "text"
    INT = "integer"
    DECIMAL = "decimal"
    SYMBOL = "symbol"
    COMMENT = "comment"
    BAD = "unreadable"  # already reported; a statement that meets it is given up quietly
    END = "end of file"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


_TOKEN = re.compile(
    r"""
    (?P<space>  \s+ )
  | (?P<comment> %[^\n]* )
  | (?P<name>   [^\W\d]\w* )
  | (?P<decimal> [0-9]+ (?: \.[0-9]+ (?:[eE][+-]?[0-9]+)? | [eE][+-]?[0-9]+ ) )
  | (?P<integer> [0-9]+ )
  | (?P<text>   "(?:[^"\\\n]|\\[^\n])*" )
  | (?P<foreign> =~ | !~ | [=!]== | \*\* )
  | (?P<symbol> :- | == | != | <= | >= | [][().,:@=<>+*-] | /(?![/*]) )
    """,
    re.VERBOSE,
)

_KINDS = {kind.value: kind for kind in Kind}

# Foreign quotes, comments and patterns are passed over whole, so that one habit is one error.
_FOREIGN = re.compile(
    r"""
    /\* .{0,2000}? \*/
  | [=!]~ (?: \s{0,9} /[^/\n]{0,200}/ )? | [=!]== | \*\*
  | (?P<mark> \# | // | /\* ) [^\n]*
  | '[^'\n]{0,200}' | `[^`\n]{0,200}` | \u2018[^\u2019\n]{0,200}\u2019
  | \u201c[^\u201d\n]{0,200}\u201d
    """,
    re.VERBOSE | re.DOTALL,
)


def tokenize(source: Source, diagnostics: list[Diagnostic]) -> Iterator[Token]:
    """All tokens and comments in order, then one END; unreadable text is reported."""
    text, at, size = source.text, 0, len(source.text)
    while at < size:
        token = _TOKEN.match(text, at)
        if token is None or token.lastgroup == "foreign":
            bad = _unreadable(source, at, diagnostics)
            yield bad
            at = bad.end
            continue
        kind, end = token.lastgroup, token.end()
        if kind == "name":
            # Combining marks belong to the letter before them, though \w leaves them out.
            while end < size and text[end] > "\x7f" and unicodedata.category(text[end])[0] == "M":
                end += 1
                while end < size and (text[end].isalnum() or text[end] == "_"):
                    end += 1
        if kind != "space":
            yield Token(_KINDS[kind or ""], text[at:end], at)
        at = end
    yield Token(Kind.END, "", size)


def _unreadable(source: Source, at: int, diagnostics: list[Diagnostic]) -> Token:
    text = source.text
    if text[at] == '"':
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        message, hint = "this text has no closing quote", 'close it with `"` on the same line'
        shown = end
    else:
        foreign = _FOREIGN.match(text, at)
        if foreign is not None:
            end = foreign.end()
            shown = foreign.end("mark") if foreign["mark"] else end
        else:
            end = at + 1
            while end < len(text) and not text[end].isspace() and not _TOKEN.match(text, end):
                end += 1
            shown = end
        message = f"`{shorten(text[at:shown])}` is not part of the language"
        remedy = next(filter(None, (symbol_remedy(text[at : at + n]) for n in (3, 2, 1))), None)
        hint = remedy or "remove it, or put it in double quotes if it is text"
    diagnostics.append(Diagnostic(Code.SYNTAX, message, source.origin(at, shown), hint=hint))
    return Token(Kind.BAD, text[at:end], at)


def shorten(text: str) -> str:
    """Text to quote in a message: one line, no longer than twenty characters."""
    return text if len(text) <= 20 and "\n" not in text else text.split("\n")[0][:17] + "..."


_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|.)", re.DOTALL)


def unquote(quoted: str) -> str:
    r"""The text between quotes with escapes resolved; ValueError names a bad escape.

    >>> unquote(r'"a\"b\u{e9}"')
    'a"bé'
    """

    def resolve(escape: re.Match[str]) -> str:
        body = escape.group(1)
        if body in _ESCAPES:
            return _ESCAPES[body]
        if body.startswith("u{"):
            point = int(body[2:-1], 16)
            if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
                return chr(point)
        raise ValueError(escape.group(0))

    return _ESCAPE.sub(resolve, quoted[1:-1])


def quote(value: str) -> str:
    r"""Text as the language writes it, always in quotes; `unquote` is its inverse.

    >>> quote('say "hi"\n\x00')
    '"say \\"hi\\"\\n\\u{0}"'
    """
    out = ['"']
    for c in value:
        if c in '"\\':
            out.append("\\" + c)
        elif c in "\n\t\r":
            out.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}[c])
        elif unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp"):
            out.append(f"\\u{{{ord(c):x}}}")
        else:
            out.append(c)
    out.append('"')
    return "".join(out)


def is_name(text: str) -> bool:
    """Whether the text is one name token."""
    tokens = list(tokenize(Source("", text), []))
    return len(tokens) == 2 and tokens[0].kind is Kind.NAME and tokens[0].text == text


def is_variable_name(name: str) -> bool:
    """Variables start with an upper-case letter or `_`; letters without case count as lower."""
    return name[0] == "_" or name[0].isupper() or name[0].istitle()
