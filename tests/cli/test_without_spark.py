"""Nothing of kfmt imports pyspark or pyarrow but the pipeline, which says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kfmt_cli.core.file_systems import file_system_at
from kfmt_cli.errors import UsageError
from tests.support.samples import ORDERS, environment

BLOCKED = """
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


def blocked(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *map(str, arguments)],
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
        done = blocked(*arguments)
        assert done.returncode == 0, done.stderr


def test_the_pipeline_says_what_is_missing(tmp_path: Path) -> None:
    done = blocked("pipeline", "verify", ORDERS, "--to", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("is not installed: pip install 'kfmt-cli[spark]'")
    assert len(done.stderr.splitlines()) == 1


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
    done = blocked(*arguments)
    host = arguments[1].rpartition("/")[0]
    words = f"kfmt: {host}: needs pyarrow: pip install 'kfmt-cli[remote]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", words)


def test_a_url_without_fsspec_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"needs fsspec: pip install 'kfmt-cli\[remote\]'"):
        file_system_at("sftp://no-such-host/x")
