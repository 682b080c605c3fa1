"""The formatter: one way to lay a rules file out. It keeps every comment and the meaning.

It works on tokens, not on the program, so that comments stay where they are: one statement a line,
long ones with a body literal a line, at most one blank line in a row.
"""

from __future__ import annotations

from tidelog.language.diagnostics import ProgramError, Source
from tidelog.language.parser import parse_source
from tidelog.language.tokens import Kind, Token, tokenize

WIDTH = 100
_INDENT = "    "
_TIGHT_BEFORE = {",", ")", "]", ".", ":"}
_OPERATORS = {"=", "==", "!=", "<", "<=", ">", ">="}


def format_source(source: Source) -> str:
    """The text laid out anew; a file with syntax errors is refused with all of them.

    >>> print(format_source(Source("", "p(X)@T:-e( X )@T -1,X!=a.%why")), end="")
    p(X) @ T :- e(X) @ T-1, X != a.  % why
    """
    parsed = parse_source(source)
    if parsed.diagnostics:
        raise ProgramError(parsed.diagnostics, source)
    lines: list[str] = []
    statement: list[Token] = []
    end_of_last = -1  # where the last token of the previous statement or comment ended
    for token in tokenize(source, []):
        if token.kind is Kind.COMMENT and not statement:
            between = source.text[max(end_of_last, 0) : token.start]
            if end_of_last >= 0 and "\n" not in between:
                lines[-1] += "  " + _comment(token)
            else:
                _blank(lines, between)
                lines.append(_comment(token))
            end_of_last = token.end
        elif token.kind is not Kind.END:
            if not statement:
                _blank(lines, source.text[max(end_of_last, 0) : token.start])
            statement.append(token)
            if token.kind is Kind.SYMBOL and token.text == ".":
                lines += _statement(statement, source)
                statement, end_of_last = [], token.end
    return "".join(line + "\n" for line in lines)


def _blank(lines: list[str], between: str) -> None:
    if lines and between.count("\n") > 1:
        lines.append("")


def _comment(token: Token) -> str:
    text = token.text.rstrip()
    return f"% {text[1:]}" if text[1:2].isalnum() else text


def _statement(tokens: list[Token], source: Source) -> list[str]:
    if not any(t.kind is Kind.COMMENT for t in tokens):
        line = "".join(gap + token.text for gap, token in zip(_gaps(tokens), tokens, strict=True))
        if len(line) <= WIDTH:
            return [line]
    return _broken(tokens, source)


def _broken(tokens: list[Token], source: Source) -> list[str]:
    """A body literal a line; comments end their line."""
    lines, line, depth = [], "", 0
    before: Token | None = None  # None at the start of a line
    previous_end = tokens[0].start
    for gap, token in zip(_gaps(tokens), tokens, strict=True):
        if token.kind is Kind.COMMENT:
            own_line = "\n" in source.text[previous_end : token.start]
            if own_line or before is None:
                # Nothing to hang it on: a line of its own, or the end of the finished line.
                if before is not None:
                    lines.append(line)
                if own_line or not lines:
                    lines.append(_INDENT + _comment(token))
                else:
                    lines[-1] += "  " + _comment(token)
            else:
                lines.append(line + "  " + _comment(token))
            line, before = "", None
        else:
            if before is None:
                line = (_INDENT if lines else "") + token.text
            else:
                line += gap + token.text
            before = token
            depth += (token.text in "([") - (token.text in ")]") if token.kind is Kind.SYMBOL else 0
            if token.kind is Kind.SYMBOL and depth == 0 and token.text in (":-", ","):
                lines.append(line)
                line, before = "", None
        previous_end = token.end
    if line:
        lines.append(line)
    return lines


def _gaps(tokens: list[Token]) -> list[str]:
    """The space before each token of a statement; that before the first is none.

    Signs are tight in times (`T-4`) and before a number or what is negated; between the numbers of
    a calculation they have space around them.
    """
    gaps: list[str] = []
    before: Token | None = None
    in_time = tight = in_body = False  # within a time; after a sign that belongs to what follows
    for token in tokens:
        if token.kind is Kind.COMMENT:
            gaps.append("")
            continue
        symbol = token.text if token.kind is Kind.SYMBOL else ""
        in_time = symbol == "@" or (in_time and symbol in ("", "+", "-", "[", ",", "]"))
        in_time = in_time and not (symbol == "," and not _inside_brackets(tokens, token))
        sign = symbol in ("+", "-")
        in_body = in_body or symbol == ":-"
        if symbol == ":" and in_body:  # of an aggregate: `avg(V : Temp(X, V) @ T)`
            gaps.append(" ")
            before = token
            continue
        gaps.append("" if before is None or tight else _gap(before, token, sign and in_time))
        ends_value = before is not None and (
            before.kind is not Kind.SYMBOL or before.text in (")", "]")
        )
        tight = sign and (in_time or not ends_value)
        before = token
    return gaps


def _inside_brackets(tokens: list[Token], token: Token) -> bool:
    """Whether a token stands between the ends of an interval."""
    earlier = [t.text for t in tokens if t.kind is Kind.SYMBOL and t.start < token.start]
    return earlier.count("[") > earlier.count("]")


def _gap(before: Token, token: Token, tight: bool) -> str:
    """The space between two tokens."""
    symbol = token.text if token.kind is Kind.SYMBOL else ""
    last = before.text if before.kind is Kind.SYMBOL else ""
    if symbol in _TIGHT_BEFORE or last in ("(", "["):
        return ""
    if before.kind is Kind.INT and token.kind is Kind.NAME and token.start == before.end:
        return ""  # a length of time: `10m`
    if (symbol == "(" and before.kind is Kind.NAME) or (tight and before.kind is Kind.NAME):
        return ""
    return " "
