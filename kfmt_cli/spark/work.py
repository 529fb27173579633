"""Work on many pieces: shared out to tasks, results kept.

A job's directory has `_kfmt/job.json`, which says what the job is and how each input was cut. Below
`_kfmt/done` the results of pieces are kept, those of a task in one file where that is enough. A
piece whose result is there is not done again, so that a job that was stopped continues; inputs that
have changed are done anew.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from kfmt_cli.arrow.checking import edges_of, finding_of, finding_row
from kfmt_cli.arrow.inputs import at_hand
from kfmt_cli.arrow.output import get_json, names_in, put_json, remove
from kfmt_cli.errors import UsageError
from kfmt_cli.findings.finding import in_order
from kfmt_cli.render.style import grouped
from kfmt_cli.sharing.bundles import Bundling
from kfmt_cli.sharing.piece import Piece, cut, name_of, pack, telling
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.sharing.seams import Seam, is_torn
from kfmt_cli.spark.plan import Split
from kfmt_cli.spark.worker import carried, drivers_python, home_for

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

VERSION = 5
PATIENCE = 0.2  # seconds between two looks at how far it is

Result = dict[str, Any]
Work = Callable[[Request, Sequence[Piece], str], list[Result]]


@dataclass(frozen=True, slots=True)
class Job:
    """What is done with pieces."""

    name: str
    work: Work
    """Called in a task with the request, some pieces and the directory; a result of JSON for each.
    """
    options: dict[str, object]
    """What the results depend on."""
    together: bool = False
    """The pieces of a task are done in one go, and their results kept in one file."""
    bundling: Bundling | None = None
    """Which pieces are done together, where the files that are made are of those."""


@dataclass(slots=True)
class Ledger:
    """A job's directory: what is planned and what is done."""

    to: str
    job: Job
    cuts: dict[str, Result] = field(default_factory=dict)
    _kept: dict[str, bytes] = field(default_factory=dict)
    """The result of each piece, as JSON, which takes a fifth of the memory."""
    _read: set[str] = field(default_factory=set)
    _places: dict[str, str] = field(default_factory=dict)
    """The file that the result of each piece is kept in, and those of the pieces with it."""

    @property
    def _plan(self) -> str:
        return f"{self.to}/_kfmt/job.json"

    @property
    def done_folder(self) -> str:
        """Where the results are."""
        return f"{self.to}/_kfmt/done"

    def open(self) -> None:
        """Read what is there; raises UsageError for another job's directory."""
        known = get_json(self._plan)
        if known is None:
            if names_in(self.to):
                raise UsageError(f"{self.to}: is not empty, and not a directory of kfmt pipeline")
            return
        mine = json.loads(json.dumps(self.job.options))
        if (known["version"], known["job"], known["options"]) != (VERSION, self.job.name, mine):
            raise UsageError(
                f"{self.to}: holds the results of another job or of other options; choose "
                "another --to"
            )
        self.cuts = known["files"]

    def plan(self, request: Request, files: list[Piece]) -> list[Piece]:
        """The pieces of all inputs, cut as they were before where they have not changed."""
        target = share_of(request, files)
        pieces: list[Piece] = []
        self._read_results()
        for file in files:
            known = self.cuts.get(file.path)
            same = known is not None and known["about"] == [file.size, file.modified]
            if known is not None and same:
                parts = [file.part(a, b) for a, b in pairwise(known["cuts"])]
            else:
                self._forget(file.path, known)
                parts = list(cut([file], target))
            bounds = [0, *(part.end for part in parts)]
            self.cuts[file.path] = {"about": [file.size, file.modified], "cuts": bounds}
            pieces += parts
        self._write()
        return pieces

    def uncut(self, paths: set[str], pieces: list[Piece]) -> list[Piece]:
        """The pieces, those of some files replaced by the whole of each, which is done anew."""
        found: list[Piece] = []
        for piece in pieces:
            if piece.path not in paths:
                found.append(piece)
            elif piece.start == 0:
                self._forget(piece.path, self.cuts[piece.path])
                self.cuts[piece.path]["cuts"] = [0, piece.size]
                found.append(piece.part(0, piece.size))
        self._write()
        return found

    def _write(self) -> None:
        """Keep the plan."""
        about = {"version": VERSION, "job": self.job.name, "options": self.job.options}
        put_json(self._plan, {**about, "files": self.cuts})

    def _forget(self, path: str, known: Result | None) -> None:
        """Take away what was made of an input that has changed."""
        for start in known["cuts"][:-1] if known else ():
            place = self._places.get(name_of(path, start))
            alike = [name for name, other in self._places.items() if other == place]
            for name in alike if place is not None else ():
                for output in json.loads(self._kept.pop(name, b"{}")).get("outputs", []):
                    remove(f"{self.to}/{output}")
                del self._places[name]
            if place is not None:
                remove(f"{self.done_folder}/{place}")

    def _read_results(self) -> None:
        """Read the results that were not there before."""
        for name in sorted(names_in(self.done_folder) - self._read):
            if name.endswith(".json"):
                self._read.add(name)
                results = get_json(f"{self.done_folder}/{name}") or {}
                self._kept |= {name: json.dumps(one).encode() for name, one in results.items()}
                self._places |= dict.fromkeys(results, name)

    def reread(self, splits: list[Split]) -> None:
        """Read the results of some splits again, which have just been written."""
        for split in splits:
            self._read -= {file_of(share) for share in _shares(split, self.job.together)}

    def results(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Result | None]]:
        """What is known of each piece."""
        self._read_results()
        for piece in pieces:
            kept = self._kept.get(name_of(piece.path, piece.start))
            result = None if kept is None else json.loads(kept)
            is_its = result is not None and result["about"] == about(piece)
            yield piece, result if is_its else None

    def done(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Result]]:
        """The results of pieces; raises UsageError where there is none."""
        for piece, result in self.results(pieces):
            if result is None:
                raise UsageError(
                    f"{self.done_folder}: the results that tasks wrote are not to be seen here; "
                    "--to must be a directory that the driver and all executors share"
                )
            yield piece, result


def about(piece: Piece) -> list[int]:
    """What must be the same for the result of a piece to be one of it."""
    return [piece.size, piece.modified, piece.start, piece.end]


def run(
    spark: SparkSession,
    request: Request,
    ledger: Ledger,
    pieces: list[Piece],
    advance: Callable[[int], None],
) -> Finished:
    """Do what is not done; the results of all pieces, in their order, with what is found where one
    of them ends and the next begins.

    advance: is told how many bytes of inputs more are done.
    """
    _finish(spark, request, ledger, pieces, advance)
    parts = [piece for piece in pieces if not piece.is_whole]
    torn = torn_files(list(ledger.done(parts)))
    if torn:
        pieces = ledger.uncut(torn, pieces)
        _finish(spark, request, ledger, pieces, advance)
    return Finished(ledger, pieces)


@dataclass(frozen=True, slots=True)
class Finished:
    """The results of all pieces, which can be gone through again."""

    ledger: Ledger
    pieces: list[Piece]

    def __iter__(self) -> Iterator[tuple[Piece, Result]]:
        return sewn_together(self.ledger.done(self.pieces))


def torn_files(found: list[tuple[Piece, Result]]) -> set[str]:
    """The files in which a piece does not end where the next one begins."""
    return {
        path
        for path, parts in groupby(found, lambda read: read[0].path)
        if is_torn(edges_of(result) for _, result in parts)
    }


def sewn_together(found: Iterable[tuple[Piece, Result]]) -> Iterator[tuple[Piece, Result]]:
    """The results with what is found where one piece of a file ends and the next begins.

    `findings` are then rows of that table, batches counted from the front of the file.
    """
    for path, parts in groupby(found, lambda read: read[0].path):
        seam = Seam(path)
        for piece, result in parts:
            findings = [seam.numbered(finding_of(row)) for row in result["findings"]]
            codes: Counter[str] = Counter(result["codes"])
            if edges := edges_of(result):
                at_seam = list(seam.join(edges))
                findings = in_order([*at_seam, *findings])
                codes.update(finding.code.name for finding in at_seam)
            rows = [finding_row(piece, finding) for finding in findings]
            yield piece, {**result, "findings": rows, "codes": codes}


def _finish(
    spark: SparkSession,
    request: Request,
    ledger: Ledger,
    pieces: list[Piece],
    advance: Callable[[int], None],
) -> None:
    """Do what is not done."""
    open_ = [piece for piece, result in ledger.results(pieces) if result is None]
    splits = splits_of(ledger.job, request, open_)
    if splits:
        _run(spark, request, ledger, splits, advance)
        ledger.reread(splits)


def splits_of(job: Job, request: Request, pieces: list[Piece]) -> list[Split]:
    """Pieces as tasks do them."""
    share = share_of(request, pieces)
    shares = pack(pieces, share) if job.bundling is None else job.bundling.bundles(pieces, share)
    return [Split(tuple(share)) for share in shares]


def _run(
    spark: SparkSession,
    request: Request,
    ledger: Ledger,
    splits: list[Split],
    advance: Callable[[int], None],
) -> None:
    """One task a split."""
    context = spark.sparkContext
    shared = context.broadcast(splits)
    done = ledger.done_folder
    do = carried(home_for(context), partial(_do, ledger.job, request, ledger.to, done))

    def task(number: int) -> int:
        do(lambda: shared.value[number])
        return number

    # An RDD: `mapInArrow` of a DataFrame would need pandas.
    numbers = context.parallelize(range(len(splits)), len(splits)).map(task)
    total = sum(piece.end - piece.start for split in splits for piece in split.pieces)
    group = f"kfmt-{uuid.uuid4().hex}"

    def collect() -> None:
        words = f"kfmt {ledger.job.name}: {grouped(total)} bytes into {ledger.to}"
        context.setJobGroup(group, words, interruptOnCancel=True)
        with drivers_python(context):
            numbers.collect()

    # Spark knows how far it is: to list results again and again would cost requests.
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(collect)
        told = 0
        while wait([running], timeout=PATIENCE).not_done:
            reached = total * _tasks_done(context, group) // len(splits)
            advance(reached - told)
            told = reached
        running.result()


def _tasks_done(context: SparkContext, group: str) -> int:
    """How many tasks of a group of jobs are done."""
    status = context.statusTracker()
    done = 0
    for number in status.getJobIdsForGroup(group):
        job = status.getJobInfo(number)
        stages = [status.getStageInfo(stage) for stage in job.stageIds] if job else []
        done += sum(stage.numCompletedTasks for stage in stages if stage)
    return done


def _shares(split: Split, together: bool) -> list[tuple[Piece, ...]]:
    """The pieces whose results are kept in one file."""
    if together:
        return [split.pieces] if split.pieces else []
    return [(piece,) for piece in split.pieces]


def file_of(pieces: Sequence[Piece]) -> str:
    """The file that the results of some pieces are kept in."""
    more = f"-and-{len(pieces) - 1}" if len(pieces) > 1 else ""
    return f"{name_of(pieces[0].path, pieces[0].start)}{more}.json"


def _do(job: Job, request: Request, to: str, done: str, split: Callable[[], Split]) -> None:
    """The work of a task. split: gives what is to be done, once kfmt has been imported."""
    for pieces in _shares(split(), job.together):
        with telling(pieces[0]), at_hand(request, pieces):
            results = job.work(request, pieces, to)
        kept = {
            name_of(piece.path, piece.start): {**result, "about": about(piece)}
            for piece, result in zip(pieces, results, strict=True)
        }
        put_json(f"{done}/{file_of(pieces)}", kept)
