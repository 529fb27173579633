"""The unreadable byte ranges of logs, which `salvage` replaces with filler."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.core.filled_source import FilledSource, UnreadableRanges
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.kind import InputFile


@dataclass(slots=True)
class UnreadableParts:
    """The unreadable byte ranges found so far, by log."""

    _ranges_by_path: dict[str, UnreadableRanges] = field(default_factory=dict)

    def unreadable_ranges(self, file: InputFile) -> UnreadableRanges:
        """The unreadable ranges of a log; reading it through `filled_source` adds to them."""
        return self._ranges_by_path.setdefault(file.path, UnreadableRanges())

    def filled_source(self, file: InputFile, source: Source) -> Source:
        """A log's source with filler in place of unreadable bytes."""
        return FilledSource(source, self.unreadable_ranges(file))
