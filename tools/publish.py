"""Prepare a clone for the build of a release: python -m tools.publish ADDRESS

ADDRESS is the repository's, such as https://github.com/OWNER/NAME. It becomes `[project.urls]`, and
the links and pictures of README.md become absolute, to the files of the version's tag, as the page
of a package index has no files next to it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.kafka import ROOT

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)((?:#[^)\s]*)?)\)")
_VERSION = re.compile(r'^version = "(.+)"$', re.MULTILINE)
_BEFORE_URLS = "\n[project.optional-dependencies]\n"


def with_absolute_links(readme: str, address: str, tag: str, root: Path) -> str:
    """The README with absolute links. Raises SystemExit for a link to no file below `root`."""

    def absolute(link: re.Match[str]) -> str:
        picture, text, path, heading = link.groups()
        if not (root / path).exists():
            raise SystemExit(f"README.md: {path}: no such file")
        kind = "raw" if picture else "blob"
        return f"{picture}[{text}]({address}/{kind}/{tag}/{path}{heading})"

    return _LINK.sub(absolute, readme)


def with_urls(pyproject: str, address: str, tag: str) -> str:
    """The pyproject.toml with the addresses that a package index shows."""
    url_by_name = {
        "Source": address,
        "Documentation": f"{address}/blob/{tag}/docs/guides/README.md",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in url_by_name.items())
    before, found, after = pyproject.partition(_BEFORE_URLS)
    if not found or "[project.urls]" in pyproject:
        raise SystemExit("pyproject.toml: it has [project.urls], or no optional dependencies")
    return f"{before}\n[project.urls]\n{lines}{found}{after}"


def publish(address: str, root: Path) -> None:
    """Rewrite README.md and pyproject.toml in `root`."""
    address = address.rstrip("/")
    if not address.startswith("https://"):
        raise SystemExit(f"{address}: not an https address")
    readme, pyproject = root / "README.md", root / "pyproject.toml"
    version = _VERSION.search(pyproject.read_text())
    assert version is not None
    tag = f"v{version[1]}"
    texts = {
        readme: with_absolute_links(readme.read_text(), address, tag, root),
        pyproject: with_urls(pyproject.read_text(), address, tag),
    }
    for path, text in texts.items():
        path.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    publish(sys.argv[1], ROOT)
