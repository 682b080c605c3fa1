"""`tidelog` as users run it: `chaos_run.py here|there WORD ...`.

`there` has every batch done in the partitions, however small it is. A signal tells where it is.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

from tidelog.cli import main
from tidelog.pipeline import loop

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if sys.argv.pop(1) == "there":
        loop.LITTLE = -1
    main()
