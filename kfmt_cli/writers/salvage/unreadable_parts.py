"""The bytes of logs that cannot be read, for which `salvage` reads filler."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.core.filled_source import FilledSource, UnreadableRanges
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.kind import InputFile


@dataclass(slots=True)
class UnreadableParts:
    """What has been found to be lost, log by log."""

    _ranges_by_path: dict[str, UnreadableRanges] = field(default_factory=dict)

    def ranges_of_file(self, file: InputFile) -> UnreadableRanges:
        """The lost bytes of a log."""
        return self._ranges_by_path.setdefault(file.path, UnreadableRanges())

    def fill_source(self, file: InputFile, source: Source) -> Source:
        """A log's source with filler in place of what is lost."""
        return FilledSource(source, self.ranges_of_file(file))
