"""The manifest of a segment, written by Aiven's plug-in.

Source: `io.aiven.kafka.tieredstorage`, its package `manifest`.
"""

from __future__ import annotations

import base64
import struct

import msgspec
import zstandard

from kfmt_cli.core.source import Source
from kfmt_cli.errors import InputError

MOST_TOPIC = 249  # characters
MOST_MANIFEST = 16 << 20
MOST_CHUNK = 1 << 30
MOST_CHUNKS = 1 << 20
MOST_LOG = (1 << 31) - 1  # Kafka keeps the size of a segment in an int


class _Struct(msgspec.Struct, rename="camel"):
    pass


class FixedChunks(_Struct, tag="fixed", tag_field="type"):
    """Chunks of one size, except the last."""

    original_chunk_size: int
    original_file_size: int
    transformed_chunk_size: int
    final_transformed_chunk_size: int

    def sizes(self, number: int) -> list[int]:
        """The stored size of each chunk in bytes."""
        return [*[self.transformed_chunk_size] * (number - 1), self.final_transformed_chunk_size]


class VariableChunks(_Struct, tag="variable", tag_field="type"):
    """Chunks of various sizes, due to compression."""

    original_chunk_size: int
    original_file_size: int
    transformed_chunks: str
    """Their sizes, in zstd and base64: the count, the smallest size, the bytes per difference, the
    difference of each chunk but the last, the size of the last."""

    def sizes(self, number: int) -> list[int]:
        """The stored size of each chunk in bytes; raises ValueError, struct.error or ZstdError."""
        packed = base64.b64decode(self.transformed_chunks, validate=True)
        data = expanded(packed, MOST_MANIFEST)
        (count,) = struct.unpack_from(">i", data)
        if count != number:
            raise ValueError(f"it lists {count} chunk sizes, but {number} are needed")
        if count == 1:
            return list(struct.unpack_from(">i", data, 4))
        base, width = struct.unpack_from(">ib", data, 4)
        if width not in (1, 2, 3, 4) or len(data) != 13 + width * (count - 1):
            raise ValueError("malformed chunk sizes")
        more = (data[9 + width * i : 9 + width * (i + 1)] for i in range(count - 1))
        last = struct.unpack_from(">i", data, len(data) - 4)[0]
        return [*(base + int.from_bytes(part, "big") for part in more), last]


def expanded(data: bytes, most: int) -> bytes:
    """The bytes of a zstd frame, at most `most`; raises ValueError, ZstdError."""
    stated = zstandard.frame_content_size(data)
    if stated > most:
        raise ValueError(f"it states {stated} bytes, more than {most}")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=most)


class IndexPlace(_Struct):
    """The place of an index."""

    position: int
    size: int


class Indexes(_Struct):
    """The place of each index."""

    offset: IndexPlace | None = None
    timestamp: IndexPlace | None = None
    producer_snapshot: IndexPlace | None = None
    leader_epoch: IndexPlace | None = None
    transaction: IndexPlace | None = None


class Encryption(_Struct):
    """The parameters for decryption."""

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
    """The id of a copy of a partition's segment."""

    topic_id_partition: TopicIdPartition
    id: str


class SegmentMetadata(_Struct):
    """The broker's metadata of a segment."""

    remote_log_segment_id: SegmentId
    start_offset: int
    end_offset: int


class Chunking(msgspec.Struct, frozen=True):
    """How a log is divided, compressed and encrypted, which is all that its reader needs."""

    chunk_index: FixedChunks | VariableChunks
    compression: bool
    encryption: Encryption | None

    def packed(self) -> bytes:
        """It in a few bytes, for `unpacked`."""
        encryption = self.encryption and msgspec.structs.astuple(self.encryption)
        index = msgspec.structs.astuple(self.chunk_index)
        return msgspec.msgpack.encode((index, self.compression, encryption))

    @classmethod
    def unpacked(cls, data: bytes) -> Chunking:
        """That of `packed`."""
        index, compression, encryption = msgspec.msgpack.decode(data)
        chunks = FixedChunks if len(index) == len(FixedChunks.__struct_fields__) else VariableChunks
        return cls(chunks(*index), compression, encryption and Encryption(*encryption))


class Manifest(_Struct):
    """The plug-in's metadata of a segment."""

    version: str
    chunk_index: FixedChunks | VariableChunks
    segment_indexes: Indexes
    compression: bool
    remote_log_segment_metadata: SegmentMetadata
    encryption: Encryption | None = None

    @property
    def chunking(self) -> Chunking:
        """Its part about the log."""
        return Chunking(self.chunk_index, self.compression, self.encryption)


def manifest_at(source: Source) -> Manifest:
    """Read a manifest; raises InputError."""
    data = source.block(0, MOST_MANIFEST + 1, MOST_MANIFEST + 1)
    if len(data) > MOST_MANIFEST:
        raise InputError(f"its manifest exceeds {MOST_MANIFEST} bytes")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    except RecursionError:
        raise InputError("its manifest is malformed: nested too deeply") from None
    if manifest.version != "1":
        raise InputError(f"its manifest has version {manifest.version!r}; kfmt supports 1")
    place = manifest.remote_log_segment_metadata.remote_log_segment_id.topic_id_partition
    topic = place.topic_partition.topic
    if topic in ("", ".", "..") or {"/", "\0"} & set(topic) or len(topic) > MOST_TOPIC:
        raise InputError(f"its manifest belongs to topic {topic!r}")
    return manifest


def chunk_sizes(chunking: Chunking) -> list[int]:
    """The stored size of each chunk in bytes; raises InputError if the sizes are impossible."""
    index = chunking.chunk_index
    size, total = index.original_chunk_size, index.original_file_size
    if not 0 < size <= MOST_CHUNK or not 0 <= total <= MOST_LOG or total > size * MOST_CHUNKS:
        raise InputError(f"its manifest declares {size}-byte chunks of {total} bytes")
    number = -(-total // size)
    try:
        sizes = index.sizes(number) if number else []
    except (ValueError, struct.error, zstandard.ZstdError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    if any(not 0 < length <= 2 * MOST_CHUNK for length in sizes):
        raise InputError("its manifest is malformed: impossible chunk sizes")
    return sizes
