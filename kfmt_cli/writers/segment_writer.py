"""A segment being written: the log, and its indexes as a recovering broker builds them."""

from __future__ import annotations

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES, MAX_SEGMENT_BYTES
from kfmt_cli.broker.log_recovery import IndexBuilder
from kfmt_cli.errors import OutputError
from kfmt_cli.writers.batches import EncodedBatches
from kfmt_cli.writers.output import AtomicOutput, StagingDirectory


class SegmentWriter(AtomicOutput):
    """Writes batches and indexes them. relative_path: the path of the log under the staging
    directory."""

    def __init__(
        self,
        staging: StagingDirectory,
        name: str,
        base_offset: int,
        index_interval_bytes: int = DEFAULT_INDEX_INTERVAL_BYTES,
    ) -> None:
        self.relative_path = name
        self.base_offset = base_offset
        self.index_builder = IndexBuilder(base_offset, index_interval_bytes)
        self._staging = staging
        self._log_file = staging.create_file(name)

    @property
    def log_bytes(self) -> int:
        """The size of the log so far, in bytes."""
        return self._log_file.n_bytes

    def append_batches(self, batches: EncodedBatches) -> None:
        """Append batches; raises OutputError if the log becomes larger than a broker can open."""
        if self.log_bytes + len(batches.data) > MAX_SEGMENT_BYTES:
            raise OutputError(
                f"{self.relative_path}: would be larger than {MAX_SEGMENT_BYTES} bytes"
            )
        log_positions = batches.start_positions + self.log_bytes
        self.index_builder.add_batches(log_positions, batches.last_offset, batches.max_timestamp)
        self._log_file.write(batches.data)

    def discard(self) -> None:
        self._log_file.discard()

    def close(self) -> None:
        """Finish the log and write its indexes."""
        self._log_file.close()
        base_path = self.relative_path.removesuffix(".log")
        self._staging.write_file(f"{base_path}.index", self.index_builder.encode_offset_index())
        self._staging.write_file(f"{base_path}.timeindex", self.index_builder.encode_time_index())
