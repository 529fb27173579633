"""Build the site of the docs: python -m tools.make_site DIR

README.md is its first page. `zensical` (extra `docs`) builds it from mkdocs.yml, and fails if a
linked page or heading does not exist.
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

PROJECT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
STYLE = "docs/site.css"
COMMANDS_PAGE = "docs/commands.md"
_COMMAND_HEADING = re.compile(r"^## (\S+)\n", re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def pages(root: Path) -> Iterator[str]:
    """The paths of the site's pages in the repository."""
    yield from PROJECT_PAGES
    for page in sorted((root / "docs").rglob("*.md")):
        yield page.relative_to(root).as_posix()


def place(path: str) -> str:
    """The path in the site of a file of the repository."""
    return PROJECT_PAGES.get(path, path.removeprefix("docs/"))


def lay_out(root: Path, destination: Path) -> None:
    """Copy the pages, their style and linked files, and rewrite links for the site; each command
    gets a page. Raises OSError for a link to a file that does not exist."""
    page_paths = set(pages(root))
    linked: set[str] = set()
    for page in page_paths:
        file = destination / place(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_with_site_links(page, (root / page).read_text(), linked))
    for path in {STYLE, *linked} - page_paths:
        (destination / place(path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, destination / place(path))
    commands = root / COMMANDS_PAGE
    for path, text in command_pages(commands.read_text()).items() if commands.exists() else ():
        (destination / path).parent.mkdir(parents=True, exist_ok=True)
        (destination / path).write_text(text)


def command_pages(text: str) -> dict[str, str]:
    """The pages of the commands by path, made from the page of all, which keeps the first help and
    links to them."""
    first_page, *sections = _COMMAND_HEADING.split(text)
    page_by_path = {}
    for name, section in zip(sections[::2], sections[1::2], strict=True):
        page_by_path[f"commands/{name}.md"] = f"# {name}\n{section}".replace("\n### ", "\n## ")
    links = "".join(f"- [{name}](commands/{name}.md)\n" for name in sections[::2])
    return {place(COMMANDS_PAGE): f"{first_page}\n{links}", **page_by_path}


def navigation(settings: str, text: str) -> str:
    """mkdocs.yml with the pages of the commands below that of all."""
    (line,) = (line for line in settings.splitlines() if line.endswith(f": {place(COMMANDS_PAGE)}"))
    title, _, _ = line.rpartition(":")
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    paths = "".join(f"\n{indent}- {path}" for path in command_pages(text))
    return settings.replace(line, f"{title}:{paths}")


def _with_site_links(page: str, text: str, linked: set[str]) -> str:
    """The text of a page with links for the site; adds the linked files to `linked`."""

    def rewrite_link(link: re.Match[str]) -> str:
        prefix, target, suffix = link.groups()
        if "://" in target:
            return link[0]
        path = os.path.normpath(PurePosixPath(page).parent / target)
        linked.add(path)
        return f"{prefix}{os.path.relpath(place(path), PurePosixPath(place(page)).parent)}{suffix}"

    return _LINK.sub(rewrite_link, text)


def build(destination: Path) -> None:
    """Build the site in a new directory. Raises OSError, and CalledProcessError for an invalid
    link."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        settings = (ROOT / "mkdocs.yml").read_text()
        commands = (ROOT / COMMANDS_PAGE).read_text()
        (directory / "mkdocs.yml").write_text(navigation(settings, commands))
        lay_out(ROOT, directory / "docs")
        zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
        subprocess.run(zensical, cwd=directory, check=True)
        shutil.copytree(directory / "site", destination)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the site of the docs.")
    parser.add_argument("to", metavar="DIR", type=Path, help="a new directory")
    build(parser.parse_args().to)


if __name__ == "__main__":
    main()
