"""The input files of a request, wherever they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice

from kfmt_cli.arrow.tiered_logs import Manifests, Stated, as_broker, opened_log, stem_of
from kfmt_cli.core.compressed_files import WHOLLY_PACKED, packed_suffix
from kfmt_cli.core.parallel import CONNECTIONS, map_ordered, together
from kfmt_cli.core.stored_source import StoredSource
from kfmt_cli.core.stores import StoredFile
from kfmt_cli.core.urls import is_local, name_text
from kfmt_cli.disk.given import is_tiered
from kfmt_cli.disk.kinds import UNKNOWN, kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Input, Kind, quoted
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT, LOG, LOGS
from kfmt_cli.disk.listings import listing
from kfmt_cli.disk.names import (
    MANIFEST,
    distinct_paths,
    identity,
    left_out_words,
    mark_of,
    partition_of,
)
from kfmt_cli.disk.redpanda import REDPANDA, is_redpanda_log
from kfmt_cli.disk.tree import is_of_broker
from kfmt_cli.disk.trees import TREES, Opener
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request

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
    manifests: Manifests | None = None,
) -> Pieces:
    """All files of the request, undivided, with unreadable directories listed by their error;
    raises InputError, also if every entry is an error.

    Directories that a broker has marked, as copies or as set aside, are skipped unless named. tell:
    receives a message about them. listed: the files below a path, if they are known. is_checked:
    raise UsageError for a topic without any file. manifests: those of the listing before, replaced
    by those of this one.
    """
    stated: dict[str, Stated] = {}
    manifests = manifests or Manifests()
    every = found = Pieces(_listed(request, stated, tell, listed or listing))
    if stated or request.topics:
        found = Pieces(_wanted(request, every, stated, manifests))
    manifests.keep(stated)
    if is_checked and request.topics:
        _check_topics(request.topics, found, every)
    if found and not found.readable:
        raise InputError("; ".join(f"{path}: {why}" for path, why in found.troubles.items()))
    return found.in_order()


def _check_topics(wanted: frozenset[str], found: Pieces, listed: Pieces) -> None:
    """Raise UsageError for a topic without files."""
    missing = sorted(wanted - {piece.place[0] for piece in found})
    if missing:
        known = sorted({topic for piece in listed if (topic := piece.place[0]) is not None})
        near = get_close_matches(missing[0], known, 3, 0.6)
        more = f"; did you mean {' or '.join(map(name_text, near))}?" if near else ""
        raise UsageError(f"no topic {quoted(missing[0])} in the given paths{more}")


def _listed(
    request: Request,
    stated: dict[str, Stated],
    tell: Callable[[str], None] | None,
    listed: Callable[[str], Iterable[StoredFile]],
) -> Iterator[Piece]:
    """List the files of all topics. stated: receives the manifests of tiered storage, by the name
    prefixes of their segments. What has been put together from one object comes once, whatever its
    path below another one."""
    of_tiered: set[str] = set()
    for path in distinct_paths(request.paths):
        given, marked, folder, leaves_out = iter(listed(path)), set[str](), "", False
        is_kafka, is_redpanda = False, False
        first = list(islice(given, 2))
        if not first:
            raise InputError(f"{path}: no files in it")
        alone = len(first) == 1
        for stored in _manifest_of(first[0].path) if alone else ():
            stated[stored.path.removesuffix(MANIFEST)] = stored.size, stored.modified
        for stored in chain(first, given):
            if stored.path.endswith(MANIFEST) and not stored.trouble:
                stated[stored.path.removesuffix(MANIFEST)] = stored.size, stored.modified
            above, _, name = stored.path.rpartition("/")
            is_kafka = is_kafka or is_of_broker(name)
            is_redpanda = is_redpanda or is_redpanda_log(name)
            if above != folder:
                folder, leaves_out = above, _is_marked(above, path)
            piece = _piece_of(request, stored, name, alone)
            if piece is not None and is_tiered(piece.path):
                its = identity(piece.path)
                if its in of_tiered:
                    continue
                of_tiered.add(its)
            if piece is not None and leaves_out:
                marked.add(folder)
            elif piece is not None:
                yield piece
        if is_redpanda and not is_kafka:
            raise InputError(f"{path}: {REDPANDA}")
        if marked and tell is not None:
            tell(f"{path}: {left_out_words(marked)}\n")


def _piece_of(request: Request, stored: StoredFile, name: str, alone: bool) -> Piece | None:
    """A file as one piece, None if the request does not include it. alone: it was named explicitly,
    so a log may have any name."""
    path, size, trouble, packed_as = stored.path, stored.size, stored.trouble, packed_suffix(name)
    kind, base, transient = kind_of(name.removesuffix(packed_as))
    if trouble is None:
        if transient and not alone:
            return None
        if packed_as and kind in LOGS:
            trouble = WHOLLY_PACKED
    if trouble is not None and (kind is UNKNOWN or _is_read(request, kind)):
        return Piece(path, UNKNOWN, None, 0, 0, 0, 0, trouble=trouble)
    reads_logs = any(_is_read(request, log) for log in LOGS)
    may_be_log = alone and reads_logs and (kind is UNKNOWN or kind in LOGS)
    if not _is_read(request, kind) and not may_be_log:
        return None
    return Piece(path, kind, base, size, stored.modified, 0, size)


def _is_read(request: Request, kind: Kind) -> bool:
    """Whether the table of the request has rows of this kind of file."""
    return kind in KINDS.get(request.table, LOGS)


def _manifest_of(path: str) -> Iterable[StoredFile]:
    """The manifest of a file that was named explicitly; none for a file without one."""
    stem = stem_of(path)
    try:
        return () if stem is None else list(listing(stem + MANIFEST))
    except InputError:
        return ()


def _wanted(
    request: Request, found: Pieces, stated: Mapping[str, Stated], manifests: Manifests
) -> Iterator[Piece]:
    """The files of the requested topics. Segments in tiered storage get the size from their
    manifests, and are skipped if the partition's local logs contain them."""
    first: dict[object, int] = {}
    for piece in found:
        if stem_of(piece.path) in stated:
            continue
        if piece.trouble or request.wants(partition_of(piece.path)[0]):
            yield piece
            if piece.kind is LOG and piece.base_offset is not None:
                known = first.get(piece.place, piece.base_offset)
                first[piece.place] = min(known, piece.base_offset)
    tiered = found.those(lambda piece: stem_of(piece.path) in stated)
    read = partial(_as_broker, request, stated, manifests)
    for piece in map_ordered(read, tiered, CONNECTIONS):
        is_local_too = piece.place in first and piece.base >= first[piece.place]
        if piece.trouble or (request.wants(piece.place[0]) and not is_local_too):
            yield piece


def _as_broker(
    request: Request, stated: Mapping[str, Stated], manifests: Manifests, piece: Piece
) -> Piece:
    """A segment in tiered storage with the original size of its log, or the reason it cannot be
    read."""
    stem = piece.path.removesuffix(LOG.suffix)
    try:
        return as_broker(request, piece, manifests.told(stem, stated[stem]))
    except InputError as error:
        return replace(piece, kind=UNKNOWN, trouble=str(error), tiered=True)


def at_hand(request: Request, pieces: Iterable[Piece]) -> AbstractContextManager[None]:
    """Make paths of segments in tiered storage open their logs instead of their chunks. Object
    sizes come from the listing."""
    known: dict[str, Opener] = {}
    for piece in pieces:
        if piece.tiered:
            known[piece.path] = partial(opened_log, request, piece.stored_size, piece.chunking)
        elif not is_local(piece.path) and TREES.at(piece.path) is None:
            known[piece.path] = partial(StoredSource, listed=piece.size)
    return TREES.opening(known)


def _is_marked(folder: str, given: str) -> bool:
    """Whether a broker has marked a directory under a given path."""
    name = folder.rpartition("/")[2]
    return mark_of(name) != "" and name not in given.split("/")


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
