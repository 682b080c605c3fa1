"""The command as a process that is killed with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

TIDELOG = [sys.executable, "-c", "from tidelog.cli import cli; cli()"]


def killed(
    command: list[str],
    seconds: float,
    until: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> float:
    """Run a command and kill it with all it has started after so long, or once a file is there.

    The seconds that it lived.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
    )
    if until is not None:
        while not until.exists() and time.monotonic() < began + seconds:
            time.sleep(0.05)
        assert until.exists()
        seconds = 0.01
    try:
        said, _ = process.communicate(timeout=seconds)
        assert process.returncode == 0, said.decode()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return time.monotonic() - began
