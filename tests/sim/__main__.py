"""Runs histories: SIM_HISTORIES or SIM_MINUTES of them, or the one of a seed that is named."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from multiprocessing import Pool

from sim.history import History, Violation

AT_A_TIME = 200  # histories of one task
PROCESSES = 2


def failures(first: int) -> list[tuple[int, str]]:
    """The seeds of a task that fail, with what does not hold."""
    failed: list[tuple[int, str]] = []
    gc.disable()
    for seed in range(first, first + AT_A_TIME):
        try:
            History(seed).run()
        except Violation as error:
            failed.append((seed, str(error)))
        except Exception as error:
            failed.append((seed, f"{type(error).__name__}: {error}"))
    gc.enable()
    gc.collect()
    return failed


def show(seed: int) -> int:
    """One history with all of its calls."""
    history = History(seed, trace=True)
    print(history.setting)
    try:
        history.run()
    except Exception:
        print("\n".join(history.box.trace or ()))
        traceback.print_exc()
        return 1
    print("\n".join(history.box.trace or ()), "\nno violation")
    return 0


def main() -> int:
    if len(sys.argv) > 1:
        return show(int(sys.argv[1]))
    minutes = float(os.environ.get("SIM_MINUTES", "0"))
    histories = int(os.environ.get("SIM_HISTORIES", "0" if minutes else "100000"))
    first = int(os.environ.get("SIM_FIRST", "0"))
    begin = time.monotonic()
    end = begin + minutes * 60 if minutes else float("inf")
    done, failed = 0, 0
    with Pool(PROCESSES) as pool:
        while time.monotonic() < end and (minutes or done < histories):
            tasks = [first + done + i * AT_A_TIME for i in range(4 * PROCESSES)]
            for some in pool.imap(failures, tasks):
                done += AT_A_TIME
                failed += len(some)
                for seed, text in some:
                    print(f"seed {seed}: {text}\n  alone: PYTHONPATH=tests python -m sim {seed}")
            sys.stdout.flush()
    seconds = time.monotonic() - begin
    print(f"{done} histories, {failed} violations, {done / seconds:.0f} a second")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
