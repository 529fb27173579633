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
        compressed_sizes = base64.b64decode(self.transformed_chunks, validate=True)
        encoded_sizes = decompress_zstd(compressed_sizes, MAX_MANIFEST_BYTES)
        (declared_count,) = struct.unpack_from(">i", encoded_sizes)
        if declared_count != n_chunks:
            raise ValueError(f"it lists {declared_count} chunk sizes, but {n_chunks} are needed")
        if declared_count == 1:
            return list(struct.unpack_from(">i", encoded_sizes, 4))
        min_size, bytes_per_difference = struct.unpack_from(">ib", encoded_sizes, 4)
        if bytes_per_difference not in (1, 2, 3, 4) or len(
            encoded_sizes
        ) != 13 + bytes_per_difference * (declared_count - 1):
            raise ValueError("malformed chunk sizes")
        differences = (
            encoded_sizes[9 + bytes_per_difference * i : 9 + bytes_per_difference * (i + 1)]
            for i in range(declared_count - 1)
        )
        last_size = struct.unpack_from(">i", encoded_sizes, len(encoded_sizes) - 4)[0]
        return [
            *(min_size + int.from_bytes(difference, "big") for difference in differences),
            last_size,
        ]


def decompress_zstd(zstd_frame: bytes, max_bytes: int) -> bytes:
    """The bytes of a zstd frame, at most `max_bytes`; raises ValueError, ZstdError."""
    declared_size = zstandard.frame_content_size(zstd_frame)
    if declared_size > max_bytes:
        raise ValueError(f"it declares {declared_size} bytes, more than {max_bytes}")
    return zstandard.ZstdDecompressor().decompress(zstd_frame, max_output_size=max_bytes)


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
    segment_leader_epochs: dict[int, int] | None = None
    """The first offset of each leader epoch."""


class ChunkEncoding(msgspec.Struct, frozen=True):
    """How a log is divided, compressed and encrypted, which is all that its reader needs."""

    chunk_index: FixedSizeChunkIndex | VariableSizeChunkIndex
    compression: bool
    encryption: EncryptionMetadata | None

    def to_bytes(self) -> bytes:
        """A compact encoding for `from_bytes`."""
        encryption_values = self.encryption and msgspec.structs.astuple(self.encryption)
        chunk_index_values = msgspec.structs.astuple(self.chunk_index)
        return msgspec.msgpack.encode((chunk_index_values, self.compression, encryption_values))

    @classmethod
    def from_bytes(cls, encoded_bytes: bytes) -> ChunkEncoding:
        """The encoding that `to_bytes` returned, decoded."""
        chunk_index_values, compression, encryption_values = msgspec.msgpack.decode(encoded_bytes)
        chunk_index_class = (
            FixedSizeChunkIndex
            if len(chunk_index_values) == len(FixedSizeChunkIndex.__struct_fields__)
            else VariableSizeChunkIndex
        )
        return cls(
            chunk_index_class(*chunk_index_values),
            compression,
            encryption_values and EncryptionMetadata(*encryption_values),
        )


class SegmentManifest(_ManifestStruct):
    """The plug-in's metadata of a segment."""

    version: str
    chunk_index: FixedSizeChunkIndex | VariableSizeChunkIndex
    segment_indexes: SegmentIndexLocations
    compression: bool
    remote_log_segment_metadata: RemoteLogSegmentMetadata
    encryption: EncryptionMetadata | None = None

    @property
    def chunk_encoding(self) -> ChunkEncoding:
        """The members that describe the encoding of the log."""
        return ChunkEncoding(self.chunk_index, self.compression, self.encryption)


def parse_manifest(source: Source) -> SegmentManifest:
    """Read a manifest; raises InputError."""
    manifest_json = source.read_block(0, MAX_MANIFEST_BYTES + 1, MAX_MANIFEST_BYTES + 1)
    if len(manifest_json) > MAX_MANIFEST_BYTES:
        raise InputError(f"its manifest exceeds {MAX_MANIFEST_BYTES} bytes")
    try:
        manifest = msgspec.json.decode(manifest_json, type=SegmentManifest)
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


def stored_chunk_sizes(chunk_encoding: ChunkEncoding) -> list[int]:
    """The stored size of each chunk in bytes; raises InputError if the sizes are impossible."""
    chunk_index = chunk_encoding.chunk_index
    chunk_size, log_size = chunk_index.original_chunk_size, chunk_index.original_file_size
    if (
        not 0 < chunk_size <= MAX_CHUNK_BYTES
        or not 0 <= log_size <= MAX_LOG_BYTES
        or log_size > chunk_size * MAX_CHUNKS
    ):
        raise InputError(f"its manifest declares {chunk_size}-byte chunks of {log_size} bytes")
    n_chunks = -(-log_size // chunk_size)
    try:
        stored_sizes = chunk_index.stored_chunk_sizes(n_chunks) if n_chunks else []
    except (ValueError, struct.error, zstandard.ZstdError) as error:
        raise InputError(f"its manifest is malformed: {error}") from error
    if any(not 0 < stored_size <= 2 * MAX_CHUNK_BYTES for stored_size in stored_sizes):
        raise InputError("its manifest is malformed: impossible chunk sizes")
    return stored_sizes
