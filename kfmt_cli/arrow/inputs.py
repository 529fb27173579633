"""The files that a request is about, wherever they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kfmt_cli.core.elsewhere import is_local, local
from kfmt_cli.core.packed import WHOLLY_PACKED, packed_suffix
from kfmt_cli.core.parallel import together
from kfmt_cli.core.stores import listing, open_stored
from kfmt_cli.disk.kinds import UNKNOWN, is_transient
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, TIME_INDEX
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.kinds.logs import LOG, LOGS
from kfmt_cli.disk.names import left_out_words, mark_of, partition_of
from kfmt_cli.disk.tree import classify
from kfmt_cli.errors import InputError
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.read_piece import PieceReader
from kfmt_cli.sharing.request import Request

KINDS = {"index_entries": frozenset({OFFSET_INDEX, TIME_INDEX})}


def files_of(request: Request, tell: Callable[[str], None] | None = None) -> list[Piece]:
    """Every file that the request is about, whole, and the directories that cannot be read, by
    their trouble; raises InputError, also where there is nothing but trouble.

    Directories that a broker has marked, as copies or as set aside, are left out unless they are
    named. tell: is told of them.
    """
    kinds = KINDS.get(request.table, LOGS)
    found: dict[str, Piece] = {}
    for path in request.paths:
        given, marked = list(listing(path)), set[str]()
        for stored in given:
            alone = len(given) == 1
            if not stored.trouble and is_transient(stored.path) and not alone:
                continue
            if _is_marked(stored.path, path):
                marked.add(stored.path.rpartition("/")[0])
                continue
            file, trouble = classify(stored.path, stored.path), stored.trouble
            if not trouble and packed_suffix(stored.path) and file.kind in LOGS:
                trouble = WHOLLY_PACKED
            if trouble:
                found[stored.path] = Piece(stored.path, UNKNOWN, None, 0, 0, 0, 0, trouble=trouble)
                continue
            known = file.kind in kinds or (alone and file.kind is UNKNOWN)
            if known and _wanted(request, stored.path):
                base = file.base_offset
                found[stored.path] = Piece(
                    stored.path, file.kind, base, stored.size, stored.modified, 0, stored.size
                )
        if not given:
            raise InputError(f"{path}: no file in it")
        if marked and tell is not None:
            tell(f"{path}: {left_out_words(marked)}\n")
    if found and all(piece.trouble for piece in found.values()):
        raise InputError("; ".join(f"{piece.path}: {piece.trouble}" for piece in found.values()))
    return sorted(found.values(), key=_order)


def _is_marked(file: str, given: str) -> bool:
    """Whether a broker has marked the directory of a file below a path that was given."""
    folder = file.rpartition("/")[0]
    name = folder.rpartition("/")[2]
    return mark_of(name) != "" and name not in given.split("/")


def _order(piece: Piece) -> tuple[str, int, int, str]:
    topic, partition = piece.place
    folder = topic or piece.path.rpartition("/")[0]
    return folder, partition or 0, piece.base_offset or 0, piece.path


def _wanted(request: Request, path: str) -> bool:
    return not request.topics or partition_of(path)[0] in request.topics


def reader_of(request: Request, piece: Piece) -> PieceReader:
    """A reader of a piece, wherever it is stored."""
    return PieceReader(request.wanted_of(piece), request.limit, open_stored, request.fail_fast)


def packed(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The pieces in their order, small local logs together, others alone."""

    def size(piece: Piece) -> int | None:
        whole_log = piece.kind is LOG and piece.is_whole and not piece.trouble
        return piece.size if whole_log and is_local(piece.path) else None

    return together(pieces, size)


def input_of(piece: Piece) -> Input:
    """The file of a piece."""
    return Input(local(piece.path), piece.path, piece.kind, piece.base_offset)
