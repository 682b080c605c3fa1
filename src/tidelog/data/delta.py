"""Delta tables: what is in one, what a version of it added, and how a batch is added once.

Tables are read and written by the Python package deltalake, in this process; what a version added
is in the table's log, which is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tidelog.causes import Cause, cause_of
from tidelog.data.durable import HERE
from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError, Refused, first_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

SCHEME = "delta:"
LOG = "_delta_log"
# What an entry of the log says of the batch that it adds.
_STREAM, _BATCH, _LINEAGE = "tidelog.stream", "tidelog.batch", "tidelog.lineage"
# Parts of the protocol that change what is in a table beside the rows of its files.
_BEYOND_FILES = {"deletionVectors", "columnMapping"}


def _package() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise DataError(
            f"Delta tables need the package deltalake ({error.name} is missing):"
            " pip install 'tidelog[delta]' brings it"
        ) from None
    return deltalake


def opened(address: str) -> DeltaTable | None:
    """The table at an address, as it is now; None where there is none."""
    deltalake = _package()
    try:
        table: DeltaTable = deltalake.DeltaTable(address)
    except deltalake.exceptions.TableNotFoundError:
        return None
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise DataError(f"{SCHEME}{without_secrets(address)}: {first_line(error)}") from None
    return table


def rows_of(address: str) -> pa.Table:
    """All rows of a table; DataError when there is none, or it needs more than can be read."""
    table = opened(address)
    where = f"{SCHEME}{without_secrets(address)}"
    if table is None:
        raise DataError(f"{where}: no Delta table is there")
    try:
        return table.to_pyarrow_table()
    except (_package().exceptions.DeltaError, NotImplementedError, OSError) as error:
        raise DataError(f"{where}: {first_line(error)}") from None


@dataclass(frozen=True)
class TableBatch:
    """A batch of a stream in a Delta table."""

    number: int
    lineage: str
    version: int = -1  # of the table, once it is there


def append(
    address: str, rows: pa.Table, stream: str, batch: TableBatch, last: int | None
) -> TableBatch:
    """Add the rows of a batch in one transaction, and wait until they are on the disk.

    Refused if a batch of this stream was added after the last one that is known.
    """
    deltalake = _package()
    table = opened(address)
    if (None if table is None else table.transaction_version(_writer(stream))) != last:
        raise Refused(
            f"{without_secrets(address)}: another process has added batches of this stream: one at"
            " a time may do so",
            code=Cause.SINK_SHARED,
        )
    properties = deltalake.CommitProperties(
        app_transactions=[deltalake.Transaction(_writer(stream), batch.number)],
        custom_metadata={
            _STREAM: stream,
            _BATCH: str(batch.number),
            _LINEAGE: batch.lineage,
        },
    )
    try:
        deltalake.write_deltalake(
            address if table is None else table, rows, mode="append", commit_properties=properties
        )
        done = next(one for one in batches(address, stream) if one.lineage == batch.lineage)
        if "://" not in address:
            _sync_version(Path(address), done.version)
    except (deltalake.exceptions.DeltaError, pa.ArrowException, ValueError, OSError) as error:
        where = f"{SCHEME}{without_secrets(address)}"
        code = cause_of(str(error))
        raise DataError(f"{where} cannot be written: {first_line(error)}", code=code) from None
    return done


def last_batch(address: str, stream: str) -> int | None:
    """The number of the batch that a stream was the last to add, also if it was taken out again."""
    table = opened(address)
    return None if table is None else table.transaction_version(_writer(stream))


def batches(address: str, stream: str, after: int = -1) -> Iterator[TableBatch]:
    """The batches of a stream that a table holds, the last first, after a version of the table.

    What was taken out by going back to an older version is left out. Refused if the log no longer
    says what happened since then, or if the version itself was taken out.
    """
    table = opened(address)
    if table is None:
        return
    version, where = table.version(), f"{SCHEME}{without_secrets(address)}"
    entries: dict[int, dict[str, Any]] = {}
    while version > after:
        if version not in entries:  # a few at a time: most often it is the last one
            wanted = max(2 * len(entries), 16)
            entries = {entry["version"]: entry for entry in table.history(wanted)}
            if version not in entries:
                if wanted > table.version():
                    raise Refused(
                        f"{where}: its log no longer says what became of version {version}, and the"
                        " last commit knows less: start with a new checkpoint and a new table",
                        code=Cause.SINK_LOST,
                    )
                continue
        entry = entries[version]
        if entry.get("operation") == "RESTORE":
            version = int(entry["operationParameters"]["version"])
            if version < after:
                raise Refused(
                    f"{where} was taken back to version {version}, and the last commit needs"
                    f" version {after}: take it back to that one, or go back to a copy of the"
                    " checkpoint, too",
                    code=Cause.SINK_LOST,
                )
            continue
        if entry.get(_STREAM) == stream:
            yield TableBatch(int(entry[_BATCH]), str(entry[_LINEAGE]), version)
        version -= 1


def files_of(root: Path, version: int) -> list[Path]:
    """The files that a version has added to a table on this machine."""
    entry = root / LOG / f"{version:020}.json"
    return [
        root / unquote(action["path"])
        for line in entry.read_text(encoding="utf-8").splitlines()
        for kind, action in json.loads(line).items()
        if kind == "add"
    ]


def _sync_version(root: Path, version: int) -> None:
    """Wait until what a version of a table added is on this machine's disk."""
    files = [*files_of(root, version), root / LOG / f"{version:020}.json"]
    for file in files:
        HERE.sync_file(str(file))
    for folder in {*(file.parent for file in files), root, root.parent}:
        HERE.sync_folder(str(folder))


def _writer(stream: str) -> str:
    """What a stream is called in the transactions of a table."""
    return f"tidelog-{stream}"


def added_by(entry: Path) -> list[Path]:
    """The files that a version added to a table, by its entry in the log.

    DataError when it did more than add rows, which a stream cannot follow.
    """
    root, version = entry.parent.parent, int(entry.stem)
    where = f"{SCHEME}{root}: version {version}"
    added: list[Path] = []
    for line in entry.read_text(encoding="utf-8").splitlines():
        for kind, action in json.loads(line).items():
            match kind:
                case "add" if action.get("dataChange", True):
                    if action.get("deletionVector"):
                        raise DataError(
                            f"{where} deletes rows, and a stream takes added ones only",
                            code=Cause.TABLE_UNFIT,
                        )
                    added.append(root / unquote(action["path"]))
                case "remove" if action.get("dataChange", True):
                    raise DataError(
                        f"{where} removes rows, and a stream takes added ones only",
                        code=Cause.TABLE_UNFIT,
                    )
                case "protocol":
                    beyond = _BEYOND_FILES.intersection(action.get("readerFeatures") or ())
                    if beyond or action.get("minReaderVersion") == 2:
                        names = ", ".join(sorted(beyond)) or "columnMapping"
                        raise DataError(
                            f"{where} uses {names}, which a stream cannot read",
                            code=Cause.TABLE_UNFIT,
                        )
                case "metaData" if action.get("partitionColumns"):
                    names = ", ".join(action["partitionColumns"])
                    raise DataError(
                        f"{where} is partitioned by {names}, which a stream cannot read: its files"
                        " lack these columns",
                        code=Cause.TABLE_UNFIT,
                    )
                case _:  # of no concern to who reads added rows
                    continue
    return added


def added(root: Path) -> list[Path]:
    """The files that were added to a table so far."""
    entries = sorted((root / LOG).glob("*.json"))
    return [file for entry in entries for file in added_by(entry)]


def expect_table(root: Path) -> None:
    """DataError when there is no table on this machine."""
    if not (root / LOG).is_dir():
        raise DataError(f"{SCHEME}{root}: no Delta table is there")


def check_log(root: Path, read: Collection[int] = ()) -> None:
    """DataError when a table cannot be followed from the versions on that a stream has read."""
    expect_table(root)
    where = f"{SCHEME}{root}"
    there = {int(entry.stem) for entry in (root / LOG).glob("*.json") if entry.stem.isdecimal()}
    last = max(there, default=-1)
    if last < max(read, default=-1):
        raise DataError(
            f"{where}: version {max(read)} was read, and its log ends with version {last}: this is"
            " another table, or an older copy of it; bring the one back that was read",
            code=Cause.TABLE_UNFIT,
        )
    gone = sorted(set(range(last + 1)).difference(there, read))
    if not (gone or not there):
        return
    if not read:
        raise DataError(
            f"{where}: the first versions are gone from its log (delta.logRetentionDuration), and a"
            " stream reads a table from the first one on",
            code=Cause.TABLE_UNFIT,
        )
    raise DataError(
        f"{where}: version {gone[0]} is gone from its log (delta.logRetentionDuration) and was not"
        " read: bring it back from a copy of the table, or start with a new checkpoint",
        code=Cause.TABLE_UNFIT,
    )
