"""The filter that selects the batches of a log to list: by codec, producer, transaction, control,
damage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.table import BoolArray
from kfmt_cli.errors import UsageError, unknown_name_error
from kfmt_cli.rows.log_tables import BatchTable
from kfmt_cli.rows.types.batch import BATCH_ROW

CODEC_NAMES: tuple[str, ...] = BATCH_ROW["compression"].choices
BATCH_FLAG_NAMES = ("transactional", "control", "damaged")
BATCH_FILTER_SYNTAX = (
    "codec=lz4 producer=7 transactional control damaged; prefix a word with - to negate it"
)


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """A filter of batches; None matches any value."""

    codec: str | None = None
    producer_id: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    damaged: bool | None = None

    def __bool__(self) -> bool:
        """Whether the filter excludes any batch."""
        return self != BatchFilter()

    def batch_mask(self, batches: BatchTable) -> BoolArray:
        """The mask of the listed batches."""
        mask = np.ones(len(batches), np.bool_)
        if self.codec is not None:
            mask &= batches.compression == CODEC_NAMES.index(self.codec)
        if self.producer_id is not None:
            mask &= (batches.producer_id == self.producer_id) & (batches.is_v2 == 1)
        for column, expected_flag in (
            ("transactional", self.transactional),
            ("control", self.control),
        ):
            if expected_flag is not None:
                mask &= (batches[column] == 1) == expected_flag
        if self.damaged is not None:
            mask &= (batches.crc_valid == 0) == self.damaged
        return mask

    @property
    def typed_text(self) -> str:
        """The filter as typed."""
        terms = []
        if self.codec is not None:
            terms.append(f"codec={self.codec}")
        if self.producer_id is not None:
            terms.append(f"producer={self.producer_id}")
        for flag_name in BATCH_FLAG_NAMES:
            expected_flag = getattr(self, flag_name)
            if expected_flag is not None:
                terms.append(flag_name if expected_flag else f"-{flag_name}")
        return " ".join(terms)

    @property
    def dump_options(self) -> list[str]:
        """The equivalent `kfmt dump` options, with the JSON that `jq_condition` reads."""
        producer_id = self.producer_id
        producer_option = [] if producer_id is None else ["--producer-id", str(producer_id)]
        return [*producer_option, *(["--json"] if self.jq_condition else [])]

    @property
    def jq_condition(self) -> str:
        """A jq condition for what no option of kfmt covers."""
        conditions = []
        if self.codec is not None:
            conditions.append(f'.attributes.compression=="{self.codec}"')
        for flag_name in BATCH_FLAG_NAMES:
            expected_flag = getattr(self, flag_name)
            if expected_flag is not None:
                jq_path = ".crc_valid" if flag_name == "damaged" else f".attributes.{flag_name}"
                is_true = expected_flag != (flag_name == "damaged")
                conditions.append(jq_path if is_true else f"({jq_path}|not)")
        return " and ".join(conditions)


def parse_batch_filter(text: str) -> BatchFilter:
    """The filter as typed, such as `codec=lz4 -control`; raises UsageError."""
    value_by_field: dict[str, str | int | bool] = {}
    for term in text.split():
        term_name, equals_sign, term_value = term.partition("=")
        flag_name = term_name.removeprefix("-")
        if term_name == "codec" and equals_sign:
            if term_value not in CODEC_NAMES:
                raise unknown_name_error("codec", term_value, CODEC_NAMES)
            value_by_field["codec"] = term_value
        elif term_name == "producer" and equals_sign:
            producer_id = parse_int(term_value)
            if producer_id is None:
                raise UsageError(f"producer={term_value}: a producer id is a number")
            value_by_field["producer_id"] = producer_id
        elif flag_name in BATCH_FLAG_NAMES and not equals_sign:
            value_by_field[flag_name] = not term_name.startswith("-")
        else:
            raise UsageError(f"{term!r}: not understood; use {BATCH_FILTER_SYNTAX}")
    return BatchFilter(**value_by_field)  # type: ignore[arg-type]
