"""Jars that Spark's connectors need: pinned here, fetched once by Maven, kept in a cache.

`jars.sha256` has the digest of each, by connector; it is as `sha256sum` writes it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.causes import cause_of
from tidelog.errors import DataError

# The plugin is named in full: what an old Maven takes of its own accord is too old.
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SECONDS = 600  # for Maven


@dataclass(frozen=True)
class Jars:
    """Pinned coordinates `group:artifact:version`.

    What belongs to Spark is listed jar by jar, without what Spark has already. With `whole`, Maven
    adds what they depend on.
    """

    coordinates: tuple[str, ...]
    whole: bool = False

    def key(self, digests: Mapping[str, str]) -> str:
        """A name in the cache that changes with the coordinates and the digests."""
        said = f"{self.whole} {self.coordinates} {sorted(digests.items())}"
        return hashlib.sha256(said.encode()).hexdigest()[:12]


JARS = {
    # Of Spark's own version once the repository has it. These are the newest that it has, of the
    # part for tokens an older one; Spark 4.3 runs them (`make test-connectors`).
    "kafka": Jars(
        (
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        )
    ),
    # Of Spark's own Hadoop, with the SDK that it is built with and what it reads with.
    "s3a": Jars(
        (
            "org.apache.hadoop:hadoop-aws:3.5.0",
            "software.amazon.awssdk:bundle:2.35.4",
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        )
    ),
    # For the tests: a broker.
    "kafka-broker": Jars(
        ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-nop:1.7.36"), whole=True
    ),
}

# How an address of a user's shows which connector it needs.
_SIGNS = {"kafka": r"(\w+=)?kafka://", "s3a": r"(\w+=|(csv|json|parquet):)?s3a://"}


def connectors_of(addresses: Iterable[str]) -> list[str]:
    """The connectors that some addresses need.

    >>> connectors_of(["facts/", "Temp=kafka://a:9092/temps"])
    ['kafka']
    >>> connectors_of(["Temp=s3a://readings/temps", "csv:s3a://answers/"])
    ['s3a']
    """
    given = list(addresses)
    return [name for name, sign in _SIGNS.items() if any(re.match(sign, text) for text in given)]


def jars_of(names: Iterable[str]) -> list[str]:
    """The jars of some connectors; DataError, in one sentence, where Maven cannot fetch them."""
    folders = [_folder(name) for name in dict.fromkeys(names)]
    return [str(jar) for folder in folders for jar in sorted(folder.iterdir())]


def digests_of(name: str) -> dict[str, str]:
    """The SHA-256 of each jar of a connector, by the name of its file."""
    lines = Path(__file__).with_name("jars.sha256").read_text(encoding="ascii").splitlines()
    pinned = (line.split("  ", 1) for line in lines)
    return {
        file.removeprefix(f"{name}/"): digest
        for digest, file in pinned
        if file.startswith(f"{name}/")
    }


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tidelog" / "jars"


def _folder(name: str) -> Path:
    """Where the jars of a connector are; they are fetched if they are not there."""
    digests = digests_of(name)
    folder = _cache() / f"{name}-{JARS[name].key(digests)}"
    if folder.is_dir():
        return folder
    remedy = "or bring the jars and name them with --jars"
    maven = shutil.which("mvn")
    if maven is None:
        raise DataError(
            f"the jars for {name} are not here: install Maven (mvn), which fetches them once,"
            f" {remedy}"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as beside:
            _fetch(maven, name, Path(beside))
            _verify(Path(beside) / "jars", digests)
            try:
                (Path(beside) / "jars").rename(folder)
            except OSError:
                if not folder.is_dir():  # another process may have been faster
                    raise
    except OSError as error:
        raise DataError(f"the jars for {name} cannot be kept in {folder.parent}: {error}") from None
    except _Failed as error:
        raise DataError(
            f"Maven cannot fetch the jars for {name}: {error}; see that it reaches its repository,"
            f" {remedy}",
            code=cause_of(str(error)),
        ) from None
    return folder


class _Failed(Exception):
    """Why Maven did not do it."""


def _fetch(maven: str, name: str, place: Path) -> None:
    (place / "pom.xml").write_text(_project(JARS[name]), encoding="utf-8")
    command = [maven, "-B", "-q", "-C", "-f", str(place / "pom.xml"), _PLUGIN]
    command += [f"-DoutputDirectory={place / 'jars'}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _Failed(f"it took longer than {_SECONDS} seconds") from None
    if done.returncode or not (place / "jars").is_dir():
        said = re.search(r"\[ERROR\] (.+?)(?: -> \[Help|$)", done.stdout, re.MULTILINE)
        raise _Failed(said.group(1) if said else f"exit code {done.returncode}")


def _verify(folder: Path, digests: Mapping[str, str]) -> None:
    """_Failed unless a folder holds the jars that are pinned and no others."""
    fetched: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            fetched[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    for jar in dict.fromkeys([*fetched, *digests]):
        if fetched.get(jar) != digests.get(jar):
            what = f"has SHA-256 {fetched[jar]}" if jar in fetched else "is missing"
            raise _Failed(f"{jar} {what}, and {digests.get(jar, 'no such jar')} is pinned")


def _project(jars: Jars) -> str:
    """A project that has these dependencies and nothing else."""
    exclusion = (
        ""
        if jars.whole
        else "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
        "</exclusion></exclusions>"
    )
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}"
        "</dependency>".format(*coordinates.split(":"), exclusion)
        for coordinates in jars.coordinates
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tidelog</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )
