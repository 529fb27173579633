"""A log in tiered storage, in chunks that may be compressed and encrypted.

Source: `io.aiven.kafka.tieredstorage`, its packages `transform` and `security`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import zstandard

from kfmt_cli.core.source import Source
from kfmt_cli.core.urls import format_display_name
from kfmt_cli.disk.file_access import open_source
from kfmt_cli.disk.tiered_keys import DecryptFunction, PrivateKey
from kfmt_cli.disk.tiered_manifest import (
    ChunkEncoding,
    EncryptionMetadata,
    decompress_zstd,
    stored_chunk_sizes,
)
from kfmt_cli.errors import InputError, UnreadableBytesError

LOG_SUFFIX = ".log"

NamedSourceOpener = Callable[[str, str], Source]
"""Opens a path or a URL; the second argument is its name for display."""


@dataclass(frozen=True, slots=True)
class ChunkedLog:
    """A log in chunks."""

    chunk_encoding: ChunkEncoding
    path: str
    """The object that contains the chunks."""
    stored_chunk_ends: list[int]
    """The end of each chunk, in stored bytes."""
    stored_size: int
    """The size of the object; less than the last end if it is truncated."""
    decrypt: DecryptFunction | None
    open_object: NamedSourceOpener = open_source
    modified_ns: int = 0
    """When it was stored, in nanoseconds; 0 if unknown."""

    @property
    def chunk_size(self) -> int:
        """The original size of each chunk but the last."""
        return self.chunk_encoding.chunk_index.original_chunk_size

    @property
    def size(self) -> int:
        """The original size of the log, in bytes."""
        declared_size = self.chunk_encoding.chunk_index.original_file_size
        return min(declared_size, len(self.stored_chunk_ends) * self.chunk_size)

    @property
    def missing_bytes(self) -> int:
        """The bytes by which the object is too short; negative if it has bytes after the chunks."""
        return (self.stored_chunk_ends[-1] if self.stored_chunk_ends else 0) - self.stored_size

    def read_chunk(self, chunk_index: int, source: Source) -> bytes:
        """A chunk in its original form; raises InputError, and UnreadableBytesError if the chunk is
        damaged. source: the object."""
        if self.stored_chunk_ends[chunk_index] > self.stored_size:
            raise self._chunk_error(
                chunk_index, f"is missing: the object is {self.missing_bytes} bytes too short"
            )
        stored_start = self.stored_chunk_ends[chunk_index - 1] if chunk_index else 0
        expected_size = min(self.chunk_size, self.size - chunk_index * self.chunk_size)
        stored_bytes = self.stored_chunk_ends[chunk_index] - stored_start
        chunk = source.read_block(stored_start, stored_bytes, stored_bytes)
        try:
            if len(chunk) != stored_bytes:
                raise InputError(f"is {stored_bytes - len(chunk)} bytes too short")
            chunk = decrypt_if_needed(self.chunk_encoding.encryption, chunk, self.decrypt)
            if self.chunk_encoding.compression:
                chunk = decompress_zstd(chunk, expected_size)
            if len(chunk) != expected_size:
                raise InputError(f"has {len(chunk)} bytes instead of {expected_size}")
        except (zstandard.ZstdError, ValueError) as error:
            raise self._chunk_error(chunk_index, f"cannot be decompressed: {error}") from error
        except InputError as error:
            raise self._chunk_error(chunk_index, str(error)) from error
        return chunk

    def _chunk_error(self, chunk_index: int, reason: str) -> UnreadableBytesError:
        reason = f"chunk {chunk_index} {reason}"
        return UnreadableBytesError(
            f"{format_display_name(self.path)}: {reason}", chunk_index * self.chunk_size, reason
        )


class ChunkedSource(Source):
    """A log in chunks, which are read on demand."""

    def __init__(self, log: ChunkedLog, name: str) -> None:
        self.name = name
        self.size = log.size
        self.unreadable_block_bytes = log.chunk_size
        self._log = log
        self._object_source = log.open_object(log.path, format_display_name(log.path))
        self._cached_index_and_chunk: tuple[int, bytes] = -1, b""

    def read_block(self, position: int, length: int, min_length: int) -> bytes:
        end_position, required_end_position = (
            min(position + length, self._log.size),
            position + min_length,
        )
        chunk_size = self._log.chunk_size
        chunk_slices: list[bytes] = []
        while position < end_position:
            chunk_index, position_in_chunk = divmod(position, chunk_size)
            index_and_chunk = self._cached_index_and_chunk  # other threads may also read
            if index_and_chunk[0] != chunk_index:
                try:
                    index_and_chunk = self._cached_index_and_chunk = (
                        chunk_index,
                        self._log.read_chunk(chunk_index, self._object_source),
                    )
                except UnreadableBytesError as error:
                    if not chunk_slices or position < required_end_position:
                        error.position = chunk_index * chunk_size  # the byte of the log
                        raise
                    break
            chunk_slices.append(
                index_and_chunk[1][position_in_chunk : position_in_chunk + end_position - position]
            )
            position += len(chunk_slices[-1])
        return b"".join(chunk_slices)

    def close(self) -> None:
        self._object_source.close()


def open_chunked_log(
    base_path: str,
    stored_size: int,
    chunk_encoding: ChunkEncoding,
    private_key: PrivateKey | None,
    open_object: NamedSourceOpener = open_source,
) -> ChunkedLog:
    """A log, from its manifest; raises InputError.

    base_path: the path of its objects without their suffixes. stored_size: the size in bytes of the
    object with the chunks. chunk_encoding: the encoding in its manifest.
    """
    decrypt = None
    if chunk_encoding.encryption is not None:
        if private_key is None:
            key_name = chunk_encoding.encryption.data_key.rpartition(":")[0]
            message = f"encrypted with key {key_name}; pass --rsm-private-key FILE to read it"
            raise InputError(message)
        decrypt = private_key.unwrap_data_key(chunk_encoding.encryption.data_key)
    stored_chunk_ends = list(accumulate(stored_chunk_sizes(chunk_encoding)))
    return ChunkedLog(
        chunk_encoding,
        f"{base_path}{LOG_SUFFIX}",
        stored_chunk_ends,
        stored_size,
        decrypt,
        open_object,
    )


def decrypt_if_needed(
    encryption: EncryptionMetadata | None, stored_bytes: bytes, decrypt: DecryptFunction | None
) -> bytes:
    if decrypt is None or encryption is None:
        return stored_bytes
    try:
        associated_data = base64.b64decode(encryption.aad)
    except ValueError as error:
        raise InputError(f"its manifest is malformed: aad: {error}") from error
    return decrypt(stored_bytes, associated_data)
