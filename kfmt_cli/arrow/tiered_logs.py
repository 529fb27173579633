"""Opens logs in tiered storage. Each manifest is read once, when its segment is listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from kfmt_cli.broker.cluster.replica_contents import ReplicaLogContents
from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.file_access import open_file_descriptor
from kfmt_cli.disk.file_names import MANIFEST_SUFFIX, REMOTE_SEGMENT_NAME
from kfmt_cli.errors import InputError
from kfmt_cli.execution.file_split import FileSplit
from kfmt_cli.execution.read_request import ReadRequest

if TYPE_CHECKING:
    from kfmt_cli.disk.chunked_log import ChunkedLog

MAX_CHUNKING_BYTES = 4 << 10  # of an encoded chunking; a segment of 1 GiB has 300 to 1,500

EpochStart = tuple[int, int]
"""A leader epoch and its first offset."""
ManifestVersion = tuple[int, int]
"""A manifest's size and modification time in a listing; a time of 0 is unknown."""
ManifestContents = tuple[tuple[str, int, str], bytes, int, tuple[EpochStart, ...]]
"""A manifest's topic, partition and topic id, its encoded chunking, its last offset, and the first
offset of each leader epoch."""


@dataclass(slots=True)
class ManifestCache:
    """The contents of the manifests in the last listing."""

    _contents_by_prefix: dict[str, tuple[ManifestVersion, ManifestContents]] = field(
        default_factory=dict
    )

    def read_contents(self, object_prefix: str, version: ManifestVersion) -> ManifestContents:
        """The contents of a manifest, cached while its version is the same; raises InputError.
        object_prefix: see `parse_object_prefix`."""
        cached_entry = self._contents_by_prefix.get(object_prefix)
        if cached_entry is not None and cached_entry[0] == version:
            return cached_entry[1]
        contents = _read_manifest_contents(object_prefix, version[0])
        if version[1] and len(contents[1]) <= MAX_CHUNKING_BYTES:
            self._contents_by_prefix[object_prefix] = version, contents
        return contents

    def drop_unlisted_manifests(self, listed_versions: dict[str, ManifestVersion]) -> None:
        """Remove the manifests that are no longer listed."""
        for object_prefix in self._contents_by_prefix.keys() - listed_versions.keys():
            del self._contents_by_prefix[object_prefix]


def parse_object_prefix(path: str) -> str | None:
    """The name prefix of a tiered segment's objects, from the path of its log; None for other
    paths."""
    object_prefix = path.removesuffix(".log")
    return object_prefix if REMOTE_SEGMENT_NAME.match(object_prefix.rpartition("/")[2]) else None


def _read_manifest_contents(object_prefix: str, listed_size: int | None) -> ManifestContents:
    from kfmt_cli.disk.tiered import read_manifest

    manifest = read_manifest(
        f"{object_prefix}{MANIFEST_SUFFIX}", partial(_open_object, listed_size)
    )
    topic_id_partition = (
        manifest.remote_log_segment_metadata.remote_log_segment_id.topic_id_partition
    )
    topic_partition = topic_id_partition.topic_partition
    first_offset_by_epoch = manifest.remote_log_segment_metadata.segment_leader_epochs or {}
    return (
        (topic_partition.topic, topic_partition.partition, topic_id_partition.topic_id),
        manifest.chunk_encoding.to_bytes(),
        manifest.remote_log_segment_metadata.end_offset,
        tuple(sorted(first_offset_by_epoch.items())),
    )


def load_tiered_log(
    request: ReadRequest, path: str, object_size: int, encoded_chunking: bytes
) -> ChunkedLog:
    """The log of a segment; raises InputError. object_size: the bytes of the object with the
    chunks. encoded_chunking: encoded; empty to read it from the manifest."""
    from kfmt_cli.disk.chunked_log import open_chunked_log
    from kfmt_cli.disk.tiered_keys import PrivateKey
    from kfmt_cli.disk.tiered_manifest import ChunkEncoding

    private_key = (
        None if request.private_key is None else PrivateKey(request.private_key, "the key")
    )
    object_prefix = path.removesuffix(".log")
    decoded_chunking = ChunkEncoding.from_bytes(
        encoded_chunking or _read_manifest_contents(object_prefix, None)[1]
    )
    return open_chunked_log(
        object_prefix,
        object_size,
        decoded_chunking,
        private_key,
        partial(_open_object, object_size),
    )


def with_log_size(request: ReadRequest, split: FileSplit, contents: ManifestContents) -> FileSplit:
    """A split with the original size of its segment's log; raises InputError."""
    topic_id_partition, encoded_chunking = contents[:2]
    log_bytes = load_tiered_log(request, split.path, split.file_size, encoded_chunking).size
    return FileSplit(
        *(split.path, split.kind, split.base_offset, log_bytes, split.modified_ns, 0, log_bytes),
        is_tiered=True,
        object_size=split.file_size,
        topic_id_partition=topic_id_partition,
        encoded_chunking=encoded_chunking if len(encoded_chunking) <= MAX_CHUNKING_BYTES else b"",
    )


def tiered_log_contents(split: FileSplit, contents: ManifestContents) -> ReplicaLogContents:
    """The offsets and leader epochs of a segment, from its manifest."""
    last_offset, epoch_starts = contents[2:]
    return ReplicaLogContents(
        split.path,
        split.base_offset_or_zero,
        [(split.base_offset_or_zero, last_offset)],
        epoch_intervals=[
            (epoch, first_offset, next_offset - 1)
            for (epoch, first_offset), (_, next_offset) in pairwise(
                [*epoch_starts, (-1, last_offset + 1)]
            )
            if first_offset < next_offset
        ],
    )


def open_tiered_source(
    request: ReadRequest, object_size: int, encoded_chunking: bytes, path: str
) -> Source:
    """A source of a log's bytes; raises InputError. Other arguments: see `load_tiered_log`."""
    from kfmt_cli.disk.chunked_log import ChunkedSource

    return ChunkedSource(load_tiered_log(request, path, object_size, encoded_chunking), path)


def _open_object(listed_size: int | None, path: str, display_name: str) -> Source:
    """A stored object, not decoded. listed_size: its size in a listing, None if unknown."""
    if not is_local(path):
        return StoredSource(path, listed_size)
    try:
        return FileSource(open_file_descriptor(path), display_name)
    except OSError as error:
        raise InputError(f"{display_name}: {error.strerror}", file=path) from error
