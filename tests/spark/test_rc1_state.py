"""kfmt reads and continues the `_kfmt` that 1.0.0rc1 wrote (commit 4535fd47, in `/data`).

`tests/kept/kfmt-1.0.0rc1` has the directories of four jobs about the same two logs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.lake_runs import export, manifest, without_spark
from tests.support.samples import ORDERS

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow.parquet")

from kfmt_cli.arrow.export.exported_rows import PartitionFile, PartitionRowRange
from kfmt_cli.arrow.restore.restored_partition import ExportedPartition
from kfmt_cli.checks.base import Scope
from kfmt_cli.checks.registry import create_log_checks
from kfmt_cli.errors import UsageError
from kfmt_cli.execution.file_split import format_split_name
from kfmt_cli.log.selection.record_filter import RecordFilter
from kfmt_cli.log.selection.regex import BytesRegex
from kfmt_cli.log.selection.selection import Selection, SelectionOptions
from kfmt_cli.spark.job_directory import JobDirectory
from kfmt_cli.spark.jobs import export_job, find_job, verify
from kfmt_cli.spark.jobs.context import JobContext
from kfmt_cli.spark.source_options import parse_request
from kfmt_cli.spark.split_processing import merge_file_findings
from kfmt_cli.topics.payloads import PayloadDeclaration, PayloadDeclarations, SchemaSource

RC1_DIRECTORY = Path("tests/kept/kfmt-1.0.0rc1")
RC1_ROOT = "/data"
MODIFIED = 1_767_225_600  # seconds; of the logs and their index
SEGMENT = ORDERS.with_name("00000000000000000240.log")
SPLIT_BYTES = 31_402


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The logs: one is written twice, so that its offsets go backwards at byte 31,402, where a
    split begins; the other has a damaged batch."""
    root = tmp_path / "in"
    data = SEGMENT.read_bytes()
    assert len(data) == SPLIT_BYTES
    damaged = bytearray(data)
    damaged[7000] ^= 1
    for name, content in (
        ("t-0/00000000000000000240.log", data + data),
        ("t-0/00000000000000000240.index", (239).to_bytes(4, "big") + (31402).to_bytes(4, "big")),
        ("t-1/00000000000000000240.log", damaged),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        os.utime(root / name, (MODIFIED, MODIFIED))
    return root


def copy_job_directory(name: str, logs: Path) -> Path:
    """A job's directory as rc1 would have written it about `logs`: with their paths, of which the
    names of results have a digest."""
    target = logs.parent / name
    shutil.copytree(RC1_DIRECTORY / name, target)
    replacements = {RC1_ROOT: str(logs.parent)}
    for log in logs.glob("*/*.log"):
        rc1_path = f"{RC1_ROOT}/{log.relative_to(logs.parent)}"
        for start in (0, SPLIT_BYTES):
            replacements[format_split_name(rc1_path, start)] = format_split_name(str(log), start)
    for path in target.rglob("_kfmt/**/*.json*"):
        text = path.read_text()
        for rc1_text, local_text in replacements.items():
            text = text.replace(rc1_text, local_text)
        path.write_text(text)
        path.rename(path.with_name(_with_replacements(path.name, replacements)))
    for path in target.rglob("_kfmt/commits/*.json"):  # it has the sizes of others
        commit = json.loads(path.read_text())
        for part in commit["parts"]:
            part["bytes"] = (path.parent.parent / "manifest" / part["name"]).stat().st_size
        path.write_text(json.dumps(commit))
    for path in target.rglob("_kfmt/plan.json"):
        plan = json.loads(path.read_text())
        for part in plan["parts"]:
            part["bytes"] = (path.parent / "plan" / part["name"]).stat().st_size
        path.write_text(json.dumps(plan))
    return target


def _with_replacements(name: str, replacements: dict[str, str]) -> str:
    for rc1_text, local_text in replacements.items():
        name = name.replace(rc1_text, local_text)
    return name


def job_context(logs: Path, to: Path, file_format: str, **options: str) -> JobContext:
    request = parse_request({"paths": json.dumps([str(logs)]), "table": "segments", **options})
    return JobContext(None, request, str(to), file_format, lambda _: None)


def test_stored_results_are_merged_at_boundaries(logs: Path) -> None:
    """Their facts are found, and no split is processed again."""
    to = copy_job_directory("verify", logs)
    context = job_context(logs, to, "json", deep="true", maxSplitBytes=str(SPLIT_BYTES))
    directory = verify.prepare(context)
    directory.plan_splits(context.request, context.readable_inputs())
    assert len(directory.splits) == 3
    assert not directory.find_unprocessed_splits()
    findings = [
        (row["code"], row["message"])
        for _, result in merge_file_findings(directory.iter_results())
        for row in result.findings
    ]
    assert findings == [
        ("offsets-backwards", "batch 12 starts at offset 240, but follows offset 479"),
        (
            "crc-mismatch",
            "batch 2, offsets 280–299: stored bab0b994, computed d7ed1b7a over bytes 5333–7928",
        ),
    ]


def test_facts_have_keys_that_never_change() -> None:
    keys = [
        check.facts_key
        for scope in (Scope.HEADERS, Scope.RECORDS)
        for check in create_log_checks(scope, None)
    ]
    assert sorted(keys) == [
        *("Checksums", "ControlRecords", "Headers", "MaxTimestamps", "RecordOffsets"),
        "WrapperOffsets",
    ]


def prepare_export(logs: Path, to: Path, key: bytes = b"^k") -> JobDirectory:
    headers = ((b"a", b"b"), (b"c", None))
    selection = Selection(250, record_filter=RecordFilter(BytesRegex(key), b"x", headers, 1))
    context = job_context(logs, to, "json")
    context.request = replace(
        context.request,
        selection_options=SelectionOptions(selection, only_committed=True),
        payload_declarations=PayloadDeclarations(
            value=PayloadDeclaration("avro", SchemaSource(logs.parent / "schema.avsc"))
        ),
    )
    return export_job.prepare(context).job_directory


def prepare_find(logs: Path, to: Path, key: bytes = b"1") -> JobDirectory:
    context = job_context(logs, to, "json")
    selection = Selection(250, record_filter=RecordFilter(BytesRegex(key)))
    context.request = replace(context.request, selection_options=SelectionOptions(selection))
    return find_job.prepare(context)


@pytest.mark.parametrize(
    ("name", "prepare", "option"),
    [("export", prepare_export, "match"), ("find", prepare_find, "asked")],
)
def test_a_directory_with_equal_options_is_continued(
    name: str, prepare: Callable[..., JobDirectory], option: str, logs: Path
) -> None:
    to = copy_job_directory(name, logs)
    prepare(logs, to)
    with pytest.raises(UsageError, match=f"other options .*{option} was"):
        prepare(logs, to, key=b"other")


def test_a_refusal_names_no_option_that_only_has_another_text(logs: Path) -> None:
    to = copy_job_directory("export", logs)
    with pytest.raises(UsageError, match="other options") as raised:
        prepare_export(logs, to, key=b"other")
    assert str(raised.value).count(" was ") == 1


@pytest.mark.parametrize("prepare", [prepare_export, prepare_find])
def test_options_are_stored_as_plain_values(
    prepare: Callable[..., JobDirectory], logs: Path
) -> None:
    directory = prepare(logs, logs.parent / "new")
    context = job_context(logs, logs.parent / "new", "json")
    directory.plan_splits(context.request, context.readable_inputs())
    stored = (logs.parent / "new/_kfmt/job.json").read_text()
    assert json.loads(stored)["version"] == 10
    assert "(" not in stored
    prepare(logs, logs.parent / "new")
    with pytest.raises(UsageError, match="other options"):
        prepare(logs, logs.parent / "new", key=b"other")


def test_a_table_is_continued(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged inputs are not exported again; rows of deleted inputs leave files of rc1."""
    without_spark(monkeypatch)
    to = copy_job_directory("table", logs)
    before = {path: path.stat().st_ino for path in to.glob("*/*.parquet")}
    export(to, logs, tables="records,batches")
    assert {path: path.stat().st_ino for path in to.glob("*/t-0-*.parquet")} == before
    shutil.rmtree(logs / "t-0")
    export(to, logs, tables="records,batches", mode="sync")
    [remaining] = manifest(to)["inputs"]
    assert (remaining["partition"], remaining["rows"]) == (1, {"records": 240, "batches": 12})


def test_restored_partitions_are_recognised() -> None:
    name = "t-0-00000000000000000240-000000000000-5028250e3b28.parquet"
    records = f"{RC1_ROOT}/table/records/{name}", 17396, 1795865798836031327
    batches = f"{RC1_ROOT}/table/batches/{name}", 11140, 1795865798852031328
    rows = {0: ((480, 240, 479), (24, 259, 479)), 1: ((240, 240, 479), (12, 259, 479))}
    for partition, (record_rows, batch_rows) in rows.items():
        exported = ExportedPartition(
            "t",
            partition,
            [PartitionFile(*records, PartitionRowRange("t", partition, *record_rows))],
            [PartitionFile(*batches, PartitionRowRange("t", partition, *batch_rows))],
        )
        marker = json.loads(
            (RC1_DIRECTORY / f"restored/_kfmt/restored/t-{partition}.json").read_text()
        )
        assert exported.source_digest(None) == marker["of"]
