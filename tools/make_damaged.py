"""Create damaged_segments: copies of a real segment, each with one damage."""

from __future__ import annotations

import shutil

from tests.support.samples import ORDERS
from tests.support.segments import DAMAGES, positions, write
from tools.kafka import ROOT

DAMAGE_BY_NAME = {
    "flipped-bit": "a flipped bit",
    "length-too-big": "the largest length",
    "unknown-magic": "an unknown magic",
    "zero-hole": "zeros put in",
    "garbage": "garbage put in",
}


def main() -> None:
    """Write the directory again."""
    directory = ROOT / "damaged_segments"
    shutil.rmtree(directory, ignore_errors=True)
    data = ORDERS.read_bytes()
    position, end = positions(data)[3:5]
    for name, damage in DAMAGE_BY_NAME.items():
        write(directory / f"{name}-0", DAMAGES[damage][0](data, position, end))
    write(directory / "truncated-0", data[: position + 500])
    write(directory / "zero-tail-0", data + bytes(4096))
    index = bytearray(ORDERS.with_suffix(".index").read_bytes())
    index[23] ^= 1  # the position of the third entry
    write(directory / "index-not-at-batch-0", data)
    write(directory / "index-not-at-batch-0", bytes(index), ORDERS.with_suffix(".index").name)
    shutil.copy(ORDERS.with_suffix(".timeindex"), directory / "index-not-at-batch-0")


if __name__ == "__main__":
    main()
