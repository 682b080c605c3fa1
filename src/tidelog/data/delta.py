"""Delta tables: what is in one, what a version of it added, and how a batch is added once.

Tables are read and written by the Python package deltalake, in this process; what a version added
is in the table's log, which is JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tidelog.data.secrets import without_secrets
from tidelog.errors import DataError, first_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

SCHEME = "delta:"
LOG = "_delta_log"
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


def append(address: str, rows: pa.Table, writer: str, number: int) -> None:
    """Add rows as the transaction `number` of a writer, unless it was done before."""
    deltalake = _package()
    table = opened(address)
    done = None if table is None else table.transaction_version(writer)
    if done is not None and done >= number:
        return
    once = deltalake.CommitProperties(app_transactions=[deltalake.Transaction(writer, number)])
    try:
        deltalake.write_deltalake(
            address if table is None else table, rows, mode="append", commit_properties=once
        )
    except (deltalake.exceptions.DeltaError, pa.ArrowException, ValueError, OSError) as error:
        where = f"{SCHEME}{without_secrets(address)}"
        raise DataError(f"{where} cannot be written: {first_line(error)}") from None


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
                        raise DataError(f"{where} deletes rows, and a stream takes added ones only")
                    added.append(root / unquote(action["path"]))
                case "remove" if action.get("dataChange", True):
                    raise DataError(f"{where} removes rows, and a stream takes added ones only")
                case "protocol":
                    beyond = _BEYOND_FILES.intersection(action.get("readerFeatures") or ())
                    if beyond or action.get("minReaderVersion") == 2:
                        names = ", ".join(sorted(beyond)) or "columnMapping"
                        raise DataError(f"{where} uses {names}, which a stream cannot read")
                case "metaData" if action.get("partitionColumns"):
                    names = ", ".join(action["partitionColumns"])
                    raise DataError(
                        f"{where} is partitioned by {names}, which a stream cannot read: its files"
                        " lack these columns"
                    )
                case _:  # of no concern to who reads added rows
                    continue
    return added


def added(root: Path) -> list[Path]:
    """The files that were added to a table so far."""
    entries = sorted((root / LOG).glob("*.json"))
    return [file for entry in entries for file in added_by(entry)]


def check_log(root: Path) -> None:
    """DataError when a table cannot be followed from its first version on."""
    where = f"{SCHEME}{root}"
    if not (root / LOG).is_dir():
        raise DataError(f"{where}: no Delta table is there")
    first = min((root / LOG).glob("*.json"), default=None)
    if first is None or int(first.stem):
        raise DataError(
            f"{where}: the first versions are gone from its log (delta.logRetentionDuration), and a"
            " stream reads a table from the first one on"
        )
