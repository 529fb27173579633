"""Where compressed messages of old magics begin, which only decompression shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broken_partitions import name, wrapper
from tests.support.samples import kfmt
from tests.support.segments import positions, write


@pytest.mark.parametrize(("shift", "is_found"), [(0, False), (-1, True), (-19, True)])
def test_a_wrapper_begins_after_the_end_of_the_batch_before_it(
    shift: int, is_found: bool, tmp_path: Path
) -> None:
    """The last offset of that batch is too early."""
    broken = wrapper(lambda data: data, shift=shift)
    data = broken.files[name(0)]
    split = positions(data)[2]  # the third is shifted
    for directory, logs in (
        ("one", {0: data}),
        ("two", {0: data[:split], 40: data[split:]}),  # the third is the first of its segment
    ):
        for base, content in logs.items():
            write(tmp_path / directory, content, name(base))
    result = kfmt("verify-crc", "--deep", tmp_path / "one", "--json")
    assert result.codes == ["offsets-backwards"] * is_found
    for finding in result.of("finding"):
        assert (finding["offset"], finding["position"]) == (40 + shift, split)
    result = kfmt("verify-crc", "--deep", tmp_path / "two", "--json")
    assert result.codes == ["segments-overlap"] * is_found
    assert [finding["offset"] for finding in result.of("finding")] == [40 + shift] * is_found
