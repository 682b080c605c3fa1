"""`tidelog` as users run it: `chaos_run.py here|there WORD ...`.

`there` has every batch done in the partitions, however small it is. A signal tells where it is, and
what Spark says at length goes to the file that CHAOS_AT_LENGTH names.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys


def run(there: bool) -> None:
    from tidelog.cli import main
    from tidelog.evaluation.spark import failures
    from tidelog.pipeline import sites

    summary = failures.summary

    def summary_kept(error: BaseException) -> str:
        with open(os.environ["CHAOS_AT_LENGTH"], "a", encoding="utf-8") as file:
            file.write(f"{error!r}\n{failures.whole_text(error)}\n\n")
        return summary(error)

    failures.summary = summary_kept
    if there:
        sites.LITTLE = -1
    # The command itself imports none of this before it can be interrupted in good order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    run(sys.argv.pop(1) == "there")
