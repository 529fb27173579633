"""Write a picture of the browser on sample data, for the README and the docs.

python -m tools.make_browse_picture docs/pictures/browse.svg
python -m tools.make_browse_picture OUT --keys n,e --size 160x50 --theme light
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from tools.kafka import ROOT

PATH = "damaged_segments"
KEYS = ("n", "enter", "down", "enter", "down", "down", "down")
SIZE = 132, 40


def browse_picture(
    path: str = PATH,
    keys: Sequence[str] = KEYS,
    size: tuple[int, int] = SIZE,
    theme: str = "dark",
) -> str:
    """A screen as SVG, after some keys; the same for the same files. path: below the repository."""
    from kfmt_cli.browse.begin import picture

    before = Path.cwd()
    os.chdir(ROOT)  # so that no path of this machine is in it
    try:
        return asyncio.run(picture((path,), keys, size, theme))
    finally:
        os.chdir(before)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--path", default=PATH)
    parser.add_argument("--keys", default=",".join(KEYS))
    parser.add_argument("--size", default="x".join(map(str, SIZE)))
    parser.add_argument("--theme", default="dark", choices=["dark", "light"])
    given = parser.parse_args()
    width, height = map(int, given.size.split("x"))
    keys = [key for key in given.keys.split(",") if key]
    svg = browse_picture(given.path, keys, (width, height), given.theme)
    given.out.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


if __name__ == "__main__":
    main()
