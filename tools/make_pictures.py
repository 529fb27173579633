"""The pictures of the README, made of real runs: python -m tools.make_pictures [NAME…]

check.svg is a coloured terminal, browse.svg the browser, report.png the page as Chromium shows it.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tools.kafka import ROOT

FOLDER = ROOT / "docs" / "pictures"
COLUMNS = 110
CHECKED = ("check", "damaged_segments/flipped-bit-0")
BROWSED = "damaged_segments"
KEYS = ("n", "enter", "down", "enter", "down", "down", "down")
SIZE = 132, 40
REPORTED = ("sample_segments/kafka-3.9.1-broker1",)
WIDTH, HEIGHT = 1300, 1000


def terminal_picture(arguments: Sequence[str] = CHECKED) -> bytes:
    """A run of kfmt in colour, on a terminal of so many columns, as SVG."""
    command = ["stty", "cols", str(COLUMNS)]
    inside = f"{' '.join(command)}; {sys.executable} -m kfmt_cli {' '.join(arguments)}"
    done = subprocess.run(
        ["script", "-qec", inside, "/dev/null"], capture_output=True, cwd=ROOT, check=False
    )
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ kfmt {' '.join(arguments)}", style="bold"))
    console.print(Text.from_ansi(done.stdout.decode().replace("\r\n", "\n")))
    return _without_fonts(console.export_svg(title="kfmt"))


def browse_picture(
    path: str = BROWSED,
    keys: Sequence[str] = KEYS,
    size: tuple[int, int] = SIZE,
    theme: str = "dark",
) -> bytes:
    """A screen of the browser after some keys, as SVG; the same for the same files. path: below
    the repository."""
    from kfmt_cli.browse.launch import render_svg

    with _at(ROOT):  # so that no path of this machine is in it
        return _without_fonts(asyncio.run(render_svg((path,), keys, size, theme)))


def report_picture(paths: Sequence[str] = REPORTED) -> bytes:
    """The front of a page, as PNG."""
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "kfmt_cli", "report", *paths, "--to", str(page)]
        subprocess.run(command, capture_output=True, cwd=ROOT, check=False)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        tab.wait_for_function("document.documentElement.dataset.drawn")
        drawn: bytes = tab.screenshot()
        chromium.close()
        return drawn


@contextmanager
def _at(folder: Path) -> Iterator[None]:
    """Meanwhile, the current directory is that one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _without_fonts(svg: str) -> bytes:
    """A drawing for which nothing is fetched."""
    plain = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    return ("\n".join(line.rstrip() for line in plain.splitlines()) + "\n").encode()


PICTURES: dict[str, Callable[[], bytes]] = {
    "check.svg": terminal_picture,
    "browse.svg": browse_picture,
    "report.png": report_picture,
}


def main(names: Sequence[str]) -> None:
    """Write these, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        (FOLDER / name).write_bytes(PICTURES[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
