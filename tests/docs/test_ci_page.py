"""The jobs of docs/ci.md, run unchanged: they pass healthy segments and no others.

The services are not here, so `uses: actions/checkout` is a clone, and the Python that
`actions/setup-python` brings is a new environment. `pip install kfmt-cli` is real, but its index is
a directory with a wheel of this clone, and kfmt's dependencies are already installed.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.samples import ORDERS, TXN
from tools.guides import blocks
from tools.kafka import ROOT

yaml = pytest.importorskip("yaml")

PAGE = (ROOT / "docs/ci.md").read_text()
ANNOTATION = re.compile(r"^::(error|warning|notice) file=([^,]+),", re.MULTILINE)
REPLACED_ACTIONS = ("actions/setup-python@", "github/codeql-action/upload-sarif@")


@dataclass(frozen=True)
class JobResult:
    """A finished job: its first exit code that is not 0, and its output."""

    code: int
    log: str


@dataclass(frozen=True)
class Runner:
    """A machine of a CI service."""

    repository: Path
    workspace: Path
    env: dict[str, str]

    def run(self, steps: list[dict[str, Any]]) -> JobResult:
        """Run the steps until one fails."""
        log = ""
        for step in steps:
            if step.get("uses", "").startswith("actions/checkout@"):
                clone = ["git", "clone", "-q", str(self.repository), str(self.workspace)]
                subprocess.run(clone, check=True, env=self.env)
            elif "uses" in step:
                assert step["uses"].startswith(REPLACED_ACTIONS)
            else:
                command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
                result = subprocess.run(
                    command,
                    cwd=self.workspace,
                    env=self.env,
                    check=False,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                log += result.stdout
                if result.returncode and not step.get("continue-on-error"):
                    return JobResult(result.returncode, log)
        return JobResult(0, log)


def build_wheel(directory: Path) -> None:
    """Write a wheel of this kfmt, compiled or not."""
    distribution = metadata.distribution("kfmt-cli")
    name = f"kfmt_cli-{distribution.version}"
    text_by_name = {
        "METADATA": distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "",
        "entry_points.txt": distribution.read_text("entry_points.txt") or "",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(directory / f"{name}-py3-none-any.whl", "w") as archive:
        for path in sorted((ROOT / "kfmt_cli").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
        for file_name, text in text_by_name.items():
            archive.writestr(f"{name}.dist-info/{file_name}", text)
        record = io.StringIO()
        csv.writer(record).writerows([path, "", ""] for path in archive.namelist())
        archive.writestr(f"{name}.dist-info/RECORD", record.getvalue())


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment variables of a machine with pip and kfmt's dependencies, but no kfmt."""
    directory = tmp_path_factory.mktemp("machine")
    requirements, index = directory / "needed", directory / "index"
    for subdirectory in (requirements, index):
        subdirectory.mkdir()
    build_wheel(index)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "kfmt" not in path.name and path.name not in ("pip", "_distutils_hack"):
            (requirements / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
    (site_packages,) = (directory / "venv/lib").glob("python*/site-packages")
    (site_packages / "needed.pth").write_text(f"{requirements}\n")
    inherited = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    yield {
        **inherited,
        "PATH": f"{directory}/venv/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(directory),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    shutil.rmtree(directory)


@pytest.fixture(params=["healthy", "damaged"])
def state(request: pytest.FixtureRequest) -> str:
    """The state of the segments in the repository."""
    return str(request.param)


@pytest.fixture
def runner(state: str, python: dict[str, str], tmp_path: Path) -> Runner:
    """A machine, and a repository with segments, committed to git."""
    repository = tmp_path / "repository"
    segments = repository / "build/segments"
    for log in (ORDERS, TXN):
        shutil.copytree(log.parent, segments / log.parent.name)
    if state == "damaged":
        for name in ("flipped-bit-0", "index-not-at-batch-0"):
            shutil.copytree(ROOT / "damaged_segments" / name, segments / name)
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for arguments in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "segments")):
        subprocess.run(["git", *arguments], cwd=repository, check=True, env=python)
    return Runner(repository, tmp_path / "workspace", python)


def snippet(index: int) -> Any:
    """A block of YAML of the page."""
    return yaml.safe_load(blocks(PAGE, "yaml")[index])


def github_steps() -> list[dict[str, Any]]:
    """The steps of the page's job for GitHub."""
    steps: list[dict[str, Any]] = snippet(0)["jobs"]["segments"]["steps"]
    return steps


def test_the_job_for_github_annotates_files_that_are_there(runner: Runner, state: str) -> None:
    result = runner.run(github_steps())
    files = [file for _, file in ANNOTATION.findall(result.log)]
    assert result.code == (1 if state == "damaged" else 0), result.log
    assert bool(files) is (state == "damaged")
    assert all((runner.workspace / file).is_file() for file in files)
    assert {Path(file).parts[:2] for file in files} <= {("build", "segments")}
    if files:
        assert {Path(file).parts[2] for file in files} == {"flipped-bit-0", "index-not-at-batch-0"}


@pytest.mark.parametrize("state", ["healthy"])
def test_the_job_installs_kfmt_itself(runner: Runner) -> None:
    assert runner.run(github_steps()[:-1]).code == 0
    result = runner.run([{"run": "command -v kfmt; python -c 'import kfmt_cli; print(kfmt_cli)'"}])
    assert str(ROOT) not in result.log
    assert result.log.count("/venv/") == 2


def test_the_steps_with_sarif_go_on_and_leave_a_whole_file(runner: Runner, state: str) -> None:
    result = runner.run([*github_steps()[:-1], *snippet(1)])
    assert result.code == 0, result.log
    (sarif_run,) = json.loads((runner.workspace / snippet(1)[1]["with"]["sarif_file"]).read_text())[
        "runs"
    ]
    paths = [
        location["physicalLocation"]["artifactLocation"]["uri"]
        for finding in sarif_run["results"]
        for location in finding["locations"]
    ]
    assert bool(paths) is (state == "damaged")
    assert all((runner.workspace / location).is_file() for location in paths)


def test_the_job_for_gitlab_leaves_failed_tests(runner: Runner, state: str) -> None:
    job = snippet(2)["segments"]
    checkout, *_ = github_steps()
    result = runner.run([checkout, *({"run": line} for line in job["script"])])
    assert result.code == (1 if state == "damaged" else 0), result.log
    report = (runner.workspace / job["artifacts"]["reports"]["junit"]).read_text()
    failures = list(ET.fromstring(report).iter("failure"))  # noqa: S314 (kfmt's own)
    assert bool(failures) is (state == "damaged")
