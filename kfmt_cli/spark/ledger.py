"""A job's directory: its plan and its results.

`_kfmt/job.json` describes the job, `_kfmt/plan.jsonl` how each input is split. `_kfmt/done` has a
file per task, with the results of its pieces. A piece with a stored result is not processed again,
so an interrupted job continues; inputs that have changed are reprocessed.

Results are read on demand: for each piece, the driver keeps only the place of its result.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kfmt_cli.arrow.output import appearing, get_json, names_in, put_json, read_whole, remove
from kfmt_cli.errors import UsageError
from kfmt_cli.sharing.piece import Piece, cuts_of, name_of
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.spark.job import Job, Result, about

VERSION = 6
HELD = 32 << 20  # bytes of results kept in memory
OPEN = -1


def file_of(pieces: Sequence[Piece]) -> str:
    """The name of the file for the results of some pieces."""
    more = f"-and-{len(pieces) - 1}" if len(pieces) > 1 else ""
    return f"{name_of(pieces[0].path, pieces[0].start)}{more}.json"


@dataclass(slots=True)
class Ledger:
    """The directory of a job."""

    to: str
    job: Job
    pieces: Pieces = field(default_factory=Pieces)
    """All pieces to process."""
    _files: list[str] = field(default_factory=list)
    """The files with results."""
    _file: array[int] = field(default_factory=lambda: array("i"))
    """For each piece, the index of the file with its result, or `OPEN`."""
    _held: dict[int, dict[str, bytes]] = field(default_factory=dict)
    """Results already read, by the index of their file; as JSON, for a fifth of the memory."""
    _n_held: int = 0

    @property
    def done_folder(self) -> str:
        """The directory of the results."""
        return f"{self.to}/_kfmt/done"

    @property
    def _plan(self) -> str:
        return f"{self.to}/_kfmt/plan.jsonl"

    def open(self) -> None:
        """Claim the directory for this job; raises UsageError if it belongs to another job."""
        place = f"{self.to}/_kfmt/job.json"
        known = get_json(place)
        mine = {"version": VERSION, "job": self.job.name, "options": self.job.options}
        if known is None:
            if names_in(self.to):
                raise UsageError(f"{self.to}: not empty and not a kfmt pipeline directory")
            put_json(place, mine)
        elif known != json.loads(json.dumps(mine)):
            raise UsageError(
                f"{self.to}: holds results of another job or of different options; choose another "
                "--to"
            )

    def plan(self, request: Request, files: Pieces) -> None:
        """Split the inputs; unchanged inputs keep their previous splits."""
        target = share_of(request, files)
        known = dict(self._known_cuts())

        def cuts(file: Piece) -> Sequence[int]:
            size, modified, *before = known.get(file.path, (OPEN, OPEN))
            is_same = (size, modified) == (file.size, file.modified)
            return before if is_same else cuts_of(file, target)

        self.pieces = files.parted(cuts)
        self._write()
        self._find_results()

    def _known_cuts(self) -> Iterator[tuple[str, list[int]]]:
        """For each input planned before: size, modification time and split positions."""
        for line in (read_whole(self._plan) or b"").splitlines():
            path, *cuts = json.loads(line)
            yield path, cuts

    def _write(self) -> None:
        """Write the plan."""
        with appearing(self._plan) as out:
            for path, pieces in groupby(self.pieces, key=lambda piece: piece.path):
                parts = list(pieces)
                cuts = [parts[0].start, *(part.end for part in parts)]
                line = json.dumps([path, parts[0].size, parts[0].modified, *cuts])
                out.write(f"{line}\n".encode())

    def _find_results(self) -> None:
        """Find the stored results. Deletes each file with results of an input that has changed or
        is missing, including the other results in the file, which were made together."""
        self._file, self._files = array("i", [OPEN]) * len(self.pieces), []
        self._held, self._n_held = {}, 0
        names = sorted(name for name in names_in(self.done_folder) if name.endswith(".json"))
        pieces = enumerate(self.pieces) if names else ()
        numbers = {name_of(piece.path, piece.start): i for i, piece in pieces}
        for name in names:
            results: dict[str, Result] = get_json(f"{self.done_folder}/{name}") or {}
            places = [numbers.get(of, OPEN) for of in results]
            if all(
                i != OPEN and result["about"] == about(self.pieces[i])
                for i, result in zip(places, results.values(), strict=True)
            ):
                for i in places:
                    self._file[i] = len(self._files)
                self._files.append(name)
            else:
                self._take_away(name, results)

    def _take_away(self, name: str, results: dict[str, Result]) -> None:
        """Delete a file of results, and the outputs written with them."""
        for result in results.values():
            for output in result.get("outputs", ()):
                remove(f"{self.to}/{output}")
        remove(f"{self.done_folder}/{name}")

    def uncut(self, paths: set[str]) -> None:
        """Undo the splits of some files; reprocess all pieces with results in the same files."""
        kept = self.pieces.those(lambda piece: piece.path not in paths or piece.start == 0)
        self.pieces = kept.parted(
            lambda piece: (0, piece.size) if piece.path in paths else (piece.start, piece.end)
        )
        self._write()
        self._find_results()

    def open_pieces(self) -> array[int]:
        """The indexes of the unprocessed pieces."""
        return array("I", (i for i, number in enumerate(self._file) if number == OPEN))

    def take(self, numbers: array[int], shares: Iterable[Sequence[Piece]]) -> None:
        """Note processed pieces. numbers: their indexes. shares: the pieces by task."""
        there, at = names_in(self.done_folder), 0
        for share in shares:
            name = file_of(share)
            if name in there:
                for i in numbers[at : at + len(share)]:
                    self._file[i] = len(self._files)
                self._files.append(name)
            at += len(share)

    def done(
        self, is_one: Callable[[Piece], bool] = lambda _: True
    ) -> Iterator[tuple[Piece, Result]]:
        """The results of all pieces, or of those that meet a condition; raises UsageError if
        missing."""
        for piece, number in zip(self.pieces, self._file, strict=True):
            if is_one(piece):
                results = {} if number == OPEN else self._results_in(number)
                kept = results.get(name_of(piece.path, piece.start))
                if kept is None:
                    raise UsageError(
                        f"{self.done_folder}: results written by tasks are not visible here; --to "
                        "must be shared by the driver and all executors"
                    )
                result: Result = json.loads(kept)
                yield piece, result

    def _results_in(self, number: int) -> dict[str, bytes]:
        """The results in a file; raises InputError."""
        if number not in self._held:
            results = get_json(f"{self.done_folder}/{self._files[number]}") or {}
            found = {name: json.dumps(result).encode() for name, result in results.items()}
            self._n_held += sum(map(len, found.values()))
            while self._held and self._n_held > HELD:
                oldest = self._held.pop(next(iter(self._held)))
                self._n_held -= sum(map(len, oldest.values()))
            self._held[number] = found
        return self._held[number]
