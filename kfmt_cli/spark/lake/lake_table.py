"""A lake's directory as a table with a history.

A run writes new files next to those that are there, then makes a commit, then moves its files to
where readers see them, then rewrites the manifest, and only then deletes what the commit replaced.
A run that is killed leaves the old state, or the new one, which the next run finishes.

The unit is a bundle: the files that one task wrote, with the rows of some pieces of inputs. Rows of
an input are replaced by rows of the same input. If other rows of a bundle stay, they are copied to
a new one.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from kfmt_cli.arrow.export.carry import KeptPiece, carried
from kfmt_cli.arrow.export.lake import Output
from kfmt_cli.arrow.export.manifest import input_row, output_row
from kfmt_cli.arrow.export.output import names_in, put_json, remove
from kfmt_cli.arrow.topic_ids import TopicIds
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.urls import is_local, local
from kfmt_cli.disk.listings import listing
from kfmt_cli.errors import InputError
from kfmt_cli.render.style import count, grouped
from kfmt_cli.rows.table_types import LAKE_TABLES
from kfmt_cli.sharing.piece import Piece
from kfmt_cli.sharing.pieces import Pieces
from kfmt_cli.sharing.request import Request
from kfmt_cli.spark.job import Stored
from kfmt_cli.spark.lake import commits
from kfmt_cli.spark.lake.commits import Commit, bundles_of, commit, newest, with_changes
from kfmt_cli.spark.lake.table_formats import TableTarget
from kfmt_cli.spark.ledger import Ledger
from kfmt_cli.spark.work import is_unread

ALL = -1 << 63  # all rows, as all have higher offsets
APPEND, SYNC, REPLACE = "append", "sync", "replace"
# The name of an output: what it is of, where its first piece starts, a hash, a number.
_MADE = re.compile(r"(?P<front>.*-\d{12})-[0-9a-f]{12}(?P<end>(-\d{1,11})?\.\w+)")
Partition = tuple[Any, Any]
"""Topic id, or topic without one, and partition."""


@dataclass(slots=True)
class Live:
    """What a run found out about its inputs."""

    needs_offsets: bool = True
    """Whether the table has rows of inputs that are gone."""
    unread: set[str] = field(default_factory=set)
    """Paths of inputs that could not be read."""
    offsets: dict[Partition, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """First and last offsets of the inputs' rows."""

    def take(self, piece: Piece, result: Stored) -> None:
        """Add the result of a piece."""
        if is_unread(result):
            self.unread.add(piece.path)
        first, last = result.offsets
        if first is not None and self.needs_offsets:
            self.offsets[_partition(result.input)].append((first, last))

    def begin_in(self, result: Stored) -> int | None:
        """The lowest offset of inputs within the offsets of this result's rows; None without."""
        first, last = result.offsets
        if first is None:
            return None
        known = self.offsets.get(_partition(result.input), ())
        return min((max(a, first) for a, b in known if a <= last and first <= b), default=None)


def _partition(source: Fields) -> Partition:
    return source.topic_id or source.topic or source.path, source.partition


@dataclass(slots=True)
class LakeTable:
    """A table, and a run that changes it."""

    ledger: Ledger
    mode: str
    inputs: tuple[str, ...]
    topics: frozenset[str]
    format: str
    target: TableTarget | None = None
    """The tables of a table format that the files are committed to, too."""
    troubled: tuple[str, ...] = ()
    """The directories and files that could not be listed."""
    _topic_ids: dict[str, str | None] = field(default_factory=dict)
    """The topic ids of the inputs of this run of which the table has other rows, by path."""
    _kept: Counter[str] = field(default_factory=Counter)
    """Rows, by table, of inputs that are gone or not part of this run."""
    _n_kept: int = 0
    """The number of these inputs."""
    _commit: Commit = field(default_factory=Commit)
    """The last one."""
    _bundles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What it consists of: bundles, with their files."""

    def open(self) -> None:
        """Read the state; finish the last commit if its run was killed."""
        ledger = self.ledger
        self._commit = newest(ledger.to)
        self._bundles = bundles_of(ledger.to, self._commit)
        ledger.state, ledger.run = frozenset(self._bundles), self._commit.number + 1
        if not ledger.is_dry:
            self._publish()

    def plan(self, request: Request, files: Pieces) -> None:
        """Plan the run. files: with those that could not be listed."""
        self.troubled = tuple(files.troubles)
        self.ledger.plan(request, files.readable)

    def _stale(self) -> Iterator[tuple[str, str, Stored]]:
        """The results whose input has changed, is gone or not asked for: bundle, name, result."""
        for bundle, names in self.ledger.stale.items():
            results = self.ledger.results(bundle)
            yield from ((bundle, name, results[name]) for name in names)

    def removed(self, live: Live | None = None) -> Iterator[tuple[str, str, Stored, int]]:
        """The results of which the run removes rows: bundle, name, result, and the offset from
        which on they go. live: None before the run."""
        ids, unread = TopicIds(), live.unread if live is not None else set()
        paths = {result.input.path for *_, result in self._stale()}
        self._topic_ids = {
            piece.path: ids.of(piece)
            for piece in self.ledger.pieces
            if piece.start == 0 and piece.path in paths
        }
        for bundle, name, result in self._stale():
            path = result.input.path
            if path in unread or _is_under(path, self.troubled):
                continue
            begin = self._removed_from(result, live) if self.is_gone(result) else ALL
            if begin is not None:
                yield bundle, name, result, begin

    def _removed_from(self, result: Stored, live: Live | None) -> int | None:
        """The offset from which on rows go of an input outside this run; None if all stay."""
        if self.mode == REPLACE:
            return ALL
        source = result.input
        is_other = self.topics and source.topic not in self.topics
        if is_other or not _is_under(source.path, self.inputs):
            return None
        if self.mode == SYNC:
            return ALL
        # The topic's rows are in other files now: the partition moved, was compacted or truncated.
        begin = None if live is None else live.begin_in(result)
        return ALL if begin is not None and begin <= result.offsets[0] else begin

    def is_gone(self, result: Stored) -> bool:
        """Whether the input of a result is not part of this run, or its path is now a file of
        another topic of that name."""
        source = result.input
        now = self._topic_ids.get(source.path, "")
        return now == "" or (None not in (now, source.topic_id) and now != source.topic_id)

    def told(self) -> list[str]:
        """What readers find in the table besides the rows of this run."""
        if not self._n_kept:
            return []
        rows = ", ".join(f"{grouped(n)} {table}" for table, n in self._kept.items())
        inputs = count(self._n_kept, "input that is gone", "inputs that are gone")
        return [f"{rows} kept of {inputs} or not part of this run"]

    def commit(self, live: Live) -> None:
        """Make the rows of the run visible, and remove what they replace."""
        ledger = self.ledger
        drops: dict[str, dict[str, int]] = {bundle: {} for bundle in ledger.stale}
        for bundle, name, _, begin in self.removed(live):
            drops[bundle][name] = begin
        for bundle, name, result in self._stale():
            if name not in drops[bundle]:
                self._n_kept += 1
                self._kept.update(result.rows)
        self._keep_unread(live.unread, drops)
        state = dict.fromkeys([*ledger.files(), *sorted(ledger.state - ledger.lost)])
        made: list[str] = []
        for bundle, names in drops.items():
            if names:
                del state[bundle]
                made += self._rest(bundle, names)
        state |= dict.fromkeys(made)
        if set(state) != ledger.state:
            self._make_commit(state)
        self._publish()
        self.write_manifest()
        self._sweep()

    def _make_commit(self, state: Iterable[str]) -> None:
        """Make the commit after which the table consists of these bundles."""
        ledger, before, topics = self.ledger, self._bundles, tuple(sorted(self.topics))
        self._bundles = {bundle: before.get(bundle, []) for bundle in state}

        def changes() -> Iterator[tuple[str, Any]]:
            yield from ((bundle, None) for bundle in before if bundle not in self._bundles)
            for bundle in [bundle for bundle in self._bundles if bundle not in before]:
                files = [output_row(output) for output in ledger.outputs(bundle)]
                results = ledger.results(bundle).values()
                inputs = [
                    input_row(result.input, result.rows, result.offsets) for result in results
                ]
                self._bundles[bundle] = files
                yield bundle, {"inputs": inputs, "outputs": files}

        made = with_changes(ledger.to, self._commit, changes())
        made = replace(made, mode=self.mode, inputs=self.inputs, topics=topics)
        commit(ledger.to, made)
        self._commit = made

    def _keep_unread(self, unread: set[str], drops: dict[str, dict[str, int]]) -> None:
        """Leave out what was read of an input of which the table has rows already."""
        ledger = self.ledger
        if not unread:
            return
        known = {result.input.path for *_, result in self._stale()}
        for bundle in ledger.files():
            if bundle not in ledger.state:
                results = ledger.results(bundle)
                its = {
                    name: ALL
                    for name, result in results.items()
                    if result.input.path in unread & known
                }
                drops.setdefault(bundle, {}).update(its)

    def _rest(self, bundle: str, removed: dict[str, int]) -> Iterator[str]:
        """Copy the rows of a bundle without those that go, by result, from an offset on; the new
        bundle, if any is left."""
        ledger = self.ledger
        results = ledger.results(bundle)
        left = {
            name: Stored(result, outputs=[], files=[], rows=dict.fromkeys(result.rows, 0))
            for name, result in results.items()
            if removed.get(name) != ALL
        }
        if not left:
            return
        which = blake2b(repr((bundle, ledger.run, sorted(removed))).encode(), digest_size=6)
        order = {name: i for i, name in enumerate(left)}
        numbers = {
            i: KeptPiece(order[name], removed.get(name))
            for i, name in enumerate(results)
            if name in order
        }
        for name in left.keys() & removed:
            left[name].offsets = [left[name].offsets[0], removed[name] - 1]
        outputs: list[Output] = []
        for output in ledger.outputs(bundle):
            named = _MADE.sub(rf"\g<front>-{which.hexdigest()}\g<end>", output.name)
            place = self._place(output.name)
            folder = ledger.job.folder(ledger.to)
            made = carried(output, numbers, place, folder, named, self.format)
            outputs += [] if made is None else [made]
        every = list(left.values())
        for made in outputs:
            for piece, _, n_rows in made.spans:
                if piece >= 0:
                    every[piece].rows[made.table] += n_rows
        first = next(iter(left.values()))
        first.outputs = [output.name for output in outputs]
        first.files = [asdict(output) for output in outputs]
        named = f"{bundle.removesuffix('.json')[:200]}-rest-{which.hexdigest()}.json"
        put_json(f"{ledger.done_folder}/{named}", left)
        yield named

    def _place(self, name: str) -> str:
        """Where an output is: not yet published, or published."""
        staged = f"{self.ledger.job.folder(self.ledger.to)}/{name}"
        is_staged = is_local(staged) and Path(local(staged)).exists()
        return staged if is_staged else f"{self.ledger.to}/{name}"

    def _publish(self) -> None:
        """Make the last commit visible to readers."""
        self._move()
        if self.target is not None:
            self.target.bring_to(self.ledger.to, self._commit)

    def _move(self) -> None:
        """Move the outputs of the last commit to where readers look for them."""
        ledger = self.ledger
        staged = Path(local(ledger.job.folder(ledger.to)))
        if not is_local(ledger.to) or not staged.is_dir():
            return
        for file in self._files:
            made = staged / file["file"]
            if made.exists():
                final = Path(local(ledger.to)) / file["file"]
                final.parent.mkdir(parents=True, exist_ok=True)
                made.replace(final)

    @property
    def _files(self) -> Iterator[dict[str, Any]]:
        """The files of the last commit, as in the manifest."""
        return chain.from_iterable(self._bundles.values())

    def write_manifest(self) -> None:
        """Show readers the inputs and files of the table."""
        commits.publish(self.ledger.to, self._commit, self._files)

    def _sweep(self) -> None:
        """Delete results outside the state, and files that no bundle of it has."""
        ledger = self.ledger
        commits.sweep(ledger.to, self._commit)
        for name in names_in(ledger.done_folder) - self._bundles.keys():
            remove(f"{ledger.done_folder}/{name}")
        known = {file["file"].rpartition("/")[2] for file in self._files}
        staged = ledger.job.folder(ledger.to)
        if staged != ledger.to:
            shutil.rmtree(local(staged), ignore_errors=True)
        for table in LAKE_TABLES if self.target is None else ():
            with suppress(InputError):  # no such directory
                for file in listing(f"{ledger.to}/{table}"):
                    name = file.path.rpartition("/")[2]
                    if _MADE.fullmatch(name) and name not in known:
                        remove(file.path)


def _is_under(path: str, inputs: Iterable[str]) -> bool:
    """Whether a file is one of some inputs, or below one."""
    return any(path == given or path.startswith(f"{given.rstrip('/')}/") for given in inputs)
