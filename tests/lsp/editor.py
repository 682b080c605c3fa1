"""An editor for tests: pygls' own client, with a buffer that it edits as an editor does."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

URI = "file:///rules.tdl"
R = TypeVar("R")


class Editor:
    """One open document; positions are given by the text that stands at them."""

    def __init__(self, client: LanguageClient) -> None:
        self.client, self.text, self.version = client, "", 0
        self.told: dict[int, list[types.Diagnostic]] = {}
        self.changed = asyncio.Event()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            if params.version is not None:
                self.told[params.version] = list(params.diagnostics)
            self.changed.set()

    async def initialize(self, encodings: list[str] | None = None) -> types.InitializeResult:
        general = None
        if encodings is not None:
            general = types.GeneralClientCapabilities(position_encodings=encodings)
        snippets = types.ClientCompletionItemOptions(snippet_support=True)
        result = await self.client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(
                    general=general,
                    text_document=types.TextDocumentClientCapabilities(
                        completion=types.CompletionClientCapabilities(completion_item=snippets)
                    ),
                )
            )
        )
        self.client.initialized(types.InitializedParams())
        return result

    def open(self, text: str) -> None:
        self.text, self.version = text, 1
        self.client.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(URI, "tidelog", 1, text))
        )

    def replace(self, old: str, new: str) -> None:
        """Write `new` over the first `old`, as one incremental change in UTF-16."""
        start = self.text.index(old)
        place = types.Range(self.at(start), self.at(start + len(old)))
        self.text = self.text[:start] + new + self.text[start + len(old) :]
        self.change(types.TextDocumentContentChangePartial(range=place, text=new))

    def change(self, *changes: Any) -> None:
        self.version += 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, URI), list(changes)
            )
        )

    def at(self, offset: int) -> types.Position:
        before = self.text[:offset]
        line = before.split("\n")[-1]
        return types.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)

    def on(self, text: str, skip: int = 0) -> dict[str, Any]:
        """What a request about the place where a text starts is made of."""
        where = self.at(self.text.index(text) + skip)
        return {"text_document": types.TextDocumentIdentifier(URI), "position": where}

    def covered(self, place: types.Range) -> str:
        """The text in a range, by UTF-16."""
        lines = self.text.split("\n")

        def offset(at: types.Position) -> int:
            units = lines[at.line].encode("utf-16-le")[: 2 * at.character]
            before = sum(len(line) + 1 for line in lines[: at.line])
            return before + len(units.decode("utf-16-le"))

        return self.text[offset(place.start) : offset(place.end)]

    async def findings(self) -> list[tuple[str, str]]:
        """Codes and the texts they are about, once the server has told of this version for good."""
        while True:
            self.changed.clear()
            if self.version in self.told:
                try:  # what the statements say together may follow
                    await asyncio.wait_for(self.changed.wait(), 0.3)
                    continue
                except TimeoutError:
                    return [(str(d.code), self.covered(d.range)) for d in self.told[self.version]]
            await asyncio.wait_for(self.changed.wait(), 20)


def session(
    talk: Callable[[Editor], Awaitable[R]], *, encodings: list[str] | None = None
) -> tuple[R, str]:
    """A conversation over stdio; what it gives, and what the server complains of."""

    async def run() -> tuple[R, str]:
        client = LanguageClient("tests", "1")
        log = Path(tempfile.mkdtemp(), "log")
        await client.start_io(sys.executable, "-m", "tidelog.cli", "lsp", "--log", str(log))
        editor = Editor(client)
        await editor.initialize(encodings)
        result = await asyncio.wait_for(talk(editor), 60)
        await client.shutdown_async(None)
        client.exit(None)
        process = client._server
        assert process is not None
        assert process.stderr is not None
        said = await asyncio.wait_for(process.stderr.read(), 20)
        await asyncio.wait_for(process.wait(), 20)
        assert process.returncode == 0, said.decode() + log.read_text()
        await client.stop()
        return result, said.decode() + log.read_text()

    return asyncio.run(run())
