"""What Spark's errors say, in words for users."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.causes import Cause, cause_of
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
# The last line of an error that leaves a worker, before its code.
_NOTE = "See docs/refusals.md, "


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors of Spark's in one sentence, and those of ours that its workers met."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise as_data_error(error, "ask again") from None


@contextmanager
def without_traceback() -> Iterator[None]:
    """An error of the data leaves this worker as its sentence alone.

    The worker ends with the error, so that nothing else runs with this setting.
    """
    try:
        yield
    except DataError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        if error.code is not None:  # text is all that reaches the driver
            error.add_note(f"{_NOTE}{error.code.value}")
        raise


def as_data_error(error: BaseException, remedy: str = AGAIN) -> DataError:
    """An error of Spark's as one sentence."""
    told = clear(error, remedy)
    return told if isinstance(told, DataError) else _stopped(told)


def _stopped(error: BaseException) -> DataError:
    """An error that no sentence is known for, as Spark tells it."""
    return DataError(f"Spark stopped: {summary(error)}", code=cause_of(whole_text(error)))


def clear(error: BaseException, remedy: str = AGAIN) -> BaseException:
    """An error of Spark's as one sentence, where there is one that says more; else as it is."""
    if not isinstance(error, SPARK_ERRORS):
        return error
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return DataError(f"Spark's process has ended: {remedy}", code=Cause.PROCESS_LOST)
    try:
        text = whole_text(error)
    except SPARK_ERRORS:
        return DataError(f"Spark's process has ended: {remedy}", code=Cause.PROCESS_LOST)
    # A worker's traceback ends with the error; its other problems follow on lines of their own.
    ours = re.search(r"^tidelog\.[\w.]+: (.+(?:\n(?!\s|$).+)*)", text, re.MULTILINE)
    if ours:
        return _sent(ours.group(1).splitlines())
    raised = re.search(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", text, re.MULTILINE)
    if raised:
        return DataError(raised.group(1))
    for sentence in (_of_column, _of_file, _of_kafka):
        if told := sentence(text):
            return told
    if _FULL in text:
        return DataError(f"{_FULL}: make room, then {remedy}", code=Cause.DISK_FULL)
    for sign, lost in _LOST.items():
        if sign in text:
            return DataError(f"{lost}: {remedy}", code=Cause.PROCESS_LOST)
    if isinstance(error, PySparkException):
        return error
    return _stopped(error)


def _sent(lines: list[str]) -> DataError:
    """An error that left a worker as text: its problems, and its code if it has one."""
    last = lines[-1]
    if last.startswith(_NOTE):
        return DataError(*lines[:-1], code=Cause(last.removeprefix(_NOTE)))
    return DataError(*lines)


def _of_column(text: str) -> DataError | None:
    """What Spark says of a file whose column has another type than its schema, in one sentence."""
    found = _MISMATCH.search(text)
    if found is None:
        return None
    address, column, wanted, actual = found.groups()
    path = re.sub(r"\Afile:(//)?(?=/)", "", unquote(address))
    return DataError(
        f"{path}: column `{column}` is {actual} in the file, and the schema says {wanted}: read the"
        " file with its own type, or write it anew",
        code=Cause.FILE_UNREADABLE,
    )


def _of_file(text: str) -> DataError | None:
    """What is to be done about a file that Spark cannot read, in one sentence."""
    file = re.search(r"file:(?://)?(/.{1,4096}?\.(?:csv|parquet|jsonl|tdl))\b", text)
    if file is None or not ("FAILED_READ_FILE" in text or "Could not read footer" in text):
        return None
    path = unquote(file.group(1))
    if "FILE_NOT_EXIST" in text:
        return DataError(
            f"{path}: the file is not there any more; put it back, then go on", code=Cause.FILE_GONE
        )
    return DataError(
        f"{path}: the file cannot be read; repair it, then go on", code=Cause.FILE_UNREADABLE
    )


def _of_kafka(text: str) -> DataError | None:
    """What Spark's connector says when messages or brokers are gone, in one sentence."""
    if "Some data may have been lost" in text or "KAFKA_DATA_LOSS" in text:
        place = re.search(r"topic.?partition (\S+)-(\d+)", text) or re.search(
            r"\b([\w.-]{1,249})-(\d+)\b.{0,40}gone", text
        )
        offset = re.search(r"offset \[?(\d+)", text)
        where = f"topic `{place[1]}`, partition {place[2]}" if place else "Kafka"
        since = f"messages from offset {offset[1]} on" if offset else "messages"
        return DataError(
            f"{where}: {since} were deleted there before they were read, by retention or by"
            " somebody: start with a new checkpoint, or go on without them with --kafka-option"
            " failOnDataLoss=false",
            code=Cause.MESSAGES_GONE,
        )
    if "org.apache.kafka.common.errors" in text and "TimeoutException" in text:
        return DataError(
            f"Kafka does not answer any more: see that it runs, then {AGAIN}", code=Cause.KAFKA_AWAY
        )
    return None


def wait_for_interruption(spark: SparkSession) -> None:
    """Wait, in the thread that runs a query, until a stop of the query ends it with an error."""
    assert spark._jvm is not None
    spark._jvm.java.lang.Thread.sleep(_LONG)


def is_interruption(error: BaseException) -> bool:
    """Whether Spark broke off what it did, as a stop of its query makes it do, and no more."""
    while error.__cause__ or error.__context__:  # a call of ours or of a user's may hide it
        if isinstance(error, SPARK_ERRORS):
            break
        error = error.__cause__ or error.__context__ or error
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return False
    try:
        return _INTERRUPTED.search(whole_text(error)) is not None
    except SPARK_ERRORS:
        return False


# Milliseconds; a stop comes long before.
_LONG = 3_600_000
# What Java says where a thread that runs a query is interrupted, or its jobs are cancelled.
_INTERRUPTED = re.compile(
    r"\b(InterruptedException|InterruptedIOException|ClosedByInterruptException)\b"
    r"|Job \d+ cancelled (?!because SparkContext)"
)
# What Spark says of a Parquet file whose column has another type than the DataFrame.
_MISMATCH = re.compile(
    r"FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\].*?reading file (.{1,4096}?)\. Data"
    r" type mismatch\w* when reading Parquet column \[(.*?)\]\. Expected Spark type (.*?), actual"
    r" Parquet type (.*?)\. SQLSTATE"
)
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
