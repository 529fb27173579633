"""Recognises Redpanda's data: segments of Kafka's records with other batch headers.

Source: Redpanda's `model::record_batch_header` and `storage::segment_full_path`.
"""

from __future__ import annotations

import re
import struct

from kfmt_cli.core.codecs.checksum import CRC32C, crc_of
from kfmt_cli.disk.directories import each_directory
from kfmt_cli.disk.opening import is_folder

REDPANDA = "Redpanda data, whose segments kfmt does not read; read the topics with a Kafka client"
# header_crc, size_bytes, base_offset, type, crc, attributes, last_offset_delta, first_timestamp,
# max_timestamp, producer_id, producer_epoch, base_sequence, record_count
_HEADER = struct.Struct("<IiqbiHiqqqhii")
_SEGMENT = re.compile(r"^\d+-\d+-v\d+\.log$")  # BASE-TERM-VERSION
_OWN = ("redpanda/controller", "redpanda/kvstore")


def is_redpanda_log(name: str) -> bool:
    """Whether a name is that of a Redpanda segment."""
    return _SEGMENT.match(name) is not None


def is_redpanda_batch(start: bytes) -> bool:
    """Whether bytes begin with a batch header of Redpanda's, whose checksum matches."""
    if len(start) < _HEADER.size:
        return False
    stored, size = struct.unpack_from("<Ii", start)
    return bool(size >= _HEADER.size and crc_of(CRC32C, start[4 : _HEADER.size]) == stored)


def is_redpanda_directory(path: str) -> bool:
    """Whether a directory without broker files is a Redpanda data directory or in one."""
    if any(is_folder(f"{path}/{own}") for own in _OWN):
        return True
    below = (its.files for _, its in each_directory(path, lambda _, __: None))
    return any(is_redpanda_log(entry.name) for files in below for entry in files)
