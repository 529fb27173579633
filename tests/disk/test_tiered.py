"""Segments that Aiven's plug-in has put into tiered storage: read back as a broker had them.

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
from tests.support.tiered import BROKER, FIRST, KEPT, KEY, TXN, flip, ran
from tools.kafka import SAMPLES


def key() -> PrivateKey:
    pytest.importorskip("cryptography")
    return PrivateKey.from_file(str(KEY))


def taken(path: Path, private_key: PrivateKey | None = None) -> TieredStorageTree:
    bucket = TieredStorageTree(str(path), FileTree(str(path)), "", private_key)
    for folder in walk_directories(str(path), pytest.fail):
        bucket.add_directory(folder)
    return bucket


def files_of(bucket: TieredStorageTree, folder: str = "") -> Iterator[str]:
    found = bucket.list_assembled(f"{bucket.mount_point}/{folder}")
    yield from (join_subpath(folder, entry.name) for entry in found.files)
    for name in found.directories:
        yield from files_of(bucket, join_subpath(folder, name))


@pytest.mark.parametrize("name", ["plain", "zstd", "encrypted"])
def test_segments_are_what_the_broker_had(name: str) -> None:
    bucket = taken(KEPT / name / "tiered", key() if name == "encrypted" else None)
    assert bucket.read_problems("") == []
    files = [below for below in files_of(bucket) if PurePath(below).name.startswith("0")]
    assert len(files) >= 10
    for below in files:
        theirs = (BROKER / below).read_bytes()
        assert bucket.stat(below).st_size == len(theirs)
        with closing(bucket.open_source(below)) as ours:
            assert ours.read_block(0, len(theirs) + 1, len(theirs)) == theirs, below
    for below, content in (
        ("txn-0/partition.metadata", b"version: 0\ntopic_id: SK1yrsvLS6GVcvsGssS1uA"),
        ("txn-0/leader-epoch-checkpoint", b"0\n1\n0 0\n"),
    ):
        with closing(bucket.open_source(below)) as ours:
            assert ours.read_block(0, 1 << 10, 1) == content


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_every_command_reads_a_bucket(name: str, buckets: Path) -> None:
    plain = [BROKER / "txn-0" / f"{base:020}.log" for base in (0, 357)]
    ours = ran("cat", f"{name}/tiered", "-f", "%t %p %o %K %S\n", cwd=buckets).out
    theirs = kfmt("cat", *plain, "-f", "%t %p %o %K %S\n").out
    assert [line for line in ours.splitlines() if line.startswith("txn")] == theirs.splitlines()
    for command in ("check", "verify-crc", "index-check", "stat", "txn", "retention", "state"):
        done = ran(command, f"{name}/tiered/{TXN.partition('/')[0]}", cwd=buckets)
        assert done.code == (3 if command == "state" else 0), done.err
    rows = ran("dump", f"{name}/tiered", "--json", cwd=buckets).of("batch")
    of_txn = [row for row in rows if row["topic"] == "txn"]
    assert {row["log_dir"] for row in of_txn} == {f"{name}/tiered"}
    for path in {row["file"] for row in of_txn}:
        assert ran("dump", path, "--limit", "1", cwd=buckets).code == 0
    log = f"{name}/tiered/{TXN}/{FIRST}.log"
    assert ran("dump", log, "--limit", "1", cwd=buckets).out.startswith(log)
    assert ran("hex", log, "--position", "0", cwd=buckets).code == 0
    done = ran("salvage", f"{name}/tiered", "saved", cwd=buckets)
    assert done.code == 0, done.err
    assert (buckets / "saved/txn-0" / f"{357:020}.log").read_bytes() == plain[1].read_bytes()


def test_what_is_encrypted_needs_its_key(buckets: Path) -> None:
    key()
    done = ran("verify-crc", "encrypted/tiered", cwd=buckets)
    assert done.code == 3
    assert f"tiered/{TXN}/{FIRST}: encrypted with key kfmt-test;" in done.err
    for options, named in ((("--rsm-private-key", KEY), ""), ((), str(KEY))):
        done = ran("verify-crc", "encrypted/tiered", *options, cwd=buckets, key=named)
        assert (done.code, done.err) == (0, "")
        assert "2 segments" in done.out
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    other = rsa.generate_private_key(65537, 2048)
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (buckets / "other.pem").write_bytes(pem)
    (buckets / "none.pem").write_bytes(b"no key")
    wrong = ran("verify-crc", "encrypted", "--rsm-private-key", "other.pem", cwd=buckets)
    assert wrong.code == 3
    assert "its data key cannot be unwrapped with this key (kfmt-test)" in wrong.err
    for file in ("none.pem", "missing.pem"):
        assert ran("verify-crc", "encrypted", "--rsm-private-key", file, cwd=buckets).code == 2


def _add(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _told(*names: str, value: object) -> Any:
    """A change: a member of the manifest has another value."""

    def change(stem: Path) -> None:
        path = stem.with_suffix(".rsm-manifest")
        manifest = json.loads(path.read_text())
        at = manifest
        for name in names[:-1]:
            at = at[name]
        at[names[-1]] = value
        path.write_text(json.dumps(manifest))

    return change


def _huge(text: bytes = b"\0" * 20) -> bytes:
    """A zstd frame that states 2^50 bytes."""
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(text)
    return frame[:4] + bytes([0xE0]) + (1 << 50).to_bytes(8, "little") + frame[6:]


def _deep(stem: Path) -> None:
    path = stem.with_suffix(".rsm-manifest")
    path.write_text(path.read_text()[:-1] + ',"odd":' + "[" * 100_000 + "]" * 100_000 + "}")


PLACE = ("remoteLogSegmentMetadata", "remoteLogSegmentId", "topicIdPartition", "topicPartition")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_told(*PLACE, "topic", value="a\0b"), "belongs to topic"),
        (_told(*PLACE, "topic", value="a" * 250), "belongs to topic"),
        (
            _told("chunkIndex", "transformedChunks", value=base64.b64encode(_huge()).decode()),
            f"it states {1 << 50} bytes",
        ),
        (_deep, "is malformed"),
        (lambda stem: stem.with_suffix(".log").unlink(), ".log: No such file or directory"),
        (lambda stem: stem.with_suffix(".rsm-manifest").unlink(), "no manifest, skipped"),
        (lambda stem: flip(stem.with_suffix(".log")), "chunk"),
        (lambda stem: stem.with_suffix(".rsm-manifest").write_text("{}"), "is malformed"),
        (lambda stem: stem.with_suffix(".log").write_bytes(b""), "bytes too short"),
        (lambda stem: _add(stem.with_suffix(".log")), "has extra bytes after"),
    ],
)
def test_what_is_wrong_with_a_bucket_is_named(change: Any, words: str, buckets: Path) -> None:
    """And the other segments are read."""
    change(buckets / "zstd/tiered" / TXN / f"{FIRST}.x")
    done = ran("verify-crc", "zstd/tiered", "--json", cwd=buckets)
    assert done.code == 3
    assert words in done.err
    assert f"tiered/{TXN}/{FIRST}" in done.err
    read = {row.get("file") for row in done.rows}
    assert f"zstd/tiered/txn-0/{357:020}.log" in read


OFFSET_INDEX = ("segmentIndexes", "offset")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_told(*OFFSET_INDEX, "position", value=(1 << 63) - 1), f" at {(1 << 63) - 1}; its log is"),
        (_told(*OFFSET_INDEX, "position", value=1 << 64), f" at {1 << 64}; its log is"),
        (_told(*OFFSET_INDEX, "size", value=-1), "index of -1 bytes at "),
        (
            _told(*OFFSET_INDEX, "size", value=1 << 40),
            f"bytes too short; its log is read without {FIRST[:20]}.index",
        ),
        (lambda stem: stem.with_suffix(".indexes").write_bytes(b""), "bytes too short"),
        (
            lambda stem: stem.with_suffix(".indexes").unlink(),
            ".indexes: No such file or directory; its log is read without its indexes",
        ),
    ],
)
@pytest.mark.parametrize("bucket", ["zstd", "zstd.tar"])
def test_a_segment_is_read_without_its_indexes(
    bucket: str, change: Any, words: str, buckets: Path
) -> None:
    change(buckets / "zstd/tiered" / TXN / f"{FIRST}.x")
    if bucket != "zstd":
        shutil.make_archive(str(buckets / "zstd"), "tar", buckets, "zstd")
        shutil.rmtree(buckets / "zstd")
    done = ran("verify-crc", bucket, "--json", cwd=buckets)
    assert done.code == 3
    assert words in done.err
    assert f"{TXN}/{FIRST}: " in done.err
    assert any(str(row.get("file")).endswith(f"txn-0/{0:020}.log") for row in done.rows)


def test_the_longest_name_of_a_topic_is_taken(buckets: Path) -> None:
    _told(*PLACE, "topic", value="a" * 249)(buckets / "zstd/tiered" / TXN / f"{FIRST}.x")
    assert "belongs to topic" not in ran("verify-crc", "zstd/tiered", "--json", cwd=buckets).err


@pytest.mark.parametrize("aad", ["é", "not base64!"])
def test_additional_data_that_is_not_base64(aad: str, buckets: Path) -> None:
    pytest.importorskip("cryptography")
    (path,) = (buckets / "encrypted").rglob(f"{FIRST}.rsm-manifest")
    _told("encryption", "aad", value=aad)(path.with_suffix(".x"))
    done = ran("verify-crc", "encrypted", "--rsm-private-key", str(KEY), cwd=buckets)
    assert done.code == 3
    assert FIRST in done.err


def test_a_second_copy_of_a_segment_is_left_out(buckets: Path) -> None:
    folder = buckets / "plain/tiered" / TXN
    for end in (".log", ".indexes", ".rsm-manifest"):
        shutil.copy(folder / f"{FIRST}{end}", folder / f"{0:020}-zzzzzzzzzzzzzzzzzzzzzz{end}")
    done = ran("verify-crc", "plain", cwd=buckets)
    assert done.code == 3
    assert "has the same base offset; this copy is skipped" in done.err
    assert "2 segments" in done.out


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-5, 1 << 40), st.text(max_size=5), st.none(), st.just([])
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_manifest_breaks_it(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Any member with any value: a trouble, or the segment; nothing else."""
    top = tmp_path_factory.mktemp("any")
    shutil.copytree(KEPT / "zstd/tiered" / TXN, top / "b")
    path = top / "b" / f"{FIRST}.rsm-manifest"
    manifest = json.loads(path.read_text())
    at = manifest
    while True:
        name = data.draw(st.sampled_from(sorted(at)))
        if not isinstance(at[name], dict) or data.draw(st.integers(0, 3)) == 0:
            at[name] = data.draw(VALUES)
            break
        at = at[name]
    path.write_text(json.dumps(manifest))
    bucket = taken(top / "b")
    logs = [below for below in files_of(bucket) if below.endswith(".log")]
    assert len(logs) + len(bucket.read_problems("")) >= 2
    for log in logs:
        source = bucket.open_source(log)
        size = source.size or 0
        with suppress(InputError):
            found = len(source.read_block(0, size, 1))
            assert found < 1 << 20
            if found < size:
                with pytest.raises(UnreadableBytesError):
                    source.read_block(found, size - found, 1)


@pytest.mark.parametrize("size", [40_000, (1 << 31) - 1, 1 << 31])
def test_a_manifest_that_states_more_than_there_is(size: int, buckets: Path) -> None:
    """What is there is read; no more than a segment can have is looked for."""
    stem = buckets / "plain/tiered" / TXN / f"{FIRST}.x"
    chunk = max(4096, -(-size // 4) // 4096 * 4096)
    _told("chunkIndex", "originalFileSize", value=size)(stem)
    if chunk > 4096:
        for name in ("originalChunkSize", "transformedChunkSize"):
            _told("chunkIndex", name, value=chunk)(stem)
    done = ran("salvage", "plain/txn-0", "out", cwd=buckets)
    assert done.code == 3
    words = f"-byte chunks of {size} bytes" if size >> 31 else "is missing: the object is "
    assert words in done.err


def test_a_log_that_ends_too_early_is_read_up_to_there(buckets: Path) -> None:
    """Whole chunks, of which each has 4096 bytes here."""
    log = buckets / "plain/tiered" / TXN / f"{FIRST}.log"
    log.write_bytes(log.read_bytes()[:10_000])
    done = ran("dump", "plain", "--json", cwd=buckets)
    assert done.code != 0
    stem = f"plain/tiered/{TXN}/{FIRST}"
    assert f"{stem}.log: chunk 2 is missing: the object is 22174 bytes too short" in done.err
    whole = kfmt("dump", BROKER / "txn-0" / f"{0:020}.log", "--json").of("batch")
    ends = [row["position"] + 12 + row["batch_length"] for row in whole]
    ours = [row for row in done.of("batch") if row["file"] == f"plain/txn-0/{0:020}.log"]
    assert len(ours) == sum(end <= 8192 for end in ends) > 5
    pytest.importorskip("pyarrow")
    lake = ran("export", "plain", "--to", "lake", cwd=buckets)  # reads it as Spark's tasks do
    assert lake.code == 3
    assert f"{FIRST}.log: chunk 2 is missing: the object is 22174 bytes too short" in lake.err


def test_a_chunk_that_is_damaged_is_named_with_its_byte(buckets: Path) -> None:
    flip(buckets / "zstd/tiered" / TXN / f"{FIRST}.log")
    done = ran("verify-crc", "zstd/tiered", cwd=buckets)
    assert done.code == 3
    assert re.search(rf"zstd/tiered/{TXN}/{FIRST}\.log: chunk \d+ cannot be decompressed", done.err)
    saved = ran("salvage", "zstd/tiered", "out", "--json", cwd=buckets)
    assert saved.code == 3
    reason = r"bytes (\d+)–(\d+): cannot be read: chunk \d+ cannot be decompressed: "
    ends = re.search(rf"txn-0/{0:020}\.log {reason}", saved.err)
    assert ends is not None
    first, last = map(int, ends.groups())
    batches = kfmt("dump", BROKER / "txn-0" / f"{0:020}.log", "--json").of("batch")
    kept = ran("dump", f"out/txn-0/{0:020}.log", "--json", cwd=buckets).of("batch")
    assert [row["base_offset"] for row in kept] == [
        row["base_offset"]
        for row in batches
        if row["position"] > last or row["position"] + row["batch_length"] + 12 <= first
    ]


def test_nothing_is_put_together_before_it_is_read(
    buckets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(tiered, "ChunkedSource", lambda log, name: opened.append(name))
    try:
        target = resolve_path(str(buckets / "zstd/tiered"))
        sizes = [file_size(log) for folder in target.directories for log in folder.logs]
        assert len(sizes) > 2
        assert min(sizes) > 10_000
        assert opened == []
    finally:
        MOUNTS.clear()


def test_other_directories_are_not_taken_for_buckets(tmp_path: Path) -> None:
    for path in (BROKER, tmp_path):
        assert not any(is_tiered(folder.path) for folder in resolve_path(str(path)).directories)
    assert any(is_tiered(folder.path) for folder in resolve_path(str(KEPT)).directories)


def test_kafkas_own_store_is_read_by_partitions() -> None:
    """`LocalTieredStorage` names segments in the same way, next to their indexes."""
    remote = SAMPLES / "kafka-3.9.1-tiered/remote"
    (folder,) = remote.iterdir()
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
    said = kfmt("retention", remote)
    assert f"{folder}: retention.ms does not apply to tiered storage" in said.err


def test_sizes_of_retention_are_those_of_the_disk(buckets: Path) -> None:
    for row in ran("stat", "zstd", "--json", cwd=buckets).of("disk_usage"):
        assert (row["freed_now"] or 0) + (row["freed_later"] or 0) <= row["bytes"]


def test_two_topics_of_one_name_are_not_mixed(plain_bucket: Path) -> None:
    """A topic was deleted and created again, and the bucket has segments of both."""
    (stored,) = (plain_bucket / "plain/tiered").iterdir()
    own, other = stored.name.removeprefix("txn-"), "AAAAAAAAAAAAAAAAAAAAAg"
    shutil.copytree(stored, stored.with_name(f"txn-{other}"))
    for file in stored.with_name(f"txn-{other}").rglob("*"):
        if file.name.startswith(f"{357:020}"):
            file.unlink()
        elif file.name.endswith("manifest"):
            file.write_text(file.read_text().replace(own, other))
    done = ran("verify-crc", "plain", "--json", cwd=plain_bucket)
    assert sorted(row["records"] for row in done.of("file")) == [278, 357, 357]
    assert done.err == ""
    merged = ran("merge", "plain", "--to", "merged", cwd=plain_bucket)
    assert (merged.code, "txn-0: 0–634 from plain/" in merged.out) == (0, True)
    assert f"not used: plain/txn-0: of another topic with this name, topic id {other}" in merged.err
    assert own in (plain_bucket / "merged/txn-0/partition.metadata").read_text()


@pytest.mark.parametrize("path", ["plain/txn-0", "plain/tiered/txn-0", "plain.tar/plain/txn-0"])
def test_what_is_wrong_with_a_partition_is_named_for_its_own_path(path: str, buckets: Path) -> None:
    stem = buckets / "plain/tiered" / TXN / FIRST
    log = stem.with_name(f"{stem.name}.log")
    log.write_bytes(log.read_bytes()[:10_000])
    stem.with_name(f"{stem.name}.indexes").unlink()
    lost = stem.with_name(stem.name.replace(f"{0:020}", f"{357:020}"))
    next(lost.parent.glob(f"{357:020}*.rsm-manifest")).unlink()
    if path.startswith("plain.tar"):
        shutil.make_archive(str(buckets / "plain"), "tar", buckets, "plain")
        shutil.rmtree(buckets / "plain")
    for command in ("verify-crc", "check", "cat", "stat", "dump", "txn"):
        done = ran(command, path, cwd=buckets)
        assert done.code == 3, command
        assert "no manifest, skipped" in done.err
        assert ".indexes: No such file or directory; its log is read without" in done.err
        assert "the object is 22174 bytes too short" in done.err
    read = ran("salvage", path, "saved", cwd=buckets)
    assert read.code == 3
    assert "no manifest, skipped" in read.err


def test_a_partition_that_cannot_be_put_together_says_why(buckets: Path) -> None:
    done = ran("check", "encrypted/txn-0", cwd=buckets)
    assert done.code == 3
    assert "pass --rsm-private-key FILE to read it" in done.err


def test_objects_with_names_of_their_own_hide_no_others(buckets: Path) -> None:
    """A directory that does not name its partition, next to one that does."""
    shutil.copytree(buckets / "plain/tiered" / TXN, buckets / "plain/tiered/aaa/x")
    for stem in (buckets / "plain/tiered/aaa/x", buckets / "plain/tiered" / TXN):
        (stem / f"{FIRST}.indexes").unlink()
    for name in (buckets / "plain/tiered/aaa/x").glob(f"{357:020}*"):
        name.unlink()
    done = ran("verify-crc", "plain", cwd=buckets)
    assert done.code == 3
    for above in ("aaa/x", TXN):
        assert f"plain/tiered/{above}/{FIRST}: " in done.err
