"""export: records and batches as files for SQL, on the cores of this machine."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from kfmt_cli.arrow.dry_run import dry_run
from kfmt_cli.arrow.export.exporting import Exported, PieceExported, export_bundle
from kfmt_cli.arrow.export.lake import Lake
from kfmt_cli.arrow.export.manifest import FOLDER, ExportManifest, outputs_of, source_of
from kfmt_cli.arrow.export.output import names_in, remove
from kfmt_cli.arrow.inputs import at_hand, files_of, input_of
from kfmt_cli.arrow.topic_ids import TopicIds
from kfmt_cli.commands.each_partition import LogStarts
from kfmt_cli.commands.partition_selection import wanted_of
from kfmt_cli.commands.run import Event
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.core.urls import is_local
from kfmt_cli.disk.given import troubles
from kfmt_cli.disk.kinds.logs import KRAFT_SNAPSHOT
from kfmt_cli.disk.targets import refuse_pipe
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.findings.damage import UNREAD
from kfmt_cli.findings.finding import MOST_FINDINGS, Findings
from kfmt_cli.log.selection.select import Selection
from kfmt_cli.render.style import count
from kfmt_cli.rows.result import Result
from kfmt_cli.rows.table_types import LAKE_TABLES, SNAPSHOT_RECORDS, exported
from kfmt_cli.sharing.piece import Piece, cuts_of
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.processes import map_processes
from kfmt_cli.sharing.request import Request, share_of
from kfmt_cli.sharing.seams import Seam, is_torn
from kfmt_cli.writing.output import need_apart, writing

UNFINISHED = ".kfmt-export-unfinished"


@dataclass(slots=True)
class Export:
    """One call of `export`."""

    request: Request
    to: str
    """A directory."""
    lake: Lake = field(default_factory=Lake)
    jobs: int = 1
    force: bool = False
    most_findings: int = MOST_FINDINGS
    dry_run: bool = False
    """Report the plan without reading or writing anything."""
    log_starts: LogStarts | None = None
    tell: Callable[[str], None] = lambda _: None
    """Called with notes on skipped files, and with the plan of a dry run."""
    _files: Pieces = field(default_factory=Pieces)
    _given: tuple[str, ...] = ()
    _is_fresh: bool = False
    _manifest: ExportManifest = field(default_factory=ExportManifest)
    _ids: TopicIds = field(default_factory=TopicIds)

    def plan(self, paths: tuple[str, ...]) -> Iterator[Event]:
        """Find the files; raises InputError, or UsageError if the destination is not empty."""
        refuse_pipe(*paths)
        self._given = paths
        if is_local(self.to):
            need_apart(self.to, paths)
        if not self.dry_run:
            self._prepare()
        for path in paths:
            yield from map(InputError, troubles(path))
        request = replace(self.request, table=self.lake.listed_as)
        found = files_of(request, self.tell, is_checked=True)
        for piece in found:
            if piece.trouble:
                yield InputError(f"{self._name(piece.path)}: {piece.trouble}")
        self._files = found.those(lambda piece: not piece.trouble)
        if not self._files:
            raise InputError("no log segments in the given paths")
        n_snapshots = sum(piece.kind is KRAFT_SNAPSHOT for piece in self._files)
        if n_snapshots:
            words = count(n_snapshots, "KRaft snapshot")
            self.tell(f"{words}: records in the table {SNAPSHOT_RECORDS.name}\n")
        if self.request.asked.needs_logs:
            yield from self._ask_logs()
        if self.log_starts is not None:
            for file in self._files:
                self.log_starts.tell(file.path, file.base_offset, self._name(file.path))

    def _prepare(self) -> None:
        """Check the destination, removing an unfinished export; raises UsageError."""
        folder = Path(self.to)
        if is_local(self.to) and folder.exists() and not folder.is_dir():
            raise UsageError(f"{self.to}: exists and is not a directory")
        if "job.json" in names_in(f"{self.to}/{FOLDER}"):
            raise UsageError(f"{self.to}: is a table of kfmt pipeline export; use another DIR")
        if is_local(self.to) and (folder / UNFINISHED).exists():
            take_away(folder)
        elif not self.force and names_in(self.to):
            raise UsageError(
                f"{self.to}: not empty; use --force to write into it and overwrite files"
            )
        # Files in a store appear only once they are complete.
        self._is_fresh = is_local(self.to) and not names_in(self.to)

    def _ask_logs(self) -> Iterator[InputError]:
        """Determine the selection for each directory; skips those with unreadable logs."""
        request, known = self.request, dict[str, Selection]()
        by_folder = sorted(self._files, key=lambda piece: piece.folder)  # copies alternate
        for folder, its in groupby(by_folder, key=lambda piece: piece.folder):
            pieces = list(its)
            # The records of a snapshot are none of a log's last ones.
            logs = [input_of(piece) for piece in pieces if piece.kind is not KRAFT_SNAPSHOT]
            try:
                with at_hand(request, pieces):
                    known[folder] = wanted_of(request.asked, logs, request.limit)
            except InputError as error:
                yield error
        self._files = self._files.those(lambda piece: piece.folder in known)
        self.request = replace(request, in_folders=known)

    @property
    def total(self) -> int:
        """Bytes of all files."""
        return self._files.n_bytes

    def _name(self, path: str) -> str:
        """A file's path relative to the given paths; pieces have absolute paths, valid in every
        process."""
        for given in self._given:
            top = str(Path(given).absolute())
            if path == top:
                return given
            if path.startswith(f"{top.rstrip('/')}/"):
                return str(Path(given) / path.removeprefix(top).lstrip("/"))
        return path

    def events(self, advance: Callable[[int], None]) -> Iterator[Event]:
        """Export everything; yields findings and a result per file. An export killed in a new
        directory leaves a mark there, so that the next one starts over."""
        if self.dry_run:
            for line in dry_run(self._files, self._bundles(), self.to):
                self.tell(f"{line}\n")
            return
        before = outputs_of(self.to) if self.force else ()
        with marked(Path(self.to), LAKE_TABLES) if self._is_fresh else nullcontext():
            yield from self._events(advance)
            self._manifest.write(self.to)
        old = self._manifest.without(before)
        for name in old:  # its rows must not be there twice
            remove(f"{self.to}/{name}")
        if old:
            self.tell(f"{count(len(old), 'file')} of the earlier export removed\n")

    def _events(self, advance: Callable[[int], None]) -> Iterator[Event]:
        bundles = self._bundles()
        work = partial(export_bundle, self.request, to=self.to, lake=self.lake)
        # Connections do not survive a fork.
        done_by = map_processes if is_local(self.to) else map_ordered
        made = zip(bundles, done_by(work, bundles, self.jobs), strict=True)
        for path, parts in groupby(made, lambda read: _cut_file(read[0])):
            if path:
                found = list(parts)
                if is_torn(piece.edges for _, done in found for piece in done.pieces()):
                    found = self._anew(found)
                results = [pair for part in found for pair in self._kept(*part, advance)]
                yield from self._told(path, results)
                continue
            for bundle, done in parts:
                for piece, result in self._kept(bundle, done, advance):
                    yield from self._told(piece.path, [(piece, result)])

    def _bundles(self) -> list[Pieces]:
        share = share_of(self.request, self._files)
        pieces = self._files.parted(lambda file: cuts_of(file, share))
        return list(pieces.shared(self.lake.bundling.bundles(pieces, share)))

    def _kept(
        self, bundle: Pieces, done: Exported, advance: Callable[[int], None]
    ) -> Iterator[tuple[Piece, PieceExported]]:
        """The result of each piece, which is added to the manifest."""
        names = [output.name for output in done.outputs]
        self._manifest.add_outputs(done.outputs)
        for piece, result in zip(bundle, done.pieces(), strict=True):
            source = source_of(piece, self._ids, result.findings)
            self._manifest.add_input(source, result.rows, result.offsets, names)
            advance(piece.end - piece.start)
            yield piece, result

    def _anew(self, parts: list[tuple[Pieces, Exported]]) -> list[tuple[Pieces, Exported]]:
        """Export the whole file again in one piece, because damage extends across parts."""
        for _, done in parts:
            for output in done.outputs:
                remove(f"{self.to}/{output.name}")
        first = parts[0][0][0]
        whole = Pieces([first.part(0, first.size)])
        return [(whole, export_bundle(self.request, whole, self.to, self.lake))]

    def _told(self, path: str, found: list[tuple[Piece, PieceExported]]) -> Iterator[Event]:
        first = found[0][0]
        result = Result(
            exported(self.lake.tables),
            self._name(path),
            first.kind.name,
            {"bytes": first.size},
            findings=Findings(self.most_findings),
        )
        seam = Seam(path)
        for _, made in found:
            findings = [seam.numbered(finding) for finding in made.findings]
            if made.edges is not None:
                findings = [*seam.join(made.edges), *findings]
            for name, n in made.rows.items():
                result.numbers[name] = (result.numbers[name] or 0) + n
            for finding in findings:
                if finding.code in UNREAD:
                    yield InputError(finding.message.replace(path, result.file))
                    result.is_partial, result.numbers["bytes"] = True, 0
                    continue
                result.count(finding.code)
                if result.findings.admits(finding):
                    yield replace(finding, file=result.file)
        yield result


@contextmanager
def marked(folder: Path, tables: tuple[str, ...]) -> Iterator[None]:
    """Mark a directory as unfinished until the block ends without an error; raises
    OutputError."""
    mark = folder / UNFINISHED
    with writing(mark):
        folder.mkdir(parents=True, exist_ok=True)
        held = mark.open("x")
    with held:
        with writing(mark):
            json.dump(tables, held)
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        with writing(mark):
            mark.unlink()


def take_away(folder: Path) -> None:
    """Remove the files of a killed export; raises UsageError if it is still running."""
    mark = folder / UNFINISHED
    try:
        with mark.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                tables = [name for name in json.load(held) if name in LAKE_TABLES]
            except (ValueError, TypeError):
                tables = []  # killed before it had written anything
            for name in (*tables, FOLDER):
                shutil.rmtree(folder / name, ignore_errors=True)
            mark.unlink()
    except BlockingIOError:
        raise UsageError(f"{folder}: another export is writing to this directory") from None
    except OSError as error:
        raise UsageError(f"{mark}: {error.strerror}") from error


def _cut_file(bundle: Pieces) -> str:
    """The file that a bundle has parts of; empty for whole files."""
    return "" if bundle[0].is_whole else bundle[0].path
