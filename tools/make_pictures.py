"""Create the pictures of the documentation from real runs: python -m tools.make_pictures [NAME…]

check.svg and verdict.svg are coloured terminals, browse.svg the browser, report.png the page in
Chromium.
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

DIRECTORY = ROOT / "docs" / "pictures"
COLUMNS = 110
FIRST_LOG = f"{0:020}.log"
CHECK_ARGUMENTS = ("check", "damaged_segments/flipped-bit-0")
BROWSE_PATH = "damaged_segments"
KEYS = ("n", "enter", "down", "enter", "down", "down", "down")
SIZE = 132, 40
REPORT_PATHS = ("sample_segments/kafka-3.9.1-broker1",)
WIDTH, HEIGHT = 1300, 1000


def terminal_picture(
    arguments: Sequence[str] = CHECK_ARGUMENTS,
    directory: Path = ROOT,
    columns: int = COLUMNS,
    last_lines: int | None = None,
) -> bytes:
    """A run of kfmt in colour, on a terminal with some columns, as SVG. last_lines: how many lines
    of the output are still on the screen, None for all."""
    command = ["stty", "cols", str(columns)]
    shell_command = f"{' '.join(command)}; {sys.executable} -m kfmt_cli {' '.join(arguments)}"
    result = subprocess.run(
        ["script", "-qec", shell_command, "/dev/null"],
        capture_output=True,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    lines = result.stdout.decode().replace("\r\n", "\n").splitlines()
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    if last_lines is None:
        console.print(Text(f"$ kfmt {' '.join(arguments)}", style="bold"))
    else:
        lines = lines[-last_lines:]
    console.print(Text.from_ansi("\n".join(lines)))
    return _without_fonts(console.export_svg(title="kfmt"))


def verdict_picture() -> bytes:
    """What is on a screen of 80 × 24 after `kfmt check` of a disk with two damages."""
    with tempfile.TemporaryDirectory() as scratch:
        disk = Path(scratch) / "data"
        shutil.copytree(ROOT / "sample_segments/kafka-3.9.1-broker1", disk)
        for path in (disk / "__cluster_metadata-0/quorum-state", disk / "codec-none-0" / FIRST_LOG):
            path.chmod(0o644)
        (disk / "__cluster_metadata-0/quorum-state").write_bytes(bytes(100))
        log = disk / "codec-none-0" / FIRST_LOG
        log.write_bytes(log.read_bytes()[:-1000])
        columns, lines = 80, 24
        return terminal_picture(("check", "data"), Path(scratch), columns, lines - 1)


def browse_picture(
    path: str = BROWSE_PATH,
    keys: Sequence[str] = KEYS,
    size: tuple[int, int] = SIZE,
    theme: str = "dark",
) -> bytes:
    """A screen of the browser after some keys, as SVG; reproducible. path: relative to the
    repository."""
    from kfmt_cli.browse.headless import render_svg
    from kfmt_cli.browse.launch import open_session

    with _working_directory(ROOT):  # so that no path of this machine is in it
        return _without_fonts(asyncio.run(render_svg(open_session((path,)), keys, size, theme)))


def report_picture(paths: Sequence[str] = REPORT_PATHS) -> bytes:
    """The first screen of a report page, as PNG."""
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        page = Path(directory) / "report.html"
        command = [sys.executable, "-m", "kfmt_cli", "report", *paths, "--to", str(page)]
        subprocess.run(command, capture_output=True, cwd=ROOT, check=False)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        tab.wait_for_function("document.documentElement.dataset.drawn")
        image: bytes = tab.screenshot()
        chromium.close()
        return image


@contextmanager
def _working_directory(directory: Path) -> Iterator[None]:
    """Change the current directory temporarily."""
    previous = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(previous)


def _without_fonts(svg: str) -> bytes:
    """The drawing without fonts to download."""
    stripped = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    return ("\n".join(line.rstrip() for line in stripped.splitlines()) + "\n").encode()


PICTURES: dict[str, Callable[[], bytes]] = {
    "check.svg": terminal_picture,
    "verdict.svg": verdict_picture,
    "browse.svg": browse_picture,
    "report.png": report_picture,
}


def main(names: Sequence[str]) -> None:
    """Write the named pictures, or all."""
    DIRECTORY.mkdir(exist_ok=True)
    for name in names or PICTURES:
        (DIRECTORY / name).write_bytes(PICTURES[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
