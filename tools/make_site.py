"""The site of the docs: python -m tools.make_site DIR

README.md is its first page. `zensical` (extra `docs`) builds it by mkdocs.yml, and ends with an
error if a page or a heading that is linked does not exist.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tools.kafka import ROOT

OF_PROJECT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
STYLE = "docs/site.css"
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def pages(root: Path) -> Iterator[str]:
    """The pages of the site, by their paths in the repository."""
    yield from OF_PROJECT
    for page in sorted((root / "docs").rglob("*.md")):
        yield page.relative_to(root).as_posix()


def place(path: str) -> str:
    """Where the site has a file of the repository."""
    return OF_PROJECT.get(path, path.removeprefix("docs/"))


def lay_out(root: Path, to: Path) -> None:
    """Copy the pages, their style and the files that they link to, with links that hold there.
    Raises OSError for a link to a file that does not exist."""
    every = set(pages(root))
    linked: set[str] = set()
    for page in every:
        file = to / place(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_moved(page, (root / page).read_text(), linked))
    for path in {STYLE, *linked} - every:
        (to / place(path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, to / place(path))


def _moved(page: str, text: str, linked: set[str]) -> str:
    """The text of a page with the links that the site needs; adds the files that it links to."""

    def move(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        if "://" in target:
            return link[0]
        path = os.path.normpath(PurePosixPath(page).parent / target)
        linked.add(path)
        return f"{before}{os.path.relpath(place(path), PurePosixPath(place(page)).parent)}{after}"

    return _LINK.sub(move, text)


def build(to: Path) -> None:
    """Build the site in a new directory. Raises OSError, and CalledProcessError if a link does not
    hold."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        shutil.copy(ROOT / "mkdocs.yml", work)
        lay_out(ROOT, work / "docs")
        zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
        subprocess.run(zensical, cwd=work, check=True)
        shutil.copytree(work / "site", to)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the site of the docs.")
    parser.add_argument("to", metavar="DIR", type=Path, help="a new directory")
    build(parser.parse_args().to)


if __name__ == "__main__":
    main()
