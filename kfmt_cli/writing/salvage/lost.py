"""The bytes of logs that cannot be read, for which `salvage` reads filler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kfmt_cli.broker.start.ranges import Ranges, merged
from kfmt_cli.core.readable_source import ReadableSource
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.writing.salvage.holes import NO_END


@dataclass(slots=True)
class LostParts:
    """What has been found to be lost, log by log."""

    _sources: dict[str, ReadableSource] = field(default_factory=dict)
    """The source that read a log last."""

    def around(self, file: Input, source: Source) -> Source:
        """A log's source with filler in place of what is lost."""
        before = self._sources.get(file.path)
        lost = {} if before is None else before.lost
        self._sources[file.path] = found = ReadableSource(source, lost)
        return found

    def ranges(self, file: Input) -> Ranges:
        """The first and the last byte of each range of a log that is lost."""
        source = self._sources.get(file.path)
        if source is None:
            return []
        most = NO_END if source.size is None else source.size
        lost = list(source.lost.items())  # threads add to it
        return merged((first, min(at + source.unit, most) - 1) for at, (first, _) in lost)

    def first_in(self, file: Input, position: int, size: int) -> int | None:
        """The first lost byte of `size` bytes at a position; None if none is lost."""
        for first, last in self.ranges(file):
            if first < position + size and position <= last:
                return max(first, position)
        return None

    def words(self, file: Input) -> Iterator[str]:
        """A message for each range of bytes of a log that is lost."""
        for first, last in self.ranges(file):
            source = self._sources[file.path]
            _, error = source.lost[first - first % source.unit]
            where = f"{file.name} bytes {first}–{last}: cannot be read: "
            yield where + error.why if error.why else str(error)
