"""Make damaged_segments: copies of a real segment with one thing broken each."""

from __future__ import annotations

import shutil

from tests.support.samples import ORDERS
from tests.support.segments import DAMAGES, positions, write
from tools.kafka import ROOT

CHOSEN = {
    "flipped-bit": "a flipped bit",
    "length-too-big": "the largest length",
    "unknown-magic": "an unknown magic",
    "zero-hole": "zeros put in",
    "garbage": "garbage put in",
}


def main() -> None:
    """Write the folder anew."""
    folder = ROOT / "damaged_segments"
    shutil.rmtree(folder, ignore_errors=True)
    data = ORDERS.read_bytes()
    at, end = positions(data)[3:5]
    for name, damage in CHOSEN.items():
        write(folder / f"{name}-0", DAMAGES[damage][0](data, at, end))
    write(folder / "truncated-0", data[: at + 500])
    write(folder / "zero-tail-0", data + bytes(4096))
    index = bytearray(ORDERS.with_suffix(".index").read_bytes())
    index[23] ^= 1  # the position of the third entry
    write(folder / "index-not-at-batch-0", data)
    write(folder / "index-not-at-batch-0", bytes(index), ORDERS.with_suffix(".index").name)
    shutil.copy(ORDERS.with_suffix(".timeindex"), folder / "index-not-at-batch-0")


if __name__ == "__main__":
    main()
