"""Write the streams that tests go on with, by the version of tidelog that Python imports.

    PYTHONPATH=OTHER/src:tests python tests/earlier/write.py tests/earlier/VERSION

A stream is a small archive: what the version left in its folder, and the answers it had told.
"""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from support import earlier
from support.earlier import ANSWERS, Answers, Earlier

# Files know where they were written; the tests put their own place there.
PLACE = Path(tempfile.gettempdir()) / "tidelog-earlier"


def packed(folder: Path) -> bytes:
    """A folder as an archive that says nothing of who made it, or when."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != "lock":
                entry = tarfile.TarInfo(str(path.relative_to(folder)))
                content = path.read_bytes()
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def write(case: Earlier, begin: Callable[[Earlier, Path], Answers], target: Path) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    earlier.write_answers(PLACE / ANSWERS, begin(case, PLACE))
    shutil.rmtree(PLACE / "facts", ignore_errors=True)
    (target / f"{case.name}.tar.gz").write_bytes(packed(PLACE))
    shutil.rmtree(PLACE)


def main(target: Path) -> None:
    from tidelog.spark import session

    target.mkdir(parents=True, exist_ok=True)
    for case in earlier.IN_PROCESS:
        write(case, earlier.begin_in_process, target)
    for case in earlier.BY_COMMAND:
        write(case, earlier.begin_by_command, target)
    spark = session("local[2]")
    for case in earlier.ON_SPARK:
        write(case, lambda case, folder: earlier.begin_on_spark(spark, case, folder), target)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
