"""Kafka's own code, run from its published jars: the judge of the interop tests.

    python tools/kafka.py dump VERSION FILE…     what kafka-dump-log prints for each file
    python tools/kafka.py keep                   write what it prints for each sample to tests/kept

Needs java and mvn. Jars are kept below $KAFKA_JARS, ~/.cache/kafka-jars without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
SAMPLES = ROOT / "sample_segments"
VERSION = "3.9.1"
NEWEST = "4.2.0"
KEPT = ROOT / "tests/kept"
KEPT_SUFFIX = f".kafka-dump-log-{VERSION}.txt"

DUMP_LOG = "kafka.tools.DumpLogSegments"
# For a JVM that runs for seconds: only the first compiler, a collector with one thread.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kfmt</groupId><artifactId>kafka-jars</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>"""
DEPENDENCIES = """
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
<version>{version}</version></dependency>
"""
QUIET = """log4j.rootLogger=ERROR, e
log4j.appender.e=org.apache.log4j.ConsoleAppender
log4j.appender.e.target=System.err
log4j.appender.e.layout=org.apache.log4j.SimpleLayout
"""


def missing() -> str | None:
    """What Kafka cannot be run without and is not there."""
    gone = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(gone)} not found" if gone else None


def jars(version: str) -> Path:
    """The folder with the jars of a version of Kafka, fetched through Maven when needed."""
    return fetched(version, DEPENDENCIES.format(version=version))


def kept_at(name: str) -> Path:
    """A folder for what is fetched, which other runs find there."""
    return Path(os.environ.get("KAFKA_JARS", Path.home() / ".cache" / "kafka-jars")) / name


def fetched(name: str, dependencies: str) -> Path:
    """The folder with jars, fetched through Maven when needed. name: the folder's. dependencies:
    what a pom.xml has in the element of that name."""
    home = kept_at(name)
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "pom.xml").write_text(POM.format(dependencies=dependencies))
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={home}"],
            cwd=home,
            check=True,
            stdout=sys.stderr,
        )
        (home / "complete").touch()
    quiet = home / "log4j.properties"
    if not quiet.exists():
        quiet.write_text(QUIET)
    return home


def java(
    version: str,
    *arguments: str,
    options: Sequence[str] = SHORT_LIVED,
    classes: Path | None = None,
) -> list[str]:
    """The command that runs java on Kafka's jars: options, a class or source file, arguments.

    classes: a folder of more classes.
    """
    home = jars(version)
    logging = f"-Dlog4j.configuration=file:{home}/log4j.properties"
    path = f"{home}/*" if classes is None else f"{classes}:{home}/*"
    return ["java", "-Xmx512m", *options, logging, "-cp", path, *arguments]


def compiled(version: str, *sources: Path) -> Path:
    """The folder with the classes of Java files; they are compiled when they have changed."""
    content = b"\0".join([version.encode(), *(source.read_bytes() for source in sources)])
    home = kept_at("classes") / hashlib.sha256(content).hexdigest()[:32]
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    path = ":".join(map(str, jars(version).glob("*.jar")))
    compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        classes = Path(scratch) / "classes"
        command = [*compiler, "-cp", path, "-d", str(classes), *map(str, sources)]
        subprocess.run(command, check=True, capture_output=True)
        with suppress(OSError):  # another process was first
            classes.rename(home)
    return home


def dump_command(version: str, *arguments: str) -> list[str]:
    """The command that is kafka-dump-log, with java's own settings: benchmarks run it."""
    return java(version, DUMP_LOG, *arguments, options=())


def dump_log(version: str, files: list[Path], cwd: Path) -> dict[Path, str]:
    """What kafka-dump-log prints of batches, records, keys and payloads of each file below cwd."""
    names = ",".join(str(file.relative_to(cwd)) for file in files)
    command = java(version, DUMP_LOG, "--print-data-log", "--files", names)
    done = subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    text = done.stdout.decode("utf-8", "replace")
    parts = text.split("Dumping ")[1:]
    by_name = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in parts}
    return {file: by_name[str(file.relative_to(cwd))] for file in files}


def sample_logs() -> list[Path]:
    """Every log and KRaft snapshot among the samples that Kafka's tool accepts by name."""
    logs = [*SAMPLES.rglob("*.log"), *SAMPLES.rglob("*.checkpoint")]
    return sorted(log for log in logs if "remote" not in log.parts)


def kept_text(log: Path) -> Path:
    """The file with what kafka-dump-log printed for a sample."""
    return KEPT / log.parent.relative_to(SAMPLES) / (log.name + KEPT_SUFFIX)


def keep() -> None:
    """Write what kafka-dump-log prints for each sample."""
    for file, text in dump_log(VERSION, sample_logs(), SAMPLES).items():
        kept_text(file).parent.mkdir(parents=True, exist_ok=True)
        kept_text(file).write_bytes(text.encode())


def main() -> None:
    if sys.argv[1:] == ["keep"]:
        keep()
    elif len(sys.argv) > 3 and sys.argv[1] == "dump":
        for file in sys.argv[3:]:
            subprocess.run(dump_command(sys.argv[2], "--files", file), check=True)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
