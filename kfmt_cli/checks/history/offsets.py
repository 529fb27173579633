"""The offsets that a partition must have: by the files next to its logs, and by the checkpoints of
its log directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kfmt_cli.broker.start.checkpoints import LEADER_EPOCHS
from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.own_files import LOG_STARTS
from kfmt_cli.broker.start.ranges import ranges_of
from kfmt_cli.checks.base import Check
from kfmt_cli.checks.history.scopes import CheckpointCheck, Extents, some_of
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, PRODUCER_SNAPSHOT
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import Folder, is_segment, size_of
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding


@dataclass(frozen=True)
class Witnesses:
    """Evidence of a partition's offsets."""

    name: str
    """The partition, as displayed."""
    folder: Folder
    extents: Extents
    told: Mapping[str, int]
    """The partition's offset in each checkpoint that is never above the log end offset."""
    log_start: int
    """The log start offset."""
    is_compacted: bool | None
    """None if unknown."""
    epoch_start: int | None = None
    """The start offset of the latest leader epoch."""
    damaged: frozenset[int] = frozenset()
    """Base offsets of logs with damage other than a missing end or zeros: their batches are
    there."""

    @cached_property
    def lost(self) -> list[tuple[int, int, str]]:
        """Ranges of lost offsets from the log start offset onward, each with its proof as text."""
        return [
            (max(first, self.log_start), last, words)
            for first, last, words in self._lost()
            if last >= self.log_start
        ]

    def _lost(self) -> Iterator[tuple[int, int, str]]:
        files = [self.folder.input(file) for file in self.folder.files]
        logs = {file.base: file for file in files if is_segment(file)}
        bases = sorted(logs)
        proven: list[tuple[int, int]] = []
        for file in files:
            base = file.base_offset
            is_index = file.kind is OFFSET_INDEX and not kind_of(file.path.rpartition("/")[2])[2]
            if not is_index or base is None or base in logs or not size_of(file):
                continue
            following = next((later for later in bases if later > base), None)
            if following is not None:
                proven.append((base, following - 1))
                yield base, following - 1, f"{_last(file.name)} exists, but its log does not"
        for base, following in pairwise(bases) if self.is_compacted is False else ():
            extent = self.extents.get(base)
            if extent is None or extent[1] > following - 1 or base in self.damaged:
                continue
            first, last = extent[1], following - 1
            if any(a <= last and b >= first for a, b in proven):
                continue
            what = "has 0 bytes" if not size_of(logs[base]) else f"ends at offset {extent[1]}"
            words = f"{_last(logs[base].name)} {what}, and the next segment starts at {following}"
            yield first, last, f"{words}; the topic is not compacted"
        yield from self._after_end(bases)

    def _after_end(self, bases: list[int]) -> Iterator[tuple[int, int, str]]:
        """The offsets from the log end offset onward that a checkpoint or snapshot proves lost."""
        if not bases or bases[-1] not in self.extents:
            return
        end = self.extents[bases[-1]][1]
        if bases[-1] in self.damaged:
            # A damaged batch is not missing: a start decides on its offsets.
            file = self.folder.input(f"{bases[-1]:020}{LOG.suffix}")
            held = ranges_of(file, bases[-1]).held(None)
            end = max([end, *(last + 1 for _, last in held)])
        told = dict(self.told)
        if self.epoch_start is not None:
            told[LEADER_EPOCHS] = self.epoch_start
        for name in self.folder.files:
            kind, base, transient = kind_of(name)
            if kind is PRODUCER_SNAPSHOT and base is not None and not transient:
                told[name] = base
        if not told:
            return
        witness = max(told, key=lambda path: told[path])
        if told[witness] > end:
            words = f"log end offset {end}, but {witness} records {told[witness]}"
            yield end, told[witness] - 1, words


class OffsetsCheck(Check):
    """A rule about which offsets a partition must have."""

    def look(self, known: Witnesses) -> Iterable[Finding]:
        """Findings about a partition."""
        raise NotImplementedError


class LostOffsets(OffsetsCheck):
    """No offset from the log start offset onward is already lost."""

    codes = (codes.OFFSETS_LOST,)

    def look(self, known: Witnesses) -> Iterator[Finding]:
        for first, last, words in known.lost:
            message = f"offsets {first}–{last} are already missing: {words}"
            yield Finding(known.name, codes.OFFSETS_LOST, None, message, offset=first)


class CheckpointOffsets(CheckpointCheck):
    """No checkpoint offset is above its log end offset, and each has its partition."""

    codes = (
        codes.LOG_START_ABOVE_END,
        codes.CHECKPOINT_ABOVE_END,
        codes.CHECKPOINT_WITHOUT_PARTITION,
    )

    def look(
        self,
        folder: Folder,
        directory: LogDirectory,
        partitions: Mapping[tuple[str | None, int | None], Extents],
        proven: Mapping[tuple[str | None, int | None], int],
    ) -> Iterator[Finding]:
        for name, offsets in directory.offsets.items():
            file = folder.input(name).name
            missing = []
            for (topic, partition), offset in offsets.items():
                extents = partitions.get((topic, partition))
                if extents is None:
                    missing.append(f"{topic}-{partition}")
                    continue
                end = max((end for _, end in extents.values()), default=None)
                if end is None or offset <= end:
                    continue
                is_start = name == LOG_STARTS
                if not is_start and offset <= proven.get((topic, partition), 0):
                    continue  # offsets-lost has it
                code = codes.LOG_START_ABOVE_END if is_start else codes.CHECKPOINT_ABOVE_END
                words = f"{topic}-{partition}: checkpoint offset {offset}, log end offset {end}"
                yield Finding(file, code, None, words, offset=offset, expected=end, found=offset)
            if missing:
                words = f"no directory for {some_of(missing)}"
                yield Finding(file, codes.CHECKPOINT_WITHOUT_PARTITION, None, words)


def _last(name: str) -> str:
    return name.rpartition("/")[2]
