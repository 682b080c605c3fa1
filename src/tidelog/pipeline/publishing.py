"""Numbers in Prometheus' text format, in a file for its textfile collector or on a port."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, make_server

from tidelog.errors import DataError

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Metric:
    """A number, or one for each set of labels."""

    name: str
    kind: str  # counter or gauge
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


class _Collected:
    """The numbers that were published last, as Prometheus' client library takes them."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        self.metrics = tuple(metrics)

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import Metric as Family

        for metric in self.metrics:
            family = Family(metric.name.removesuffix("_total"), metric.help, metric.kind)
            for labels, value in metric.samples:
                family.add_sample(metric.name, dict(labels), value)
            if family.samples:
                yield family


def exposition(metrics: Iterable[Metric]) -> str:
    """The text that Prometheus reads.

    >>> print(exposition([Metric("rows_total", "counter", "Rows.", (({"of": 'a "b"'}, 3),))]))
    # HELP rows_total Rows.
    # TYPE rows_total counter
    rows_total{of="a \\"b\\""} 3.0
    <BLANKLINE>
    """
    from prometheus_client import generate_latest

    return generate_latest(_Collected(metrics)).decode()


class Publisher(Protocol):
    """Where numbers are put for others to read."""

    place: str

    def publish(self, metrics: Sequence[Metric]) -> None: ...

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

    def publish(self, metrics: Sequence[Metric]) -> None:
        with contextlib.suppress(OSError):  # answers matter more than numbers about them
            self._beside.write_text(exposition(metrics), encoding="utf-8")
            os.replace(self._beside, self.path)

    def close(self) -> None:
        return


class Endpoint:
    """`/metrics` over HTTP, served by Prometheus' client library."""

    def __init__(self, host: str, port: int) -> None:
        from prometheus_client import CollectorRegistry, make_wsgi_app
        from prometheus_client.exposition import ThreadingWSGIServer

        if not 0 <= port <= 65535:
            raise DataError(f"metrics cannot be served on port {port}: ports go from 0 to 65535")
        self._collected, registry = _Collected(), CollectorRegistry()
        registry.register(self._collected)
        serve = make_wsgi_app(registry)

        def app(environ: dict[str, Any], start_response: Any) -> Any:
            if environ["PATH_INFO"] in ("/", "/metrics"):
                return serve(environ, start_response)
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"see /metrics\n"]

        try:
            self._server = make_server(host, port, app, ThreadingWSGIServer, _Handler)
        except OSError as error:
            raise DataError(
                f"metrics cannot be served on {host}:{port}: {error.strerror or error};"
                " name another port"
            ) from None
        self.place = f"http://{host}:{self._server.server_port}/metrics"
        threading.Thread(
            target=self._server.serve_forever, name="tidelog-metrics", daemon=True
        ).start()

    def publish(self, metrics: Sequence[Metric]) -> None:
        self._collected.metrics = tuple(metrics)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(WSGIRequestHandler):
    timeout = 10  # of a client that says nothing

    def log_message(self, format: str, *args: object) -> None:
        return
