"""The command-line options of `build`; None for an unset option."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.formats.batch import CODECS
from kfmt_cli.writers.build.batch_drafts import BatchBounds

DEFAULT_BATCH_BYTES = 16384


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The options of `build` that determine batches. Options override lines."""

    magic: int | None = None
    compression: str | None = None
    timestamp_type: int | None = None
    """An index into `TIMESTAMP_TYPES`."""
    batch_bytes: int | None = None
    batch_records: int | None = None
    base_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional: bool = False
    now: int = 0
    """The timestamp, in milliseconds, of records without one."""

    @property
    def codec(self) -> int | None:
        """The number of the requested codec; None if none is requested."""
        return None if self.compression is None else CODECS.index(self.compression)

    @property
    def bounds(self) -> BatchBounds:
        """The size limits for batches of records without a batch line."""
        return BatchBounds(self.batch_bytes or DEFAULT_BATCH_BYTES, self.batch_records)

    @property
    def explicit_bounds(self) -> BatchBounds | None:
        """The requested size limits for batches that lines describe; None if none is requested."""
        if self.batch_bytes is None and self.batch_records is None:
            return None
        return BatchBounds(self.batch_bytes or 1 << 62, self.batch_records)
