"""`tidelog lsp`: the language server."""

from __future__ import annotations

import logging
import os
import sys

import click


@click.command("lsp")
@click.option("--stdio", is_flag=True, help="Speak on standard input and output; the default.")
@click.option(
    "--tcp", metavar="[HOST]:PORT", help="Wait for one client there, on 127.0.0.1 if no HOST."
)
@click.option("--log", "log_file", metavar="FILE", help="Write what goes wrong there.")
def lsp_command(stdio: bool, tcp: str | None, log_file: str | None) -> None:
    """Help an editor with rules: the Language Server Protocol.

    Editors start it themselves: docs/editor.md says how.
    """
    if stdio and tcp is not None:
        raise click.UsageError("--stdio and --tcp are two ways: choose one")
    place = None if tcp is None else _place(tcp)
    _logging(log_file)
    try:
        from tidelog.lsp.server import make_server
    except ImportError as error:
        missing = error.name or "pygls"
        raise click.UsageError(
            f"{missing} is not installed: pip install 'tidelog[lsp]' brings it"
        ) from None
    server = make_server()
    try:
        if place is None:
            # The protocol has standard output to itself, also after the server has closed it.
            with os.fdopen(os.dup(1), "wb") as out, open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                server.start_io(stdout=out)
        else:
            click.echo(f"waiting for a client at {place[0]}:{place[1]}", err=True)
            server.start_tcp(*place)
    except OSError as error:
        raise click.UsageError(f"--tcp {tcp}: {error.strerror or error}") from error
    except Exception as error:  # bytes that are no protocol at all
        logging.getLogger("tidelog.lsp").exception("the server ends")
        click.echo(f"Error: what came in is not the Language Server Protocol: {error}", err=True)
        sys.exit(1)


def _is_trouble(record: logging.LogRecord) -> bool:
    """A request that is refused with a sentence is no trouble, though pygls logs it as one."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "JsonRpcInvalidParams"


def _place(tcp: str) -> tuple[str, int]:
    host, _, port = tcp.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--tcp {tcp}: write HOST:PORT, or :PORT")
    return host or "127.0.0.1", int(port)


def _logging(path: str | None) -> None:
    """To a file, or nowhere: standard output is the protocol's, and an editor shows the other."""
    handler: logging.Handler = logging.NullHandler()
    if path is not None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from error
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    handler.addFilter(_is_trouble)
    for name in ("pygls", "tidelog.lsp", "asyncio"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.WARNING)
