"""A contributor adds one file and at most one line in a registry; every surface then has it.

Each test adds something as CONTRIBUTING says, through the registries alone, and finds it in every
output, in the help and in the docs.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kfmt_cli
from kfmt_cli.checks import registry
from kfmt_cli.checks.base import LogCheck, Scope
from kfmt_cli.checks.history.history_check import HistoryCheck
from kfmt_cli.checks.history.log_history import LogHistory
from kfmt_cli.checks.log.checker import LogChecker
from kfmt_cli.checks.partition.base import PartitionCheck, SegmentFacts
from kfmt_cli.cli import kfmt
from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.layout import Layout
from kfmt_cli.core.layout.protocol_types import String
from kfmt_cli.core.layout.versions import layout_at_version
from kfmt_cli.core.layout.wire_types import Int8, Int32, Int64
from kfmt_cli.disk.kinds import KINDS, classify_name
from kfmt_cli.disk.kinds.fixed_size_rows import FixedSizeRowsReader, build_row_type
from kfmt_cli.disk.kinds.kind import FileContents, FileKind, FileLevel, InputFile, read_small_file
from kfmt_cli.findings import codes
from kfmt_cli.findings.finding import Finding
from kfmt_cli.log.block import Block, create_batch_finding_with_detail
from kfmt_cli.log.records import RecordColumns
from kfmt_cli.render import output_formats
from kfmt_cli.render.sinks.objects import ObjectSink
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.columnar_rows import JsonObject, build_columnar_rows
from kfmt_cli.topics import DECODED_TOPICS, KnownTopic
from kfmt_cli.topics.decoder import MessageType
from tests.support.samples import ORDERS
from tools import make_docs
from tools.kafka import ROOT

MODULE = __name__
# Kinds of findings: entries of `findings/findings.md`.
NEW_FINDINGS = """
## Recipes

### `marks-trailing-bytes`

**error** · The file ends with a partial entry.

### `few-segments`

**warning** · A partition has fewer than nine segments.

- *what to do*: Send more records.

### `batch-grows`

**note** · A batch is larger than the one before it.

### `large-first-batch`

**note** · The first batch of a log has several records.

### `long-history`

**note** · The logs of a partition hold more than 1000 offsets.
"""
((SUBJECT, NEW_CODES),) = codes.parse_codes(NEW_FINDINGS)
TRAILING_BYTES, FEW_SEGMENTS, GROWS, LARGE_FIRST_BATCH, LONG_HISTORY = NEW_CODES


class Ran:
    """Runs kfmt in this process, so that it sees the registry entries that a test adds."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.code = 0
        self.err = ""

    def __call__(self, *arguments: str | Path) -> str:
        """Run kfmt and return its output."""
        self._capfd.readouterr()
        try:
            exit_code = kfmt.main(list(map(str, arguments)), "kfmt", standalone_mode=False)
            self.code = int(exit_code or 0)
        except SystemExit as system_exit:
            self.code = int(system_exit.code or 0)
        out, self.err = self._capfd.readouterr()
        return out


@pytest.fixture(autouse=True)
def new_codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(codes.CODES_BY_SUBJECT, SUBJECT, NEW_CODES)
    codes.finding_code_by_name.cache_clear()
    yield
    codes.finding_code_by_name.cache_clear()


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ran:
    monkeypatch.setenv("COLUMNS", "100")
    return Ran(capfd)


def rows(out: str, type_: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, out.splitlines()) if row["type"] == type_]


@pytest.fixture
def new_kinds() -> Iterator[list[FileKind]]:
    """The registry of kinds, which is restored after the test."""
    saved = [*KINDS]
    classify_name.cache_clear()
    yield KINDS
    KINDS[:] = saved
    classify_name.cache_clear()


# A binary kind: a Layout, a reader of it, a Kind.

WATERMARK = Layout(
    "Watermark",
    "An entry of `.marks`.",
    "none: made for a test",
    (
        Field("watermark", Int64, "How far someone has read."),
        Field("reader", Int32, "Who it was."),
    ),
)
MARKS = FileKind(
    "marks",
    FileLevel.SEGMENT,
    suffix=".marks",
    row_types=(build_row_type("watermark", WATERMARK),),
    layouts=(WATERMARK,),
    reader=FixedSizeRowsReader(build_row_type("watermark", WATERMARK), WATERMARK, TRAILING_BYTES),
)


def test_a_binary_kind(run: Ran, new_kinds: list[FileKind], tmp_path: Path) -> None:
    new_kinds.append(MARKS)
    file = tmp_path / "00000000000000000000.marks"
    file.write_bytes(struct.pack(">qiqi", 7, 1, 9, 2) + b"odd")
    assert "watermark" in run("dump", file)
    assert run.code == 1
    assert "marks-trailing-bytes" in run.err
    assert [row["watermark"] for row in rows(run("dump", file, "--json"), "watermark")] == [7, 9]
    assert (
        run("dump", file, "--format", "csv").splitlines()[0]
        == "file,topic,partition,log_dir,position,watermark,reader"
    )
    contents = kfmt_cli.read_file(file)
    assert [row["reader"] for row in contents.objects()] == [1, 2]
    assert next(contents.columns())["watermark"].tolist() == [7, 9]
    arrow = pytest.importorskip("pyarrow")
    assert arrow.Table.from_batches(contents.arrow())["watermark"].to_pylist() == [7, 9]
    assert ".marks" in run("dump", "--help")
    assert "`marks`" in make_docs.formats()
    assert "ends with a partial entry" in run("explain", "marks-trailing-bytes")
    assert "Who it was." in run("format", "x.marks")
    assert "How far someone has read." in make_docs.formats()


# A text kind: a row type, a function that reads, a Kind.

QUORUM = RowType(
    "voter",
    "A voter.",
    (Column("name", ColumnKind.TEXT, "Who votes."), Column("votes", doc="How many votes.")),
)


def read_quorum(file: InputFile) -> FileContents:
    lines = read_small_file(file, 1 << 20).decode().splitlines()
    values: list[list[str | int]] = [[name, int(n)] for name, n in map(str.split, lines)]
    return FileContents(0, [build_columnar_rows(QUORUM, values)])


QUORUM_FILE = FileKind(
    "quorum",
    FileLevel.PARTITION,
    names=frozenset({"quorum-votes"}),
    row_types=(QUORUM,),
    reader=read_quorum,
)


def test_a_text_kind(run: Ran, new_kinds: list[FileKind], tmp_path: Path) -> None:
    new_kinds.append(QUORUM_FILE)
    file = tmp_path / "quorum-votes"
    file.write_text("ann 3\nbob 4\n")
    assert "bob" in run("dump", file)
    assert rows(run("dump", file, "--json"), "voter") == [
        {"type": "voter", "file": str(file), "name": "ann", "votes": 3},
        {"type": "voter", "file": str(file), "name": "bob", "votes": 4},
    ]
    assert run("dump", file, "--format", "csv").splitlines()[1] == f'{file},"ann",3'
    assert [row["name"] for row in kfmt_cli.read_file(file).objects()] == ["ann", "bob"]
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_batches(kfmt_cli.read_file(file).arrow())
    assert table["name"].to_pylist() == ["ann", "bob"]
    assert "quorum-votes" in run("dump", "--help")
    assert "`voter`" in make_docs.formats()


# A check of a partition: a class with its codes.


class Segments(PartitionCheck):
    def __init__(self) -> None:
        self.names: list[str] = []

    def add_segment(self, segment: SegmentFacts) -> None:
        self.names.append(segment.name)

    def finish(self) -> Iterator[Finding]:
        if 0 < len(self.names) < 9:
            yield Finding(self.names[0], FEW_SEGMENTS, None, f"{len(self.names)} segments")


def test_a_check_of_a_partition(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    registered = (Scope.PARTITION, f"{MODULE}:Segments")
    monkeypatch.setattr(registry, "CHECKS", [*registry.CHECKS, registered])
    assert "Send more records." in run("verify-crc", ORDERS.parent)
    assert "Send more records." in run("explain", "few-segments")
    out = run("verify-crc", ORDERS.parent, "--json", "--strict")
    assert run.code == 1
    (finding_row,) = rows(out, "finding")
    assert (finding_row["code"], finding_row["message"]) == ("few-segments", "7 segments")
    run("verify-crc", ORDERS.parent, "--format", "csv")
    assert "few-segments" in run.err
    assert [finding.code for finding in kfmt_cli.verify(ORDERS.parent)] == [FEW_SEGMENTS]


# A check of a log, which sees the previous batch however tasks split the log.


class Grows(LogCheck):
    needs_previous_batch = True

    def __init__(self, base_offset: int | None = None) -> None:
        super().__init__(base_offset)
        self.sizes: list[int] = []

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        del records
        for i, size in enumerate(run.batches["size"].tolist()):
            if self.sizes and size > self.sizes[-1]:
                yield create_batch_finding_with_detail(
                    run, i, GROWS, f" has {size} bytes", found=size
                )
            self.sizes.append(size)


def test_a_check_of_a_log(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    registered = (Scope.HEADERS, f"{MODULE}:Grows")
    monkeypatch.setattr(registry, "CHECKS", [*registry.CHECKS, registered])
    sizes = [row["size"] for row in rows(run("dump", ORDERS, "--json"), "batch")]
    expected = [size for previous, size in pairwise(sizes) if size > previous]
    assert expected
    for command in (["dump"], ["verify-crc"], ["verify-crc", "--deep"]):
        out = run(*command, ORDERS, "--json")
        assert [row["found"] for row in rows(out, "finding")] == expected


# A check with state is also right about small logs, which are read in groups.


class FirstBatch(LogCheck):
    def __init__(self, base_offset: int | None = None) -> None:
        super().__init__(base_offset)
        self.has_begun = False

    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        assert records is not None
        if not self.has_begun and run.batches["position"][0] == 0 and len(records.rows) > 1:
            yield create_batch_finding_with_detail(
                run, 0, LARGE_FIRST_BATCH, " has several records"
            )
        self.has_begun = True


def test_a_check_of_small_logs(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [log for log in sorted(ORDERS.parent.glob("*.log")) if log.stat().st_size]
    command = ("verify-crc", "--deep", ORDERS.parent, "--json")
    file_names: list[str] = []
    original_function = LogChecker.iter_findings

    def recording_function(self: LogChecker, file: InputFile, *arguments: Any) -> Any:
        file_names.append(file.name)
        return original_function(self, file, *arguments)

    monkeypatch.setattr(LogChecker, "iter_findings", recording_function)
    checks = registry.CHECKS
    registered = (Scope.RECORDS, f"{MODULE}:FirstBatch")
    monkeypatch.setattr(registry, "CHECKS", [*checks, registered])
    finding_rows = rows(run(*command), "finding")
    assert [row["file"] for row in finding_rows] == [str(log) for log in logs]
    harmless_check = (Scope.RECORDS, f"{MODULE}:NoFault")
    monkeypatch.setattr(registry, "CHECKS", [*checks, harmless_check])
    file_names.clear()
    assert rows(run(*command), "finding") == []
    assert file_names == []  # small logs are checked in a group, as without the check


class NoFault(FirstBatch):
    def check_block(self, run: Block, records: RecordColumns | None) -> Iterator[Finding]:
        del run, records
        yield from ()


# A check of the history of a partition.


class Lengths(HistoryCheck):
    first = -1

    def check_log(self, history: LogHistory) -> Iterator[Finding]:
        if self.first < 0 and history.start_offset is not None:
            self.first = history.start_offset
        if history.end_offset is not None and history.end_offset - self.first > 1000:
            yield Finding(
                history.file, LONG_HISTORY, None, f"{history.end_offset - self.first} offsets"
            )


def test_a_check_of_a_history(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    registered = (Scope.HISTORY, f"{MODULE}:Lengths")
    monkeypatch.setattr(registry, "CHECKS", [*registry.CHECKS, registered])
    out = run("check", ORDERS.parent, "--json", "--only", "long-history")
    finding_rows = rows(out, "finding")
    assert [row["message"] for row in finding_rows] == [
        "1200 offsets",
        "1440 offsets",
        "1500 offsets",
    ]


# An output format: a class that formats an object as text.


class Lines(ObjectSink):
    """name=value pairs."""

    def format_object(self, row: JsonObject) -> str:
        return " ".join(f"{name}={json.dumps(value)}" for name, value in row.items()) + "\n"


def test_an_output_format(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    output_format = output_formats.OutputFormat(
        "pairs", "pairs of name and value", f"{MODULE}:Lines"
    )
    monkeypatch.setattr(
        output_formats, "OUTPUT_FORMATS", [*output_formats.OUTPUT_FORMATS, output_format]
    )
    with fresh_commands(monkeypatch):
        batches = run("dump", ORDERS, "--format", "pairs").splitlines()
        assert len(batches) == len(run("dump", ORDERS, "--json").splitlines())
        assert batches[0].startswith('type="batch" file=')
        records = run("dump", ORDERS, "--records", "--format", "pairs", "--limit", "2")
        assert [line.split()[0] for line in records.splitlines()] == [
            'type="batch"',
            'type="record"',
            'type="record"',
        ]
        index = ORDERS.with_suffix(".index")
        assert 'type="offset_index_entry"' in run("dump", index, "--format", "pairs")
        for command in ("verify-crc", "index-check"):
            out = run(command, ORDERS.parent, "--format", "pairs").splitlines()
            assert out[0].startswith('type="file"')
            assert out[-1].startswith('type="summary"')
        damaged = run("verify-crc", ROOT / "damaged_segments", "--format", "pairs")
        assert 'type="finding"' in damaged
        assert 'type="varint"' in run("encode-varint", "300", "--format", "pairs")
        assert "pairs of name and value" in " ".join(run("dump", "--help").split())
        assert "pairs" in make_docs.commands()


def fresh_commands(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the modules of the commands anew, since options are created on import."""
    import contextlib
    import sys

    def option_modules() -> list[str]:
        pattern = re.compile(r"kfmt_cli\.(cli\.|options\.|commands\.\w+\.options)")
        return list(filter(pattern.match, sys.modules))

    @contextlib.contextmanager
    def fresh_modules() -> Iterator[None]:
        for name in option_modules():
            monkeypatch.delitem(sys.modules, name)
        yield
        for name in option_modules():
            del sys.modules[name]

    return fresh_modules()


# A topic's payloads: the layouts of its messages.

GREETING_KEY = Layout(
    "GreetingKey", "Whom a greeting is for.", "", (Field("to", String, "Who."),), versions=(0, 0)
)
GREETING_VALUE = Layout(
    "GreetingValue",
    "A greeting.",
    "",
    (
        Field("text", String, "The words."),
        Field("mood", Int8, "How.", symbols=("glad", "sad"), since=1),
    ),
    versions=(0, 1),
    flexible_since=1,
)
GREETINGS = (MessageType(3, GREETING_VALUE, GREETING_KEY),)


def test_an_internal_topic(run: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = KnownTopic("greetings", "greetings", messages_target=f"{MODULE}:GREETINGS")
    monkeypatch.setitem(DECODED_TOPICS, "greetings", topic)
    key = b"\0\3" + layout_at_version(GREETING_KEY, 0).encode_row({"to": "ann"})
    value = b"\0\1" + layout_at_version(GREETING_VALUE, 1).encode_row(
        {"text": 'say "hi"', "mood": 1}
    )
    pairs = [(key, value), (key, None), (b"\0\x09", value), (key, value[:-3])]
    lines = [
        {"type": "record", "offset": i, "timestamp": 1, "key": k.hex(), "key_encoding": "hex"}
        | ({"value": None} if v is None else {"value": v.hex(), "value_encoding": "hex"})
        for i, (k, v) in enumerate(pairs)
    ]
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    directory = tmp_path / "greetings-0"
    run("build", tmp_path / "lines", directory)
    assert not run.err
    first, tombstone, unknown, truncated = rows(
        run("dump", directory, "--records", "--json"), "record"
    )
    assert run.code == 1
    assert first["decoded_key"] == {"name": "GreetingKey", "type": 3, "data": {"to": "ann"}}
    assert first["decoded_value"] == {
        "name": "GreetingValue",
        "version": 1,
        "data": {"text": 'say "hi"', "mood": 1, "mood_name": "sad"},
    }
    assert tombstone["decoded_value"]["deletes"] == "whom a greeting is for: to ann"
    assert unknown["decoded_key"]["note"] == "records of type 9 are unknown"
    assert truncated["decoded_value"]["data"] == {}
    heading, *table = run("dump", directory, "--records", "--format", "csv").splitlines()
    assert heading.endswith("decoded_key,decoded_value")
    assert '""GreetingKey""' in table[0]
    assert "ann" in run("dump", directory, "--records", "--limit", "3")
    objects = kfmt_cli.read_records(directory).objects()
    assert next(row for row in objects if row["key"])["decoded_key"]["name"] == "GreetingKey"
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(kfmt_cli.read_records(directory, columns=["key", "decoded_key"]))
    for stored, text in zip(*(column.to_pylist() for column in table.columns), strict=True):
        assert (text is None) == (stored is None)
    assert "decoded_key" not in run("dump", ORDERS.parents[1] / "txn-0", "--records", "--json")
