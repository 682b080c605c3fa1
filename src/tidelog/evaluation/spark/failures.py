"""What Spark's errors say, in words for users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from tidelog.errors import DataError


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors of Spark's in one sentence, and those of ours that its workers met."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError):
        raise DataError("Spark's process has ended before it had the answers") from None
    except PySparkException as error:
        told = clear(error)
        raise (
            told if isinstance(told, DataError) else DataError(f"Spark stopped: {summary(error)}")
        ) from None


def clear(error: BaseException) -> BaseException:
    """An error of our own from Spark's workers, or the name of a file that Spark could not read."""
    if isinstance(error, PySparkException):
        text = str(error)
        # A worker's traceback ends with the error; its other problems follow on lines of their own.
        ours = re.search(r"^tidelog\.[\w.]+: (.+(?:\n(?!\s|$).+)*)", text, re.MULTILINE)
        if ours:
            return DataError(*ours.group(1).splitlines())
        raised = re.search(
            r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", text, re.MULTILINE
        )
        if raised:
            return DataError(raised.group(1))
        file = re.search(r"file:(?://)?(/.+?\.(?:csv|parquet|jsonl|tdl))\b", text)
        if file and ("FAILED_READ_FILE" in text or "Could not read footer" in text):
            wrong = (
                "is not there any more; put it back"
                if "FILE_NOT_EXIST" in text
                else "cannot be read; repair it or take it away"
            )
            return DataError(f"{unquote(file.group(1))}: the file {wrong}, then go on")
    return error


def summary(error: BaseException) -> str:
    """The line of an error that says most: of a worker's traceback the last, else the first."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    trace = next((i for i, line in enumerate(lines) if line.startswith("Traceback")), None)
    if trace is None:
        return lines[0]
    return next(
        line for line in [*lines[trace + 1 :], lines[0]] if not line.startswith((" ", "\t"))
    )
