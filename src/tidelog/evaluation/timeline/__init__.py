"""Exact evaluation of any program, on the whole time line (not for bulk data).

Models can be infinite both ways. The middle of the line holds all data, explicit times and the
times asked about, and is evaluated fact by fact. Beyond it there is no input: what comes back from
a half line depends only on the facts on its w nearest ticks, w being the widest span of a rule, and
is kept in a table that is iterated to its least fixpoint. Going on tick by tick, windows repeat,
so that answers are periodic from somewhere on.

With `not` this is done stratum by stratum: what lower strata give is periodic beyond the middle,
and part of what the tables of the next are kept for. Cycles through `not` go forward only.
"""

from tidelog.evaluation.timeline.answers import answers, history
from tidelog.evaluation.timeline.limit import Limit, TooHard
from tidelog.evaluation.timeline.line import Timeline, evaluate

__all__ = ["Limit", "Timeline", "TooHard", "answers", "evaluate", "history"]
