"""docs/spark.md is a guide: its commands run here, in its order, and print the output it shows.

`pytest --update-golden tests/spark/test_guide.py` writes the printed output into the page.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kfmt_cli.spark import register
from tests.support.samples import environment
from tests.support.spark_cluster import JAVA, PROCESSES, cluster
from tests.support.spark_job import Job
from tests.support.store_server import Bucket
from tools.guides import BLOCK, commands, is_what, rewritten
from tools.kafka import ROOT, SAMPLES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PAGE = ROOT / "docs/spark.md"
AIVEN = ROOT / "tests/kept/aiven-1.0.0"
ORDER = [
    "First ten minutes",
    "A bucket",
    "A cluster",
    "A lake",
    "Other tools",
    "A tiered topic",
    "A stream",
]
PROSE = ["Other tools"]  # shows nothing to run; tests/docs/test_examples.py runs its examples
NEEDS = {"A lake": ["pyiceberg", "sqlalchemy"], "A tiered topic": ["cryptography"]}

# Commands that the tests do not run, by their beginning, and the reason.
NOT_RUN = {
    "pip install ": "it changes the environment of the tests",
    "python -m venv env ": "it installs a released kfmt",
}
# Commands that the tests run in another form, and the reason.
SUBSTITUTES = {
    # There is no YARN, and its nodes would need an environment that does not exist.
    "--master yarn --conf spark.archives=env.tar.gz#env": "--master spark://host:7077",
    "--master yarn --archives env.tar.gz#env": "--master spark://host:7077",
}


def section(name: str) -> str:
    """A chapter of the page."""
    return PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


@dataclass
class Guide:
    """Runs the commands of a chapter with the paths of the test."""

    spark: Any
    job: Job
    capfd: pytest.CaptureFixture[str]
    scratch: Path
    paths: dict[str, str]
    """The paths of the test, by those of the page."""
    names: dict[str, Any] = field(default_factory=dict)
    """The variables that the page's Python has defined."""

    def with_test_paths(self, text: str) -> str:
        """A text of the page with the paths of the test."""
        return _with_replacements(text, self.paths)

    def lines(self, printed: str) -> list[str]:
        """The printed lines, with the paths of the page."""
        page_paths = {test_path: name for name, test_path in self.paths.items()}
        return [line.rstrip() for line in _with_replacements(printed, page_paths).splitlines()]

    def run_command(self, command: str) -> list[str]:
        """Run a command and return its output; jobs without --master run in the tests' session."""
        arguments = shlex.split(self.with_test_paths(command))
        if arguments[:2] == ["kfmt", "pipeline"] and "--master" not in arguments:
            result = self.job(*arguments[2:], code=None)
            assert f"exit {result.code}\n" in result.out or "--dry-run" in arguments, result.err
            return self.lines(result.out + result.err)
        if arguments[0] == "python":
            saved_argv, sys.argv = sys.argv, arguments[1:]
            try:
                return self.captured(lambda: runpy.run_path(arguments[1], run_name="__main__"))
            finally:
                sys.argv = saved_argv
        return self.lines(self.shell(command))

    def shell(self, command: str) -> str:
        """Run a process and return its output, without what Spark itself writes to stderr."""
        result = subprocess.run(
            ["bash", "-c", self.with_test_paths(command)],
            cwd=ROOT,
            env=environment(
                PATH=f"{self.programs()}{os.pathsep}{os.environ['PATH']}",
                PYSPARK_PYTHON=sys.executable,
                SPARK_LOCAL_IP="127.0.0.1",
                SPARK_CONF_DIR=str(self.settings()),
                COLUMNS="100",
            ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode in (0, 1), result.stdout + result.stderr
        is_kfmt = command.startswith("kfmt ")
        assert result.returncode == 0 or is_kfmt, result.stderr
        return result.stdout + (result.stderr if is_kfmt else "")

    def settings(self) -> Path:
        """A directory with settings that make small jobs fast."""
        directory = self.scratch / "conf"
        directory.mkdir(exist_ok=True)
        (directory / "spark-defaults.conf").write_text(
            f"spark.executor.extraJavaOptions {JAVA}\n"
            "spark.sql.shuffle.partitions 2\nspark.ui.enabled false\n"
        )
        return directory

    def programs(self) -> Path:
        """A directory with the programs of the page."""
        import pyspark

        directory = self.scratch / "bin"
        if not directory.exists():
            directory.mkdir()
            submit = Path(pyspark.__file__).parent / "bin/spark-submit"
            for name, command in (
                ("kfmt", [sys.executable, "-m", "kfmt_cli"]),
                ("spark-submit", [str(submit)]),
            ):
                (directory / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
                (directory / name).chmod(0o755)
        return directory

    def python(self, code: str) -> list[str]:
        """Run a block of Python and return its output."""
        script = self.scratch / "block.py"
        script.write_text(self.with_test_paths(code))

        def run() -> None:
            namespace = runpy.run_path(str(script), {"spark": self.spark, **self.names})
            self.names |= {name: namespace[name] for name in namespace if not name.startswith("__")}

        return self.captured(run)

    def sql(self, text: str) -> list[str]:
        """Run the statements of a block and return their output."""

        def run() -> None:
            for statement in self.with_test_paths(text).split(";"):
                frame = self.spark.sql(statement)
                if frame.columns:
                    frame.show(truncate=False)

        return self.captured(run)

    def captured(self, run: Callable[[], Any]) -> list[str]:
        """The output of a function, without the empty line after a table of Spark."""
        self.capfd.readouterr()
        run()
        return self.lines(self.capfd.readouterr().out.strip("\n"))


def _with_replacements(text: str, replacements: dict[str, str]) -> str:
    longest = sorted(replacements, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest)), lambda match: replacements[match[0]], text)


@pytest.fixture
def guide(
    request: pytest.FixtureRequest,
    spark: Any,
    job: Job,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Iterator[Guide]:
    text = section(request.node.callspec.params["name"])
    disks = {
        "/var/lib/kafka": SAMPLES / "kafka-3.9.1-broker1",
        "/disk1/kafka": ROOT / "damaged_segments",
    }
    paths = {name: str(path) for name, path in disks.items()}
    paths |= {f"/{name}/": f"{tmp_path}/{name}/" for name in ("tmp", "lake")}
    (tmp_path / "lake").mkdir()
    paths["key.pem"] = str(AIVEN / "encrypted/test-key.pkcs8.der")
    if "s3://" in text:
        bucket: Bucket = request.getfixturevalue("bucket")
        paths |= {"s3://bucket": bucket.url, "s3://lake": bucket.file("lake")}
        bucket.upload(SAMPLES / "kafka-3.9.1-broker1", "kafka/broker-1")
        for name, topic_directory in (("tiered", "zstd"), ("encrypted", "encrypted")):
            bucket.upload(AIVEN / topic_directory / "tiered", name)
        register(spark)  # again: the bucket's settings have changed since
    new_guide = Guide(spark, job, capfd, tmp_path, paths)
    if "spark://" not in text:
        yield new_guide
        return
    if not PROCESSES.exists():
        pytest.skip("there is no /proc")
    directory = tmp_path / "cluster"
    directory.mkdir()
    with cluster(directory, workers=1) as running:
        paths["spark://host:7077"] = running.master
        yield new_guide


@dataclass
class Output:
    """The expected output of a block on the page, and the printed output."""

    language: str
    expected: tuple[str, ...]
    printed: list[str]


def outputs(text: str, guide: Guide) -> Iterator[Output]:
    """Run all blocks of a chapter."""
    pending: list[str] = []  # output of Python or SQL, which the next block shows
    for block in BLOCK.finditer(text):
        language, body = block[1], block[2]
        if language == "text":
            yield Output(language, tuple(body.splitlines()), pending)
            pending = []
            continue
        assert pending == [], f"before\n{body}"
        if language == "console":
            for command in commands(body):
                yield Output(language, command.shown, guide.run_command(command.text))
        elif language == "sh":
            for line in filter(is_run, body.splitlines()):
                printed = guide.shell(substitute(line))
                assert "exit 0" in printed or "Lost data" in printed, printed
        else:
            pending = {"python": guide.python, "sql": guide.sql}[language](body)
    assert pending == []


def updated(text: str, results: list[Output]) -> str:
    """The chapter with the printed output."""
    new = rewritten(text, [output.printed for output in results if output.language == "console"])
    texts = iter(output.printed for output in results if output.language == "text")

    def block(match: re.Match[str]) -> str:
        is_text = match[1] == "text"
        return "\n".join(["```text", *next(texts), "```"]) if is_text else match[0]

    return BLOCK.sub(block, new)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.clusters if name == "A cluster" else ())
        for name in ORDER
        if name not in PROSE
    ],
)
def test_a_chapter_prints_what_it_shows(
    name: str, guide: Guide, request: pytest.FixtureRequest
) -> None:
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    text = section(name)
    results = list(outputs(text, guide))
    assert results
    if request.config.getoption("--update-golden"):
        PAGE.write_text(PAGE.read_text().replace(text, updated(text, results)))
        return
    for output in results:
        assert is_what(output.expected, output.printed), (
            "\n".join(output.printed) + "\npytest --update-golden writes it"
        )


def is_run(line: str) -> bool:
    """Whether the tests run a line of a block without output."""
    return not line.startswith(tuple(NOT_RUN))


def substitute(command: str) -> str:
    """The form of a command that the tests run."""
    return _with_replacements(command, SUBSTITUTES)


def test_the_chapters_are_in_their_order() -> None:
    assert re.findall(r"^## (.*)", PAGE.read_text(), re.MULTILINE) == ORDER


def test_what_is_not_run_or_run_otherwise_is_on_the_page() -> None:
    lines = [
        line
        for block in BLOCK.finditer(PAGE.read_text())
        if block[1] == "sh"
        for line in block[2].splitlines()
    ]
    for text in NOT_RUN:
        assert sum(line.startswith(text) for line in lines) == 1, text
    for text in SUBSTITUTES:
        assert sum(text in line for line in lines) == 1, text
    for line in lines:
        result = subprocess.run(["bash", "-n", "-c", line], capture_output=True, check=False)
        assert (result.returncode, result.stderr) == (0, b"")
    fences = re.findall(r"^ *```(.*)$", PAGE.read_text(), re.MULTILINE)
    assert set(fences[::2]) == {"console", "sh", "python", "sql", "text"}


def test_names_of_kfmt_on_the_page_are_there() -> None:
    names = re.findall(r"`(kfmt_cli(?:\.\w+)+)", PAGE.read_text())
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
