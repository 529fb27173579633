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
    """At the very offset at which that one ends is too early."""
    broken = wrapper(lambda data: data, shift=shift)
    data = broken.files[name(0)]
    cut = positions(data)[2]  # what shifts is the third
    for folder, logs in (
        ("one", {0: data}),
        ("two", {0: data[:cut], 40: data[cut:]}),  # the third is the first of its segment
    ):
        for base, part in logs.items():
            write(tmp_path / folder, part, name(base))
    done = kfmt("verify-crc", "--deep", tmp_path / "one", "--json")
    assert done.codes == ["offsets-backwards"] * is_found
    for finding in done.of("finding"):
        assert (finding["offset"], finding["position"]) == (40 + shift, cut)
    done = kfmt("verify-crc", "--deep", tmp_path / "two", "--json")
    assert done.codes == ["segments-overlap"] * is_found
    assert [finding["offset"] for finding in done.of("finding")] == [40 + shift] * is_found
