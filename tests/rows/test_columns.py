"""The columns of a structure's fields."""

from __future__ import annotations

import pytest

from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.rows.column import field_column
from kfmt_cli.rows.table_types import RECORDS_TABLE


@pytest.mark.parametrize(
    ("name", "bits"),
    [("magic", 8), ("producer_epoch", 16), ("base_sequence", 32), ("base_offset", 64)],
)
def test_a_column_has_the_bits_of_its_field(name: str, bits: int) -> None:
    assert field_column(RECORD_BATCH.field(name)).n_bits == bits


def test_tables_for_data_frames_have_integers_of_two_sizes() -> None:
    bits = {column.name: column.n_bits for column in RECORDS_TABLE.columns}
    assert (bits["producer_id"], bits["producer_epoch"]) == (64, 32)
