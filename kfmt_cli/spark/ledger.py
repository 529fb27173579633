"""A job's directory: its plan and its results.

`_kfmt/job.json` describes the job, `_kfmt/plan.json` how inputs are split. `_kfmt/done` has a file
per task, with the results of its pieces. A piece with a stored result is not processed again, so an
interrupted job continues; inputs that have changed are reprocessed.

An unchanged input keeps its splits. Only those of an input in several parts are stored, in files of
`_kfmt/plan`: what was whole stays so, as parts do not become smaller from run to run.

An export is a table with a history (`spark/lake/lake_table.py`): commits say which of these files
it consists of. What a commit names is changed by the next commit alone.

Results are read on demand (`spark/results.py`): for each piece, the driver keeps only the place of
its result.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from kfmt_cli.arrow.export.lake import Output
from kfmt_cli.arrow.export.output import get_json, names_in, put_json, remove
from kfmt_cli.errors import UsageError
from kfmt_cli.sharing.piece import Piece, cuts_of, name_of
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.spark.job import Job, Stored, about
from kfmt_cli.spark.lake.parts import Part, appended, sweep, values_in
from kfmt_cli.spark.results import ResultFiles

VERSION = 9
OPEN = -1


def file_of(pieces: Sequence[Piece], run: int) -> str:
    """The name of the file for the results of some pieces in a run."""
    more = f"-and-{len(pieces) - 1}" if len(pieces) > 1 else ""
    which = blake2b(str(run).encode(), digest_size=6)
    for piece in pieces:
        named = piece.path, piece.start, piece.end, piece.size, piece.modified
        which.update(repr(named).encode(errors="backslashreplace"))
    return f"{name_of(pieces[0].path, pieces[0].start)}{more}-{which.hexdigest()}.json"


def part_name(pieces: Sequence[Piece]) -> str:
    """The name, in a job's directory, of the file for rows of some pieces that readers of its
    tables do not see."""
    return f"_kfmt/rows/{file_of(pieces, 0).removesuffix('.json')}.arrow"


@dataclass(slots=True)
class Ledger:
    """The directory of a job."""

    to: str
    job: Job
    state: frozenset[str] = frozenset()
    """The files of results that the table consists of."""
    run: int = 0
    """The number of the run; part of the names of all its files."""
    pieces: Pieces = field(default_factory=Pieces)
    """All pieces to process."""
    is_dry: bool = False
    """Nothing is written or deleted."""
    stale: dict[str, list[str]] = field(default_factory=dict)
    """By file of the state: its results whose input has changed, is gone, or is not asked for."""
    lost: set[str] = field(default_factory=set)
    """The files of the state that are missing or incomplete."""
    _is_new: bool = True
    """The directory is not yet this job's."""
    _request: Request = field(default_factory=Request)
    _share: int = 0
    """Bytes per part."""
    _parts: tuple[Part, ...] = ()
    """The files of the plan."""
    _files: list[str] = field(default_factory=list)
    """The files with results."""
    _file: array[int] = field(default_factory=lambda: array("i"))
    """For each piece, the index of the file with its result, or `OPEN`."""
    _results: ResultFiles = field(init=False)

    def __post_init__(self) -> None:
        self._results = ResultFiles(self.done_folder)

    @property
    def done_folder(self) -> str:
        """The directory of the results."""
        return f"{self.to}/_kfmt/done"

    @property
    def _plan(self) -> str:
        return f"{self.to}/_kfmt/plan"

    @property
    def _claim(self) -> str:
        return f"{self.to}/_kfmt/job.json"

    @property
    def _mine(self) -> dict[str, Any]:
        return {"version": VERSION, "job": self.job.name, "options": self.job.options}

    def open(self) -> None:
        """Check that the directory is this job's or new; raises UsageError if it is not."""
        known = get_json(self._claim)
        if known is None and names_in(self.to) - {"_kfmt"}:
            raise UsageError(f"{self.to}: not empty and not a kfmt pipeline directory")
        if known is not None and known != json.loads(json.dumps(self._mine)):
            raise UsageError(f"{self.to}: {_contradiction(known, self._mine)}; choose another --to")
        self._is_new = known is None

    def plan(self, request: Request, files: Pieces) -> None:
        """Split the inputs; unchanged inputs keep their previous splits. Raises InputError."""
        self._request = request
        before = get_json(f"{self._plan}.json") or {"share": 0, "parts": []}
        self._share = before["share"]
        self._parts = tuple(Part(**part) for part in before["parts"])
        share = min(request.max_split, max(share_of(request, files), self._share))
        known = dict(values_in(self._plan, self._parts))
        changes: dict[str, list[int] | None] = {}

        def cuts(file: Piece) -> Sequence[int]:
            size, modified, *cuts_before = known.pop(file.path, None) or (OPEN, OPEN)
            if (size, modified) == (file.size, file.modified):
                return cuts_before
            made = cuts_of(file, share)
            if len(made) > 2:
                changes[file.path] = [file.size, file.modified, *made]
            elif size != OPEN:
                changes[file.path] = None
            return made

        self.pieces = files.parted(cuts)
        changes |= {path: None for path, value in known.items() if value is not None}
        self._write(share, changes)
        self._find_results()

    def _write(self, share: int, changes: Mapping[str, list[int] | None]) -> None:
        """Claim the directory, and write what has changed in the plan."""
        is_same, self._share = share == self._share, share
        if self.is_dry:
            return
        if self._is_new:
            put_json(self._claim, self._mine)
            self._is_new = False
        before = self._parts
        self._parts = appended(self._plan, before, self.run, changes.items())
        if self._parts != before or not is_same:
            parts = [asdict(part) for part in self._parts]
            put_json(f"{self._plan}.json", {"share": share, "parts": parts})
            sweep(self._plan, self._parts)

    def _find_results(self) -> None:
        """Find the stored results.

        Deletes each file outside the state with a result that does not belong to this run: of an
        input that has changed or is missing, or that the state already has. The other results in
        the file, which were made together, are lost with it.
        """
        self._file, self._files = array("i", [OPEN]) * len(self.pieces), []
        self.stale = defaultdict(list)
        names = {name for name in names_in(self.done_folder) if name.endswith(".json")}
        self.lost = set(self.state - names)
        self._results.fetch(names)
        pieces = enumerate(self.pieces) if names else ()
        numbers = {name_of(piece.path, piece.start): i for i, piece in pieces}
        for name in (*sorted(names & self.state), *sorted(names - self.state)):
            results = self.results(name)
            if not results and name in self.state:
                self.lost.add(name)
            places = [numbers.get(of, OPEN) for of in results]
            fits = [
                i != OPEN
                and self._file[i] == OPEN
                and result.about == about(self.pieces[i], self._request)
                for i, result in zip(places, results.values(), strict=True)
            ]
            if name not in self.state and not all(fits):
                self.take_away(name)
                continue
            for i, of, is_fitting in zip(places, results, fits, strict=True):
                if is_fitting:
                    self._file[i] = len(self._files)
                else:
                    self.stale[name].append(of)
            self._files.append(name)

    def results(self, name: str) -> dict[str, Stored]:
        """The results in a file, none if it is missing or incomplete; raises InputError."""
        return self._results.results(name)

    def outputs(self, name: str) -> list[Output]:
        """The files that were written with the results in a file."""
        results = self.results(name).values()
        return [Output(**known) for result in results for known in result.get("files", ())]

    def take_away(self, name: str) -> None:
        """Delete a file of results, and the outputs written with them."""
        if self.is_dry:
            return
        for result in self.results(name).values():
            for output in result.get("outputs", ()):
                remove(f"{self.job.folder(self.to)}/{output}")
                remove(f"{self.to}/{output}")
        self._results.forget(name)
        remove(f"{self.done_folder}/{name}")

    def uncut(self, paths: set[str]) -> None:
        """Undo the splits of some files; reprocess all pieces with results in the same files."""
        kept = self.pieces.those(lambda piece: piece.path not in paths or piece.start == 0)
        self.pieces = kept.parted(
            lambda piece: (0, piece.size) if piece.path in paths else (piece.start, piece.end)
        )
        uncut = self.pieces.those(lambda piece: piece.path in paths)
        self._write(
            self._share,
            {piece.path: [piece.size, piece.modified, 0, piece.size] for piece in uncut},
        )
        self._find_results()

    def open_pieces(self) -> array[int]:
        """The indexes of the unprocessed pieces."""
        return array("I", (i for i, number in enumerate(self._file) if number == OPEN))

    def take(self, numbers: array[int], shares: Iterable[Sequence[Piece]]) -> None:
        """Note processed pieces. numbers: their indexes. shares: the pieces by task."""
        there, at, before = names_in(self.done_folder), 0, len(self._files)
        for share in shares:
            name = file_of(share, self.run)
            if name in there:
                for i in numbers[at : at + len(share)]:
                    self._file[i] = len(self._files)
                self._files.append(name)
            at += len(share)
        self._results.fetch(self._files[before:])

    def files(self) -> list[str]:
        """The files with results of this run's pieces, in the order of the pieces."""
        return [self._files[i] for i in dict.fromkeys(self._file) if i != OPEN]

    def done(
        self, is_one: Callable[[Piece], bool] = lambda _: True
    ) -> Iterator[tuple[Piece, Stored]]:
        """The results of all pieces, or of those that meet a condition; raises UsageError if
        missing."""
        for piece, number in zip(self.pieces, self._file, strict=True):
            if is_one(piece):
                results = {} if number == OPEN else self.results(self._files[number])
                result = results.get(name_of(piece.path, piece.start))
                if result is None:
                    raise UsageError(
                        f"{self.done_folder}: results written by tasks are not visible here; --to "
                        "must be shared by the driver and all executors"
                    )
                yield piece, result


def _contradiction(known: dict[str, object], mine: dict[str, object]) -> str:
    """How a directory's job differs from this one."""
    if known.get("job") != mine["job"] or known.get("version") != mine["version"]:
        return f"contains results of another job or kfmt version ({known.get('job')})"
    before, now = known.get("options"), mine["options"]
    if not isinstance(before, dict) or not isinstance(now, dict):
        return "contains results of a run with other options"
    differing = [name for name in now if before.get(name) != json.loads(json.dumps(now[name]))]
    said = ", ".join(f"{name} was {before.get(name)}, is now {now[name]}" for name in differing)
    return f"contains results of a run with other options ({said})"
