"""The input files of a request, wherever they are stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from kfmt_cli.core.compressed_files import WHOLLY_PACKED, packed_suffix
from kfmt_cli.core.parallel import map_ordered, together
from kfmt_cli.core.placeholders import CONNECTIONS, FILES
from kfmt_cli.core.source import READ_ONLY, FileSource, Source
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.stores import StoredFile, listing
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.kinds import UNKNOWN, kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Input, Kind, quoted
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG, LOGS
from kfmt_cli.disk.names import MANIFEST, STORED_STEM, left_out_words, mark_of, partition_of
from kfmt_cli.disk.tree import printable
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request

if TYPE_CHECKING:
    from kfmt_cli.disk.tiered import StoredLog

KINDS = {
    "records": frozenset({LOG}),
    "batches": frozenset({LOG}),
    "snapshot_records": frozenset({KRAFT_SNAPSHOT}),
    "index_entries": frozenset({OFFSET_INDEX, TIME_INDEX}),
}


def files_of(
    request: Request,
    tell: Callable[[str], None] | None = None,
    listed: Callable[[str], Iterable[StoredFile]] | None = None,
    *,
    is_checked: bool = False,
) -> Pieces:
    """All files of the request, undivided, with unreadable directories listed by their error;
    raises InputError, also if every entry is an error.

    Directories that a broker has marked, as copies or as set aside, are skipped unless named. tell:
    receives a message about them. listed: the files below a path, if they are known. is_checked:
    raise UsageError for a topic without any file.
    """
    stems = set[str]()
    every = found = Pieces(_listed(request, stems, tell, listed or listing))
    if stems or request.topics:
        found = Pieces(_wanted(request, every, stems))
    if is_checked and request.topics:
        _check_topics(request.topics, found, every)
    if found and all(piece.trouble for piece in found):
        raise InputError("; ".join(f"{piece.path}: {piece.trouble}" for piece in found))
    return found.in_order()


def _check_topics(wanted: frozenset[str], found: Pieces, listed: Pieces) -> None:
    """Raise UsageError for a topic without files."""
    missing = sorted(wanted - {piece.place[0] for piece in found})
    if missing:
        known = sorted({topic for piece in listed if (topic := piece.place[0]) is not None})
        near = get_close_matches(missing[0], known, 3, 0.6)
        more = f"; did you mean {' or '.join(map(printable, near))}?" if near else ""
        raise UsageError(f"no topic {quoted(missing[0])} in the given paths{more}")


def _listed(
    request: Request,
    stems: set[str],
    tell: Callable[[str], None] | None,
    listed: Callable[[str], Iterable[StoredFile]],
) -> Iterator[Piece]:
    """List the files of all topics. stems: receives the name prefixes of segments in tiered
    storage, taken from their manifests."""
    for path in request.paths:
        given, marked, folder, leaves_out = iter(listed(path)), set[str](), "", False
        first = list(islice(given, 2))
        if not first:
            raise InputError(f"{path}: no files in it")
        alone = len(first) == 1
        if alone:
            stems |= _stem_of(first[0].path)
        for stored in chain(first, given):
            if _is_manifest(stored):
                stems.add(stored.path.removesuffix(MANIFEST))
            above, _, name = stored.path.rpartition("/")
            if above != folder:
                folder, leaves_out = above, _is_marked(above, path)
            piece = _piece_of(request, stored, name, alone)
            if piece is not None and leaves_out:
                marked.add(folder)
            elif piece is not None:
                yield piece
        if marked and tell is not None:
            tell(f"{path}: {left_out_words(marked)}\n")


def _piece_of(request: Request, stored: StoredFile, name: str, alone: bool) -> Piece | None:
    """A file as one piece, None if the request does not include it. alone: it was named explicitly,
    so any name is accepted."""
    path, size, trouble, packed_as = stored.path, stored.size, stored.trouble, packed_suffix(name)
    kind, base, transient = kind_of(name.removesuffix(packed_as))
    if trouble is None:
        if transient and not alone:
            return None
        if packed_as and kind in LOGS:
            trouble = WHOLLY_PACKED
    if trouble is not None and (kind is UNKNOWN or _is_read(request, kind)):
        return Piece(path, UNKNOWN, None, 0, 0, 0, 0, trouble=trouble)
    if not _is_read(request, kind) and not (alone and (kind is UNKNOWN or kind in LOGS)):
        return None
    return Piece(path, kind, base, size, stored.modified, 0, size)


def _is_read(request: Request, kind: Kind) -> bool:
    """Whether the table of the request has rows of this kind of file."""
    return kind in KINDS.get(request.table, LOGS)


def _stem(path: str) -> str | None:
    """The name prefix of a tiered segment's objects, from the path of its log; None for other
    paths."""
    stem = path.removesuffix(".log")
    return stem if STORED_STEM.match(stem.rpartition("/")[2]) else None


def _stem_of(path: str) -> set[str]:
    """The same for the path of any file, as a set that is empty if there is no manifest."""
    stem = _stem(path)
    try:
        return {stem} if stem is not None and list(listing(stem + MANIFEST)) else set()
    except InputError:
        return set()


def _is_manifest(file: StoredFile) -> bool:
    return file.path.endswith(MANIFEST) and not file.trouble


def _wanted(request: Request, found: Pieces, stems: set[str]) -> Iterator[Piece]:
    """The files of the requested topics. Segments in tiered storage get the size from their
    manifests, and are skipped if the partition's local logs contain them."""
    first: dict[object, int] = {}
    for piece in found:
        if _stem(piece.path) in stems:
            continue
        if piece.trouble or _is_wanted(request, partition_of(piece.path)[0]):
            yield piece
            if piece.kind is LOG and piece.base_offset is not None:
                known = first.get(piece.place, piece.base_offset)
                first[piece.place] = min(known, piece.base_offset)
    tiered = found.those(lambda piece: _stem(piece.path) in stems)
    for piece in map_ordered(partial(_as_broker, request), tiered, CONNECTIONS):
        is_local_too = piece.place in first and (piece.base_offset or 0) >= first[piece.place]
        if piece.trouble or (_is_wanted(request, piece.place[0]) and not is_local_too):
            yield piece


def _as_broker(request: Request, piece: Piece) -> Piece:
    """A segment in tiered storage with the original size of its log, or the reason it cannot be
    read."""
    try:
        log = _stored_log(request, piece.path, piece.size)
    except InputError as error:
        return replace(piece, kind=UNKNOWN, trouble=str(error), tiered=True)
    place = log.manifest.remote_log_segment_metadata.remote_log_segment_id.topic_id_partition
    its = place.topic_partition
    named = its.topic, its.partition, place.topic_id
    there = replace(piece, tiered=True, stored_size=piece.size, named=named)
    return replace(there, size=log.size, end=log.size)


def _stored_log(request: Request, path: str, there: int) -> StoredLog:
    from kfmt_cli.disk.tiered import stored_log
    from kfmt_cli.disk.tiered_keys import PrivateKey

    key = None if request.private_key is None else PrivateKey(request.private_key, "the key")
    return stored_log(path.removesuffix(".log"), there, key, _as_stored)


def _as_stored(path: str, name: str) -> Source:
    """The stored object, not decoded, with its chunks."""
    if not is_local(path):
        return StoredSource(path)
    try:
        return FileSource(os.open(path, READ_ONLY), name)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}", file=path) from error


@contextmanager
def at_hand(request: Request, pieces: Iterable[Piece]) -> Iterator[None]:
    """Make paths of segments in tiered storage open their logs instead of their chunks. Object
    sizes come from the listing."""
    known: dict[str, Callable[[str], Source]] = {}
    for piece in pieces:
        if piece.tiered:
            known[piece.path] = partial(_opened, request, piece.stored_size)
        elif not is_local(piece.path):
            known[piece.path] = partial(StoredSource, listed=piece.size)
    FILES.update(known)
    try:
        yield
    finally:
        for path in known:
            del FILES[path]


def _opened(request: Request, there: int, path: str) -> Source:
    from kfmt_cli.disk.tiered import ChunkedSource

    return ChunkedSource(_stored_log(request, path, there), path)


def _is_marked(folder: str, given: str) -> bool:
    """Whether a broker has marked a directory under a given path."""
    name = folder.rpartition("/")[2]
    return mark_of(name) != "" and name not in given.split("/")


def _is_wanted(request: Request, topic: str | None) -> bool:
    return not request.topics or topic in request.topics


def reader_of(request: Request, piece: Piece) -> PieceReader:
    """A reader of a piece, wherever it is stored."""
    return PieceReader(
        request.wanted_of(piece),
        request.limit,
        fail_fast=request.fail_fast,
        raises_unreadable=request.raises_unreadable,
    )


def packed(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The pieces in order, small logs grouped, others alone."""

    def size(piece: Piece) -> int | None:
        whole_log = piece.kind is LOG and piece.is_whole and not piece.trouble
        return piece.size if whole_log else None

    return together(pieces, size)


def input_of(piece: Piece) -> Input:
    """The file of a piece."""
    return Input(piece.path, piece.path, piece.kind, piece.base_offset)
