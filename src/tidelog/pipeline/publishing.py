"""Numbers in Prometheus' text format, in a file for its textfile collector or on a port."""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from tidelog.errors import DataError

TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Metric:
    """A number, or one for each set of labels."""

    name: str
    kind: str  # counter or gauge
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(metrics: Iterable[Metric]) -> str:
    """The text that Prometheus reads.

    >>> print(exposition([Metric("rows_total", "counter", "Rows.", (({"of": 'a "b"'}, 3),))]))
    # HELP rows_total Rows.
    # TYPE rows_total counter
    rows_total{of="a \\"b\\""} 3
    <BLANKLINE>
    """
    lines: list[str] = []
    for metric in metrics:
        if metric.samples:
            text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {metric.name} {text}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            named = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels.items())
            lines.append(f"{metric.name}{{{named}}} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


class Publisher(Protocol):
    """Where a text is put for others to read."""

    place: str

    def publish(self, text: str) -> None: ...

    def close(self) -> None: ...


def is_prometheus(place: str) -> bool:
    """Whether a place is for Prometheus: `FILE.prom`, `:PORT` or `HOST:PORT`.

    >>> [is_prometheus(place) for place in ("m.prom", ":9464", "0.0.0.0:9464", "m.jsonl", "c:m")]
    [True, True, True, False, False]
    """
    return place.endswith(".prom") or re.fullmatch(r"[^/\s]*:\d+", place) is not None


def publisher(place: str | int | os.PathLike[str]) -> Publisher:
    """The file or the endpoint that a place names, ready to be used; DataError if it cannot be."""
    if isinstance(place, int):
        return Endpoint(LOOPBACK, place)
    name = os.fspath(place)
    if not is_prometheus(name):
        raise DataError(
            f"metrics cannot go to {name}: give FILE.prom, a port of this machine as :PORT, or"
            " HOST:PORT"
        )
    if name.endswith(".prom"):
        return TextFile(Path(name))
    host, _, port = name.rpartition(":")
    return Endpoint(host or LOOPBACK, int(port))


class TextFile:
    """A file that is replaced as a whole, so that no reader sees half of it."""

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)
        self._beside = path.with_name(f".{path.name}.tmp")
        try:
            if path.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            self._beside.touch()
            self._beside.unlink()
        except OSError as error:
            raise DataError(f"cannot write metrics to {path}: {error.strerror or error}") from None

    def publish(self, text: str) -> None:
        with contextlib.suppress(OSError):  # answers matter more than numbers about them
            self._beside.write_text(text, encoding="utf-8")
            os.replace(self._beside, self.path)

    def close(self) -> None:
        return


class Endpoint:
    """`/metrics` over HTTP."""

    def __init__(self, host: str, port: int) -> None:
        endpoint = self
        self._text = b""

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # of a client that says nothing

            def do_GET(self) -> None:
                ours = self.path.partition("?")[0] in ("/", "/metrics")
                body = endpoint._text if ours else b"see /metrics\n"
                self.send_response(200 if ours else 404)
                self.send_header("Content-Type", TYPE if ours else "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        if not 0 <= port <= 65535:
            raise DataError(f"metrics cannot be served on port {port}: ports go from 0 to 65535")
        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise DataError(
                f"metrics cannot be served on {host}:{port}: {error.strerror or error};"
                " name another port"
            ) from None
        self._server.daemon_threads = True
        self.place = f"http://{host}:{self._server.server_address[1]}/metrics"
        threading.Thread(
            target=self._server.serve_forever, name="tidelog-metrics", daemon=True
        ).start()

    def publish(self, text: str) -> None:
        self._text = text.encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
