"""Recognises Redpanda data: segments of Kafka records with other batch headers.

Source: Redpanda's `model::record_batch_header` and `storage::segment_full_path`.
"""

from __future__ import annotations

import re
import struct

from kfmt_cli.core.codecs.checksum import CRC32C_POLYNOMIAL, compute_crc
from kfmt_cli.disk.directory_walk import iter_directories
from kfmt_cli.disk.file_access import is_directory

REDPANDA_MESSAGE = (
    "Redpanda data, whose segments kfmt does not read; read the topics with a Kafka client"
)
# header_crc, size_bytes, base_offset, type, crc, attributes, last_offset_delta, first_timestamp,
# max_timestamp, producer_id, producer_epoch, base_sequence, record_count
_BATCH_HEADER = struct.Struct("<IiqbiHiqqqhii")
_SEGMENT_NAME = re.compile(r"^\d+-\d+-v\d+\.log$")  # BASE-TERM-VERSION
_REDPANDA_DIRECTORIES = ("redpanda/controller", "redpanda/kvstore")


def is_redpanda_log(file_name: str) -> bool:
    """Whether a name is that of a Redpanda segment."""
    return _SEGMENT_NAME.match(file_name) is not None


def is_redpanda_batch(first_bytes: bytes) -> bool:
    """Whether bytes begin with a Redpanda batch header whose checksum matches."""
    if len(first_bytes) < _BATCH_HEADER.size:
        return False
    stored_crc, batch_bytes = struct.unpack_from("<Ii", first_bytes)
    return bool(
        batch_bytes >= _BATCH_HEADER.size
        and compute_crc(CRC32C_POLYNOMIAL, first_bytes[4 : _BATCH_HEADER.size]) == stored_crc
    )


def is_redpanda_directory(path: str) -> bool:
    """Whether a directory without broker files is a Redpanda data directory or in one."""
    if any(is_directory(f"{path}/{subpath}") for subpath in _REDPANDA_DIRECTORIES):
        return True
    file_entry_lists = (
        directory_entries.files
        for _, directory_entries in iter_directories(path, lambda _, __: None)
    )
    return any(
        is_redpanda_log(file_entry.name)
        for file_entries in file_entry_lists
        for file_entry in file_entries
    )
