"""From history to what is live: where the messages begin after the files, settled once.

The history is read to its end. Then `live.json` says where each topic begins and which facts the
history has brought already; from there on, and after every restart, only messages are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Protocol

from pyspark.sql import SparkSession

from tidelog.causes import Cause
from tidelog.data.kafka import Topics
from tidelog.data.sealed import unsealed
from tidelog.data.ticks import Ticks, time_text
from tidelog.errors import DataError
from tidelog.evaluation.spark.kafka import Brokers, Messages, open_topics, topic_stream
from tidelog.evaluation.spark.sources import Inputs
from tidelog.pipeline.commit import LIVE_FROM, Checkpoint
from tidelog.pipeline.plan import PipelinePlan

# Milliseconds by which clocks of those who send may differ: so much more is read, and left out.
MARGIN = 600_000
# Options with which users say themselves where topics begin.
STARTING = ("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp")


@dataclass(frozen=True)
class Handover:
    """Where what is live begins."""

    known: int | None  # facts up to this tick are in the history
    offsets: list[dict[str, dict[str, int]]]  # of each group of topics; none where users say so


class Offsets(Protocol):
    """What brokers say of topics."""

    def offsets(self, since: int | None = None) -> dict[str, dict[int, int]]:
        """By topic and partition the first offset, or the first one since a moment."""


@dataclass(frozen=True)
class Live:
    """The topics that a stream goes on with after its history."""

    spark: SparkSession
    plan: PipelinePlan
    checkpoint: Checkpoint
    topics: Sequence[Topics]
    options: Mapping[str, str]
    skip: Sequence[str] = ()  # messages that users leave out
    brokers: Callable[..., AbstractContextManager[Offsets]] = Brokers

    def check(self) -> None:
        """DataError when the topics cannot be read; before the history is."""
        open_topics(self.spark, self.topics, self.options)

    @property
    def begun(self) -> bool:
        return self.checkpoint.store.exists(LIVE_FROM)

    def source(self) -> Messages:
        """The messages; where they begin is settled now if it was not before."""
        handover = self.handover()
        frames = []
        for topics, offsets in zip(self.topics, handover.offsets, strict=True):
            starting = {"startingOffsets": json.dumps(offsets)} if offsets else {}
            options = {**self.options, **starting}
            frames.append((topic_stream(self.spark, topics, options), topics.format))
        inputs = Inputs(self.plan.inputs, self.plan.options.ticks)
        others = frozenset(self.plan.program.inputs) - inputs.schemas.keys()
        of_topics = [text for text in self.skip if text.startswith("kafka:")]
        return Messages(frames, inputs, others, handover.known, of_topics)

    def handover(self) -> Handover:
        """Where messages begin, which is settled once."""
        store = self.checkpoint.store
        if not self.begun:
            self.checkpoint.go_live(asdict(self._settle()))
        return Handover(**unsealed(store.read(LIVE_FROM), store.shown(LIVE_FROM)))

    def _settle(self) -> Handover:
        last = self.checkpoint.last
        if last is None:  # no history
            return Handover(None, [{} for _ in self.topics])
        known = last.clock.tin
        offsets = [self._begin(topics, known) for topics in self.topics]
        return Handover(known, offsets)

    def _begin(self, topics: Topics, known: int | None) -> dict[str, dict[str, int]]:
        """The offsets from which on messages may be of later times than the history's.

        DataError when messages were deleted that may have been among them.
        """
        if any(name in self.options for name in STARTING):
            return {}
        ticks = self.plan.options.ticks
        with self.brokers(self.spark, topics, self.options) as brokers:
            first = brokers.offsets()
            since = first
            if known is not None and ticks is not None:
                since = brokers.offsets(_moment(known + 1, ticks))
        for topic, parts in first.items():
            for part, offset in parts.items():
                if offset > 0 and since[topic][part] == offset:
                    end = "" if known is None else f", {time_text(known, ticks)}"
                    raise DataError(
                        f"topic `{topic}`, partition {part} begins at offset {offset}, and nothing"
                        f" in it is known to be as old as the end of the history{end}: there may be"
                        " a gap; give more history, or accept it with --kafka-option"
                        " startingOffsets=earliest",
                        code=Cause.HISTORY_GAP,
                    )
        return {t: {str(p): offset for p, offset in parts.items()} for t, parts in since.items()}


def _moment(tick: int, ticks: Ticks) -> int:
    """When a tick starts, in milliseconds since 1970 and a little earlier."""
    return max(0, (tick * ticks.length + ticks.origin) // 1000 - MARGIN)
