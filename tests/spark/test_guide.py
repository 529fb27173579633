"""docs/spark.md is a guide: what it shows is run here, in its order, and prints what it says.

`pytest --update-golden tests/spark/test_guide.py` writes what was printed into the page.
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
KEPT = ROOT / "tests/kept/aiven-1.0.0"
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

# Commands that are not run, by what they begin with, and why.
NOT_RUN = {
    "pip install ": "it changes the environment of the tests",
    "python -m venv env ": "it installs a released kfmt",
}
# Commands that are run in another form, and why.
NEAREST = {
    # There is no YARN, and its nodes would need the environment that was not made.
    "--master yarn --conf spark.archives=env.tar.gz#env": "--master spark://host:7077",
    "--master yarn --archives env.tar.gz#env": "--master spark://host:7077",
}


def section(name: str) -> str:
    """A chapter of the page."""
    return PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]


@dataclass
class Guide:
    """Runs what a chapter shows; its places are places of the test."""

    spark: Any
    job: Job
    capfd: pytest.CaptureFixture[str]
    scratch: Path
    places: dict[str, str]
    """Real ones, by those of the page."""
    names: dict[str, Any] = field(default_factory=dict)
    """What the page's Python has defined."""

    def real(self, text: str) -> str:
        """A text of the page with the places of the test."""
        return _replaced(text, self.places)

    def lines(self, printed: str) -> list[str]:
        """What was printed, with the places of the page."""
        back = {real: name for name, real in self.places.items()}
        return [line.rstrip() for line in _replaced(printed, back).splitlines()]

    def typed(self, command: str) -> list[str]:
        """What a command prints: jobs in the session of all tests, unless they name a master."""
        words = shlex.split(self.real(command))
        if words[:2] == ["kfmt", "pipeline"] and "--master" not in words:
            done = self.job(*words[2:], code=None)
            assert f"exit {done.code}\n" in done.out or "--dry-run" in words, done.err
            return self.lines(done.out + done.err)
        if words[0] == "python":
            before, sys.argv = sys.argv, words[1:]
            try:
                return self.printed(lambda: runpy.run_path(words[1], run_name="__main__"))
            finally:
                sys.argv = before
        return self.lines(self.shell(command))

    def shell(self, command: str) -> str:
        """What a process prints; what Spark itself says on standard error is left out."""
        done = subprocess.run(
            ["bash", "-c", self.real(command)],
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
        assert done.returncode in (0, 1), done.stdout + done.stderr
        is_kfmt = command.startswith("kfmt ")
        assert done.returncode == 0 or is_kfmt, done.stderr
        return done.stdout + (done.stderr if is_kfmt else "")

    def settings(self) -> Path:
        """A directory with what makes small work fast."""
        folder = self.scratch / "conf"
        folder.mkdir(exist_ok=True)
        (folder / "spark-defaults.conf").write_text(
            f"spark.executor.extraJavaOptions {JAVA}\n"
            "spark.sql.shuffle.partitions 2\nspark.ui.enabled false\n"
        )
        return folder

    def programs(self) -> Path:
        """A directory with the programs of the page."""
        import pyspark

        folder = self.scratch / "bin"
        if not folder.exists():
            folder.mkdir()
            submit = Path(pyspark.__file__).parent / "bin/spark-submit"
            for name, words in (
                ("kfmt", [sys.executable, "-m", "kfmt_cli"]),
                ("spark-submit", [str(submit)]),
            ):
                (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
                (folder / name).chmod(0o755)
        return folder

    def python(self, code: str) -> list[str]:
        """What a block of Python prints."""
        script = self.scratch / "block.py"
        script.write_text(self.real(code))

        def run() -> None:
            found = runpy.run_path(str(script), {"spark": self.spark, **self.names})
            self.names |= {name: found[name] for name in found if not name.startswith("__")}

        return self.printed(run)

    def sql(self, text: str) -> list[str]:
        """What the statements of a block give."""

        def run() -> None:
            for statement in self.real(text).split(";"):
                frame = self.spark.sql(statement)
                if frame.columns:
                    frame.show(truncate=False)

        return self.printed(run)

    def printed(self, run: Callable[[], Any]) -> list[str]:
        """What is printed meanwhile, without the empty line after a table of Spark."""
        self.capfd.readouterr()
        run()
        return self.lines(self.capfd.readouterr().out.strip("\n"))


def _replaced(text: str, places: dict[str, str]) -> str:
    longest = sorted(places, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest)), lambda found: places[found[0]], text)


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
    places = {name: str(path) for name, path in disks.items()}
    places |= {f"/{name}/": f"{tmp_path}/{name}/" for name in ("tmp", "lake")}
    (tmp_path / "lake").mkdir()
    places["key.pem"] = str(KEPT / "encrypted/test-key.pkcs8.der")
    if "s3://" in text:
        bucket: Bucket = request.getfixturevalue("bucket")
        places |= {"s3://bucket": bucket.url, "s3://lake": bucket.file("lake")}
        bucket.put(SAMPLES / "kafka-3.9.1-broker1", "kafka/broker-1")
        for name, kept in (("tiered", "zstd"), ("encrypted", "encrypted")):
            bucket.put(KEPT / kept / "tiered", name)
        register(spark)  # anew: what says where the bucket is has been set since
    made = Guide(spark, job, capfd, tmp_path, places)
    if "spark://" not in text:
        yield made
        return
    if not PROCESSES.exists():
        pytest.skip("there is no /proc")
    folder = tmp_path / "cluster"
    folder.mkdir()
    with cluster(folder, workers=1) as running:
        places["spark://host:7077"] = running.master
        yield made


@dataclass
class Output:
    """What the page shows in a block of that language, and what was printed."""

    language: str
    shown: tuple[str, ...]
    printed: list[str]


def outputs(text: str, guide: Guide) -> Iterator[Output]:
    """Run all that a chapter shows."""
    after: list[str] = []  # what Python or SQL has printed, which the next block shows
    for block in BLOCK.finditer(text):
        language, body = block[1], block[2]
        if language == "text":
            yield Output(language, tuple(body.splitlines()), after)
            after = []
            continue
        assert after == [], f"before\n{body}"
        if language == "console":
            for command in commands(body):
                yield Output(language, command.shown, guide.typed(command.text))
        elif language == "sh":
            for line in filter(is_run, body.splitlines()):
                said = guide.shell(nearest(line))
                assert "exit 0" in said or "Lost data" in said, said
        else:
            after = {"python": guide.python, "sql": guide.sql}[language](body)
    assert after == []


def updated(text: str, found: list[Output]) -> str:
    """The chapter with what was printed."""
    new = rewritten(text, [output.printed for output in found if output.language == "console"])
    texts = iter(output.printed for output in found if output.language == "text")

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
    found = list(outputs(text, guide))
    assert found
    if request.config.getoption("--update-golden"):
        PAGE.write_text(PAGE.read_text().replace(text, updated(text, found)))
        return
    for output in found:
        assert is_what(output.shown, output.printed), (
            "\n".join(output.printed) + "\npytest --update-golden writes it"
        )


def is_run(line: str) -> bool:
    """Whether a line of a block without output is run."""
    return not line.startswith(tuple(NOT_RUN))


def nearest(command: str) -> str:
    """The form in which a command is run."""
    return _replaced(command, NEAREST)


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
    for text in NEAREST:
        assert sum(text in line for line in lines) == 1, text
    for line in lines:
        done = subprocess.run(["bash", "-n", "-c", line], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
    fences = re.findall(r"^ *```(.*)$", PAGE.read_text(), re.MULTILINE)
    assert set(fences[::2]) == {"console", "sh", "python", "sql", "text"}


def test_names_of_kfmt_on_the_page_are_there() -> None:
    names = re.findall(r"`(kfmt_cli(?:\.\w+)+)", PAGE.read_text())
    assert names
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
