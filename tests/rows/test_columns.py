"""The columns of a structure's fields."""

from __future__ import annotations

import pytest

from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.rows.column import column_of
from kfmt_cli.rows.table_types import RECORDS


@pytest.mark.parametrize(
    ("name", "bits"),
    [("magic", 8), ("producer_epoch", 16), ("base_sequence", 32), ("base_offset", 64)],
)
def test_a_column_has_the_bits_of_its_field(name: str, bits: int) -> None:
    assert column_of(RECORD_BATCH.field(name)).bits == bits


def test_tables_for_data_frames_have_integers_of_two_sizes() -> None:
    bits = {column.name: column.bits for column in RECORDS.columns}
    assert (bits["producer_id"], bits["producer_epoch"]) == (64, 32)
