"""Which batches of a log are listed: by codec, producer, transaction, control."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.native.table import BoolArray
from kfmt_cli.errors import UsageError, unknown_name
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH

CODEC_NAMES: tuple[str, ...] = BATCH["compression"].words
FORM = "codec=lz4 producer=7 transactional control damaged; prefix a word with - to negate it"


@dataclass(frozen=True, slots=True)
class WantedBatches:
    """A filter of batches; None matches any value."""

    codec: str | None = None
    producer_id: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    damaged: bool | None = None

    def __bool__(self) -> bool:
        """Whether the filter excludes any batch."""
        return self != WantedBatches()

    def of(self, batches: BatchTable) -> BoolArray:
        """The mask of the listed batches."""
        keep = np.ones(len(batches), np.bool_)
        if self.codec is not None:
            keep &= batches.compression == CODEC_NAMES.index(self.codec)
        if self.producer_id is not None:
            keep &= (batches.producer_id == self.producer_id) & (batches.is_v2 == 1)
        for column, wanted in (
            ("transactional", self.transactional),
            ("control", self.control),
        ):
            if wanted is not None:
                keep &= (batches[column] == 1) == wanted
        if self.damaged is not None:
            keep &= (batches.crc_valid == 0) == self.damaged
        return keep

    @property
    def words(self) -> str:
        """The filter as typed."""
        said = []
        if self.codec is not None:
            said.append(f"codec={self.codec}")
        if self.producer_id is not None:
            said.append(f"producer={self.producer_id}")
        for name in FLAG_NAMES:
            wanted = getattr(self, name)
            if wanted is not None:
                said.append(name if wanted else f"-{name}")
        return " ".join(said)


FLAG_NAMES = ("transactional", "control", "damaged")


def wanted_batches_of(words: str) -> WantedBatches:
    """The filter as typed, such as `codec=lz4 -control`; raises UsageError."""
    found: dict[str, str | int | bool] = {}
    for word in words.split():
        name, equals, value = word.partition("=")
        flag = name.removeprefix("-")
        if name == "codec" and equals:
            if value not in CODEC_NAMES:
                raise unknown_name("codec", value, CODEC_NAMES)
            found["codec"] = value
        elif name == "producer" and equals:
            if not value.lstrip("-").isdigit():
                raise UsageError(f"producer={value}: a producer id is a number")
            found["producer_id"] = int(value)
        elif flag in FLAG_NAMES and not equals:
            found[flag] = not name.startswith("-")
        else:
            raise UsageError(f"{word!r}: not understood; use {FORM}")
    return WantedBatches(**found)  # type: ignore[arg-type]
