"""Whatever comes in, the server does not show a traceback."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # processes

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}
OPEN = {
    "jsonrpc": "2.0",
    "method": "textDocument/didOpen",
    "params": {
        "textDocument": {
            "uri": "file:///a.tdl",
            "languageId": "tidelog",
            "version": 1,
            "text": "P(X) :- \ud800\u2028\x0cE(X",
        }
    },
}


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def said(message: object) -> bytes:
    return framed(json.dumps(message).encode())


def asked(method: str, **params: object) -> bytes:
    place = {"textDocument": {"uri": "file:///a.tdl"}, "position": {"line": 0, "character": 3}}
    return said({"jsonrpc": "2.0", "id": 7, "method": method, "params": {**place, **params}})


CHANGE = "textDocument/didChange"
BYTES = {
    "nothing": b"",
    "noise": bytes(range(256)) * 20,
    "no JSON": framed(b"{nope"),
    "no object": framed(b"[1, 2]") + framed(b"null") + framed(b'"text"'),
    "not UTF-8": framed(b'{"jsonrpc": "2.0", "method": "\xff\xfe"}'),
    "half a message": b"Content-Length: 1000\r\n\r\n{",
    "a long number": b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "nested deeply": framed(b'{"jsonrpc": "2.0", "params": ' + b"[" * 100_000),
    "no method": said({"jsonrpc": "2.0", "id": 3}),
    "another method": asked("textDocument/no-such-thing"),
    "no parameters": said({"jsonrpc": "2.0", "id": 4, "method": "textDocument/hover"}),
    "wrong parameters": said(
        {"jsonrpc": "2.0", "id": 4, "method": "textDocument/hover", "params": 5}
    ),
    "far away": asked("textDocument/hover", position={"line": 10**9, "character": 10**9}),
    "a file that is not open": said(
        {
            "jsonrpc": "2.0",
            "method": CHANGE,
            "params": {
                "textDocument": {"uri": "file:///b.tdl", "version": 2},
                "contentChanges": [{"text": ""}],
            },
        }
    ),
    "a range that goes backwards": said(
        {
            "jsonrpc": "2.0",
            "method": CHANGE,
            "params": {
                "textDocument": {"uri": "file:///a.tdl", "version": 2},
                "contentChanges": [
                    {
                        "range": {
                            "start": {"line": 5, "character": 9},
                            "end": {"line": 0, "character": 1},
                        },
                        "text": "\ud83d\r",
                    }
                ],
            },
        }
    ),
}


@pytest.mark.parametrize("early", [True, False], ids=["before it begins", "after it began"])
def test_no_traceback(early: bool) -> None:
    """All of them, one server each way; each kind of bytes that ends a server has one to itself."""
    ending = ("noise", "half a message", "a long number")
    start = b"" if early else said(INITIALIZE) + said(OPEN)
    last = said({"jsonrpc": "2.0", "id": 99, "method": "shutdown"}) + said(
        {"jsonrpc": "2.0", "method": "exit"}
    )
    streams = [b"".join(b for name, b in BYTES.items() if name not in ending) + last]
    streams += [BYTES[name] for name in ending]
    for stream in streams:
        done = subprocess.run(
            [sys.executable, "-m", "tidelog.cli", "lsp"],
            input=start + stream,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert b"Traceback" not in done.stderr + done.stdout, done.stderr.decode()
        assert len(done.stderr.splitlines()) <= 1, done.stderr.decode()
