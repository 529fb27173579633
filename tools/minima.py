"""The lower bounds of kfmt's dependencies, as exact versions.

    python -m tools.minima [EXTRA…]      prints lines such as `click==8.2.2`

If a package is listed twice, the higher bound counts.
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
    """Names and lower bounds in a list of pyproject.toml; raises ValueError for a missing bound.

    Parsed as text, because Python 3.10 has no TOML parser.
    """
    match = re.search(_LIST % name, text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise ValueError(f"pyproject.toml has no list {name}")
    for requirement in re.findall(r'"([^"]+)"', match[1]):
        bound = _BOUND.fullmatch(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} has no lower bound")
        yield bound[1], bound[2]


def minima(text: str, extras: Sequence[str]) -> Mapping[str, str]:
    """The lowest version of each package that kfmt and some of its extras accept."""
    version_by_package: dict[str, str] = {}
    for name in ("dependencies", *extras):
        for package, version in bounds(text, name):
            version_by_package[package] = max(
                version_by_package.get(package, version), version, key=_version_key
            )
    return version_by_package


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    for package, version in minima(PROJECT.read_text(), sys.argv[1:]).items():
        print(f"{package}=={version}")


if __name__ == "__main__":
    main()
