"""What stays the same through a history: program, options, sink, accidents, and what arrives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from support.hostile import HOSTILE

from sim.stream import EXAMPLES, Choice, plan_of, read
from sim.targets import KINDS

ODD = [m for m in HOSTILE.values() if m is not None and len(m) < 2_000]
HARMS = [
    ("power",),
    ("power", "kill", "error"),
    ("pause",),
    ("pause", "kill"),
    ("pause", "power"),
    ("power", "kill", "error", "pause"),
]
# Anywhere, at a commit, or where answers are written.
WHERE = ("", "", "", "0/commits/", "/out")


@dataclass(frozen=True)
class Setting:
    """What stays the same through a history."""

    example: int
    lateness: int
    idle: float
    kind: str
    files: bool
    checksums: bool
    compact: int
    accidents: int
    harms: tuple[str, ...]  # the kinds of accidents: few of them at a time find most
    where: str  # a part of the calls at which they happen
    people: bool
    skips: bool  # files cannot be read, and people skip some and others
    intervals: bool  # answers have a first and a last tick
    live: bool  # after the files, as a history, it goes on with a topic
    acts: tuple[int, ...] = tuple(range(8))  # what people do, as `History._meddle` numbers it

    @staticmethod
    def of(random: Random) -> Setting:
        return Setting(
            random.randrange(len(EXAMPLES)),
            random.choice((0, 0, 1)),
            random.choice((0.0, 0.0, 5.0)),
            random.choice(KINDS),
            random.random() < 0.6,
            random.random() < 0.3,
            random.choice((2, 3, 10)),
            random.choice((0, 1, 1, 2, 3)),
            random.choice(HARMS),
            random.choice(WHERE),
            random.random() < 0.4,
            random.random() < 0.3,
            random.random() < 0.25,
            random.random() < 0.25,
        )

    @property
    def of_files(self) -> bool:
        """Whether it begins with files."""
        return self.files or self.live

    @property
    def inputs(self) -> list[str]:
        return sorted(plan_of(Choice(self.example)).inputs)


def messages_of(random: Random, setting: Setting) -> list[bytes]:
    """What arrives, in order."""
    names, values = setting.inputs, 2 if setting.intervals else 5
    messages: list[bytes] = []
    tick = 0
    for number in range(random.randint(3, 10)):
        chance = random.random()
        tick += random.choice((0, 1, 1, 2))
        if chance < 0.08:
            messages.append(random.choice(ODD))
        elif chance < 0.12:
            messages.append(b'{"time": %d}' % tick)
        elif chance < 0.2 and messages:
            messages.append(random.choice(messages))
        else:
            at = tick - random.choice((0, 0, 0, 1, 3))
            at = 4_000_000 if chance > 0.99 else at
            row = {"predicate": random.choice(names), "x": f"r{number % values}", "time": at}
            messages.append(json.dumps(row).encode())
    return messages


def topic_of(random: Random, setting: Setting, history: list[bytes]) -> list[bytes]:
    """What comes after a history: some of it again, and later rows."""
    rows = [read(message, setting.example) for message in history]
    last = max((row.values[-1] for row in rows if row.problem is None), default=0)
    later = []
    for message in messages_of(random, setting):
        row = read(message, setting.example)
        if row.problem is None:
            value = json.loads(message)
            message = json.dumps({**value, "time": last + 1 + abs(row.values[-1])}).encode()
        later.append(message)
    for message in random.sample(history, random.randint(0, len(history))):
        later.insert(random.randint(0, min(3, len(later))), message)
    return later
