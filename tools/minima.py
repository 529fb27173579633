"""The lower bounds of what kfmt needs, as exact versions.

    python -m tools.minima [EXTRA…]      a line each: `click==8.2.2`

Of a package that is named twice, the higher bound counts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
_LIST = r"^%s = \[(.*?)\]$"
_BOUND = re.compile(r"([\w.-]+(?:\[[\w,-]+\])?)>=([\d.]+)")


def bounds(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Names and lower bounds in a list of pyproject.toml; raises ValueError where one has none.

    Read as text, because Python 3.10 has no reader of TOML.
    """
    found = re.search(_LIST % name, text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"pyproject.toml has no list {name}")
    for requirement in re.findall(r'"([^"]+)"', found[1]):
        bound = _BOUND.fullmatch(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} has no lower bound")
        yield bound[1], bound[2]


def minima(text: str, extras: Sequence[str]) -> Mapping[str, str]:
    """The lowest version of each package that kfmt and some of its extras accept."""
    found: dict[str, str] = {}
    for name in ("dependencies", *extras):
        for package, version in bounds(text, name):
            found[package] = max(found.get(package, version), version, key=_numbers)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    for package, version in minima(PROJECT.read_text(), sys.argv[1:]).items():
        print(f"{package}=={version}")


if __name__ == "__main__":
    main()
