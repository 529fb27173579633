"""What the command line of `build` asks for; None where it does not say."""

from __future__ import annotations

from dataclasses import dataclass

from kfmt_cli.formats.batch import CODECS
from kfmt_cli.writing.build.drafts import BatchBounds

BATCH_BYTES = 16384


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `build` that shape batches. What is asked for wins over what lines say."""

    magic: int | None = None
    compression: str | None = None
    timestamp_type: int | None = None
    """The number of one of `TIMESTAMP_TYPES`."""
    batch_bytes: int | None = None
    batch_records: int | None = None
    base_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional: bool = False
    now: int = 0
    """The timestamp, in milliseconds, of records that have none."""

    @property
    def codec(self) -> int | None:
        """The number of the codec that is asked for."""
        return None if self.compression is None else CODECS.index(self.compression)

    @property
    def bounds(self) -> BatchBounds:
        """How large a batch of records without batch lines becomes."""
        return BatchBounds(self.batch_bytes or BATCH_BYTES, self.batch_records)

    @property
    def given_bounds(self) -> BatchBounds | None:
        """How large a batch that a line describes may be; None when nothing is asked for."""
        if self.batch_bytes is None and self.batch_records is None:
            return None
        return BatchBounds(self.batch_bytes or 1 << 62, self.batch_records)
