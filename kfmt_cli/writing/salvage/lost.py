"""The bytes of logs that cannot be read, for which `salvage` reads filler."""

from __future__ import annotations

from dataclasses import dataclass, field

from kfmt_cli.core.readable_source import Lost, ReadableSource
from kfmt_cli.core.source import Source
from kfmt_cli.disk.kinds.kind import Input


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
