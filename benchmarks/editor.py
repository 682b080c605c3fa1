"""What a keystroke costs the language server, at 2,000 rules.

A statement is typed and erased again in the middle of a file, letter by letter, through the
server's own messages, answers written out included. After each letter come the look at all
statements together, which waits for a pause, and what editors ask for: colours, completion, lenses.
One file has nothing wrong with it; the other has a finding in every rule. Processor time, so that
other programs on the machine do not count.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.check import plant
from benchmarks.harness import Result, print_table
from tidelog.lsp.server import Server, make_server

RULES, QUICK = 2_000, 40
URI = "file:///rules.tdl"
TYPED = '\nTyped(X) @ T+1 :- High7(X) @ T, Near(X, _), X != "north". '


def circular(n: int) -> str:
    """Rules that only need one another: each has a finding."""
    rules = (
        f"P{i}(X) @ T+1 :- Temp(X, high, V) @ T, P{i * 7 % n}(X) @ T, Near(X, _), V >= {i}.5."
        for i in range(n)
    )
    inputs = "input Temp(a: text, b: text, v: float) @ time.\ninput Near(a: text, b: text).\n"
    return inputs + "\n".join(rules)


class Sink:
    """Where the server writes to."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written = data

    def close(self) -> None:
        pass


class Session:
    """A server in this process, spoken to in its protocol."""

    def __init__(self, text: str) -> None:
        self.server: Server = make_server()
        self.sink = Sink()
        self.server.protocol.set_writer(self.sink)
        self.text, self.sent = text, 0
        self.spent: dict[str, list[float]] = {}
        self.send("initialize", {"capabilities": {}, "processId": None, "rootUri": None})
        document = {"uri": URI, "languageId": "tidelog", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        self.colours: str = self.ask("semanticTokens/full")["result"]["resultId"]

    def send(self, method: str, params: dict[str, Any]) -> None:
        self.sent += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if "did" not in method:
            message["id"] = self.sent
        protocol = self.server.protocol
        protocol.handle_message(protocol.structure_message(message))

    def ask(self, method: str, **more: object) -> dict[str, Any]:
        self.send(f"textDocument/{method}", {"textDocument": {"uri": URI}, **more})
        answer: dict[str, Any] = json.loads(self.sink.written.partition(b"\r\n\r\n")[2])
        assert "result" in answer, answer
        return answer

    def timed(self, what: str, work: Callable[[], object]) -> None:
        started = time.process_time()
        work()
        self.spent.setdefault(what, []).append((time.process_time() - started) * 1000)

    def edit(self, at: int, gone: int, new: str) -> None:
        start, end = self.place(at), self.place(at + gone)
        change = {"range": {"start": start, "end": end}, "text": new}
        self.text = self.text[:at] + new + self.text[at + gone :]
        cursor = self.place(at + len(new))
        version = {"uri": URI, "version": self.sent + 1}
        params = {"textDocument": version, "contentChanges": [change]}
        self.timed("typing", lambda: self.send("textDocument/didChange", params))
        self.timed("pause", lambda: self.server.look_together(URI))
        self.timed("colours", self.colour)
        self.timed("completion", lambda: self.ask("completion", position=cursor))
        self.timed("highlight", lambda: self.ask("documentHighlight", position=cursor))
        self.timed("lenses", lambda: self.ask("codeLens"))
        self.timed("symbols", lambda: self.ask("documentSymbol"))

    def place(self, at: int) -> dict[str, int]:
        before = self.text[:at]
        return {"line": before.count("\n"), "character": at - before.rfind("\n") - 1}

    def colour(self) -> None:
        more = {"previousResultId": self.colours}
        self.colours = self.ask("semanticTokens/full/delta", **more)["result"]["resultId"]


async def session(text: str, edits: int) -> dict[str, list[float]]:
    editor = Session(text)
    middle = text.index("\n", len(text) // 2)
    letters = TYPED[: edits // 2]
    for i, letter in enumerate(letters):
        editor.edit(middle + i, 0, letter)
    for i in reversed(range(len(letters))):
        editor.edit(middle + i, 1, "")
    assert editor.text == text
    assert editor.server.open[URI].document.raw == text
    return editor.spent


def run(quick: bool = False) -> list[Result]:
    results: list[Result] = []
    rules, edits = (QUICK, 10) if quick else (RULES, 120)
    for name, text in (("sound", plant(rules)), ("wrong", circular(rules))):
        for what, spent in asyncio.run(session(text, edits)).items():
            target = "<= 50 ms" if what in ("typing", "pause") and not quick else None
            for kind, value in (("median", statistics.median(spent)), ("most", max(spent))):
                results.append(Result(f"editor/{name}/{what}/{kind}", value, "ms", target=target))
    return results


if __name__ == "__main__":
    print_table(run())
