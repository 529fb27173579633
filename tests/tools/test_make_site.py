"""The site has every page of the repository once, and its links are valid."""

from __future__ import annotations

import re
from pathlib import Path

from tools.kafka import ROOT
from tools.make_site import COMMANDS_PAGE, command_pages, lay_out, navigation, pages, place


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


def test_each_command_has_a_page() -> None:
    text = (ROOT / COMMANDS_PAGE).read_text()
    by_path = command_pages(text)
    assert set(by_path) >= {"commands.md", "commands/dump.md", "commands/convert-v0-to-v2.md"}
    assert "](commands/dump.md)" in by_path["commands.md"]
    assert by_path["commands/dump.md"].startswith("# dump\n\n```\nUsage: kfmt dump ")
    assert "\n## pipeline export\n" in by_path["commands/pipeline.md"]
    assert sum(page.count("Usage: kfmt ") for page in by_path.values()) == text.count(
        "Usage: kfmt "
    )
    settings = navigation((ROOT / "mkdocs.yml").read_text(), text)
    assert "\n      - Commands:\n          - commands.md\n          - commands/" in settings
    assert all(settings.count(f"- {path}\n") == 1 for path in by_path)


def test_help_fits_a_terminal() -> None:
    pages_by_path = command_pages((ROOT / COMMANDS_PAGE).read_text())
    group_help = pages_by_path.pop("commands/pipeline.md").partition("\n## ")[2]
    lines = [line for page in (*pages_by_path.values(), group_help) for line in page.splitlines()]
    too_long = [
        line for line in lines if len(line) > 80 and not re.match(r" +(kfmt|--partitioner) ", line)
    ]
    assert too_long == []
