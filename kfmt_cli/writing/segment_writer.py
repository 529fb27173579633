"""A segment being written: the log, and its indexes as a recovering broker builds them."""

from __future__ import annotations

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES, MOST_SEGMENT_BYTES
from kfmt_cli.broker.index import IndexBuilder
from kfmt_cli.errors import OutputError
from kfmt_cli.writing.batches import Written
from kfmt_cli.writing.output import Staging, Unfinished


class SegmentWriter(Unfinished):
    """Writes batches and indexes them. name: the log's, under the staging folder."""

    def __init__(
        self, staging: Staging, name: str, base_offset: int, interval: int = INDEX_INTERVAL_BYTES
    ) -> None:
        self.name = name
        self.base_offset = base_offset
        self.index = IndexBuilder(base_offset, interval)
        self._staging = staging
        self._log = staging.file(name)

    @property
    def size(self) -> int:
        """The size of the log so far, in bytes."""
        return self._log.size

    def append(self, batches: Written) -> None:
        """Append batches; raises OutputError if the log becomes larger than a broker can open."""
        if self.size + len(batches.data) > MOST_SEGMENT_BYTES:
            raise OutputError(f"{self.name}: would be larger than {MOST_SEGMENT_BYTES} bytes")
        starts = batches.starts + self.size
        self.index.add(starts, batches.last_offset, batches.max_timestamp)
        self._log.write(batches.data)

    def abandon(self) -> None:
        self._log.abandon()

    def close(self) -> None:
        """Finish the log and write its indexes."""
        self._log.close()
        stem = self.name.removesuffix(".log")
        self._staging.put(f"{stem}.index", self.index.offset_index())
        self._staging.put(f"{stem}.timeindex", self.index.time_index())
