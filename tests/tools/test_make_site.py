"""The site has every page of the repository once, and its links are valid."""

from __future__ import annotations

import re
from pathlib import Path

from tools.kafka import ROOT
from tools.make_site import lay_out, pages, place


def test_a_page_and_what_it_links_to_move_together(tmp_path: Path) -> None:
    files = {
        "README.md": "[a](docs/a.md#x) ![p](docs/pictures/p.svg) [out](https://kafka.apache.org/)",
        "CHANGELOG.md": "[guide](docs/guides/README.md)",
        "CONTRIBUTING.md": "[same page](#rules)",
        "SECURITY.md": "[readme](README.md)",
        "docs/a.md": "[guide](guides/README.md) [code](../examples/e.py)",
        "docs/guides/README.md": "[a](../a.md) [changes](../../CHANGELOG.md)",
        "docs/pictures/p.svg": "<svg/>",
        "docs/site.css": "p {}",
        "examples/e.py": "print()",
        "examples/other.py": "print()",
    }
    for name, text in files.items():
        (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "clone" / name).write_text(text)
    lay_out(tmp_path / "clone", tmp_path / "site")
    written = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "site")): path.read_text() for path in written} == {
        "index.md": "[a](a.md#x) ![p](pictures/p.svg) [out](https://kafka.apache.org/)",
        "changelog.md": "[guide](guides/README.md)",
        "contributing.md": "[same page](#rules)",
        "security.md": "[readme](index.md)",
        "a.md": "[guide](guides/README.md) [code](examples/e.py)",
        "guides/README.md": "[a](../a.md) [changes](../changelog.md)",
        "pictures/p.svg": "<svg/>",
        "site.css": "p {}",
        "examples/e.py": "print()",
    }


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w/-]+\.md", text)) == sorted(map(place, pages(ROOT)))
