"""Causes that stop a stream, and the exit codes that follow from them.

docs/refusals.md has a section for each cause, under its code. A message that the command line shows
ends with the code.
"""

from __future__ import annotations

import errno
import re
from enum import Enum, IntEnum


class Exit(IntEnum):
    """Exit codes of all commands; docs/refusals.md has the same table."""

    DONE = 0  # answered, or stopped as asked
    FAULT = 1  # rules, data, checkpoint, sink or source: somebody must act
    USAGE = 2  # an option or a path is wrong: somebody must act
    RETRY = 75  # EX_TEMPFAIL of sysexits.h: start again with the same command


class Cause(Enum):
    """Causes of a stop, by the code that people look up.

    A new one needs a section in docs/refusals.md and a test that quotes its sentence.
    """

    # The checkpoint
    IN_USE = "R01"
    SPARK_RUNS = "R02"
    OTHER_STREAM = "R03"
    NO_CHECKPOINT = "R04"
    WRONG_STORE = "R05"
    OTHER_FORMAT = "R06"
    DAMAGED = "R07"
    LOGS_DISAGREE = "R08"
    TORN = "R09"
    OVERTAKEN = "R10"
    CLOSED = "R11"
    NO_COMMIT = "R12"
    UNBALANCED = "R13"
    # The sink
    SINK_TAKEN = "R20"
    SINK_LOST = "R21"
    SINK_AHEAD = "R22"
    SINK_SHARED = "R23"
    NO_RESUME = "R24"
    # The source
    FILE_GONE = "R30"
    FILE_UNREADABLE = "R31"
    MESSAGES_GONE = "R33"
    HISTORY_GAP = "R34"
    COMPACTED = "R35"
    TABLE_UNFIT = "R36"
    OTHER_KAFKA = "R37"
    NO_ROW_USABLE = "R38"
    MEMORY = "R39"
    # Outages
    PROCESS_LOST = "R50"
    DISK_FULL = "R51"
    KAFKA_AWAY = "R52"
    STORE_AWAY = "R53"

    @property
    def exit(self) -> Exit:
        """The exit code of a command that this cause stops."""
        return Exit.RETRY if self in _PASSING else Exit.FAULT


# Causes that another process or time removes.
_PASSING = {
    Cause.IN_USE,
    Cause.SPARK_RUNS,
    Cause.UNBALANCED,
    Cause.PROCESS_LOST,
    Cause.DISK_FULL,
    Cause.KAFKA_AWAY,
    Cause.STORE_AWAY,
}

_FULL = {errno.ENOSPC, errno.EDQUOT}
_AWAY = {
    errno.EIO,
    errno.EAGAIN,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    getattr(errno, "ESTALE", errno.EIO),
}
_FULL_TEXT = re.compile(r"No space left on device|Disk quota exceeded|not enough space on the disk")
_AWAY_TEXT = re.compile(
    r"\b(ConnectException|ConnectTimeoutException|SocketTimeoutException|SocketException"
    r"|UnknownHostException|NoRouteToHostException|NoHttpResponseException"
    r"|StandbyException|SafeModeException|AWSClientIOException|AWSServiceThrottledException"
    r"|AWSStatus5\d\dException)\b"
    r"|Input/output error|Stale (NFS )?file handle|Connection (refused|reset|timed out)"
    r"|Unable to execute HTTP request|Service Unavailable|Slow Down|unresponsive"
)


def cause_of(error: OSError | str) -> Cause | None:
    """The outage that the operating system or Java tells of; None if it may not pass.

    >>> cause_of("java.net.ConnectException: Connection refused"), cause_of("Permission denied")
    (<Cause.STORE_AWAY: 'R53'>, None)
    """
    if isinstance(error, OSError) and error.errno is not None:
        is_full, is_away = error.errno in _FULL, error.errno in _AWAY
    else:
        is_full = _FULL_TEXT.search(str(error)) is not None
        is_away = _AWAY_TEXT.search(str(error)) is not None
    return Cause.DISK_FULL if is_full else Cause.STORE_AWAY if is_away else None
