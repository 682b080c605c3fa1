"""Compact series: one value a tick, as in `low high*3 _ low` or `10+5x6`.

| written | is |
|---|---|
| `high`, `"two words"`, `2.5`, `true` | one value |
| `high*3` | the value three times |
| `10+5x6`, `10-5x6` | 10, then six further values, each 5 more or less (as in Prometheus) |
| `_`, `_*3` | gaps: ticks without a fact |
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from tidelog.language.diagnostics import Source
from tidelog.language.parser import parse_source
from tidelog.language.program import Constant, Rule, Value, Variable

# Values of one series; a slip of the pen should not fill the memory.
MOST_VALUES = 1_000_000

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_STEPS = re.compile(rf"({_NUMBER})([+-])([0-9]+(?:\.[0-9]+)?)x([0-9]+)")
_ITEM = re.compile(r'((?:"(?:[^"\\]|\\.)*"|[^\s"*]+))(?:\*([0-9]+))?')


def series(text: str) -> list[Value | None]:
    """The values of a series, None for gaps; ValueError says what is wrong.

    >>> series("low high*2 _ low")
    ['low', 'high', 'high', None, 'low']
    >>> series("10+5x3"), series('1.5-0.5x2 "a b"')
    ([10, 15, 20, 25], [1.5, 1.0, 0.5, 'a b'])
    """
    values: list[Value | None] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        end = at
        while end < len(text) and not text[end].isspace():
            quoted = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, end)
            end = quoted.end() if quoted else end + 1
        values += _values(text[at:end], MOST_VALUES - len(values))
        at = end
    return values


def _values(item: str, room: int) -> list[Value | None]:
    steps = _STEPS.fullmatch(item)
    if steps is not None:
        start, sign, step, count = steps.groups()
        _fits(int(count[:9]) + 1, room)
        return _stepped(Decimal(start), Decimal(f"{sign}{step}"), int(count), "." in start + step)
    parts = _ITEM.fullmatch(item)
    if parts is None:
        raise ValueError(
            f"`{item}` is not part of a series; values stand between spaces: `low high*3 _ 10+5x6`"
        )
    word, count = parts.group(1), int((parts.group(2) or "1")[:9])
    _fits(count, room)
    return [None if word == "_" else value(word)] * count


def _fits(count: int, room: int) -> None:
    if count > room:
        raise ValueError(f"a series has {MOST_VALUES:,} values at most; write a shorter one")


def _stepped(start: Decimal, step: Decimal, count: int, decimals: bool) -> list[Value | None]:
    # In decimals, so that 0.1+0.1x9 ends with 1.0.
    numbers = (start + i * step for i in range(count + 1))
    return [float(number) if decimals else int(number) for number in numbers]


@lru_cache(10_000)
def value(word: str) -> Value:
    """A constant as the rules write it; ValueError for anything else.

    >>> value("high"), value('"High"'), value("-2.5"), value("true")
    ('high', 'High', -2.5, True)
    """
    parsed = parse_source(Source("", f"v({word})."))
    (rule,) = parsed.program.statements or (None,)
    if isinstance(rule, Rule) and not parsed.diagnostics and not rule.body and not rule.head.time:
        match rule.head.args:
            case (Constant() as constant,):
                return constant.value
            case (Variable() as variable,):
                raise ValueError(
                    f'`{variable.name}` is a variable; as a constant it is written `"{word}"`'
                )
    raise ValueError(f"`{word}` is not a constant; write `high`, `2.5`, or text in quotes")
