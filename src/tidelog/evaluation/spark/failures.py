"""What Spark's errors say, in words for users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tidelog.errors import DataError

# What talking to Spark may raise; all but Spark's own and Java's mean that its process is gone.
SPARK_ERRORS = (
    PySparkException,
    Py4JError,
    ConnectionResetError,
    ConnectionRefusedError,
    ConnectionAbortedError,
    EOFError,
)
# What to do about a stream whose processes were lost.
AGAIN = "start again with the same checkpoint, and what is committed is kept"


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors of Spark's in one sentence, and those of ours that its workers met."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise as_data_error(error, "ask again") from None


def as_data_error(error: BaseException, remedy: str = AGAIN) -> DataError:
    """An error of Spark's as one sentence."""
    told = clear(error, remedy)
    return told if isinstance(told, DataError) else DataError(f"Spark stopped: {summary(told)}")


def clear(error: BaseException, remedy: str = AGAIN) -> BaseException:
    """An error of Spark's as one sentence, where there is one that says more; else as it is."""
    if not isinstance(error, SPARK_ERRORS):
        return error
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return DataError(f"Spark's process has ended: {remedy}")
    try:
        text = whole_text(error)
    except SPARK_ERRORS:
        return DataError(f"Spark's process has ended: {remedy}")
    # A worker's traceback ends with the error; its other problems follow on lines of their own.
    ours = re.search(r"^tidelog\.[\w.]+: (.+(?:\n(?!\s|$).+)*)", text, re.MULTILINE)
    if ours:
        return DataError(*ours.group(1).splitlines())
    raised = re.search(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", text, re.MULTILINE)
    if raised:
        return DataError(raised.group(1))
    file = re.search(r"file:(?://)?(/.+?\.(?:csv|parquet|jsonl|tdl))\b", text)
    if file and ("FAILED_READ_FILE" in text or "Could not read footer" in text):
        wrong = (
            "is not there any more; put it back"
            if "FILE_NOT_EXIST" in text
            else "cannot be read; repair it"
        )
        return DataError(f"{unquote(file.group(1))}: the file {wrong}, then go on")
    if kafka := _of_kafka(text):
        return DataError(kafka)
    if _FULL in text:
        return DataError(f"{_FULL}: make room, then {remedy}")
    for sign, lost in _LOST.items():
        if sign in text:
            return DataError(f"{lost}: {remedy}")
    if isinstance(error, PySparkException):
        return error
    return DataError(f"Spark stopped: {summary(error)}")


def _of_kafka(text: str) -> str | None:
    """What Spark's connector says when messages or brokers are gone, in one sentence."""
    if "Some data may have been lost" in text or "KAFKA_DATA_LOSS" in text:
        place = re.search(r"topic.?partition (\S+)-(\d+)", text) or re.search(
            r"\b([\w.-]+)-(\d+)\b.{0,40}gone", text
        )
        offset = re.search(r"offset \[?(\d+)", text)
        where = f"topic `{place[1]}`, partition {place[2]}" if place else "Kafka"
        since = f"messages from offset {offset[1]} on" if offset else "messages"
        return (
            f"{where}: {since} were deleted there before they were read, by retention or by"
            " somebody: start with a new checkpoint, or go on without them with --kafka-option"
            " failOnDataLoss=false"
        )
    if "org.apache.kafka.common.errors" in text and "TimeoutException" in text:
        return f"Kafka does not answer any more: see that it runs, then {AGAIN}"
    return None


# What the system says of a full disk.
_FULL = "No space left on device"
# What Spark says when it has lost a process of its own.
_LOST = {
    "Python worker exited unexpectedly": "a Python worker of Spark has ended, killed or for want of"
    " memory",
    "Python worker failed to connect back": "a Python worker of Spark did not start",
    "pyspark.daemon's": "a Python worker of Spark did not start",
    "ExecutorLostFailure": "Spark has lost its executors",
    "Cannot call methods on a stopped SparkContext": "Spark was stopped",
    "Java heap space": "Spark's process has too little memory",
}


def whole_text(error: BaseException) -> str:
    """All that is said of an error, with its causes in Java, which is asked for it."""
    return f"{error}\n\n{getattr(error, '_stackTrace', '')}"


def summary(error: BaseException) -> str:
    """The line of an error that says most: of a worker's traceback the last, else the first."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    trace = next((i for i, line in enumerate(lines) if line.startswith("Traceback")), None)
    if trace is None:
        java = next((line for line in lines if _JAVA.match(line)), lines[0])
        said = without_class(java)
        causes = re.findall(r"^Caused by: [\w.$]+: (.+)$", whole_text(error), re.MULTILINE)
        return causes[-1] if causes and said in _NOTHING else said
    return next(
        line for line in [*lines[trace + 1 :], lines[0]] if not line.startswith((" ", "\t"))
    )


def without_class(text: str) -> str:
    """What Java says of an error, without the name of its class, nor the query that it ended.

    >>> without_class("java.io.IOException: No space left on device")
    'No space left on device'
    >>> without_class(
    ...     "[STREAM_FAILED] Query [id = 1-a, runId = 2-b] terminated with exception:"
    ...     " java.io.IOException: Input/output error SQLSTATE: XXKST"
    ... )
    'Input/output error'
    """
    ended = _ENDED.match(text)
    return _JAVA.sub("", ended[1] if ended else text).strip()


# What Java says of an error when only its cause says more.
_NOTHING = ("", "Exception thrown in awaitResult:")
# How Spark tells that an error has ended a stream.
_ENDED = re.compile(
    r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: (.*?)(?: SQLSTATE: \w+)?$"
)
# The beginning of a line that names an exception of Java's.
_JAVA = re.compile(r"\A:? ?(?:[a-z]\w*\.)+\w*(?:Exception|Error): ")
