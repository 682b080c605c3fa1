"""A server on loopback that speaks S3: moto, from an environment of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from pyspark.sql import SparkSession

from support.kafka import end_with_us, free_ports
from support.places import ROOT

# `make test-connectors` builds it, from requirements-connectors.txt.
PYTHON = Path(os.environ.get("TIDELOG_S3_PYTHON") or ROOT / "build/connectors-venv/bin/python")
USER, SECRET = "a-user", "xyzzy-2207"


class Server:
    """Buckets in the memory of a process."""

    def __init__(self, log: Path) -> None:
        (self.port,) = free_ports(1)
        self.address = f"http://127.0.0.1:{self.port}"
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                stdout=file,
                stderr=file,
                preexec_fn=end_with_us,
            )
        end = time.monotonic() + 120
        while socket.socket().connect_ex(("127.0.0.1", self.port)):
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.1)

    def make(self, bucket: str) -> None:
        self._ask("PUT", bucket, b"")

    def put(self, path: str, data: bytes | str) -> None:
        self._ask("PUT", path, data.encode() if isinstance(data, str) else data)

    def get(self, path: str) -> bytes:
        return self._ask("GET", path)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys in a bucket that begin so."""
        import xml.etree.ElementTree as xml

        listed = xml.fromstring(self._ask("GET", f"{bucket}?list-type=2&prefix={prefix}"))
        space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        return [str(one.findtext(f"{space}Key")) for one in listed.iter(f"{space}Contents")]

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        # Nobody looks at signatures, but there has to be a name.
        scope = f"Credential={USER}/20260101/us-east-1/s3/aws4_request"
        signed = {"Authorization": f"AWS4-HMAC-SHA256 {scope}", "Content-Type": "text/plain"}
        request = Request(f"{self.address}/{path}", data=data, method=method, headers=signed)
        with urlopen(request, timeout=20) as answer:
            return bytes(answer.read())

    def settings(self) -> dict[str, str]:
        """What Hadoop has to know of it."""
        return {
            "fs.s3a.endpoint": self.address,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": USER,
            "fs.s3a.secret.key": SECRET,
        }

    def tell(self, spark: SparkSession) -> None:
        conf: Any = spark._jsc.hadoopConfiguration()
        for name, value in self.settings().items():
            conf.set(name, value)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def missing() -> str | None:
    """Why there is no server, in one sentence."""
    if PYTHON.exists():
        return None
    return f"no server that speaks S3 in {PYTHON.parent.parent}: make test-connectors installs it"
