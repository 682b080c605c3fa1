"""Numbers of other types in float columns: which of them a float holds.

An integer that is no float is not taken: it would be equal to its neighbours. A decimal becomes the
nearest float. Up to 15 digits that keeps different decimals apart; a type with more is warned of.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.errors import warn

# Integers up to this one are floats, whatever they are.
EXACT = 2**53
# Digits of a decimal that a float gives back.
DIGITS = 15
NO_FLOAT = (
    "is not float: the nearest float is another number; declare the column `int`, or convert it to"
    " a double"
)


def is_float(value: int) -> bool:
    """Whether an integer is a float.

    >>> is_float(2**53), is_float(2**53 + 1), is_float(2**60)
    (True, False, True)
    """
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def not_float(column: str, value: object) -> str:
    """What is wrong with an integer that is no float."""
    return f"column `{column}`: `{value}` {NO_FLOAT}"


@dataclass(frozen=True)
class Decimals:
    """Decimal columns that were warned of."""

    known: set[tuple[str, str]] = field(default_factory=set)

    def warn(self, predicate: str, column: str, precision: int, scale: int) -> None:
        """Warn, once, of a column with more digits than a float holds."""
        if precision <= DIGITS or (predicate, column) in self.known:
            return
        self.known.add((predicate, column))
        warn(
            f"column `{column}` of {predicate} is decimal({precision},{scale}), and the rules need"
            f" float: numbers with more than {DIGITS} digits are rounded, and different ones may"
            " become equal; convert it to a double if that is fine"
        )
