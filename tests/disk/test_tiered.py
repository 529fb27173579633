"""Segments that Aiven's plug-in uploaded to tiered storage: kfmt reads them as the broker had them.

`kept/aiven-1.0.0` was written by the plug-in's own code, of closed segments of txn-0 and orders-0.
The key was made for these files alone.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path, PurePath
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kfmt_cli.disk import tiered
from kfmt_cli.disk.directory_listing import file_size, walk_directories
from kfmt_cli.disk.input_paths import resolve_path
from kfmt_cli.disk.mounts import MOUNTS, FileTree, join_subpath
from kfmt_cli.disk.path_resolution import is_tiered
from kfmt_cli.disk.tiered import TieredStorageTree
from kfmt_cli.disk.tiered_keys import PrivateKey
from kfmt_cli.errors import InputError, UnreadableBytesError
from tests.support.samples import kfmt
from tests.support.tiered import BROKER, FIRST, KEPT, KEY, TXN, flip, run_kfmt
from tools.kafka import SAMPLES


def load_private_key() -> PrivateKey:
    pytest.importorskip("cryptography")
    return PrivateKey.from_file(str(KEY))


def mount_bucket(path: Path, private_key: PrivateKey | None = None) -> TieredStorageTree:
    bucket = TieredStorageTree(str(path), FileTree(str(path)), "", private_key)
    for directory in walk_directories(str(path), pytest.fail):
        bucket.assemble_segments(directory)
    return bucket


def iter_files(bucket: TieredStorageTree, directory: str = "") -> Iterator[str]:
    listing = bucket.list_assembled_entries(f"{bucket.mount_point}/{directory}")
    yield from (join_subpath(directory, entry.name) for entry in listing.files)
    for name in listing.directories:
        yield from iter_files(bucket, join_subpath(directory, name))


@pytest.mark.parametrize("name", ["plain", "zstd", "encrypted"])
def test_segments_are_what_the_broker_had(name: str) -> None:
    bucket = mount_bucket(
        KEPT / name / "tiered", load_private_key() if name == "encrypted" else None
    )
    assert bucket.problem_messages("") == []
    files = [path for path in iter_files(bucket) if PurePath(path).name.startswith("0")]
    assert len(files) >= 10
    for path in files:
        expected = (BROKER / path).read_bytes()
        assert bucket.stat(path).st_size == len(expected)
        with closing(bucket.open_source(path)) as source:
            assert source.read_block(0, len(expected) + 1, len(expected)) == expected, path
    for path, content in (
        ("txn-0/partition.metadata", b"version: 0\ntopic_id: SK1yrsvLS6GVcvsGssS1uA"),
        ("txn-0/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
    ):
        with closing(bucket.open_source(path)) as source:
            assert source.read_block(0, 1 << 10, 1) == content


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_every_command_reads_a_bucket(name: str, buckets: Path) -> None:
    logs = [BROKER / "txn-0" / f"{base:020}.log" for base in (0, 357)]
    actual = run_kfmt("cat", f"{name}/tiered", "-f", "%t %p %o %K %S\n", cwd=buckets).out
    expected = kfmt("cat", *logs, "-f", "%t %p %o %K %S\n").out
    assert [line for line in actual.splitlines() if line.startswith("txn")] == expected.splitlines()
    for command in ("check", "verify-crc", "index-check", "stat", "txn", "retention", "state"):
        result = run_kfmt(command, f"{name}/tiered/{TXN.partition('/')[0]}", cwd=buckets)
        assert result.code == (3 if command == "state" else 0), result.err
    rows = run_kfmt("dump", f"{name}/tiered", "--json", cwd=buckets).of("batch")
    txn_batches = [row for row in rows if row["topic"] == "txn"]
    assert {row["log_dir"] for row in txn_batches} == {f"{name}/tiered"}
    for path in {row["file"] for row in txn_batches}:
        assert run_kfmt("dump", path, "--limit", "1", cwd=buckets).code == 0
    log = f"{name}/tiered/{TXN}/{FIRST}.log"
    assert run_kfmt("dump", log, "--limit", "1", cwd=buckets).out.startswith(log)
    assert run_kfmt("hex", log, "--position", "0", cwd=buckets).code == 0
    result = run_kfmt("salvage", f"{name}/tiered", "saved", cwd=buckets)
    assert result.code == 0, result.err
    assert (buckets / "saved/txn-0" / f"{357:020}.log").read_bytes() == logs[1].read_bytes()


def test_encrypted_segments_need_their_key(buckets: Path) -> None:
    load_private_key()
    result = run_kfmt("verify-crc", "encrypted/tiered", cwd=buckets)
    assert result.code == 3
    assert f"tiered/{TXN}/{FIRST}: encrypted with key kfmt-test;" in result.err
    for options, environment_key in ((("--rsm-private-key", KEY), ""), ((), str(KEY))):
        result = run_kfmt(
            "verify-crc", "encrypted/tiered", *options, cwd=buckets, key=environment_key
        )
        assert (result.code, result.err) == (0, "")
        assert "2 segments" in result.out
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    other_key = rsa.generate_private_key(65537, 2048)
    pem = other_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (buckets / "other.pem").write_bytes(pem)
    (buckets / "none.pem").write_bytes(b"no key")
    wrong_key_result = run_kfmt(
        "verify-crc", "encrypted", "--rsm-private-key", "other.pem", cwd=buckets
    )
    assert wrong_key_result.code == 3
    assert "its data key cannot be unwrapped with this key (kfmt-test)" in wrong_key_result.err
    for file in ("none.pem", "missing.pem"):
        assert run_kfmt("verify-crc", "encrypted", "--rsm-private-key", file, cwd=buckets).code == 2


def _append_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _set_in_manifest(*names: str, value: object) -> Any:
    """A function that sets a member of the manifest to a value."""

    def change_manifest(base_path: Path) -> None:
        path = base_path.with_suffix(".rsm-manifest")
        manifest = json.loads(path.read_text())
        member = manifest
        for name in names[:-1]:
            member = member[name]
        member[names[-1]] = value
        path.write_text(json.dumps(manifest))

    return change_manifest


def _frame_with_false_size(text: bytes = b"\0" * 20) -> bytes:
    """A zstd frame that declares 2^50 bytes."""
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(text)
    return frame[:4] + bytes([0xE0]) + (1 << 50).to_bytes(8, "little") + frame[6:]


def _nest_manifest(base_path: Path) -> None:
    path = base_path.with_suffix(".rsm-manifest")
    path.write_text(path.read_text()[:-1] + ',"odd":' + "[" * 100_000 + "]" * 100_000 + "}")


TOPIC_PARTITION = (
    "remoteLogSegmentMetadata",
    "remoteLogSegmentId",
    "topicIdPartition",
    "topicPartition",
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set_in_manifest(*TOPIC_PARTITION, "topic", value="a\0b"), "belongs to topic"),
        (_set_in_manifest(*TOPIC_PARTITION, "topic", value="a" * 250), "belongs to topic"),
        (
            _set_in_manifest(
                "chunkIndex",
                "transformedChunks",
                value=base64.b64encode(_frame_with_false_size()).decode(),
            ),
            f"it declares {1 << 50} bytes",
        ),
        (_nest_manifest, "is malformed"),
        (
            lambda base_path: base_path.with_suffix(".log").unlink(),
            ".log: No such file or directory",
        ),
        (lambda base_path: base_path.with_suffix(".rsm-manifest").unlink(), "no manifest, skipped"),
        (lambda base_path: flip(base_path.with_suffix(".log")), "chunk"),
        (lambda base_path: base_path.with_suffix(".rsm-manifest").write_text("{}"), "is malformed"),
        (lambda base_path: base_path.with_suffix(".log").write_bytes(b""), "bytes too short"),
        (lambda base_path: _append_byte(base_path.with_suffix(".log")), "has extra bytes after"),
    ],
)
def test_what_is_wrong_with_a_bucket_is_named(change: Any, message: str, buckets: Path) -> None:
    """kfmt reads the other segments."""
    change(buckets / "zstd/tiered" / TXN / f"{FIRST}.x")
    result = run_kfmt("verify-crc", "zstd/tiered", "--json", cwd=buckets)
    assert result.code == 3
    assert message in result.err
    assert f"tiered/{TXN}/{FIRST}" in result.err
    read_files = {row.get("file") for row in result.rows}
    assert f"zstd/tiered/txn-0/{357:020}.log" in read_files


OFFSET_INDEX = ("segmentIndexes", "offset")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _set_in_manifest(*OFFSET_INDEX, "position", value=(1 << 63) - 1),
            f" at {(1 << 63) - 1}; its log is",
        ),
        (_set_in_manifest(*OFFSET_INDEX, "position", value=1 << 64), f" at {1 << 64}; its log is"),
        (_set_in_manifest(*OFFSET_INDEX, "size", value=-1), "index of -1 bytes at "),
        (
            _set_in_manifest(*OFFSET_INDEX, "size", value=1 << 40),
            f"bytes too short; its log is read without {FIRST[:20]}.index",
        ),
        (lambda base_path: base_path.with_suffix(".indexes").write_bytes(b""), "bytes too short"),
        (
            lambda base_path: base_path.with_suffix(".indexes").unlink(),
            ".indexes: No such file or directory; its log is read without its indexes",
        ),
    ],
)
@pytest.mark.parametrize("bucket", ["zstd", "zstd.tar"])
def test_a_segment_is_read_without_its_indexes(
    bucket: str, change: Any, message: str, buckets: Path
) -> None:
    change(buckets / "zstd/tiered" / TXN / f"{FIRST}.x")
    if bucket != "zstd":
        shutil.make_archive(str(buckets / "zstd"), "tar", buckets, "zstd")
        shutil.rmtree(buckets / "zstd")
    result = run_kfmt("verify-crc", bucket, "--json", cwd=buckets)
    assert result.code == 3
    assert message in result.err
    assert f"{TXN}/{FIRST}: " in result.err
    assert any(str(row.get("file")).endswith(f"txn-0/{0:020}.log") for row in result.rows)


def test_the_longest_name_of_a_topic_is_accepted(buckets: Path) -> None:
    _set_in_manifest(*TOPIC_PARTITION, "topic", value="a" * 249)(
        buckets / "zstd/tiered" / TXN / f"{FIRST}.x"
    )
    assert (
        "belongs to topic" not in run_kfmt("verify-crc", "zstd/tiered", "--json", cwd=buckets).err
    )


@pytest.mark.parametrize("aad", ["é", "not base64!"])
def test_additional_data_that_is_not_base64(aad: str, buckets: Path) -> None:
    pytest.importorskip("cryptography")
    (path,) = (buckets / "encrypted").rglob(f"{FIRST}.rsm-manifest")
    _set_in_manifest("encryption", "aad", value=aad)(path.with_suffix(".x"))
    result = run_kfmt("verify-crc", "encrypted", "--rsm-private-key", str(KEY), cwd=buckets)
    assert result.code == 3
    assert FIRST in result.err


def test_a_second_copy_of_a_segment_is_skipped(buckets: Path) -> None:
    directory = buckets / "plain/tiered" / TXN
    for suffix in (".log", ".indexes", ".rsm-manifest"):
        shutil.copy(
            directory / f"{FIRST}{suffix}", directory / f"{0:020}-zzzzzzzzzzzzzzzzzzzzzz{suffix}"
        )
    result = run_kfmt("verify-crc", "plain", cwd=buckets)
    assert result.code == 3
    assert "has the same base offset; this copy is skipped" in result.err
    assert "2 segments" in result.out


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-5, 1 << 40), st.text(max_size=5), st.none(), st.just([])
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_manifest_causes_an_unexpected_error(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Any member with any value: an error, or the segment; nothing else."""
    directory = tmp_path_factory.mktemp("any")
    shutil.copytree(KEPT / "zstd/tiered" / TXN, directory / "b")
    path = directory / "b" / f"{FIRST}.rsm-manifest"
    manifest = json.loads(path.read_text())
    member = manifest
    while True:
        name = data.draw(st.sampled_from(sorted(member)))
        if not isinstance(member[name], dict) or data.draw(st.integers(0, 3)) == 0:
            member[name] = data.draw(VALUES)
            break
        member = member[name]
    path.write_text(json.dumps(manifest))
    bucket = mount_bucket(directory / "b")
    logs = [subpath for subpath in iter_files(bucket) if subpath.endswith(".log")]
    assert len(logs) + len(bucket.problem_messages("")) >= 2
    for log in logs:
        source = bucket.open_source(log)
        size = source.size or 0
        with suppress(InputError):
            n_read = len(source.read_block(0, size, 1))
            assert n_read < 1 << 20
            if n_read < size:
                with pytest.raises(UnreadableBytesError):
                    source.read_block(n_read, size - n_read, 1)


@pytest.mark.parametrize("size", [40_000, (1 << 31) - 1, 1 << 31])
def test_a_manifest_that_states_more_than_there_is(size: int, buckets: Path) -> None:
    """kfmt reads the existing bytes, and requests no more than a segment can have."""
    base_path = buckets / "plain/tiered" / TXN / f"{FIRST}.x"
    chunk_size = max(4096, -(-size // 4) // 4096 * 4096)
    _set_in_manifest("chunkIndex", "originalFileSize", value=size)(base_path)
    if chunk_size > 4096:
        for name in ("originalChunkSize", "transformedChunkSize"):
            _set_in_manifest("chunkIndex", name, value=chunk_size)(base_path)
    result = run_kfmt("salvage", "plain/txn-0", "out", cwd=buckets)
    assert result.code == 3
    message = f"-byte chunks of {size} bytes" if size >> 31 else "is missing: the object is "
    assert message in result.err


def test_a_log_that_ends_too_early_is_read_up_to_there(buckets: Path) -> None:
    """Whole chunks, of which each has 4096 bytes here."""
    log = buckets / "plain/tiered" / TXN / f"{FIRST}.log"
    log.write_bytes(log.read_bytes()[:10_000])
    result = run_kfmt("dump", "plain", "--json", cwd=buckets)
    assert result.code != 0
    base_path = f"plain/tiered/{TXN}/{FIRST}"
    assert f"{base_path}.log: chunk 2 is missing: the object is 22174 bytes too short" in result.err
    batches = kfmt("dump", BROKER / "txn-0" / f"{0:020}.log", "--json").of("batch")
    ends = [row["position"] + 12 + row["batch_length"] for row in batches]
    readable = [row for row in result.of("batch") if row["file"] == f"plain/txn-0/{0:020}.log"]
    assert len(readable) == sum(end <= 8192 for end in ends) > 5
    pytest.importorskip("pyarrow")
    # Reads it as Spark's tasks do.
    export_result = run_kfmt("export", "plain", "--to", "lake", cwd=buckets)
    assert export_result.code == 3
    assert (
        f"{FIRST}.log: chunk 2 is missing: the object is 22174 bytes too short" in export_result.err
    )


def test_a_chunk_that_is_damaged_is_named_with_its_byte(buckets: Path) -> None:
    flip(buckets / "zstd/tiered" / TXN / f"{FIRST}.log")
    result = run_kfmt("verify-crc", "zstd/tiered", cwd=buckets)
    assert result.code == 3
    assert re.search(
        rf"zstd/tiered/{TXN}/{FIRST}\.log: chunk \d+ cannot be decompressed", result.err
    )
    salvage_result = run_kfmt("salvage", "zstd/tiered", "out", "--json", cwd=buckets)
    assert salvage_result.code == 3
    reason = r"bytes (\d+)–(\d+): cannot be read: chunk \d+ cannot be decompressed: "
    match = re.search(rf"txn-0/{0:020}\.log {reason}", salvage_result.err)
    assert match is not None
    first, last = map(int, match.groups())
    batches = kfmt("dump", BROKER / "txn-0" / f"{0:020}.log", "--json").of("batch")
    salvaged_batches = run_kfmt("dump", f"out/txn-0/{0:020}.log", "--json", cwd=buckets).of("batch")
    readable = {
        row["base_offset"]
        for row in batches
        if row["position"] > last or row["position"] + row["batch_length"] + 12 <= first
    }
    salvaged = [row["base_offset"] for row in salvaged_batches]
    assert set(salvaged) >= readable
    restored = {row["base_offset"] for row in salvaged_batches if row["attributes"]["control"]}
    assert set(salvaged) - readable <= restored  # the index shows how transactions ended
    salvaged = [offset for offset in salvaged if offset in readable]
    assert salvaged == sorted(readable)


def test_no_segment_is_opened_before_it_is_read(
    buckets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(tiered, "ChunkedSource", lambda log, name: opened.append(name))
    try:
        target = resolve_path(str(buckets / "zstd/tiered"))
        sizes = [file_size(log) for directory in target.directories for log in directory.logs]
        assert len(sizes) > 2
        assert min(sizes) > 10_000
        assert opened == []
    finally:
        MOUNTS.clear()


def test_other_directories_are_not_taken_for_buckets(tmp_path: Path) -> None:
    for path in (BROKER, tmp_path):
        assert not any(
            is_tiered(directory.path) for directory in resolve_path(str(path)).directories
        )
    assert any(is_tiered(directory.path) for directory in resolve_path(str(KEPT)).directories)


def test_kafkas_own_store_is_read_by_partitions() -> None:
    """`LocalTieredStorage` names segments in the same way, next to their indexes."""
    remote = SAMPLES / "kafka-3.9.1-tiered/remote"
    (directory,) = remote.iterdir()
    batches = kfmt("dump", remote, "--json").of("batch")
    (row,) = kfmt("stat", remote, "--json").of("stat")
    assert (row["topic"], row["partition"]) == ("vault", 0)
    assert row["batches"] == len(batches)
    offsets = kfmt("cat", remote, "-f", "%o\n").out.split()
    assert offsets == sorted(offsets, key=int)
    assert len(offsets) == sum(
        batch["records_count"] for batch in batches if not batch["attributes"]["control"]
    )
    assert kfmt("find", remote, "--offset", "2300", "--json").of("found")[0]["offset"] == 2300
    retention_result = kfmt("retention", remote)
    assert f"{directory}: retention.ms does not apply to tiered storage" in retention_result.err


def test_sizes_of_retention_are_those_of_the_disk(buckets: Path) -> None:
    for row in run_kfmt("stat", "zstd", "--json", cwd=buckets).of("disk_usage"):
        assert (row["freed_now"] or 0) + (row["freed_later"] or 0) <= row["bytes"]


def test_two_topics_of_one_name_are_not_mixed(plain_bucket: Path) -> None:
    """A topic was deleted and recreated, and the bucket has segments of both."""
    (topic_directory,) = (plain_bucket / "plain/tiered").iterdir()
    topic_id, other_topic_id = topic_directory.name.removeprefix("txn-"), "AAAAAAAAAAAAAAAAAAAAAg"
    shutil.copytree(topic_directory, topic_directory.with_name(f"txn-{other_topic_id}"))
    for file in topic_directory.with_name(f"txn-{other_topic_id}").rglob("*"):
        if file.name.startswith(f"{357:020}"):
            file.unlink()
        elif file.name.endswith("manifest"):
            file.write_text(file.read_text().replace(topic_id, other_topic_id))
    result = run_kfmt("verify-crc", "plain", "--json", cwd=plain_bucket)
    assert sorted(row["records"] for row in result.of("file")) == [278, 357, 357]
    assert result.err == ""
    merged = run_kfmt("merge", "plain", "--to", "merged", cwd=plain_bucket)
    assert (merged.code, "txn-0: 0–634 from plain/" in merged.out) == (0, True)
    assert (
        f"not used: plain/txn-0: of another topic with this name, topic id {other_topic_id}"
        in merged.err
    )
    assert topic_id in (plain_bucket / "merged/txn-0/partition.metadata").read_text()


@pytest.mark.parametrize("path", ["plain/txn-0", "plain/tiered/txn-0", "plain.tar/plain/txn-0"])
def test_what_is_wrong_with_a_partition_is_named_for_its_own_path(path: str, buckets: Path) -> None:
    base_path = buckets / "plain/tiered" / TXN / FIRST
    log = base_path.with_name(f"{base_path.name}.log")
    log.write_bytes(log.read_bytes()[:10_000])
    base_path.with_name(f"{base_path.name}.indexes").unlink()
    next_segment = base_path.with_name(base_path.name.replace(f"{0:020}", f"{357:020}"))
    next(next_segment.parent.glob(f"{357:020}*.rsm-manifest")).unlink()
    if path.startswith("plain.tar"):
        shutil.make_archive(str(buckets / "plain"), "tar", buckets, "plain")
        shutil.rmtree(buckets / "plain")
    for command in ("verify-crc", "check", "cat", "stat", "dump", "txn"):
        result = run_kfmt(command, path, cwd=buckets)
        assert result.code == 3, command
        assert "no manifest, skipped" in result.err
        assert ".indexes: No such file or directory; its log is read without" in result.err
        assert "the object is 22174 bytes too short" in result.err
    salvage_result = run_kfmt("salvage", path, "saved", cwd=buckets)
    assert salvage_result.code == 3
    assert "no manifest, skipped" in salvage_result.err


def test_what_is_wrong_with_a_partition_is_not_named_for_another(plain_bucket: Path) -> None:
    shutil.copytree(BROKER / "orders-0", plain_bucket / "plain/tiered/orders-0")
    (plain_bucket / "plain/tiered" / TXN / f"{FIRST}.rsm-manifest").unlink()
    bucket = mount_bucket(plain_bucket / "plain/tiered")
    assert "no manifest, skipped" in "".join(bucket.problem_messages("txn-0"))
    assert bucket.problem_messages("orders-0") == []


def test_a_partition_that_cannot_be_decrypted_has_a_reason(buckets: Path) -> None:
    result = run_kfmt("check", "encrypted/txn-0", cwd=buckets)
    assert result.code == 3
    assert "pass --rsm-private-key FILE to read it" in result.err


def test_objects_with_names_of_their_own_hide_no_others(buckets: Path) -> None:
    """A directory that does not name its partition, next to one that does."""
    shutil.copytree(buckets / "plain/tiered" / TXN, buckets / "plain/tiered/aaa/x")
    for directory in (buckets / "plain/tiered/aaa/x", buckets / "plain/tiered" / TXN):
        (directory / f"{FIRST}.indexes").unlink()
    for name in (buckets / "plain/tiered/aaa/x").glob(f"{357:020}*"):
        name.unlink()
    result = run_kfmt("verify-crc", "plain", cwd=buckets)
    assert result.code == 3
    for subdirectory in ("aaa/x", TXN):
        assert f"plain/tiered/{subdirectory}/{FIRST}: " in result.err
