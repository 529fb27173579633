"""Logs in tiered storage, whose manifests are asked for once: when they are listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kfmt_cli.core.source import FileSource, Source
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.names import MANIFEST, STORED_STEM
from kfmt_cli.disk.opening import descriptor
from kfmt_cli.errors import InputError
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.request import Request

if TYPE_CHECKING:
    from kfmt_cli.disk.tiered import StoredLog

MOST_CARRIED = 4 << 10  # bytes of a packed chunking; a segment of 1 GiB has 300 to 1,500

Stated = tuple[int, int]
"""The size of a manifest and its time in a listing, 0 if unknown."""
Told = tuple[tuple[str, int, str], bytes]
"""What a manifest says: topic, partition and topic id, and the chunking, packed."""


@dataclass(slots=True)
class Manifests:
    """The manifests of those segments that were listed last."""

    _told: dict[str, tuple[Stated, Told]] = field(default_factory=dict)

    def told(self, stem: str, stated: Stated) -> Told:
        """What a manifest says, from memory if it is listed as before; raises InputError. stem: see
        `stem_of`."""
        known = self._told.get(stem)
        if known is not None and known[0] == stated:
            return known[1]
        found = _told(stem, stated[0])
        if stated[1] and len(found[1]) <= MOST_CARRIED:
            self._told[stem] = stated, found
        return found

    def keep(self, stated: dict[str, Stated]) -> None:
        """Forget the manifests that are not listed any more."""
        for stem in self._told.keys() - stated.keys():
            del self._told[stem]


def stem_of(path: str) -> str | None:
    """The name prefix of a tiered segment's objects, from the path of its log; None for other
    paths."""
    stem = path.removesuffix(".log")
    return stem if STORED_STEM.match(stem.rpartition("/")[2]) else None


def _told(stem: str, size: int | None) -> Told:
    from kfmt_cli.disk.tiered import read_manifest

    manifest = read_manifest(f"{stem}{MANIFEST}", partial(_as_stored, size))
    place = manifest.remote_log_segment_metadata.remote_log_segment_id.topic_id_partition
    its = place.topic_partition
    return (its.topic, its.partition, place.topic_id), manifest.chunking.packed()


def tiered_log(request: Request, path: str, there: int, chunking: bytes) -> StoredLog:
    """The log of a segment; raises InputError. there: the bytes of the object with the chunks.
    chunking: as packed, empty to read the manifest."""
    from kfmt_cli.disk.tiered import stored_log
    from kfmt_cli.disk.tiered_keys import PrivateKey
    from kfmt_cli.disk.tiered_manifest import Chunking

    key = None if request.private_key is None else PrivateKey(request.private_key, "the key")
    stem = path.removesuffix(".log")
    known = Chunking.unpacked(chunking or _told(stem, None)[1])
    return stored_log(stem, there, known, key, partial(_as_stored, there))


def as_broker(request: Request, piece: Piece, told: Told) -> Piece:
    """A segment as a broker had it: with the original size of its log; raises InputError."""
    named, chunking = told
    size = tiered_log(request, piece.path, piece.size, chunking).size
    return Piece(
        *(piece.path, piece.kind, piece.base_offset, size, piece.modified, 0, size),
        tiered=True,
        stored_size=piece.size,
        named=named,
        chunking=chunking if len(chunking) <= MOST_CARRIED else b"",
    )


def opened_log(request: Request, there: int, chunking: bytes, path: str) -> Source:
    """The bytes of a log; raises InputError. there, chunking: as for `tiered_log`."""
    from kfmt_cli.disk.tiered import ChunkedSource

    return ChunkedSource(tiered_log(request, path, there, chunking), path)


def _as_stored(listed: int | None, path: str, name: str) -> Source:
    """A stored object, not decoded. listed: its size in a listing, None if unknown."""
    if not is_local(path):
        return StoredSource(path, listed)
    try:
        return FileSource(descriptor(path), name)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}", file=path) from error
