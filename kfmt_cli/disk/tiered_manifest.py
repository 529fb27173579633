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

MAX_TOPIC_LENGTH = 249  # characters
MAX_MANIFEST_BYTES = 16 << 20
MAX_CHUNK_BYTES = 1 << 30
MAX_CHUNKS = 1 << 20
MAX_LOG_BYTES = (1 << 31) - 1  # Kafka stores the size of a segment in an int


class _ManifestStruct(msgspec.Struct, rename="camel"):
    pass


class FixedSizeChunkIndex(_ManifestStruct, tag="fixed", tag_field="type"):
    """Chunks of one size, except the last."""

    original_chunk_size: int
    original_file_size: int
    transformed_chunk_size: int
    final_transformed_chunk_size: int

    def stored_chunk_sizes(self, n_chunks: int) -> list[int]:
        """The stored size of each chunk in bytes."""
        return [*[self.transformed_chunk_size] * (n_chunks - 1), self.final_transformed_chunk_size]


class VariableSizeChunkIndex(_ManifestStruct, tag="variable", tag_field="type"):
    """Chunks of various sizes, due to compression."""

    original_chunk_size: int
    original_file_size: int
    transformed_chunks: str
    """Their stored sizes, in zstd and base64: the count, the smallest size, the bytes per
    difference, the difference of each chunk but the last, the size of the last."""

    def stored_chunk_sizes(self, n_chunks: int) -> list[int]:
        """The stored size of each chunk in bytes; raises ValueError, struct.error or ZstdError."""
        compressed = base64.b64decode(self.transformed_chunks, validate=True)
        data = decompress_zstd(compressed, MAX_MANIFEST_BYTES)
        (count,) = struct.unpack_from(">i", data)
        if count != n_chunks:
            raise ValueError(f"it lists {count} chunk sizes, but {n_chunks} are needed")
        if count == 1:
            return list(struct.unpack_from(">i", data, 4))
        min_size, difference_bytes = struct.unpack_from(">ib", data, 4)
        if difference_bytes not in (1, 2, 3, 4) or len(data) != 13 + difference_bytes * (count - 1):
            raise ValueError("malformed chunk sizes")
        differences = (
            data[9 + difference_bytes * i : 9 + difference_bytes * (i + 1)]
            for i in range(count - 1)
        )
        last_size = struct.unpack_from(">i", data, len(data) - 4)[0]
        return [
            *(min_size + int.from_bytes(difference, "big") for difference in differences),
            last_size,
        ]


def decompress_zstd(data: bytes, max_bytes: int) -> bytes:
    """The bytes of a zstd frame, at most `max_bytes`; raises ValueError, ZstdError."""
    declared_size = zstandard.frame_content_size(data)
    if declared_size > max_bytes:
        raise ValueError(f"it states {declared_size} bytes, more than {max_bytes}")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=max_bytes)


class SegmentIndexLocation(_ManifestStruct):
    """The location of an index in the object of indexes."""

    position: int
    size: int


class SegmentIndexLocations(_ManifestStruct):
    """The location of each index; None if the segment has no such index."""

    offset: SegmentIndexLocation | None = None
    timestamp: SegmentIndexLocation | None = None
    producer_snapshot: SegmentIndexLocation | None = None
    leader_epoch: SegmentIndexLocation | None = None
    transaction: SegmentIndexLocation | None = None


class EncryptionMetadata(_ManifestStruct):
    """The parameters for decryption."""

    data_key: str
    aad: str


class ManifestTopicPartition(_ManifestStruct):
    """A partition by name."""

    topic: str
    partition: int


class TopicIdPartition(_ManifestStruct):
    """A partition by name and topic id."""

    topic_id: str
    topic_partition: ManifestTopicPartition


class RemoteLogSegmentId(_ManifestStruct):
    """The id of a copy of a partition's segment."""

    topic_id_partition: TopicIdPartition
    id: str


class RemoteLogSegmentMetadata(_ManifestStruct):
    """The broker's metadata of a segment."""

    remote_log_segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int


class ChunkEncoding(msgspec.Struct, frozen=True):
    """How a log is divided, compressed and encrypted, which is all that its reader needs."""

    chunk_index: FixedSizeChunkIndex | VariableSizeChunkIndex
    compression: bool
    encryption: EncryptionMetadata | None

    def to_bytes(self) -> bytes:
        """A compact encoding for `from_bytes`."""
        encryption = self.encryption and msgspec.structs.astuple(self.encryption)
        index = msgspec.structs.astuple(self.chunk_index)
        return msgspec.msgpack.encode((index, self.compression, encryption))

    @classmethod
    def from_bytes(cls, data: bytes) -> ChunkEncoding:
        """The encoding that `to_bytes` returned, decoded."""
        index, compression, encryption = msgspec.msgpack.decode(data)
        index_class = (
            FixedSizeChunkIndex
            if len(index) == len(FixedSizeChunkIndex.__struct_fields__)
            else VariableSizeChunkIndex
        )
        return cls(index_class(*index), compression, encryption and EncryptionMetadata(*encryption))


class SegmentManifest(_ManifestStruct):
    """The plug-in's metadata of a segment."""

    version: str
    chunk_index: FixedSizeChunkIndex | VariableSizeChunkIndex
    segment_indexes: SegmentIndexLocations
    compression: bool
    remote_log_segment_metadata: RemoteLogSegmentMetadata
    encryption: EncryptionMetadata | None = None

    @property
    def chunking(self) -> ChunkEncoding:
        """The members that describe the encoding of the log."""
        return ChunkEncoding(self.chunk_index, self.compression, self.encryption)


def parse_manifest(source: Source) -> SegmentManifest:
    """Read a manifest; raises InputError."""
    data = source.read_block(0, MAX_MANIFEST_BYTES + 1, MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise InputError(f"its manifest exceeds {MAX_MANIFEST_BYTES} bytes")
    try:
        manifest = msgspec.json.decode(data, type=SegmentManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    except RecursionError:
        raise InputError("its manifest is malformed: nested too deeply") from None
    if manifest.version != "1":
        raise InputError(f"its manifest has version {manifest.version!r}; kfmt supports 1")
    topic_id_partition = (
        manifest.remote_log_segment_metadata.remote_log_segment_id.topic_id_partition
    )
    topic = topic_id_partition.topic_partition.topic
    if topic in ("", ".", "..") or {"/", "\0"} & set(topic) or len(topic) > MAX_TOPIC_LENGTH:
        raise InputError(f"its manifest belongs to topic {topic!r}")
    return manifest


def chunk_sizes(chunking: ChunkEncoding) -> list[int]:
    """The stored size of each chunk in bytes; raises InputError if the sizes are impossible."""
    index = chunking.chunk_index
    chunk_size, total_size = index.original_chunk_size, index.original_file_size
    if (
        not 0 < chunk_size <= MAX_CHUNK_BYTES
        or not 0 <= total_size <= MAX_LOG_BYTES
        or total_size > chunk_size * MAX_CHUNKS
    ):
        raise InputError(f"its manifest declares {chunk_size}-byte chunks of {total_size} bytes")
    n_chunks = -(-total_size // chunk_size)
    try:
        sizes = index.stored_chunk_sizes(n_chunks) if n_chunks else []
    except (ValueError, struct.error, zstandard.ZstdError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    if any(not 0 < length <= 2 * MAX_CHUNK_BYTES for length in sizes):
        raise InputError("its manifest is malformed: impossible chunk sizes")
    return sizes
