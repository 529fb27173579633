"""Offsets already lost before the next start, as other files of a partition prove."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from kfmt_cli.broker.start.checkpoints import LEADER_EPOCHS
from kfmt_cli.broker.start.ranges import ranges_of
from kfmt_cli.checks.history.scopes import OffsetsCheck, Witnesses
from kfmt_cli.disk.kinds import kind_of
from kfmt_cli.disk.kinds.fixed import OFFSET_INDEX, PRODUCER_SNAPSHOT
from kfmt_cli.disk.kinds.logs import LOG
from kfmt_cli.disk.tree import is_segment, size_of
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding


class LostOffsets(OffsetsCheck):
    """No offset from the log start offset onward is already lost."""

    codes = (codes.OFFSETS_LOST,)

    def look(self, known: Witnesses) -> Iterator[Finding]:
        for first, last, words in already_lost(known):
            message = f"offsets {first}–{last} are already missing: {words}"
            yield Finding(known.name, codes.OFFSETS_LOST, None, message, offset=first)


def already_lost(known: Witnesses) -> Iterator[tuple[int, int, str]]:
    """Ranges of lost offsets from the log start offset onward, each with its proof as text."""
    for first, last, words in _lost(known):
        if last >= known.log_start:
            yield max(first, known.log_start), last, words


def _lost(known: Witnesses) -> Iterator[tuple[int, int, str]]:
    files = [known.folder.input(file) for file in known.folder.files]
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
    for base, following in pairwise(bases) if known.is_compacted is False else ():
        extent = known.extents.get(base)
        if extent is None or extent[1] > following - 1 or base in known.damaged:
            continue
        first, last = extent[1], following - 1
        if any(a <= last and b >= first for a, b in proven):
            continue
        what = "has 0 bytes" if not size_of(logs[base]) else f"ends at offset {extent[1]}"
        words = f"{_last(logs[base].name)} {what}, and the next segment starts at {following}"
        yield first, last, f"{words}; the topic is not compacted"
    yield from _after_end(known, bases)


def _after_end(known: Witnesses, bases: list[int]) -> Iterator[tuple[int, int, str]]:
    """The offsets from the log end offset onward that a checkpoint or snapshot proves lost."""
    if not bases or bases[-1] not in known.extents:
        return
    end = known.extents[bases[-1]][1]
    if bases[-1] in known.damaged:
        # A damaged batch is not missing: a start decides on its offsets.
        file = known.folder.input(f"{bases[-1]:020}{LOG.suffix}")
        held = ranges_of(file, bases[-1]).held(None)
        end = max([end, *(last + 1 for _, last in held)])
    told = dict(known.told)
    if known.epoch_start is not None:
        told[LEADER_EPOCHS] = known.epoch_start
    for name in known.folder.files:
        kind, base, transient = kind_of(name)
        if kind is PRODUCER_SNAPSHOT and base is not None and not transient:
            told[name] = base
    if not told:
        return
    witness = max(told, key=lambda path: told[path])
    if told[witness] > end:
        yield end, told[witness] - 1, f"log end offset {end}, but {witness} records {told[witness]}"


def _last(name: str) -> str:
    return name.rpartition("/")[2]
