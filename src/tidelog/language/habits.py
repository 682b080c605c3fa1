"""Words and symbols of other languages, and what to write instead; hints of syntax errors."""

from __future__ import annotations

# What people write from habit in other languages, and what we would write.
_SYMBOLS = {
    "<-": "a rule is written `head :- body.`",
    "->": "a rule is written `head :- body.`, with the head first",
    ":=": "a rule is written `head :- body.`",
    "=<": "less-or-equal is written `<=`",
    "=>": "greater-or-equal is written `>=`",
    "\u2264": "less-or-equal is written `<=`",
    "\u2265": "greater-or-equal is written `>=`",
    "<>": "different is written `!=`",
    "\u2260": "different is written `!=`",
    "!==": "different is written `!=`",
    "===": "equal is written `=`",
    "**": "a power is a product, as in `V * V`",
    "^": "a power is a product, as in `V * V`",
    "//": "a comment starts with `%`",
    "/*": "a comment starts with `%` and ends with the line",
    "#": "a comment starts with `%`",
    "'": 'text is written in double quotes: `"..."`',
    "\u2018": 'text is written in straight double quotes: `"..."`',
    "\u201c": 'text is written in straight double quotes: `"..."`',
    "`": 'text is written in double quotes: `"..."`',
    ";": "there is no `or`: write one rule for each alternative; a statement ends with `.`",
    "&": "`and` is written `,`",
    "|": "there is no `or`: write one rule for each alternative",
    "!": "absence is written `not P(X) @ T`; different is written `!=`",
    "~": "absence is written `not P(X) @ T`; different is written `!=`",
    "\\": "absence is written `not P(X) @ T`; different is written `!=`",
    "?": "a variable starts with an upper-case letter; there are no conditional expressions",
    "$": "a variable starts with an upper-case letter, without `$`",
}

PATTERNS = (
    "texts are compared whole, without patterns: `X = text`; put what a pattern finds into a column"
)
_SYMBOLS |= dict.fromkeys(("=~", "!~", "/"), PATTERNS)

_INTERVAL = "say it with an interval, as in `some P(X) @ [T-4, T]` or `always P(X) @ [T-4, T]`"
_RULE = "a rule is `head :- body.`; its conditions stand in the body, separated by `,`"
_ONE_OF = "write one rule for each value, or list them in an input of their own and join that"
NULL = "a missing value is no fact: absence is written `not P(X, _) @ T`"
_GROUPS = "an aggregate groups by the variables that stand outside it: `N = count(P(X, _) @ T)`"
_ABSENT = "absence is written `not P(X) @ T`, and over an interval `not some P(X) @ [T-4, T]`"
_SELECT = "there are no queries in rules: a rule is `head :- body.`, and its head is the answer"
_TEXTS = "there are no functions of text: put the value that is meant into a column of the input"
_LASTING = "for what lasts from a start to an end, `Up(X) @ T+1 :- Up(X) @ T, not End(X) @ T.`"
NULLS = frozenset(("null", "none", "nil", "nan"))

# The first words of a habit, in lower case, where something else is expected; then its remedy.
_WORDS = {
    "and": "`and` is written `,`",
    "or": "there is no `or`: write one rule for each alternative",
    "if": "`if` is written `:-`, after the head",
    "when": "`when` is written `:-`, after the head",
    "where": "conditions stand in the body, separated by `,`",
    "having": _RULE,
    "in": _ONE_OF,
    "between": "write two comparisons: `V >= 5, V <= 7`",
    "is": f"equal is written `=`; {NULL}",
    "since": f"{_INTERVAL}; {_LASTING}",
    "until": f"{_INTERVAL}; {_LASTING}",
    "now": "a rule holds at every tick, and no tick is now: write a variable, as in `P(X) @ T`",
    "at": "the time of an atom is written `P(X) @ T`",
    "on": "two atoms are joined by a variable that stands in both",
    "join": "two atoms are joined by a variable that stands in both",
    "mod": "there is no remainder: put it into a column of the input",
    "div": "a division is written `V / W`, and is a float",
    "as": "a value gets a name in the body, as in `D = V - W`",
    "unless": _ABSENT,
    "order": "answers have no order in rules; they come by time and arguments",
    "limit": "answers have no limit in rules: say in the rule which of them are meant",
    "select": _SELECT,
    "with": _SELECT,
    "from": _SELECT,
    "create": _SELECT,
    "case": "there is no `case`: write one rule for each alternative",
    "then": "there is no `case`: write one rule for each alternative",
    "else": "there is no `else`: write one rule for each alternative",
    "let": "a value gets a name in the body, as in `D = V - W`",
    "rule": _RULE,
    "alert": _RULE,
    "def": _RULE,
    "exists": "an atom says that there is a fact: `P(X, _) @ T`; over an interval `some P(X) @ ..`",
    "no": _ABSENT,
    "never": _ABSENT,
    "distinct": "a fact counts once a tick: have a rule whose head is what is counted",
}
_WORDS |= dict.fromkeys(("like", "ilike", "matches", "contains", "starts", "ends"), PATTERNS)
_WORDS |= dict.fromkeys(("startswith", "endswith", "match"), PATTERNS)
_WORDS |= dict.fromkeys(("regexp", "rlike", "glob", "similar"), PATTERNS)
_WORDS |= dict.fromkeys(("for", "within", "during", "over", "last", "past"), _INTERVAL)
_WORDS |= dict.fromkeys(("group", "partition", "by"), _GROUPS)

# Words that stand before what is then not expected: `select X`, `exists P(X)`.
LEADING = frozenset(
    ("select", "with", "create", "case", "let", "rule", "alert", "def", "exists", "no", "never")
) | {"distinct", "last", "past"}

_UNITS = {
    "us": ("microsecond", "microseconds"),
    "ms": ("millisecond", "milliseconds", "msec"),
    "s": ("second", "seconds", "sec", "secs"),
    "m": ("minute", "minutes", "min", "mins"),
    "h": ("hour", "hours", "hr", "hrs"),
    "d": ("day", "days"),
}
UNITS = {word: unit for unit, words in _UNITS.items() for word in (unit, *words)}

TEXT_FUNCTIONS = frozenset(
    ("lower", "upper", "trim", "substr", "substring", "concat", "replace", "split", "length")
) | {"startswith", "endswith", "starts_with", "ends_with", "contains", "regexp", "matches", "len"}


_STATISTICS = frozenset(
    ("percentile", "quantile", "median", "p50", "p90", "p95", "p99", "stddev", "mean", "average")
)
_AGGREGATES = (
    "the aggregates are `count`, `sum`, `min`, `max` and `avg`; a percentile compares two counts:"
    " `100 * K >= 95 * N`"
)


def symbol_remedy(text: str) -> str | None:
    """The remedy for a symbol that another language would accept."""
    return _SYMBOLS.get(text)


def word_remedy(word: str) -> str | None:
    """The remedy for a word that another language would accept.

    >>> word_remedy("AND")
    '`and` is written `,`'
    """
    return _WORDS.get(word.casefold())


def function_remedy(name: str) -> str | None:
    """The remedy for a function of text or of many values that another language has."""
    if name.casefold() in _STATISTICS:
        return _AGGREGATES
    return _TEXTS if name.casefold() in TEXT_FUNCTIONS else None
