"""The house: what an import loads, what the wheel holds, what a machine is told it lacks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.deep import DEEP
from support.places import ROOT

import tidelog

HEAVY = ("pyspark", "duckdb", "pyarrow", "pandas", "rich", "click")


def run(*args: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in args],
        capture_output=True,
        text=True,
        env=os.environ | (env or {}),
        timeout=180,
        check=False,
    )


def test_import_loads_nothing_heavy() -> None:
    probe = f"import sys, tidelog; print([m for m in {HEAVY} if m in sys.modules])"
    result = run(sys.executable, "-c", probe)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_using_the_language_loads_nothing_heavy() -> None:
    probe = (
        "import sys, tidelog; tidelog.parse('P(X) :- E(X).'); "
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert run(sys.executable, "-c", probe).stdout == "[]\n"


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == tidelog.__version__


def pins_of(name: str) -> dict[str, tuple[str, ...]]:
    """The hashes of each pin of a requirements file."""
    text = (ROOT / name).read_text("utf-8")
    parts = re.split(r"^(?=[A-Za-z])", re.sub(r"^#.*\n", "", text, flags=re.M), flags=re.M)
    pins = (part.replace("\\\n", " ").split() for part in parts if part)
    return {pin: tuple(hashes) for pin, *hashes in pins}


def test_workers_get_the_versions_that_the_driver_has() -> None:
    worker = pins_of("requirements-worker.txt")
    assert [pin.partition("==")[0] for pin in worker] == ["duckdb", "pyarrow"]
    assert worker.items() <= pins_of("requirements.txt").items()


def test_every_pin_has_its_hashes() -> None:
    files = sorted(path.name for path in ROOT.glob("requirements*.txt"))
    assert len(files) >= 6
    for name in files:
        for pin, hashes in pins_of(name).items():
            assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][^ ]*", pin), (name, pin)
            assert hashes, (name, pin)
            assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", x) for x in hashes), (name, pin)


def test_the_action_installs_the_versions_that_are_tested() -> None:
    """And everything: what is not pinned there would make pip refuse."""
    action = pins_of("requirements-action.txt")
    assert action.items() <= pins_of("requirements.txt").items()
    names = {pin.partition("==")[0].lower() for pin in action}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needs = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    needs += [need for name in names for need in distribution(name).requires or ()]
    for need in map(Requirement, needs):
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            assert need.name.lower() in names, need


def link_needs(folder: Path) -> None:
    """Links to the distributions that an installed tidelog asks for, and to those they ask for."""
    (metadata,) = folder.glob("tidelog-*.dist-info/METADATA")
    needs = re.findall(r"^Requires-Dist: (.+)$", metadata.read_text("utf-8"), re.MULTILINE)
    assert needs
    seen: set[str] = set()
    while needs:
        need = needs.pop()
        name = re.split(r"[^\w.-]", need)[0].lower()
        if name in seen or "extra ==" in need:
            continue
        seen.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:  # for another Python, or another system
            assert ";" in need, need
            continue
        needs += package.requires or []
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(package.locate_file(top))).resolve())


@pytest.mark.xdist_group("spark")
def test_one_worker_runs_all_tests_on_spark(request: pytest.FixtureRequest) -> None:
    """The scheduler keeps those together whose ids end in the same group."""
    grouped = request.config.getoption("loadgroup", default=False)
    assert request.node.nodeid.endswith("@spark") == grouped


@pytest.mark.grows
def test_the_wheel_installs_and_runs_in_an_empty_environment(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    source = tmp_path / "source"  # a copy: building must not leave anything in the checkout
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    built = run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    empty = tmp_path / "empty"
    python = empty / "bin" / "python"
    if DEEP > 1:  # with everything that it needs, from the index
        venv.create(empty, with_pip=True)
        constraints = tmp_path / "pins.txt"
        constraints.write_text("\n".join(pins_of("requirements.txt")))
        installed = run(python, "-m", "pip", "install", "-q", wheel, "-c", constraints)
    else:  # what it says it needs is taken from here, and nothing else is there
        venv.create(empty)
        (there,) = empty.glob("lib/*/site-packages")
        installed = run(*pip, "--python", python, "install", "-q", "--no-deps", wheel)
        link_needs(there)
    assert installed.returncode == 0, installed.stderr
    rules = tmp_path / "rules.tdl"
    rules.write_text("P(X) @ T :- E(X) @ T+1.\n")
    clean = {"PYTHONPATH": ""}
    imported = run(python, "-c", "import tidelog; print(tidelog.__file__)", env=clean)
    assert str(empty) in imported.stdout
    checked = run(
        empty / "bin" / "tidelog", "check", rules, env={"PYTHONPATH": clean["PYTHONPATH"]}
    )
    assert checked.stdout == f"{rules}: no problems in 1 rule, 1 input, 1 output\n", checked.stderr
    explained = run(empty / "bin" / "tidelog", "explain", rules, env=clean)
    assert "settles   1 tick after its time (phi 1)" in explained.stdout
    streams_without_spark(empty / "bin" / "tidelog", python, rules, clean)


def streams_without_spark(command: Path, python: Path, rules: Path, clean: dict[str, str]) -> None:
    """All but Spark is there in a light installation, and what is asked of Spark says so."""
    facts = rules.with_name("facts.jsonl")
    facts.write_text('{"predicate": "E", "x": "a", "time": 1}\n')
    options = ("--facts", facts, "--engine", "duckdb", "--checkpoint", rules.with_name("c"))
    streamed = run(
        command, "run", rules, *options, "--sink", f"json:{rules.with_name('out')}", env=clean
    )
    assert streamed.returncode == 0, streamed.stderr
    asked = run(command, "run", rules, "--facts", facts, env=clean)
    assert asked.returncode != 0
    assert "Spark is not installed" in asked.stderr
    assert "pip install 'tidelog[spark]' brings it; or use --engine duckdb" in asked.stderr
    assert "Traceback" not in asked.stderr
    imported = run(python, "-c", "import tidelog.spark", env=clean)
    assert "pip install 'tidelog[spark]' brings it" in imported.stderr.splitlines()[-1]


# tools/preflight.sh: one clear sentence for a machine that lacks something


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """An empty PATH with the few tools that the script itself needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "sed", "head"):
        path = shutil.which(tool)
        assert path is not None
        (folder / tool).symlink_to(path)
    return folder


def install(machine: Path, name: str, script: str) -> None:
    path = machine / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


GOOD_PYTHON = f'exec "{sys.executable}" "$@"'


def java(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


def preflight(machine: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "JAVA_HOME")}
    return subprocess.run(
        [str(machine / "sh"), str(ROOT / "tools" / "preflight.sh")],
        capture_output=True,
        text=True,
        env={**kept, "PATH": str(machine), **env},
        timeout=60,
        check=False,
    )


def test_a_machine_with_everything(machine: Path) -> None:
    install(machine, "python3.12", GOOD_PYTHON)
    install(machine, "java", java("17.0.15"))
    result = preflight(machine)
    assert (result.returncode, result.stdout, result.stderr) == (0, "python3.12\n", "")


def refused(machine: Path, *words: str, **env: str) -> None:
    result = preflight(machine, **env)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, "one sentence"
    assert result.stderr.endswith(".\n")
    assert all(word in result.stderr for word in words), result.stderr


def test_no_python(machine: Path) -> None:
    install(machine, "java", java("17.0.15"))
    refused(machine, "Python 3.11 or later", "install it", "PYTHON")


def test_an_old_python(machine: Path) -> None:
    install(machine, "python3", "exit 1")  # what the version test says on an older one
    install(machine, "java", java("17.0.15"))
    refused(machine, "Python 3.11 or later")


def test_an_old_python_beside_a_newer_one(machine: Path) -> None:
    install(machine, "python3.11", "exit 1")
    install(machine, "python3", GOOD_PYTHON)
    install(machine, "java", java("21"))
    assert preflight(machine).stdout == "python3\n"


def test_a_python_without_venv(machine: Path) -> None:
    install(machine, "python3", 'case "$2" in *venv*) exit 1;; esac')
    install(machine, "java", java("17.0.15"))
    refused(machine, "virtual environments", "python3-venv")


def test_no_java(machine: Path) -> None:
    install(machine, "python3", GOOD_PYTHON)
    refused(machine, "Java 17 or later", "found none", "JAVA_HOME")


@pytest.mark.parametrize(("version", "major"), [("11.0.2", "11"), ("1.8.0_392", "8")])
def test_an_old_java(machine: Path, version: str, major: str) -> None:
    install(machine, "python3", GOOD_PYTHON)
    install(machine, "java", java(version))
    refused(machine, "Java 17 or later", f"is version {major}", "JAVA_HOME")


def test_a_python_and_a_java_of_ones_own(machine: Path) -> None:
    own = machine / "of my own" / "bin"
    own.mkdir(parents=True)
    install(own, "python", GOOD_PYTHON)
    install(own, "java", java("21.0.1"))
    result = preflight(machine, PYTHON=str(own / "python"), JAVA_HOME=str(own.parent))
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{own / 'python'}\n", "")


def test_a_python_or_a_java_of_ones_own_that_is_none(machine: Path) -> None:
    install(machine, "python3", GOOD_PYTHON)
    install(machine, "java", java("17.0.15"))
    refused(machine, "PYTHON=nowhere is none", "leave it out", PYTHON="nowhere")
    refused(machine, "nowhere/bin/java is none", "JAVA_HOME", JAVA_HOME="nowhere")


def test_measures_do_not_rise() -> None:
    """See tools/measure.py; to let one rise, write the new number into tools/ratchet.json."""
    measured = run(sys.executable, ROOT / "tools" / "measure.py", "--json")
    held = json.loads((ROOT / "tools" / "ratchet.json").read_text("utf-8"))
    now = json.loads(measured.stdout)
    assert now.keys() == held.keys()
    risen = {name: (held[name], value) for name, value in now.items() if value > held[name]}
    assert not risen, "from the number held to that of now"


def test_places_to_extend_are_there() -> None:
    """What docs/extending.md names exists."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    _, *sections = page.split("\n## ")
    for section in sections:
        rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
        assert rows, section
        for _, places, _, look_at, _ in rows:
            for place in re.findall(r"`([a-z_/]+\.py)`", places):
                source = ROOT / "src" / "tidelog" / place
                assert source.exists(), place
                for name in re.findall(r"`(\w+)`", look_at):
                    assert name in source.read_text("utf-8"), f"{place}: {name}"
