"""The end of the suite's own session of Spark fails no test."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from support.stopping import stop


def test_a_jvm_that_is_gone_turns_nothing_red() -> None:
    def gone() -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(137)"]) as process:
        context = SimpleNamespace(_gateway=SimpleNamespace(proc=process))
        with pytest.warns(UserWarning, match="ended before the tests, with status 137: Answer"):
            stop(SimpleNamespace(sparkContext=context, stop=gone))
