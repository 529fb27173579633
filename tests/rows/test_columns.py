"""The columns of a structure's fields."""

from __future__ import annotations

import pytest

from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.rows.column import column_of


@pytest.mark.parametrize(
    ("name", "bits"),
    [("magic", 8), ("producer_epoch", 16), ("base_sequence", 32), ("base_offset", 64)],
)
def test_a_column_has_the_bits_of_its_field(name: str, bits: int) -> None:
    assert column_of(RECORD_BATCH.field(name)).bits == bits
