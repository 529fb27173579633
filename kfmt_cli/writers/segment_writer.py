"""A segment being written: the log, and its indexes as a recovering broker builds them."""

from __future__ import annotations

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES, MAX_SEGMENT_BYTES
from kfmt_cli.broker.index_builder import IndexBuilder
from kfmt_cli.errors import OutputError
from kfmt_cli.writers.batches import EncodedBatches
from kfmt_cli.writers.output import AtomicOutput, Staging


class SegmentWriter(AtomicOutput):
    """Writes batches and indexes them. name: the path of the log under the staging directory."""

    def __init__(
        self,
        staging: Staging,
        name: str,
        base_offset: int,
        index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES,
    ) -> None:
        self.name = name
        self.base_offset = base_offset
        self.index = IndexBuilder(base_offset, index_interval_bytes)
        self._staging = staging
        self._log_file = staging.create_file(name)

    @property
    def size(self) -> int:
        """The size of the log so far, in bytes."""
        return self._log_file.size

    def append(self, batches: EncodedBatches) -> None:
        """Append batches; raises OutputError if the log becomes larger than a broker can open."""
        if self.size + len(batches.data) > MAX_SEGMENT_BYTES:
            raise OutputError(f"{self.name}: would be larger than {MAX_SEGMENT_BYTES} bytes")
        starts = batches.starts + self.size
        self.index.add(starts, batches.last_offset, batches.max_timestamp)
        self._log_file.write(batches.data)

    def discard(self) -> None:
        self._log_file.discard()

    def close(self) -> None:
        """Finish the log and write its indexes."""
        self._log_file.close()
        base_path = self.name.removesuffix(".log")
        self._staging.write_file(f"{base_path}.index", self.index.offset_index())
        self._staging.write_file(f"{base_path}.timeindex", self.index.time_index())
