"""`tidelog` as users run it: `chaos_run.py here|there WORD ...`.

`there` has every batch done in the partitions, however small it is. A signal tells where it is, and
what Spark says at length goes to the file that CHAOS_AT_LENGTH names.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

from tidelog.cli import main
from tidelog.evaluation.spark import failures
from tidelog.pipeline import loop


def summary_kept(error: BaseException) -> str:
    """As `summary`, with the whole of it kept for whoever looks into it."""
    with open(os.environ["CHAOS_AT_LENGTH"], "a", encoding="utf-8") as file:
        file.write(f"{error!r}\n{failures.whole_text(error)}\n\n")
    return summary(error)


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if sys.argv.pop(1) == "there":
        loop.LITTLE = -1
    if "CHAOS_AT_LENGTH" in os.environ:
        summary, failures.summary = failures.summary, summary_kept
    main()
