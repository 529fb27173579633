"""What is shown of batches and records: the JSON contract's names, in its order, once for all
formats.

A name that the format of the file lacks is null: `given` names the column that says whether it is
there.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kfmt_cli.formats.batch import CODECS, TIMESTAMP_TYPES
from kfmt_cli.formats.control import CONTROL_TYPES


class Kind(enum.Enum):
    """How a column is written."""

    NUMBER = enum.auto()
    YES_NO = enum.auto()
    CHOICE = enum.auto()
    BYTES = enum.auto()
    HEADERS = enum.auto()
    GROUP = enum.auto()


@dataclass(frozen=True, slots=True)
class Shown:
    """One name of an output object.

    column: of the table, the name itself unless said. given: the column that is 1 where the format
    has this field. only: (column, value) without which the name is left out. words: of a CHOICE.
    of: the members of a GROUP, an object inside the object.
    """

    name: str
    kind: Kind = Kind.NUMBER
    column: str = ""
    given: str = ""
    only: tuple[str, int] | None = None
    words: tuple[str, ...] = ()
    of: tuple[Shown, ...] = ()

    @property
    def source(self) -> str:
        """The column it comes from."""
        return self.column or self.name


COMPRESSIONS = (*CODECS, *(f"unknown-{number}" for number in range(len(CODECS), 8)))
TIMESTAMPS = (*TIMESTAMP_TYPES, "NoTimestampType")

BATCH = (
    Shown("position"),
    Shown("size"),
    Shown("magic"),
    Shown("base_offset", given="has_base_offset"),
    Shown("last_offset"),
    Shown("batch_length"),
    Shown("partition_leader_epoch", given="is_v2"),
    Shown("crc"),
    Shown("crc_valid", Kind.YES_NO),
    Shown("crc_computed", only=("crc_valid", 0)),
    Shown(
        "attributes",
        Kind.GROUP,
        of=(
            Shown("raw", column="attributes"),
            Shown("compression", Kind.CHOICE, words=COMPRESSIONS),
            Shown("timestamp_type", Kind.CHOICE, words=TIMESTAMPS),
            Shown("transactional", Kind.YES_NO, given="is_v2"),
            Shown("control", Kind.YES_NO, given="is_v2"),
            Shown("delete_horizon", Kind.YES_NO, given="is_v2"),
        ),
    ),
    Shown("last_offset_delta", given="is_v2"),
    Shown("base_timestamp", given="is_v2"),
    Shown("max_timestamp", given="has_timestamp"),
    Shown("delete_horizon_ms", column="base_timestamp", given="delete_horizon"),
    Shown("producer_id", given="is_v2"),
    Shown("producer_epoch", given="is_v2"),
    Shown("base_sequence", given="is_v2"),
    Shown("last_sequence", given="is_v2"),
    Shown("records_count", given="is_v2"),
)

RECORD = (
    Shown("batch_position"),
    Shown("position", given="has_position"),
    Shown("offset"),
    Shown("timestamp", given="has_timestamp"),
    Shown("timestamp_type", Kind.CHOICE, words=TIMESTAMPS),
    Shown("sequence", given="is_v2"),
    Shown("key_size"),
    Shown("key", Kind.BYTES),
    Shown("value_size"),
    Shown("value", Kind.BYTES),
    Shown("headers", Kind.HEADERS, given="is_v2"),
    Shown(
        "control",
        Kind.GROUP,
        only=("control", 1),
        of=(
            Shown("type", Kind.CHOICE, column="control_type", words=CONTROL_TYPES),
            Shown("version", column="control_version"),
            Shown("coordinator_epoch", given="has_marker"),
        ),
    ),
)
