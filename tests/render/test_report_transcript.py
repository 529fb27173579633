"""Transcripts of entire pages: every word, sort value, link and chart row; `pytest --update-golden`
rewrites them, a person reads the diff.

A table has a line per row, a cell its text, then its sort value, link and class if it has any.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kfmt_cli.core.times import format_time
from tests.support.samples import kfmt
from tools.kafka import ROOT

pytest.importorskip("altair", reason="the extra report is not installed")

GOLDEN_DIRECTORY = ROOT / "tests" / "golden" / "report"
NOW = "2026-11-25T12:00"
BROKER = "sample_segments/kafka-3.9.1-broker1"
PAGES = {
    "topics": (f"{BROKER}/orders-0", f"{BROKER}/weird-times-0", f"{BROKER}/__consumer_offsets-1"),
    "transactions": (f"{BROKER}/txn-0", "DISK/live/txn-0"),
    "damaged": tuple(f"DISK/{name}-0" for name in ("flipped-bit", "truncated", "garbage")),
}
# Copies without indexes, whose files' times matter: the source, and the days before NOW.
COPIED_DIRECTORIES = {
    "live/txn-0": ("sample_segments/kafka-3.9.1-live/txn-0", 2),
    "flipped-bit-0": ("damaged_segments/flipped-bit-0", 3),
    "truncated-0": ("damaged_segments/truncated-0", 1),
    "garbage-0": ("damaged_segments/garbage-0", 10),
}
# Disk usage depends on this disk, and compressed sizes on the libraries' versions; a test of
# `check` has the findings.
OMITTED_TABLES = ("Disk usage", "Findings of kind", "Alternative", "Data for this chart (what if)")
SHOWN_ATTRIBUTES = ("data-v", "href", "data-chart")
STYLES = (
    "good",
    "warning",
    "error",
    *(f"card {style}" for style in ("good", "warning", "error", "plain")),
)
FIRST_ROWS = 4  # of a table; the last row is shown, too


class Page(HTMLParser):
    """The page as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.charts = ""
        self._text = ""
        self._annotations: list[str] = []
        self._cells: list[str] | None = None
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("script", "style"):
            self._script = attributes.get("id") or ""
            return
        if tag in ("th", "td", "tr", "caption", "li", "p", "h1", "h2", "h3", "div", "dt", "dd"):
            self._end_line()
        if tag == "tr":
            self._cells = []
        self._annotations += [
            f"{name}={attributes[name]}" for name in SHOWN_ATTRIBUTES if name in attributes
        ]
        if attributes.get("class") in STYLES:
            self._annotations.append(str(attributes["class"]))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._script = None
        elif tag in ("th", "td") and self._cells is not None:
            self._cells.append(self._take_text())
        elif tag == "tr" and self._cells is not None:
            self.lines.append("| " + " | ".join(self._cells))
            self._cells = None
        elif tag == "dd":  # the meaning of the findings
            self._take_text()
        elif tag in ("caption", "li", "p", "h1", "h2", "h3", "div", "dt"):
            self._end_line()

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self._text += data
        elif self._script == "data":
            self.charts += data

    def _take_text(self) -> str:
        parts = [
            " ".join(self._text.split()),
            *(f"<{annotation}>" for annotation in self._annotations),
        ]
        self._text, self._annotations = "", []
        return " ".join(word for word in parts if word)

    def _end_line(self) -> None:
        if self._cells is None and (text := self._take_text()):
            self.lines.append(text)


def shorten_tables(lines: list[str]) -> list[str]:
    """Long tables as their first and last rows, without the omitted tables."""
    shortened: list[str] = []
    rows: list[str] = []
    caption = ""
    for line in [*lines, ""]:
        if line.startswith("| "):
            rows.append(line)
            continue
        if rows and not caption.startswith(OMITTED_TABLES):
            shortened += rows[: FIRST_ROWS + 1]
            shortened += rows[FIRST_ROWS + 1 :][-1:]
        rows = []
        caption = line
        shortened.append(line)
    return shortened


def chart_lines(script: str) -> list[str]:
    """The tables of the charts as their first and last rows."""
    lines = []
    for name, table in json.loads(script)["tables"].items():
        rows = table["rows"]
        if name == "what_if":
            continue
        lines.append(f"{name}: {len(rows)} rows of {', '.join(table['columns'])}")
        lines += [json.dumps(row) for row in [*rows[:FIRST_ROWS], *rows[FIRST_ROWS:][-1:]]]
    return lines


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_kfmt_says(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file, data, disk = (tmp_path / name for name in ("page.html", "page.json", "disk"))
    now = int(datetime.fromisoformat(f"{NOW}+00:00").timestamp())
    for destination, (source, days) in COPIED_DIRECTORIES.items():
        shutil.copytree(ROOT / source, disk / destination)
        for path in (disk / destination).iterdir():
            os.utime(path, (now - days * 86_400,) * 2)
    paths = [path.replace("DISK", str(disk)) for path in PAGES[name]]
    kfmt("report", *paths, "--to", file, "--data", data, "--now", NOW)
    made_at = json.loads(data.read_text())[0]["made_at"]
    page = Page()
    page.feed(file.read_text())
    transcript = "\n".join([*shorten_tables(page.lines), "", *chart_lines(page.charts)]) + "\n"
    transcript = re.sub(
        r"(?m)^Made by kfmt \S+ on .* UTC\. A", "Made by kfmt N on N. A", transcript
    )
    transcript = re.sub(r"(?m)^A sample of .*", "A sample of N", transcript)
    for value, placeholder in ((disk, "DISK"), (made_at, "MADE"), (format_time(made_at), "MADE")):
        transcript = transcript.replace(str(value), placeholder)
    golden = GOLDEN_DIRECTORY / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(transcript)
    assert transcript == golden.read_text()
