"""The bytes of logs that cannot be read, for which `salvage` reads filler."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.broker.start.ranges import merged
from kfmt_cli.core.readable_source import Lost, ReadableSource
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.kind import Input

MOST_RANGES = 10  # in a message


@dataclass(slots=True)
class LostParts:
    """What has been found to be lost, log by log."""

    _of_logs: dict[str, Lost] = field(default_factory=dict)

    def of(self, file: Input) -> Lost:
        """The lost bytes of a log."""
        return self._of_logs.setdefault(file.path, Lost())

    def around(self, file: Input, source: Source) -> Source:
        """A log's source with filler in place of what is lost."""
        return ReadableSource(source, self.of(file))

    def words(self, file: Input) -> str:
        """The message about the lost bytes of a log; empty if none is lost."""
        lost = self.of(file).ranges
        if not lost:
            return ""
        error = lost[0].error
        if not error.why:
            return str(error)
        ranges = merged((each.first, each.end - 1) for each in lost)
        shown = ", ".join(f"{first}–{last}" for first, last in ranges[:MOST_RANGES])
        more = len(ranges) - MOST_RANGES
        rest = f" and {more} more range{'s'[: more > 1]}" if more > 0 else ""
        return f"{file.name} bytes {shown}{rest}: cannot be read: {error.why}"
