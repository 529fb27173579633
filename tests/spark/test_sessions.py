"""Sessions that others have started, other Pythons on the path, other working directories."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.samples import ORDERS, environment, kfmt
from tools.kafka import ROOT

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark import cloudpickle

import kfmt_cli
from kfmt_cli.spark.worker import (
    DriverEnvironment,
    prepare_driver_environment,
    use_driver_python,
    warn_missing_python,
    wrap_with_driver_kfmt,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.clusters,
    pytest.mark.skipif(shutil.which("java") is None, reason="java not found"),
]
README = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
before = spark.sparkContext.pythonExec

from kfmt_cli.spark import register

register(spark)
spark.read.format("kfmt").load(sys.argv[1]).createOrReplaceTempView("records")
spark.sql("SELECT topic, count(*) FROM records GROUP BY topic").show()
assert spark.sparkContext.pythonExec == before
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a virtual environment, a PATH whose python3 is of no use, and another
    kfmt_cli, which fails when it is imported."""
    directory = tmp_path_factory.mktemp("elsewhere")
    venv = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text(f"{ROOT}\n{sysconfig.get_paths()['purelib']}\n")
    (directory / "bin").mkdir()
    python3 = directory / "bin/python3"
    python3.write_text("#!/bin/sh\necho 'this is not the python3 you want' >&2\nexit 1\n")
    python3.chmod(0o755)
    other = directory / "standing/kfmt_cli/__init__.py"
    other.parent.mkdir(parents=True)
    other.write_text("raise ImportError('another kfmt_cli')\n")
    (directory / "readme.py").write_text(README)
    (directory / "kfmt.py").write_text("from kfmt_cli.__main__ import main\nmain()\n")
    return directory


def run(elsewhere: Path, cwd: Path, *arguments: str | Path, **env: str) -> str:
    """The output of a script in the virtual environment, which nobody has activated."""
    path = environment()["PATH"]
    variables = environment(PATH=f"{elsewhere / 'bin'}:{path}", **env)
    del variables["PYTHONPATH"]
    result = subprocess.run(
        [elsewhere / "venv/bin/python", *map(str, arguments)],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def load_in_worker(elsewhere: Path, driver_env: DriverEnvironment) -> str:
    """The path of kfmt_cli that a function finds in a worker, or the worker's error."""

    def find_kfmt() -> str:  # in here, so that the worker needs no module of the tests
        import kfmt_cli

        return str(Path(kfmt_cli.__file__).parent)

    file = elsewhere / "pickled"
    file.write_bytes(cloudpickle.dumps(wrap_with_driver_kfmt(driver_env, find_kfmt)))  # type: ignore[no-untyped-call]
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))())"
    result = subprocess.run(
        [elsewhere / "venv/bin/python", "-c", script, file],
        cwd=elsewhere / "standing",
        capture_output=True,
        text=True,
        check=False,
    )
    return (result.stdout or result.stderr).splitlines()[-1]


def test_a_worker_takes_the_drivers_kfmt_and_says_when_it_has_another(elsewhere: Path) -> None:
    kfmt_directory = ROOT / "kfmt_cli"
    prefix = str(elsewhere / "venv")
    assert load_in_worker(elsewhere, DriverEnvironment(str(kfmt_directory), prefix)) == str(
        kfmt_directory
    )
    other = elsewhere / "standing/kfmt_cli/__init__.py"
    text = other.read_text()
    try:
        other.write_text("__version__ = '0.0.1'")
        message = load_in_worker(elsewhere, DriverEnvironment(None, prefix))
        assert f"the driver has kfmt-cli {kfmt_cli.__version__}, but the worker's Python" in message
        assert f"{elsewhere / 'venv/bin/python'}, has 0.0.1: before" in message
        assert "the session starts, set PYSPARK_PYTHON" in message
        assert (
            load_in_worker(elsewhere, DriverEnvironment(str(kfmt_directory), "another Python"))
            == message
        )
    finally:
        other.write_text(text)


def test_on_a_cluster_what_to_set_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Cluster:
        master = "spark://host:7077"
        pythonExec = "python3"  # noqa: N815 (Spark's name)

    context: Any = Cluster()
    session: Any = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(getAll={}))
    assert prepare_driver_environment(session).package_directory is None
    with use_driver_python(context):
        assert context.pythonExec == "python3"
    warn_missing_python(context)
    assert "set PYSPARK_PYTHON before the session starts" in caplog.text
    caplog.clear()
    context.pythonExec = "./env/bin/python"
    warn_missing_python(context)
    assert not caplog.text


def test_the_snippet_of_the_readme_with_a_session_that_was_there_before(elsewhere: Path) -> None:
    out = run(elsewhere, elsewhere / "standing", elsewhere / "readme.py", ORDERS.parent)
    assert "|orders|    1500|" in out


@pytest.mark.parametrize("directory", ["standing", "/proc"])
def test_jobs_run_wherever_one_stands(directory: str, elsewhere: Path, tmp_path: Path) -> None:
    job = "stats" if directory == "/proc" else "verify"
    command: list[str | Path] = [elsewhere / "kfmt.py", "pipeline", job, ORDERS.parent]
    command += ["--to", tmp_path / "out"]
    out = run(elsewhere, elsewhere / directory, *command, PYSPARK_PYTHON="python3")
    assert "exit 0" in out


def test_a_session_that_cannot_start_is_one_line_in_time(tmp_path: Path) -> None:
    """No master, and a master that has no worker."""
    command = ["pipeline", "verify", str(ORDERS.parent), "--to", str(tmp_path / "out")]
    command += ["--patience", "12"]
    started = time.monotonic()
    result = kfmt(*command, "--master", "spark://127.0.0.1:9")
    assert (result.code, result.out, result.err.count("\n")) == (4, "", 1)
    assert result.err.startswith("kfmt: Spark ")
    assert time.monotonic() - started < 60
    assert not (tmp_path / "out").exists()
    assert kfmt(*command, JAVA_HOME="/nowhere").code == 4
