"""Kafka's own code, run from its published jars: the reference of the interop tests.

    python tools/kafka.py dump VERSION FILE…     print the output of kafka-dump-log for each file
    python tools/kafka.py keep                   write its output for each sample to tests/kept

Requires java and mvn. Jars are cached in $KAFKA_JARS, by default ~/.cache/kafka-jars.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
SAMPLES = ROOT / "sample_segments"
VERSION = "3.9.1"
NEWEST = "4.4.0"
KEPT = ROOT / "tests/kept"

_SAMPLE_RELEASE = re.compile(r"kafka-([0-9.]+)")
_KAFKA_IMPORT = re.compile(
    r"^import (?:static )?(org\.apache\.kafka(?:\.[a-z]\w*)+)\.([A-Z]\w*)(\.\w+)?;", re.M
)
# For a JVM that runs for seconds: only the first compiler, a single-threaded collector.
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
LOGGING_PROPERTIES = """log4j.rootLogger=ERROR, e
log4j.appender.e=org.apache.log4j.ConsoleAppender
log4j.appender.e.target=System.err
log4j.appender.e.layout=org.apache.log4j.SimpleLayout
"""


def missing() -> str | None:
    """A message about missing programs that Kafka requires; None if all are installed."""
    missing_tools = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"{' and '.join(missing_tools)} not found" if missing_tools else None


def jars(version: str) -> Path:
    """The directory with the jars of a Kafka version, downloaded with Maven if needed."""
    return fetched(version, DEPENDENCIES.format(version=version))


def kept_at(name: str) -> Path:
    """A directory in the cache of downloads."""
    return Path(os.environ.get("KAFKA_JARS", Path.home() / ".cache" / "kafka-jars")) / name


def fetched(name: str, dependencies: str) -> Path:
    """A directory with jars, downloaded with Maven if needed. name: the directory's. dependencies:
    the content of that element in pom.xml."""
    directory = kept_at(name)
    if not (directory / "complete").exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "pom.xml").write_text(POM.format(dependencies=dependencies))
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={directory}"],
            cwd=directory,
            check=True,
            stdout=sys.stderr,
        )
        (directory / "complete").touch()
    logging = directory / "log4j.properties"
    if not logging.exists():
        logging.write_text(LOGGING_PROPERTIES)
    return directory


def java(
    version: str,
    *arguments: str,
    options: Sequence[str] = SHORT_LIVED,
    classes: Path | None = None,
) -> list[str]:
    """The command that runs java on Kafka's jars: options, a class or source file, arguments.

    classes: a directory with more classes.
    """
    directory = jars(version)
    logging = f"-Dlog4j.configuration=file:{directory}/log4j.properties"
    path = f"{directory}/*" if classes is None else f"{classes}:{directory}/*"
    return ["java", "-Xmx512m", *options, logging, "-cp", path, *arguments]


def compiled(version: str, *sources: Path) -> Path:
    """The directory with the classes of Java files, which are compiled if they have changed."""
    content = b"\0".join([version.encode(), *(source.read_bytes() for source in sources)])
    directory = kept_at("classes") / hashlib.sha256(content).hexdigest()[:32]
    if directory.exists():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    path = ":".join(map(str, jars(version).glob("*.jar")))
    compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    packages = packages_by_class(version)
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        classes, adapted = Path(scratch) / "classes", Path(scratch) / "sources"
        adapted.mkdir()
        for source in sources:
            (adapted / source.name).write_text(with_imports_of(source.read_text(), packages))
        command = [*compiler, "-cp", path, "-d", str(classes), *map(str, adapted.iterdir())]
        subprocess.run(command, check=True, capture_output=True)
        with suppress(OSError):  # another process was first
            classes.rename(directory)
    return directory


@cache
def packages_by_class(version: str) -> Mapping[str, list[str]]:
    """The packages of Kafka's classes, by the class's name without its package."""
    packages: dict[str, list[str]] = defaultdict(list)
    for jar in jars(version).glob("*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                package, _, class_name = name.removesuffix(".class").rpartition("/")
                if name.endswith(".class") and package.startswith("org/apache/kafka/"):
                    packages[class_name].append(package.replace("/", "."))
    return packages


def with_imports_of(source: str, packages: Mapping[str, Sequence[str]]) -> str:
    """A Java file for a release that has moved classes to other packages: 4.3 and 4.4 did."""

    def adapted(match: re.Match[str]) -> str:
        package, class_name, member = match[1], match[2], match[3] or ""
        found = packages.get(class_name, [])
        if package in found or len(found) != 1:
            return match[0]
        return match[0].replace(
            f"{package}.{class_name}{member}", f"{found[0]}.{class_name}{member}"
        )

    return _KAFKA_IMPORT.sub(adapted, source)


def release_numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, which compare as releases do."""
    return tuple(map(int, version.split(".")))


def dump_log_class(version: str) -> str:
    """The class of kafka-dump-log, which 4.3 moved."""
    is_moved = release_numbers(version) >= (4, 3)
    return f"{'org.apache.' * is_moved}kafka.tools.DumpLogSegments"


def command_class(version: str, name: str) -> str:
    """The class of one of Kafka's commands, by its class in 3.9: later releases moved some."""
    simple_name = name.rpartition(".")[2]
    packages = packages_by_class(version).get(simple_name)
    return f"{packages[0]}.{simple_name}" if packages else name


def dump_command(version: str, *arguments: str) -> list[str]:
    """The command of kafka-dump-log with java's default settings, for benchmarks."""
    return java(version, dump_log_class(version), *arguments, options=())


def dump_log(version: str, files: list[Path], cwd: Path, *options: str) -> dict[Path, str]:
    """The output of kafka-dump-log for each file below cwd: batches, records, keys and payloads.
    options: such as `--offsets-decoder`."""
    names = ",".join(str(file.relative_to(cwd)) for file in files)
    arguments = ("--print-data-log", *options, "--files", names)
    command = java(version, dump_log_class(version), *arguments)
    result = subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    text = result.stdout.decode("utf-8", "replace")
    sections = text.split("Dumping ")[1:]
    by_name = {section.split("\n", 1)[0]: section.split("\n", 1)[1] for section in sections}
    return {file: by_name[str(file.relative_to(cwd))] for file in files}


def sample_logs() -> list[Path]:
    """Every log and KRaft snapshot of the samples whose name Kafka's tool accepts."""
    logs = [*SAMPLES.rglob("*.log"), *SAMPLES.rglob("*.checkpoint")]
    return sorted(log for log in logs if "remote" not in log.parts)


def dump_version(log: Path) -> str:
    """The version of kafka-dump-log for a sample: the broker's own, at least 3.9.1."""
    match = _SAMPLE_RELEASE.match(log.relative_to(SAMPLES).parts[0])
    return max(VERSION, match[1] if match else VERSION, key=release_numbers)


def kept_text(log: Path) -> Path:
    """The file with the output of kafka-dump-log for a sample."""
    name = f"{log.name}.kafka-dump-log-{dump_version(log)}.txt"
    return KEPT / log.parent.relative_to(SAMPLES) / name


def dump_samples() -> dict[Path, str]:
    """The output of kafka-dump-log for each sample."""
    logs_by_version: dict[str, list[Path]] = defaultdict(list)
    for log in sample_logs():
        logs_by_version[dump_version(log)].append(log)
    texts: dict[Path, str] = {}
    for version, logs in logs_by_version.items():
        texts |= dump_log(version, logs, SAMPLES)
    return texts


def keep() -> None:
    """Write the output of kafka-dump-log for each sample."""
    for file, text in dump_samples().items():
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
