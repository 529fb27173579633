"""Only the pipeline imports pyspark and pyarrow, and it reports what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.errors import UsageError
from tests.support.samples import ORDERS, environment

BLOCKING_PROGRAM = """
import sys
for name in ("pyspark", "pyarrow", "pandas"):
    sys.modules[name] = None
from importlib.util import find_spec
import importlib.util
importlib.util.find_spec = lambda name, package=None: (
    None if name in ("pyspark", "pyarrow") else find_spec(name, package))
from kfmt_cli.__main__ import main
sys.argv = ["kfmt", *sys.argv[1:]]
main()
"""


def run_blocked(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKING_PROGRAM, *map(str, arguments)],
        capture_output=True,
        env=environment(),
        text=True,
        check=False,
        timeout=60,
    )


def test_everything_else_works(tmp_path: Path) -> None:
    for arguments in (
        ("--version",),
        ("dump", ORDERS),
        ("verify-crc", "--deep", ORDERS),
        ("index-check", ORDERS),
        ("rebuild-index", ORDERS, tmp_path / "out"),
        ("pipeline", "--help"),
        ("pipeline", "export", "--help"),
    ):
        result = run_blocked(*arguments)
        assert result.returncode == 0, result.stderr


def test_the_pipeline_says_what_is_missing(tmp_path: Path) -> None:
    result = run_blocked("pipeline", "verify", ORDERS, "--to", tmp_path / "out")
    assert result.returncode == 2
    assert result.stderr.strip().endswith("is not installed: pip install 'kfmt-cli[spark]'")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "s3://b/x"),
        ("cat", "s3://x/y"),
        ("dump", "https://127.0.0.1:9/x.log"),
        ("stat", "gs://b/x"),
    ],
    ids=" ".join,
)
def test_a_url_without_the_extra_says_which_one(arguments: tuple[str, str]) -> None:
    result = run_blocked(*arguments)
    host = arguments[1].rpartition("/")[0]
    message = f"kfmt: {host}: needs pyarrow: pip install 'kfmt-cli[remote]'\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", message)


def test_a_url_without_fsspec_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"needs fsspec: pip install 'kfmt-cli\[remote\]'"):
        file_system_and_path("sftp://no-such-host/x")
