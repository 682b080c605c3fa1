"""Streams on Spark under every kind of accident: nothing lost, nothing doubled, no traceback.

`make test-chaos` runs this for CHAOS_MINUTES (10 by default), with other dice every time unless
CHAOS_SEED says which. CHAOS_KIND="disk full" has accidents of that kind only, and goes on until
there was one. It tells how many accidents of each kind were survived.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.chaos import PATIENCE, Broken, Tally, World, below, command_of

MINUTES = float(os.environ.get("CHAOS_MINUTES", "10"))
SEED = int(os.environ.get("CHAOS_SEED", str(time.time_ns() % 2**32)))
KIND = os.environ.get("CHAOS_KIND", "")
# Seconds into a start at which something happens: it takes some ten to come to its first batch.
EARLY, LATE = 1.0, 30.0
JUMPS = (1, 60, 3600, 86_400, 20 * 365 * 86_400)  # seconds

pytestmark = pytest.mark.skipif(
    not os.environ.get("TIDELOG_CHAOS"), reason="make test-chaos runs these"
)


def processes(process: subprocess.Popen[bytes], what: str) -> list[int]:
    """The processes of a kind that a start has by now."""
    if what == "driver":
        return [process.pid]
    signs = {
        "JVM": "org.apache.spark.deploy.SparkSubmit",
        "worker": "pyspark.daemon",
        "executor": "CoarseGrainedExecutorBackend",
    }
    return [pid for pid in below(process.pid) if signs[what] in command_of(pid)]


def wait_for(process: subprocess.Popen[bytes], what: str, dice: random.Random) -> int | None:
    """Some moment later, a process of a kind; None when the start has ended before."""
    moment = time.monotonic() + dice.uniform(EARLY, LATE)
    while process.poll() is None:
        there = processes(process, what)
        if time.monotonic() > moment and there:
            return dice.choice(there)
        time.sleep(0.05)
    return None


def killed(what: str) -> Callable[[World, subprocess.Popen[bytes]], bool]:
    def accident(world: World, process: subprocess.Popen[bytes]) -> bool:
        pid = wait_for(process, what, world.dice)
        return pid is not None and sent(pid, signal.SIGKILL)

    return accident


def stopped(world: World, process: subprocess.Popen[bytes]) -> bool:
    """One of its processes stands still for a while."""
    what = world.dice.choice(("driver", "JVM", "worker"))
    pid = wait_for(process, what, world.dice)
    if pid is None or not sent(pid, signal.SIGSTOP):
        return False
    time.sleep(world.dice.uniform(0.5, 6))
    return sent(pid, signal.SIGCONT)


def interrupted_twice(world: World, process: subprocess.Popen[bytes]) -> bool:
    """Ctrl-C, and Ctrl-C again before it has stopped."""
    pid = wait_for(process, "driver", world.dice)
    if pid is None or not sent(pid, signal.SIGINT):
        return False
    time.sleep(world.dice.choice((0.0, 0.05, 0.3, 1.0)))
    sent(pid, signal.SIGINT)
    return True


def started_twice(world: World, process: subprocess.Popen[bytes]) -> bool:
    """Another start on the same checkpoint: one of the two is refused, or waits its turn."""
    time.sleep(world.dice.uniform(0, 12))
    other = world.start(last=False)
    world.ended(other)
    return True


def disk_filled(world: World, process: subprocess.Popen[bytes]) -> bool:
    if wait_for(process, "JVM", world.dice) is None:
        return False
    world.fill_disk()
    return True


def file_replaced(world: World, process: subprocess.Popen[bytes]) -> bool:
    if wait_for(process, "JVM", world.dice) is None:
        return False
    for _ in range(5):
        world.replace_one()
    return True


def file_renamed(world: World, process: subprocess.Popen[bytes]) -> bool:
    """Files that an earlier start has read get other names while this one runs."""
    if wait_for(process, "JVM", world.dice) is None:
        return False
    renamed = [world.rename_one() for _ in range(3)]
    return any(renamed)


def clock_jumped(world: World, process: subprocess.Popen[bytes]) -> bool:
    """The time of day goes to and fro, by a second or by years."""
    if wait_for(process, "JVM", world.dice) is None:
        return False
    for _ in range(world.dice.randint(1, 4)):
        world.move_clock(world.dice.choice((-1, 1)) * world.dice.choice(JUMPS))
        time.sleep(world.dice.uniform(0, 3))
    return True


def sent(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


ACCIDENTS = {
    "driver killed": killed("driver"),
    "JVM killed": killed("JVM"),
    "worker killed": killed("worker"),
    "executor killed": killed("executor"),
    "stopped for a while": stopped,
    "Ctrl-C twice": interrupted_twice,
    "started twice": started_twice,
    "disk full": disk_filled,
    "files replaced": file_replaced,
    "files renamed": file_renamed,
    "clock jumps": clock_jumped,
}
# What must not end a start.
HARMLESS = ("files replaced", "files renamed", "stopped for a while", "clock jumps")


def run_out(world: World, accidents: list[str]) -> None:
    """Start after start, each with an accident, until one comes to the end of the files."""
    for name in accidents:
        for _ in range(4):  # so that there is something to do when it happens
            world.add_file()
        names = world.names
        process, world.accident = world.start(last=False), name
        since = time.monotonic()
        happened = ACCIDENTS[name](world, process)
        code = world.ended(process, since)
        if world.disk is not None:
            world.empty_disk()
        if code == 0:
            world.read |= names
        if happened:
            world.tally.accidents[name] += 1
            if name in HARMLESS and code:
                raise Broken(f"{world}: {name} must not end it: {code}")
    for attempt in range(3):
        code = world.ended(world.start(last=False))
        if code == 0:
            world.read |= world.names
            world.tally.survived.update(accidents)
            return
        if attempt == 2:
            raise Broken(f"{world}: it does not go on after {accidents}: exit {code}")


def kinds_for(world: World) -> list[str]:
    """The accidents that a world may meet, the more often named the likelier."""
    if KIND:
        return [KIND]
    usual = [
        name for name in ACCIDENTS if name not in ("disk full", "executor killed", "clock jumps")
    ]
    if world.clock is not None:
        usual = [*usual, "clock jumps", "clock jumps", "clock jumps"]
    if world.disk is not None:
        usual = [*usual, "disk full", "disk full", "disk full"]
    if world.options["master"].startswith("local-cluster"):
        usual = ["executor killed", "worker killed", "driver killed"]
    return usual


def live(world: World) -> None:
    """Two or three times: accidents, more files; then the end."""
    dice, kinds = world.dice, kinds_for(world)
    world.prepare()
    for _ in range(1 if KIND else dice.randint(1, 2)):
        run_out(world, dice.choices(kinds, k=dice.randint(1, 3)))
        world.rename_one()
        for _ in range(dice.randint(1, 4)):
            world.add_file()
    if world.ended(world.start(last=True)):
        raise Broken(f"{world}: it does not come to its end")
    world.check()
    world.tally.streams += 1


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def tell(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    return tell


@pytest.mark.parametrize("what", ["worker", "JVM"])
def test_a_process_is_killed_under_a_running_batch(what: str, tmp_path: Path) -> None:
    """One sentence, an exit code, no waiting for what will not come; the next start goes on."""
    world = World(tmp_path / "world", random.Random(22), Tally())
    world.options |= {"mode": "offline", "emit": "eager", "history": "derived", "sink": "json"}
    world.options |= {"there": "there"}
    world.accident = f"every {what} killed"
    world.prepare()
    process = world.start(last=False)
    while process.poll() is None and not processes(process, "worker"):
        time.sleep(0.05)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:  # new workers are killed, too
        for pid in processes(process, what):
            sent(pid, signal.SIGKILL)
        time.sleep(0.05)
    assert world.ended(process) == 75  # start it again
    assert world.ended(world.start(last=True)) == 0
    world.check()


def test_the_clock_of_a_process_is_moved_while_it_runs(tmp_path: Path) -> None:
    world = World(tmp_path / "world", random.Random(22), Tally())
    if not world.with_clock():
        pytest.skip("there is no C compiler")
    asking = "import sys, time\nfor _ in sys.stdin: print(time.time(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", asking],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **world.moved_clock()},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for seconds in (0, 86_400, -86_400):
            world.move_clock(seconds)
            print(file=process.stdin, flush=True)
            moved = float(process.stdout.readline()) - time.time() - seconds
            assert abs(moved) < 3600
        process.stdin.close()


def test_chaos(tmp_path: Path, told: Callable[[str], None]) -> None:
    dice, tally = random.Random(SEED), Tally()
    end = time.monotonic() + 60 * MINUTES
    told(f"\nchaos for {MINUTES:g} minutes, CHAOS_SEED={SEED}")
    assert not KIND or KIND in ACCIDENTS, f"CHAOS_KIND is one of {', '.join(ACCIDENTS)}"
    small = True
    while time.monotonic() < end or not tally.streams or (KIND and not tally.accidents[KIND]):
        folder = tmp_path / f"world{tally.streams}"
        world = World(folder, random.Random(dice.random()), tally)
        if KIND == "worker killed":  # there are workers only where batches are done in partitions
            world.options["there"] = "there"
        if KIND == "executor killed" or (not KIND and tally.streams % 5 == 4):
            world.options |= {"master": "local-cluster[2,1,1024]", "there": "there"}
        if (
            KIND == "clock jumps" or (not KIND and tally.streams % 3 == 1)
        ) and not world.with_clock():
            told("no clock jumps: there is no C compiler")
            assert KIND != "clock jumps"
        if KIND == "disk full" or (not KIND and small and tally.streams % 4 == 2):
            with world.on_small_disk() as small:
                if not small:
                    told("no disk is filled: only root may mount a small one")
                    assert KIND != "disk full"
                live(world)
        else:
            live(world)
        told(f"{world}: {sum(tally.accidents.values())} accidents so far")
        shutil.rmtree(folder)
    kinds = ", ".join(f"{n} {name}" for name, n in sorted(tally.accidents.items()))
    told(
        f"{tally.streams} streams, {tally.starts} starts, {sum(tally.accidents.values())} accidents"
        f" survived ({kinds}); {tally.facts} facts, {tally.put_aside} rows put aside,"
        f" {tally.answers} answers: nothing lost, nothing doubled, no traceback;"
        f" longest end after an accident {tally.longest:.0f} s,"
        f" {tally.outlived} processes outlived their parent by 30 s"
    )
