"""One secret, planted in the URL of every command that takes a path: no output has it."""

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
from kfmt_cli.core.file_systems import file_system_at
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
def nothing_kept() -> Iterator[None]:
    yield
    credentials.CREDENTIALS.by_location.clear()


@pytest.fixture
def planted(bucket: Bucket) -> str:
    """The URL of the bucket, with the secret."""
    return bucket.url.replace("://", f"://PLANTED:{SECRET}@")


def ran(*arguments: str | Path, cwd: Path, code: int | None = 0) -> Done:
    """A command that has no credentials but those of its URL; nobody sees these."""
    env = {**server_environment(), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    done = kfmt(*arguments, cwd=cwd, AWS_EC2_METADATA_DISABLED="true", **env)
    assert code is None or done.code == code, done.err
    _need_clean(done.out + done.err, cwd)
    return done


def _need_clean(text: str, written: Path) -> None:
    import pyarrow.parquet as pq

    assert SECRET not in text
    assert "PLANTED" not in text
    for file in written.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
        if file.suffix == ".parquet":
            assert SECRET not in str(pq.ParquetFile(file).read().to_pylist()), file


@pytest.mark.parametrize("command", COMMANDS)
def test_no_output_has_it(command: str, planted: str, bucket: Bucket, tmp_path: Path) -> None:
    name, *options = command.split()
    below = {"hex": LOG, "dump": LOG, "state": GROUPS.name, "check": DAMAGED.name}
    for folder in (GROUPS, DAMAGED):
        bucket.upload(folder, f"data/{folder.name}")
    for format_ in (None, "json", *FORMATS.get(command, ())):
        has_none = format_ is None or name in ("hex", "cat")
        more = [] if has_none else ["--format", str(format_)]
        done = ran(
            name,
            f"{planted}/data/{below.get(name, 'orders-0')}",
            *options,
            *more,
            cwd=tmp_path,
            code=None,
        )
        assert done.code in (0, 1), done.err
        assert done.out
        if format_ == "json" and '"file"' in done.out:
            assert bucket.url in done.out


@pytest.mark.parametrize("command", ["salvage", "convert-v0-to-v2", "rebuild-index", "build"])
def test_no_output_of_what_writes_has_it(command: str, planted: str, tmp_path: Path) -> None:
    ran(command, f"{planted}/data/orders-0", "made", cwd=tmp_path, code=None)
    ran(command, ORDERS.parent, f"{planted}/data", cwd=tmp_path, code=2)


def test_no_report_has_it(planted: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    ran("report", planted, "--to", "page.html", "--data", "page.json", cwd=tmp_path)
    assert (tmp_path / "page.html").exists()
    ran("report", "--from", f"{planted}/none", "--to", "page.html", cwd=tmp_path, code=None)


@pytest.mark.parametrize("format_", ["parquet", "json", "csv"])
def test_no_export_has_it(format_: str, planted: str, bucket: Bucket, tmp_path: Path) -> None:
    ran("export", f"{planted}/data", "--to", "lake", "--format", format_, cwd=tmp_path)
    manifest = json.loads((tmp_path / "lake/_kfmt/manifest.json").read_text())
    assert bucket.url in json.dumps(manifest)
    ran("export", f"{planted}/data", "--to", f"{planted}/{format_}", cwd=tmp_path)
    ran("export", f"{planted}/data", "--to", f"{planted}/{format_}", cwd=tmp_path, code=2)
    ran("export", f"{planted}/data", "--to", "x", "--dry-run", cwd=tmp_path)
    _need_clean("", _downloaded(f"{bucket.url}/{format_}", tmp_path / "back"))


@pytest.mark.parametrize("job", ["export", "verify"])
def test_no_job_has_it(
    job: str, planted: str, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from kfmt_cli.spark import session

    @contextmanager
    def nowhere(*_: object) -> Iterator[Callable[[], None]]:
        yield lambda: None

    without_spark(monkeypatch)
    monkeypatch.setattr(session, "start_session", nowhere)
    for to in ("lake", f"{planted}/lake"):
        for more in (["--dry-run"], []):
            arguments = ["pipeline", job, f"{planted}/data", "--to", to, *more]
            code, out, err = in_process.run(arguments, b"", tmp_path, environment())
            assert code == 0, err
            _need_clean((out + err).decode(), tmp_path)
    assert bucket.url in (tmp_path / "lake/_kfmt/summary.json").read_text()
    _need_clean("", _downloaded(f"{bucket.url}/lake", tmp_path / "back"))


def test_no_error_has_it(planted: str, tmp_path: Path) -> None:
    other = f"s3://PLANTED:{SECRET}@no-such-bucket-here/x"
    for url, code in [
        (f"{planted}/nothing", 3),
        (other, 3),
        (f"{planted}/a/../b", 3),
        (f"{planted.replace(SECRET, SECRET + '/')}/a", 2),
        (f"gopher://PLANTED:{SECRET}@host/x", 3),
        (f"s3://no-such-bucket-here/x?access_key=PLANTED&secret_key={SECRET}", 3),
        (f"gs://box/x?token={SECRET}", 3),
    ]:
        ran("dump", url, cwd=tmp_path, code=code)
    ran("hex", f"{planted}/a", f"{planted}/b", cwd=tmp_path, code=2)
    ran("dump", "--limit", planted, planted, cwd=tmp_path, code=2)
    done = ran("check", planted, planted.replace(SECRET, "another"), cwd=tmp_path, code=2)
    assert "is given with different credentials; use one run for each" in done.err


def test_no_object_of_python_has_it(planted: str) -> None:
    pytest.importorskip("polars")
    url = f"{planted}/data/orders-0"
    rows = kfmt_cli.read_records(url)
    table = kfmt_cli.dataset(url)
    answers: list[Any] = [kfmt_cli.check(url), kfmt_cli.stat(url), kfmt_cli.diff(url, url)]
    file = kfmt_cli.read_file(f"{planted}/data/{LOG}")
    shown = [*map(repr, [rows, table, file, *answers]), kfmt_cli.scan(url).explain()]
    shown += [str(list(rows.objects())), str([list(answer) for answer in answers])]
    shown += [repr(dataclasses.asdict(finding)) for finding in kfmt_cli.verify(url)]
    assert SECRET not in "".join(shown)
    with pytest.raises(UsageError, match="different credentials") as raised:
        kfmt_cli.check(url.replace(SECRET, "another"))
    assert "another" not in str(raised.value)


def test_the_data_source_gives_its_workers_what_its_paths_have(planted: str) -> None:
    pytest.importorskip("pyspark")
    from kfmt_cli.spark.source_options import parse_request

    request = parse_request({"path": f"{planted}/data"})
    assert SECRET not in repr(request)
    for options in ({"paths": f'"{planted}"'}, {"path": planted, "PATH": f"{planted}/other"}):
        with pytest.raises(UsageError) as raised:
            parse_request(options)
        assert SECRET not in str(raised.value)


def _downloaded(url: str, to: Path) -> Path:
    """A copy of a bucket's directory."""
    from pyarrow import fs

    system, below = file_system_at(url)
    fs.copy_files(below, str(to), source_filesystem=system)
    return to
