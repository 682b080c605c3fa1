"""A smaller simulation: checkpoints of streams in process, in snapshots, with a file of answers.

The steps are those of `tidelog.cli.in_process`: rows are read, answers and dead letters written,
and now and then a snapshot is taken. Folder, snapshots and file are the product's.
"""

from __future__ import annotations

import errno
import hashlib
import json
from random import Random
from typing import Any

from sim.history import Violation
from sim.machine import Box, Killed, Process
from sim.stream import Text
from tidelog.errors import DataError
from tidelog.streaming import snapshot
from tidelog.streaming.sinks.lines import LinesSink
from tidelog.streaming.snapshot import CheckpointFolder

FOLDER, ANSWERS = "/c", "/out/answers.jsonl"
LETTERS = f"{FOLDER}/dead_letters/part-00000.json"


class SnapshotHistory:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.box = Box(seed)
        self.random: Random = self.box.random
        self.lines = [self.random.random() < 0.7 for _ in range(self.random.randint(3, 12))]
        self.box.renaming = self._renaming
        self.had_accident = False

    def run(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.box.accident_at = self.box.calls + self.random.randint(1, 80)
            self.box.accident = self.random.choice((self._power, self._kill, self._error))
            self._start(is_last=False)
        self.box.accident_at = -1
        for _ in range(3):
            if self._start(is_last=True):
                self._check_end()
                return
        raise Violation("it does not come to an end")

    def _power(self, process: Process, call: str) -> None:
        self.had_accident = process.dead = True
        self.box.lose_power()

    def _kill(self, process: Process, call: str) -> None:
        self.had_accident = True
        process.die()

    def _error(self, process: Process, call: str) -> None:
        self.had_accident = True
        raise OSError(errno.ENOSPC, "No space left on device")

    def _start(self, *, is_last: bool) -> bool:
        process = self.box.process()
        self.had_accident = False
        try:
            return self._process(process, is_last=is_last)
        except Killed:
            return False
        except (DataError, OSError) as error:
            is_begun = process.exists(f"{FOLDER}/stream.json")
            if not self.had_accident and not is_begun and "name a new file" in str(error):
                self.box.disk.settle()
                self.box.disk.put(ANSWERS, None)  # nothing vouches for it: begin anew
            elif not self.had_accident:
                raise Violation(f"refused: {error}") from error
            return False
        finally:
            process.die()

    def _process(self, process: Process, *, is_last: bool) -> bool:
        folder, sink = CheckpointFolder(FOLDER, process), LinesSink(ANSWERS, process)
        note: dict[str, Any] = {"lines": 0, "letters": 0, "aside": [], "written": None}
        if folder.begun:
            note = snapshot.read(folder.file, lambda state: {}, process)
            folder.expect(note["aside"])
        written = note["written"]
        sink.check("", fresh=written is None)
        if written is not None:
            sink.verify(written)
        sink.prepare(["P"], fresh=written is None)
        if written is not None:
            sink.discard(0, ["P"], written)
        read, letters = note["lines"], note["letters"]
        try:
            while read < len(self.lines) and (is_last or self.random.random() < 0.9):
                for number in range(read, min(len(self.lines), read + self.random.randint(1, 3))):
                    if self.lines[number]:
                        sink.write(0, {"P": Text("P", [(f"r{number}", number)])})
                    else:
                        letters = folder.put_aside([b'{"row": %d}\n' % number], letters)
                    read = number + 1
                if self.random.random() < 0.6:
                    self._save(folder, sink, process, read, letters)
            self._save(folder, sink, process, read, letters)
            return bool(read == len(self.lines))
        finally:
            sink.close()
            folder.release()

    def _save(
        self, folder: CheckpointFolder, sink: LinesSink, process: Process, read: int, letters: int
    ) -> None:
        aside = {"part-00000": letters}
        note = {"lines": read, "letters": letters, "written": sink.state()}
        snapshot.write(folder.file, {}, {**note, "aside": folder.letters(aside)}, process)
        if self.box.disk.durable(f"{FOLDER}/stream.json") != process.read(str(folder.file)):
            raise Violation("a snapshot is not durable")
        self._expect_durable(note)

    def _renaming(self, source: str, path: str) -> None:
        """What the snapshot that takes effect refers to is on the disk before it."""
        if path != f"{FOLDER}/stream.json":
            return
        text = bytes(self.box.disk.file(source).data).decode()
        self._expect_durable(json.loads(text.splitlines()[1]))

    def _expect_durable(self, note: dict[str, Any]) -> None:
        lines = self.box.disk.durable(ANSWERS) or b""
        state = note["written"]
        some = hashlib.sha256(lines[state["begin"] : state["bytes"]]).hexdigest()
        if some != state["sha256"]:
            raise Violation("a snapshot refers to answers that are not durable")
        if len(self.box.disk.durable(LETTERS) or b"") < note["letters"]:
            raise Violation("a snapshot refers to dead letters that are not durable")

    def _check_end(self) -> None:
        answers = self.box.disk.tree(ANSWERS).get(ANSWERS, b"").splitlines()
        letters = self.box.disk.tree(LETTERS).get(LETTERS, b"").splitlines()
        facts = [n for n, is_fact in enumerate(self.lines) if is_fact]
        dead = [n for n, is_fact in enumerate(self.lines) if not is_fact]
        if [json.loads(line)["time"] for line in answers] != facts:
            raise Violation(f"answers {answers} of facts {facts}")
        if [json.loads(line)["row"] for line in letters] != dead:
            raise Violation(f"dead letters {letters} of rows {dead}")
