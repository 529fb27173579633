"""A secret in the URL of every command that takes a path: no output has it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from kfmt_cli.core import credentials
from kfmt_cli.core.file_systems import file_system_and_path
from kfmt_cli.errors import UsageError
from tests.support import in_process
from tests.support.lake_runs import without_spark
from tests.support.samples import ORDERS, Done, environment, kfmt
from tests.support.store_server import Bucket, server_environment
from tools.kafka import ROOT

pytest.importorskip("pyarrow")
pytest.importorskip("moto.server")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SECRET = "wJalrXUtnFEMI"  # noqa: S105
GROUPS = ORDERS.parents[1] / "__consumer_offsets-1"
DAMAGED = ROOT / "damaged_segments/flipped-bit-0"
LOG = f"orders-0/{ORDERS.name}"
COMMANDS = [
    *("dump", "dump --records", "cat --json", "check", "stat", "verify-crc --deep", "txn"),
    *("index-check", "index-check --lookup-offset 3", "find --offset 3", "find --key customer-7"),
    *("state", "retention --retention-ms 1", "compaction", "hex --position 0"),
]
FORMATS = {
    **dict.fromkeys(("dump", "dump --records", "stat", "verify-crc --deep"), ("csv",)),
    "check": ("junit", "sarif", "github"),
}


@pytest.fixture(autouse=True)
def _no_saved_credentials() -> Iterator[None]:
    yield
    credentials.CREDENTIALS.credentials_by_host.clear()


@pytest.fixture
def secret_url(bucket: Bucket) -> str:
    """The URL of the bucket, with the secret."""
    return bucket.url.replace("://", f"://PLANTED:{SECRET}@")


def run_command(*arguments: str | Path, cwd: Path, code: int | None = 0) -> Done:
    """Run a command with the credentials of its URL only, and check that no output has them."""
    variables = {**server_environment(), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    result = kfmt(*arguments, cwd=cwd, AWS_EC2_METADATA_DISABLED="true", **variables)
    assert code is None or result.code == code, result.err
    _require_no_secret(result.out + result.err, cwd)
    return result


def _require_no_secret(text: str, directory: Path) -> None:
    import pyarrow.parquet as pq

    assert SECRET not in text
    assert "PLANTED" not in text
    for file in directory.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
        if file.suffix == ".parquet":
            assert SECRET not in str(pq.ParquetFile(file).read().to_pylist()), file


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_has_it(command: str, secret_url: str, bucket: Bucket, tmp_path: Path) -> None:
    name, *options = command.split()
    path_by_command = {"hex": LOG, "dump": LOG, "state": GROUPS.name, "check": DAMAGED.name}
    for directory in (GROUPS, DAMAGED):
        bucket.upload(directory, f"data/{directory.name}")
    for format_ in (None, "json", *FORMATS.get(command, ())):
        has_no_format = format_ is None or name in ("hex", "cat")
        format_options = [] if has_no_format else ["--format", str(format_)]
        result = run_command(
            name,
            f"{secret_url}/data/{path_by_command.get(name, 'orders-0')}",
            *options,
            *format_options,
            cwd=tmp_path,
            code=None,
        )
        assert result.code in (0, 1), result.err
        assert result.out
        if format_ == "json" and '"file"' in result.out:
            assert bucket.url in result.out


@pytest.mark.parametrize("command", ["salvage", "convert-v0-to-v2", "rebuild-index", "build"])
def test_no_output_of_writing_commands_has_it(
    command: str, secret_url: str, tmp_path: Path
) -> None:
    run_command(command, f"{secret_url}/data/orders-0", "made", cwd=tmp_path, code=None)
    run_command(command, ORDERS.parent, f"{secret_url}/data", cwd=tmp_path, code=2)


def test_no_report_has_it(secret_url: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    run_command("report", secret_url, "--to", "page.html", "--data", "page.json", cwd=tmp_path)
    assert (tmp_path / "page.html").exists()
    run_command(
        "report", "--from", f"{secret_url}/none", "--to", "page.html", cwd=tmp_path, code=None
    )


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_no_export_has_it(format_: str, secret_url: str, bucket: Bucket, tmp_path: Path) -> None:
    run_command("export", f"{secret_url}/data", "--to", "lake", "--format", format_, cwd=tmp_path)
    manifest = json.loads((tmp_path / "lake/_kfmt/manifest.json").read_text())
    assert bucket.url in json.dumps(manifest)
    run_command("export", f"{secret_url}/data", "--to", f"{secret_url}/{format_}", cwd=tmp_path)
    run_command(
        "export", f"{secret_url}/data", "--to", f"{secret_url}/{format_}", cwd=tmp_path, code=2
    )
    run_command("export", f"{secret_url}/data", "--to", "x", "--dry-run", cwd=tmp_path)
    _require_no_secret("", _download(f"{bucket.url}/{format_}", tmp_path / "back"))


@pytest.mark.parametrize("job", ["export", "verify"])
def test_no_job_has_it(
    job: str, secret_url: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from kfmt_cli.spark import session

    @contextmanager
    def start_no_session(*_: object) -> Iterator[Callable[[], None]]:
        yield lambda: None

    without_spark(monkeypatch)
    monkeypatch.setattr(session, "start_session", start_no_session)
    for to_path in ("lake", f"{secret_url}/lake"):
        for extra_options in (["--dry-run"], []):
            arguments = ["pipeline", job, f"{secret_url}/data", "--to", to_path, *extra_options]
            code, stdout, stderr = in_process.run(arguments, b"", tmp_path, environment())
            assert code == 0, stderr
            _require_no_secret((stdout + stderr).decode(), tmp_path)
    assert bucket.url in (tmp_path / "lake/_kfmt/summary.json").read_text()
    _require_no_secret("", _download(f"{bucket.url}/lake", tmp_path / "back"))


def test_no_error_has_it(secret_url: str, tmp_path: Path) -> None:
    missing_bucket = f"s3://PLANTED:{SECRET}@no-such-bucket-here/x"
    for url, code in [
        (f"{secret_url}/nothing", 3),
        (missing_bucket, 3),
        (f"{secret_url}/a/../b", 3),
        (f"{secret_url.replace(SECRET, SECRET + '/')}/a", 2),
        (f"gopher://PLANTED:{SECRET}@host/x", 3),
        (f"s3://no-such-bucket-here/x?access_key=PLANTED&secret_key={SECRET}", 3),
        (f"gs://box/x?token={SECRET}", 3),
    ]:
        run_command("dump", url, cwd=tmp_path, code=code)
    run_command("hex", f"{secret_url}/a", f"{secret_url}/b", cwd=tmp_path, code=2)
    run_command("dump", "--limit", secret_url, secret_url, cwd=tmp_path, code=2)
    result = run_command(
        "check", secret_url, secret_url.replace(SECRET, "another"), cwd=tmp_path, code=2
    )
    assert "is given with different credentials; use one run for each" in result.err


def test_no_object_of_python_has_it(secret_url: str) -> None:
    pytest.importorskip("polars")
    url = f"{secret_url}/data/orders-0"
    rows = kfmt_cli.read_records(url)
    table = kfmt_cli.dataset(url)
    answers: list[Any] = [kfmt_cli.check(url), kfmt_cli.stat(url), kfmt_cli.diff(url, url)]
    file = kfmt_cli.read_file(f"{secret_url}/data/{LOG}")
    texts = [*map(repr, [rows, table, file, *answers]), kfmt_cli.scan(url).explain()]
    texts += [str(list(rows.objects())), str([list(answer) for answer in answers])]
    texts += [repr(dataclasses.asdict(finding)) for finding in kfmt_cli.verify(url)]
    assert SECRET not in "".join(texts)
    with pytest.raises(UsageError, match="different credentials") as raised:
        kfmt_cli.check(url.replace(SECRET, "another"))
    assert "another" not in str(raised.value)


def test_the_data_source_gives_its_workers_what_its_paths_have(secret_url: str) -> None:
    pytest.importorskip("pyspark")
    from kfmt_cli.spark.source_options import parse_request

    request = parse_request({"path": f"{secret_url}/data"})
    assert SECRET not in repr(request)
    for options in (
        {"paths": f'"{secret_url}"'},
        {"path": secret_url, "PATH": f"{secret_url}/other"},
    ):
        with pytest.raises(UsageError) as raised:
            parse_request(options)
        assert SECRET not in str(raised.value)


def _download(url: str, directory: Path) -> Path:
    """Copy a bucket's directory."""
    from pyarrow import fs

    system, path = file_system_and_path(url)
    fs.copy_files(path, str(directory), source_filesystem=system)
    return directory
