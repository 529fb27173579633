"""Inputs that are made to break a reader: no traceback, no signal, no hang, no unbounded memory,
and nothing that a terminal acts on in any output."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import lz4.frame
import pytest

from kfmt_cli.core.codecs.decompress import DECOMPRESSORS, DecompressionLimitError
from tests.support import warm
from tests.support.hostile import NAME, partition, run_every_command, run_kfmt
from tests.support.rebuild import batch_of, compressed_batch, control_batch, record, with_crc
from tests.support.samples import ORDERS, environment, kfmt
from tests.support.segments import int32, positions, with_bytes
from tests.support.terminal import run_on_terminal
from tests.support.waiting import wait_for
from tools.kafka import ROOT, SAMPLES

DATA = ORDERS.read_bytes()


@pytest.mark.parametrize("base_name", ["9" * 20, str(1 << 63).zfill(20), "-0000000000000000001"])
@pytest.mark.parametrize("suffix", ["log", "index", "timeindex", "snapshot"])
def test_names_beyond_any_offset(base_name: str, suffix: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, DATA, f"{base_name}.{suffix}")
    shutil.copy(ORDERS.with_name(f"{240:020}.log"), directory)
    run_every_command(directory, tmp_path)
    batches = kfmt("dump", directory, "--json").of("batch")
    other_batches = [row for row in batches if row["file"].endswith(f"{240:020}.log")]
    assert len(other_batches) == 12
    assert len(batches) == (24 if suffix == "log" else 12)
    result = kfmt("check", directory, "--json")
    is_number = base_name.startswith("-")  # in Java, with which a broker parses names
    assert result.code == (1 if not is_number or suffix == "snapshot" else 0)
    assert ("name-not-numeric" in result.codes) is not is_number


def with_changed_header(position: int, content: bytes) -> bytes:
    end = positions(DATA)[1]
    return with_crc(with_bytes(DATA[:end], position, content)) + DATA[end:]


ENDS: list[int] = [*positions(DATA), len(DATA)]
LOGS: dict[str, tuple[Callable[[], bytes], str]] = {
    "backwards": (
        lambda: b"".join(reversed([DATA[a:b] for a, b in pairwise(ENDS)])),
        "offsets-backwards",
    ),
    "a negative offset": (
        lambda: with_changed_header(0, struct.pack(">q", -5)),
        "offset-out-of-segment",
    ),
    "the largest offset": (
        lambda: with_changed_header(0, struct.pack(">q", 2**63 - 1)),
        "offsets-backwards record-offset-out-of-batch",
    ),
    "times of all sizes": (
        lambda: with_changed_header(27, struct.pack(">qq", 2**63 - 1, -(2**63))),
        "max-timestamp-mismatch",
    ),
    "2^31 records": (lambda: with_changed_header(57, int32(2**31 - 1)), "records-count-mismatch"),
    "-1 records": (lambda: with_changed_header(57, int32(-1)), "records-count-mismatch"),
    "2^31 offsets": (lambda: with_changed_header(23, int32(2**31 - 1)), "offsets-backwards"),
    "a length of 0": (lambda: with_bytes(DATA, 8, int32(0)), "batch-length-too-small"),
    "a length of -1": (lambda: with_bytes(DATA, 8, int32(-1)), "batch-length-negative"),
    "the largest length": (
        lambda: with_bytes(DATA, 8, int32(2**31 - 1)),
        "batch-length-too-big",
    ),
    "a length that is too short": (
        lambda: with_bytes(DATA, 8, int32(ENDS[1] - 19)),
        "batch-length-too-small",
    ),
    "a control record without a key": (
        lambda: control_batch(None, bytes(6)),  # type: ignore[arg-type]
        "control-malformed",
    ),
    "a control record without a value": (
        lambda: control_batch(bytes(4), None),  # type: ignore[arg-type]
        "control-malformed",
    ),
    "a short control record": (lambda: control_batch(b"\0", b""), "control-malformed"),
    "an unknown control record": (lambda: control_batch(b"\0\0\0\x63", bytes(6)), ""),
}


@pytest.mark.parametrize("case", LOGS)
def test_logs(case: str, tmp_path: Path) -> None:
    create_log, codes = LOGS[case]
    directory = partition(tmp_path, create_log())
    run_every_command(directory, tmp_path)
    for options in (("--entry", "0"), ("--position", "0"), ("--offset", "0"), ()):
        run_kfmt("hex", directory / NAME, *options)
    assert set(kfmt("verify-crc", "--deep", directory, "--json").codes) == set(codes.split())
    dumped = kfmt("dump", directory, "--records", "--json")
    assert len(dumped.of("record")) == (1 if "control" in case else 240)
    if "control" not in case:
        values = {row["value"] for row in dumped.of("record")}
        assert values == {
            row["value"]
            for row in kfmt("dump", ORDERS, "--records", "--json").rows
            if row["type"] == "record"
        }


def test_pipes_in_the_place_of_files(tmp_path: Path) -> None:
    directory = partition(tmp_path, DATA)
    names = (f"{240:020}.log", f"{0:020}.index", "leader-epoch-checkpoint", f"{0:020}.snapshot")
    for name in names:
        os.mkfifo(directory / name)
    for name in ("meta.properties", "recovery-point-offset-checkpoint", ".lock"):
        os.mkfifo(tmp_path / name)
    run_every_command(directory, tmp_path / "out")
    result = run_kfmt("dump", directory / names[0])
    assert result.code == 3
    assert "a named pipe with no writer" in result.err
    assert run_kfmt("index-check", directory / names[0]).code == 3


@pytest.mark.parametrize("suffix", ["swap", "deleted", "cleaned", "part", "tmp"])
def test_copies_of_every_file(suffix: str, tmp_path: Path) -> None:
    for file in [*ORDERS.parent.iterdir(), *ORDERS.parent.parent.iterdir()]:
        if file.is_file():
            shutil.copy(file, tmp_path / f"{file.name}.{suffix}")
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        (tmp_path / f"{name}-offset-checkpoint.{suffix}").write_bytes(b"0\n1\nt 0 5\n")
    run_every_command(tmp_path, tmp_path / "out")
    dumped = kfmt("dump", tmp_path, "--json")
    assert (dumped.code, dumped.codes) == (0, [])
    kinds = Counter(row["type"] for row in dumped.rows)
    assert kinds == {
        "batch": 78,
        "offset_index_entry": 68,
        "time_index_entry": 68,
        "checkpoint_entry": 5,
        "meta_properties": 1,
        "partition_metadata": 1,
        "clean_shutdown": 1,
    }
    codes = {
        "swap": {"name-not-numeric", "swap-file"},
        "deleted": {"left-over-file"},
        "cleaned": {"left-over-file"},
    }
    assert set(kfmt("check", tmp_path, "--json").codes) == codes.get(suffix, set())


def test_links_that_lead_nowhere_or_to_any_name(tmp_path: Path) -> None:
    directory = partition(tmp_path, DATA)
    for name in (f"{240:020}.log", f"{0:020}.index", "leader-epoch-checkpoint"):
        (directory / name).symlink_to("/nonexistent/x")
    (tmp_path / "blob").write_bytes(ORDERS.with_name(f"{480:020}.log").read_bytes())
    (directory / f"{480:020}.log").symlink_to(tmp_path / "blob")
    (tmp_path / "gone-0").symlink_to("/nonexistent/z")
    run_every_command(directory, tmp_path / "out")
    dumped = kfmt("dump", directory, "--json")
    assert dumped.code == 3
    assert ": No such file or directory\n" in dumped.err
    batches = Counter(Path(row["file"]).name for row in dumped.of("batch"))
    assert batches == {NAME: 12, f"{480:020}.log": 12}


def test_names_that_are_no_text(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/dir\xff/t\xfe-0"
    os.makedirs(directory)  # noqa: PTH103 (bytes)
    Path(os.fsdecode(directory), NAME).write_bytes(DATA)
    run_every_command(Path(os.fsdecode(directory)).parent, tmp_path / "out")
    dumped = kfmt("dump", tmp_path / os.fsdecode(b"dir\xff"), "--json")
    assert (dumped.code, len(dumped.of("batch"))) == (0, 12)
    row = dumped.rows[0]
    assert row["file"] == rf"{tmp_path}/dir\xff/t\xfe-0/{NAME}"
    assert (row["topic"], row["partition"]) == (r"t\xfe", 0)


def test_names_and_settings_that_a_terminal_would_act_on(tmp_path: Path) -> None:
    root = tmp_path / "top"
    directory = root / "t\x1b[31m\u202e-0"
    directory.mkdir(parents=True)
    (directory / NAME).write_bytes(with_bytes(DATA, 100, b"\xff"))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n\x1b[31m\u202e 0\n")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: \x1b[31m\u202e\n")
    (root / "meta.properties").write_text("cluster.id=\x1b[31m\u202eabc\nnode.id=\x1b1\n")
    (root / "a\nname::error::x").write_bytes(b"")
    run_every_command(root, tmp_path / "out")
    run_kfmt("explain", "\x1b[31m\u202e")
    run_kfmt("format", "\x1b[31m\u202e")
    run_kfmt("dump", tmp_path / "none\x1b[31m\u202e")
    settings = tmp_path / "settings"
    settings.write_text("retention.ms=\x1b[31m\u202e\n")
    for command in ("retention", "compaction"):
        assert run_kfmt(command, directory, "--config", settings).code == 2


def test_cat_escapes_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    value = b"\x1b[31m\n\tplain\xff"
    directory = partition(tmp_path, batch_of(record(b"\x1b]0;t\x07", value), 0, 1))
    assert warm.run(("cat", directory), b"", ROOT, environment())[1] == value + b"\n"
    output = run_on_terminal("cat", directory, "-f", "%k %s")
    assert "\x1b" not in output
    assert "\\x1b]0;t\\x07 \\x1b[31m" in output
    assert "\tplain\\xff" in output


BOMBS: dict[str, Callable[[int], bytes]] = {
    "gzip": lambda n: gzip.compress(bytes(n), 6),
    "lz4": lambda n: lz4.frame.compress(bytes(n)),
}
PEAK = """
import resource, sys
from kfmt_cli.core.codecs.decompress import DecompressionLimitError, decompress
data = open(sys.argv[2], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(sys.argv[1], data, int(sys.argv[3]))
except DecompressionLimitError:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", BOMBS)
@pytest.mark.parametrize("limit", [200, 400])
def test_a_bomb_takes_no_more_than_the_limit(codec: str, limit: int, tmp_path: Path) -> None:
    """Of 300 MiB, with a limit below and above."""
    (tmp_path / "bomb").write_bytes(BOMBS[codec](300 << 20))
    command = [sys.executable, "-c", PEAK, codec, str(tmp_path / "bomb"), str(limit << 20)]
    result = subprocess.run(command, check=True, capture_output=True, env=environment(), cwd=ROOT)
    assert int(result.stdout) < 1.3 * min(limit, 300) * 1024


def test_chunked_decompression_equals_decompression_at_once() -> None:
    data = os.urandom(1 << 20) * 20
    for codec, compress_all in (("gzip", gzip.compress), ("lz4", lz4.frame.compress)):
        compressed = compress_all(data)
        for limit in (len(data), len(data) + 1, 1 << 30):
            assert DECOMPRESSORS[codec](compressed, limit) == data
        with pytest.raises(DecompressionLimitError):
            DECOMPRESSORS[codec](compressed, len(data) - 1)


def test_an_export_that_was_killed_starts_over(tmp_path: Path) -> None:
    source, destination = SAMPLES / "kafka-3.9.1-broker1", tmp_path / "out"
    arguments = ["export", str(source), "--to", str(destination), "--jobs", "1"]
    command = [sys.executable, "-m", "kfmt_cli", *arguments, "--target-file-bytes", "2K"]
    process = subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: list(destination.glob("records/*.parquet")))
    assert "another export is writing" in kfmt("export", source, "--to", destination).err
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert kfmt("export", source, "--to", destination).code == 0
    uninterrupted = tmp_path / "whole"
    assert kfmt("export", source, "--to", uninterrupted).code == 0
    names = [
        sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        for root in (destination, uninterrupted)
    ]
    assert names[0] == names[1]
    assert kfmt("export", source, "--to", destination).code == 2


def test_work_grows_with_what_there_is(tmp_path: Path) -> None:
    """Open transactions, headers and damaged batches, four times as many: not sixteen times as
    long."""

    def open_transactions(n: int) -> bytes:
        batch = batch_of(record(b"k", b"v"), 0x10, 1)
        return b"".join(
            struct.pack(">q", i) + with_crc(with_bytes(batch, 43, struct.pack(">qhi", i, 0, 0)))[8:]
            for i in range(n)
        )

    def damaged_batches(n: int) -> bytes:
        batch = batch_of(record(b"k", b"value"), 0, 1)
        batch = batch[:-3] + b"?" + batch[-2:]
        return b"".join(struct.pack(">q", i) + batch[8:] for i in range(n))

    for create_log, command in (
        (open_transactions, "txn"),
        (damaged_batches, "check"),
        (damaged_batches, "salvage"),
    ):
        times = []
        for n in (3000, 12000):
            directory = partition(tmp_path / f"{command}{n}", create_log(n))
            output_paths = [tmp_path / f"{command}-out{n}"] if command == "salvage" else []
            usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
            paths = map(str, (directory, *output_paths))
            arguments = [sys.executable, "-m", "kfmt_cli", command, *paths]
            subprocess.run(arguments, env=environment(), cwd=ROOT, check=False, capture_output=True)
            usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(usage_after.ru_utime - usage_before.ru_utime)
        assert times[1] < 8 * times[0], (command, times)


def test_bombs_in_a_log_are_a_finding(tmp_path: Path) -> None:
    blob = gzip.compress(bytes(200 << 20), 6)
    directory = partition(tmp_path, compressed_batch(1, blob, 1))
    result = run_kfmt("verify-crc", "--deep", directory, "--max-decompressed", "1M")
    assert result.code == 1
