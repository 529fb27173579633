"""Segments in tiered storage, put together again: as a broker would have them on its disk.

Aiven's plug-in stores three objects of each segment: its log in chunks, which may be compressed
and encrypted; its indexes, one after the other; a manifest, which says where all that is. Source:
`io.aiven.kafka.tieredstorage`, its packages `manifest`, `transform` and `security`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
import zstandard

from kfmt_cli.core.source import file_at
from kfmt_cli.disk.names import MANIFEST, STORED_STEM
from kfmt_cli.disk.tiered_keys import PrivateKey, Unlock
from kfmt_cli.errors import InputError

LOG, INDEXES = ".log", ".indexes"
EPOCHS = "leader-epoch-checkpoint"
MOST_MANIFEST = 16 << 20
MOST_CHUNK = 1 << 30
AT_ONCE = 1 << 20


class _Struct(msgspec.Struct, rename="camel"):
    pass


class FixedChunks(_Struct, tag="fixed", tag_field="type"):
    """Chunks that are all of one size but the last."""

    original_chunk_size: int
    original_file_size: int
    transformed_chunk_size: int
    final_transformed_chunk_size: int

    def sizes(self, number: int) -> list[int]:
        """The bytes of each as it is stored."""
        return [*[self.transformed_chunk_size] * (number - 1), self.final_transformed_chunk_size]


class VariableChunks(_Struct, tag="variable", tag_field="type"):
    """Chunks that compression has made of any size."""

    original_chunk_size: int
    original_file_size: int
    transformed_chunks: str
    """Their sizes: how many, the smallest, bytes for what each has more, that of each but the last,
    the last; in zstd and base64."""

    def sizes(self, number: int) -> list[int]:
        """The bytes of each as it is stored; raises ValueError, struct.error or ZstdError."""
        packed = base64.b64decode(self.transformed_chunks, validate=True)
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MOST_MANIFEST)
        (count,) = struct.unpack_from(">i", data)
        if count != number:
            raise ValueError(f"it has sizes of {count} chunks, and {number} are needed")
        if count == 1:
            return list(struct.unpack_from(">i", data, 4))
        base, width = struct.unpack_from(">ib", data, 4)
        if width not in (1, 2, 3, 4) or len(data) != 13 + width * (count - 1):
            raise ValueError("the sizes of its chunks are malformed")
        more = (data[9 + width * i : 9 + width * (i + 1)] for i in range(count - 1))
        last = struct.unpack_from(">i", data, len(data) - 4)[0]
        return [*(base + int.from_bytes(part, "big") for part in more), last]


class IndexPlace(_Struct):
    """Where an index lies."""

    position: int
    size: int


class Indexes(_Struct):
    """Where each index lies."""

    offset: IndexPlace | None = None
    timestamp: IndexPlace | None = None
    producer_snapshot: IndexPlace | None = None
    leader_epoch: IndexPlace | None = None
    transaction: IndexPlace | None = None


class Encryption(_Struct):
    """How what is encrypted can be read."""

    data_key: str
    aad: str


class NamedPartition(_Struct):
    """A partition by name."""

    topic: str
    partition: int


class TopicIdPartition(_Struct):
    """A partition by name and topic id."""

    topic_id: str
    topic_partition: NamedPartition


class SegmentId(_Struct):
    """Which copy of which partition's segment it is."""

    topic_id_partition: TopicIdPartition
    id: str


class SegmentMetadata(_Struct):
    """What the broker says of a segment."""

    remote_log_segment_id: SegmentId
    start_offset: int
    end_offset: int


class Manifest(_Struct):
    """What the plug-in says of a segment."""

    version: str
    chunk_index: FixedChunks | VariableChunks
    segment_indexes: Indexes
    compression: bool
    remote_log_segment_metadata: SegmentMetadata
    encryption: Encryption | None = None


@dataclass
class Bucket:
    """A copy of a bucket, or a part of one, as a log directory."""

    to: Path
    """Where the log directory is made."""
    key: PrivateKey | None = None
    troubles: list[str] = field(default_factory=list)
    """What could not be read, and why."""
    _taken: dict[Path, str] = field(default_factory=dict)

    def take(self, top: Path, shown: str) -> None:
        """Put every segment below a directory together, in order. shown: its name."""
        for folder in sorted({path.parent for path in top.rglob(f"*{MANIFEST}")}):
            prefix = f"{shown}/{folder.relative_to(top)}/".replace("/./", "/")
            stems = sorted(path.name.removesuffix(MANIFEST) for path in folder.glob(f"*{MANIFEST}"))
            for stem in stems:
                self.segment(folder / stem, prefix + stem)
            self._orphans(folder, prefix, set(stems))

    def _orphans(self, folder: Path, prefix: str, stems: set[str]) -> None:
        for path in sorted(folder.iterdir()):
            if (
                path.suffix in (LOG, INDEXES)
                and STORED_STEM.match(path.stem)
                and path.stem not in stems
            ):
                self.troubles.append(f"{prefix}{path.name}: has no manifest, and is left out")

    def segment(self, stem: Path, shown: str) -> Path | None:
        """Put a segment together; its log, None where that cannot be.

        stem: the names of its objects without what they end with. shown: the same, as it is shown.
        """
        try:
            return self._segment(stem, shown)
        except InputError as error:
            self.troubles.append(f"{shown}: {error}")
        except OSError as error:
            name = Path(error.filename or "").name
            self.troubles.append(f"{shown}: {name}: {error.strerror}")
        return None

    def _segment(self, stem: Path, shown: str) -> Path:
        manifest = _manifest(stem.with_name(stem.name + MANIFEST))
        about = manifest.remote_log_segment_metadata
        place = about.remote_log_segment_id.topic_id_partition
        named = place.topic_partition
        if "/" in named.topic or named.topic in ("", ".", ".."):
            raise InputError(f"its manifest says that its topic is {named.topic!r}")
        found = STORED_STEM.match(stem.name)
        base = int(found[1]) if found else about.start_offset
        unlock = None
        if manifest.encryption is not None:
            if self.key is None:
                key = manifest.encryption.data_key.rpartition(":")[0]
                words = f"is encrypted, with the key {key}: --rsm-private-key FILE reads it"
                raise InputError(words)
            unlock = self.key.unwrapped(manifest.encryption.data_key)
        folder = self.to / f"{named.topic}-{named.partition}"
        log = folder / f"{base:020}{LOG}"
        if log in self._taken:
            raise InputError(f"{self._taken[log]} begins at the same offset; this copy is left out")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with (
                file_at(str(stem.with_name(stem.name + LOG))) as stored,
                log.open("xb") as out,
            ):
                for chunk in _chunks(manifest, stored, unlock):
                    out.write(chunk)
        except (InputError, OSError):
            log.unlink(missing_ok=True)
            raise
        self._taken[log] = shown
        topic_id = place.topic_id
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        self._indexes(manifest, stem, folder, base, unlock)
        return log

    def _indexes(
        self, manifest: Manifest, stem: Path, folder: Path, base: int, unlock: Unlock | None
    ) -> None:
        places = manifest.segment_indexes
        end = manifest.remote_log_segment_metadata.end_offset + 1
        named = {
            f"{base:020}.index": places.offset,
            f"{base:020}.timeindex": places.timestamp,
            f"{base:020}.txnindex": places.transaction,
            f"{end:020}.snapshot": places.producer_snapshot,
            EPOCHS: places.leader_epoch,
        }
        with file_at(str(stem.with_name(stem.name + INDEXES))) as stored:
            for name, place in named.items():
                if place is None:
                    continue
                stored.seek(place.position)
                data = _exactly(stored, place.size)
                data = _unlocked(manifest, data, unlock)
                if name == EPOCHS and (folder / name).exists():
                    data = _both_epochs((folder / name).read_bytes(), data)
                (folder / name).write_bytes(data)


def _both_epochs(ours: bytes, theirs: bytes) -> bytes:
    """A checkpoint of leader epochs with those of two: each begins where it was first seen."""
    starts: dict[int, int] = {}
    for data in (ours, theirs):
        for line in data.split(b"\n")[2:]:
            words = line.split()
            if len(words) == 2 and all(word.isdigit() for word in words):
                epoch, start = map(int, words)
                starts[epoch] = min(start, starts.get(epoch, start))
    lines = [f"{epoch} {start}" for epoch, start in sorted(starts.items())]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def _manifest(path: Path) -> Manifest:
    with file_at(str(path)) as file:
        data = file.read(MOST_MANIFEST + 1)
    if len(data) > MOST_MANIFEST:
        raise InputError(f"its manifest is larger than {MOST_MANIFEST} bytes")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    if manifest.version != "1":
        raise InputError(f"its manifest has version {manifest.version!r}; kfmt knows 1")
    return manifest


def _chunks(manifest: Manifest, stored: IO[bytes], unlock: Unlock | None) -> Iterator[bytes]:
    """The bytes of the log; raises InputError where they are not what the manifest says."""
    index = manifest.chunk_index
    size, total = index.original_chunk_size, index.original_file_size
    if not 0 < size <= MOST_CHUNK or total < 0:
        raise InputError(f"its manifest says chunks of {size} bytes, of {total}")
    number = -(-total // size)
    try:
        sizes = index.sizes(number) if number else []
    except (ValueError, struct.error, zstandard.ZstdError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    for i, length in enumerate(sizes):
        plain = min(size, total - i * size)
        chunk = _unlocked(manifest, _exactly(stored, length), unlock)
        if manifest.compression:
            try:
                chunk = zstandard.ZstdDecompressor().decompress(chunk, max_output_size=plain)
            except zstandard.ZstdError as error:
                raise InputError(f"chunk {i} of its log does not decompress: {error}") from error
        if len(chunk) != plain:
            raise InputError(f"chunk {i} of its log has {len(chunk)} bytes, and not {plain}")
        yield chunk
    if stored.read(1):
        raise InputError("its log has bytes after its last chunk")


def _unlocked(manifest: Manifest, data: bytes, unlock: Unlock | None) -> bytes:
    if unlock is None or manifest.encryption is None:
        return data
    return unlock(data, base64.b64decode(manifest.encryption.aad))


def _exactly(stored: IO[bytes], size: int) -> bytes:
    """That number of bytes; raises InputError where there are fewer."""
    parts: list[bytes] = []
    left = size
    while left > 0 and (part := stored.read(min(left, AT_ONCE))):
        parts.append(part)
        left -= len(part)
    if left or size < 0:
        raise InputError(f"{Path(stored.name).suffix[1:]} ends {left} bytes too early")
    return b"".join(parts)
