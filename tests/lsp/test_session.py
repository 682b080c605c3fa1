"""An editing session with a real client, over stdio and TCP, with mistakes in between."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys

import pytest
from editor import URI, Editor, session
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

pytestmark = pytest.mark.slow  # processes

RULES = """\
% Wind turbines 🌬
input Temp(device: text, level: text) @ time.  % one reading a tick
output Malfunc.

% Readings that are high.
Flag(X) @ T :- Temp(X, high) @ T.
Malfunc(X) @ T :- Flag(X) @ T, Flag(X) @ T+2.
"""


async def edit(editor: Editor) -> None:
    """Write, make mistakes, look, follow hints, rename, format."""
    editor.open(RULES)
    assert await editor.findings() == []

    editor.replace("@ T+2.", "@ T+2")  # the dot is gone: nothing ends the statement
    assert await editor.findings() == [("E001", "")]
    fixes = await editor.client.text_document_code_action_async(whole(editor))
    assert [fix.title for fix in fixes] == ["end the statement with `.`"]
    editor.replace("@ T+2", "@ T+2.")
    assert await editor.findings() == []

    editor.replace("Flag(X) @ T, ", "Falg(X) @ T, ")
    assert await editor.findings() == [("W301", "Falg(X) @ T")]
    (fix,) = await editor.client.text_document_code_action_async(whole(editor))
    assert fix.title == "write `Flag`"
    (change,) = fix.edit.changes[URI]
    assert (editor.covered(change.range), change.new_text) == ("Falg", "Flag")
    editor.replace("Falg", "Flag")

    editor.replace("Temp(X, high)", "Temp(X, Level)")
    assert await editor.findings() == [("W304", "Level")]
    fixes = await editor.client.text_document_code_action_async(whole(editor))
    assert [fix.title for fix in fixes] == ["write `_`", "write `_Level`"]
    editor.replace("Level", '"🌬"')
    assert await editor.findings() == []

    place = types.HoverParams(**editor.on("Malfunc(X)"))
    shown = await editor.client.text_document_hover_async(place)
    for part in ("Malfunc(x: text) @ time", "output", "class 1", "delay 2", "window 2", "state"):
        assert part in shown.contents.value
    above = await editor.client.text_document_hover_async(types.HoverParams(**editor.on("Flag(X)")))
    assert "Readings that are high." in above.contents.value
    beside = types.HoverParams(**editor.on("Temp(device"))
    assert (
        "one reading a tick"
        in (await editor.client.text_document_hover_async(beside)).contents.value
    )
    typed = await editor.client.text_document_hover_async(types.HoverParams(**editor.on("X, ")))
    assert "`X: text`" in typed.contents.value
    assert "argument 1 of `Temp`" in typed.contents.value

    lenses = await editor.client.text_document_code_lens_async(
        types.CodeLensParams(types.TextDocumentIdentifier(URI))
    )
    assert [editor.covered(lens.range) for lens in lenses] == ["Malfunc"]
    resolved = await editor.client.code_lens_resolve_async(lenses[0])
    assert resolved.command.title == "delay 2, window 2, class 1"

    definitions = await editor.client.text_document_definition_async(
        types.DefinitionParams(**editor.on("Flag(X) @ T+2"))
    )
    assert [(editor.covered(at.range), at.range.start.line) for at in definitions] == [("Flag", 5)]
    context = types.ReferenceContext(include_declaration=True)
    uses = await editor.client.text_document_references_async(
        types.ReferenceParams(**editor.on("Flag(X)"), context=context)
    )
    assert [use.range.start.line for use in uses] == [5, 6, 6]

    edits = await editor.client.text_document_rename_async(
        types.RenameParams(**editor.on("Flag(X)"), new_name="Hot")
    )
    assert len(edits.changes[URI]) == 3
    for name, where, why in (
        ("Malfunc", "Flag(X)", "already"),
        ("9", "Flag(X)", "not a name"),
        ("x", "X, ", "upper-case"),
        ("Y", "text", "only predicates and variables"),
    ):
        with pytest.raises(JsonRpcException, match=why) as refused:
            await editor.client.text_document_rename_async(
                types.RenameParams(**editor.on(where), new_name=name)
            )
        assert "Traceback" not in str(refused.value)

    editor.replace("Flag(X) @ T :-", "Flag( X )@T:-")
    (formatted,) = await editor.client.text_document_formatting_async(
        types.DocumentFormattingParams(
            types.TextDocumentIdentifier(URI), types.FormattingOptions(4, True)
        )
    )
    assert "Flag(X) @ T :-" in formatted.new_text

    symbols = await editor.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(types.TextDocumentIdentifier(URI))
    )
    assert [s.name for s in symbols] == [
        "input Temp",
        "output Malfunc",
        "Flag(X) @ T",
        "Malfunc(X) @ T",
    ]


def whole(editor: Editor) -> types.CodeActionParams:
    everything = types.Range(types.Position(0, 0), editor.at(len(editor.text)))
    context = types.CodeActionContext(diagnostics=[])
    return types.CodeActionParams(types.TextDocumentIdentifier(URI), everything, context)


def test_over_standard_input_and_output() -> None:
    _, said = session(edit)
    assert said == ""


def test_over_tcp() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "tidelog.cli", "lsp", "--tcp", f":{port}"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ,
    )
    try:
        assert server.stderr is not None
        assert server.stderr.readline() == f"waiting for a client at 127.0.0.1:{port}\n".encode()

        async def run() -> None:
            client = LanguageClient("tests", "1")
            for _ in range(100):
                try:
                    await client.start_tcp("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
            editor = Editor(client)
            await editor.initialize()
            await asyncio.wait_for(edit(editor), 60)
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()

        asyncio.run(run())
        rest = server.communicate(timeout=20)
        assert rest == (b"", b"")
    finally:
        server.kill()


def test_completion() -> None:
    async def talk(editor: Editor) -> None:
        editor.open(RULES)

        async def labels(line: str) -> list[str]:
            """What is suggested at the end of a line."""
            editor.replace(editor.text, f"{RULES}{line}")
            editor.text = f"{RULES}{line}"
            at = editor.at(len(editor.text))
            completions = await editor.client.text_document_completion_async(
                types.CompletionParams(types.TextDocumentIdentifier(URI), at)
            )
            return [item.label for item in completions.items]

        assert (await labels(""))[:5] == ["input", "output", "clock", "tick", "Flag"]
        words = ["not", "some", "always", "at least", "count", "sum", "min", "max", "avg"]
        assert await labels("Hot(X) @ T :- ") == ["Temp", "Flag", "Malfunc", *words, "X"]
        assert (await labels("Hot(X) @ T :- Temp(X, "))[:3] == ["Level", "X", "high"]
        assert "T+1" in await labels("Hot(X) @ T :- Temp(X, high) @ ")
        assert await labels("input Wind(speed: ") == ["text", "int", "float", "bool"]
        assert await labels("output Hot, ") == ["Flag", "Malfunc"]
        assert await labels("output Malfunc(") == ["x"]
        assert await labels("% a comment ") == []
        assert await labels('Hot(X) @ T :- Temp(X, "hi') == []

    _, said = session(talk)
    assert said == ""


def test_utf_16_and_other_ways_to_count() -> None:
    text = 'P("🌬🌬", X) @ T :- E(X, Y, Z) @ T.\n'

    async def talk(editor: Editor) -> list[types.Range]:
        editor.open(text)
        await editor.findings()
        return [d.range for d in editor.told[1]]

    counted = {}
    for encoding in ("utf-16", "utf-32", "utf-8"):
        places, said = session(talk, encodings=[encoding])
        assert said == ""
        counted[encoding] = [(place.start.character, place.end.character) for place in places]
    first = text.index("Y")
    assert counted == {
        "utf-32": [(first, first + 1), (first + 3, first + 4)],
        "utf-16": [(first + 2, first + 3), (first + 5, first + 6)],
        "utf-8": [(first + 6, first + 7), (first + 9, first + 10)],
    }
