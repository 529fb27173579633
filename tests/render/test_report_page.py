"""The page of report in a real browser: charts, filters, keys, readers, print."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("altair", reason="the extra report is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")

PAGES = {
    "broker": [SAMPLES / "kafka-3.9.1-broker1"],
    "damaged": [ROOT / "damaged_segments"],
    "old": [SAMPLES / "kafka-0.8.2.2"],
    "live": [SAMPLES / "kafka-3.9.1-live"],
}
SMOKE = ("damaged", "light")
DRAWN = "document.documentElement.dataset.drawn"


class PageAddresses(dict[str, str]):
    """The address of each page, which is written on the first access."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, name: str) -> str:
        page = self._directory / f"{name}.html"
        kfmt("report", *PAGES[name], "--to", page)
        self[name] = page.as_uri()
        return self[name]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return PageAddresses(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class OpenPage:
    """An open page, its errors and its requests."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console", lambda message: self.complaints.append(f"{message.type}: {message.text}")
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_function(DRAWN, timeout=60_000)


# The default run has one page, the long run all of them.
PAGES_AND_SCHEMES = [
    pytest.param(name, scheme, marks=() if (name, scheme) == SMOKE else pytest.mark.browsers)
    for name in PAGES
    for scheme in ("light", "dark")
]


@pytest.mark.parametrize(("name", "scheme"), PAGES_AND_SCHEMES)
def test_every_chart_is_drawn_without_a_complaint_or_a_request(
    pages: dict[str, str], browser: Any, name: str, scheme: str
) -> None:
    opened = OpenPage(browser, pages[name], color_scheme=scheme)
    assert opened.complaints == []
    assert opened.requests == [pages[name]]
    charts = opened.page.evaluate(
        "[...document.querySelectorAll('.chart')].map((place) => [place.dataset.chart, "
        "place.dataset.topic, place.querySelectorAll('[class*=mark-] path, [class*=mark-] text')"
        ".length, place.getAttribute('aria-label')])"
    )
    assert len(charts) > 5
    for chart, topic, n_marks, label in charts:
        assert n_marks > 5, (chart, topic)
        assert len(label) > 20
    opened.page.close()


@pytest.mark.browsers
def test_findings_are_filtered_and_searched(pages: dict[str, str], browser: Any) -> None:
    page = OpenPage(browser, pages["damaged"]).page
    visible_rows = (
        "[...document.querySelectorAll('.group tbody tr')].filter((row) => row.offsetParent)"
    )

    def count_visible() -> int:
        n_visible: int = page.evaluate(f"{visible_rows}.length")
        assert page.text_content("#found") == f"{n_visible} shown"
        return n_visible

    n_findings = count_visible()
    assert n_findings > 20
    page.fill("#find", "crc-mismatch")
    assert 0 < count_visible() < n_findings
    codes = page.evaluate(
        f"{visible_rows}.map((row) => row.closest('.group').querySelector('h3').id)"
    )
    assert set(codes) == {"code-crc-mismatch-error"}
    page.fill("#find", "zero-hole-0")
    files = page.evaluate(f"{visible_rows}.map((row) => row.cells[0].textContent)")
    assert files
    assert all("zero-hole-0" in file for file in files)
    page.fill("#find", "")
    page.select_option("#severity", "note")
    notes = page.evaluate(f"{visible_rows}.map((row) => row.closest('.group').dataset.severity)")
    assert set(notes) <= {"note"}
    page.select_option("#severity", "")
    assert count_visible() == n_findings
    page.close()


@pytest.mark.browsers
def test_a_topic_has_a_page_of_its_own(pages: dict[str, str], browser: Any) -> None:
    page = OpenPage(browser, pages["broker"]).page
    assert page.is_visible("#overview")
    page.click("nav >> text=orders")
    page.wait_for_function("document.documentElement.classList.contains('on-topic')")
    assert not page.is_visible("#overview")
    assert page.evaluate("document.querySelectorAll('.topic.current').length") == 1
    assert page.text_content(".topic.current h2") == "orders"
    assert page.is_visible(".topic.current [data-chart=strips] svg")
    page.click("nav >> text=Findings")
    assert page.is_visible("#findings")
    page.go_back()
    assert page.is_visible(".topic.current")
    page.close()


@pytest.mark.browsers
def test_tables_are_sorted_by_their_headings(pages: dict[str, str], browser: Any) -> None:
    page = OpenPage(browser, pages["broker"]).page
    rows = "[...document.querySelectorAll('#topics > .scroll tbody tr')]"
    column = f"{rows}.map((row) => row.cells[4].dataset.v)"
    page.click("#topics > .scroll th >> text=size")
    sizes = [int(value) for value in page.evaluate(column)[:10] if value]
    assert sizes == sorted(sizes, reverse=True)
    page.click("#topics > .scroll th >> text=size")
    sizes = [int(value) for value in page.evaluate(column) if value]
    assert sizes == sorted(sizes)
    assert page.get_attribute("#topics th[aria-sort]", "aria-sort") == "ascending"
    page.close()


@pytest.mark.browsers
def test_everything_is_reached_by_keyboard(pages: dict[str, str], browser: Any) -> None:
    page = OpenPage(browser, pages["damaged"]).page
    focused = []
    for _ in range(30):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.textContent.trim().slice(0, 30)"))
    assert focused[0] == "Skip to the report"
    assert focused[1] == "Toggle dark and light"
    assert focused[2:5] == ["Summary", "Topics", "Time"]
    tabs = page.evaluate("[...document.querySelectorAll('[tabindex]')].map((one) => one.tabIndex)")
    assert set(tabs) <= {0, -1}
    page.focus("#theme")
    original_color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != original_color
    page.close()


@pytest.mark.browsers
@pytest.mark.parametrize("name", ["broker", "damaged"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("fragment", ["", "#topic-0"])
def test_an_accessibility_checker_finds_nothing(
    pages: dict[str, str], browser: Any, name: str, scheme: str, fragment: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # The page's policy would refuse the checker's script.
    opened = OpenPage(browser, pages[name] + fragment, color_scheme=scheme, bypass_csp=True)
    violations = axe.Axe().run(opened.page).response["violations"]
    assert [
        (violation["id"], violation["impact"], violation["nodes"][0]["html"])
        for violation in violations
    ] == []
    opened.page.close()


@pytest.mark.browsers
def test_a_narrow_page_is_not_wider_than_the_screen(pages: dict[str, str], browser: Any) -> None:
    page = OpenPage(browser, pages["broker"], viewport={"width": 380, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.close()


@pytest.mark.browsers
@pytest.mark.parametrize("name", ["broker", "damaged"])
@pytest.mark.parametrize("width", [1280, 800, 400])
def test_no_card_is_narrow_and_no_table_is_cut(
    pages: dict[str, str], browser: Any, name: str, width: int
) -> None:
    page = OpenPage(browser, pages[name], viewport={"width": width, "height": 800}).page
    cards = page.evaluate("[...document.querySelectorAll('.card')].map((card) => card.clientWidth)")
    assert len(cards) == 5
    assert min(cards) >= 300
    # Without the class, the pages of the topics are shown, too.
    page.evaluate("document.documentElement.classList.remove('js')")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    tables = page.evaluate(
        "[...document.querySelectorAll('table')].map((table) => [table.caption.textContent, "
        "table.scrollWidth - table.parentElement.clientWidth, "
        "getComputedStyle(table.parentElement).overflowX])"
    )
    assert len(tables) > 20
    wide_tables = [caption for caption, overflow, _ in tables if overflow > 0]
    assert wide_tables == [] or width < 1280
    assert {overflow_x for _, _, overflow_x in tables} == {"auto"}
    truncated = page.evaluate(
        "[...document.querySelectorAll('tbody th')].filter((cell) => cell.scrollWidth > "
        "cell.clientWidth).map((cell) => cell.textContent)"
    )
    assert truncated == []
    page.close()


@pytest.mark.browsers
def test_without_javascript_everything_is_there(pages: dict[str, str], browser: Any) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(pages["broker"])
    assert page.is_visible("#overview")
    assert page.is_visible("#topic-0")
    assert page.is_visible("text=What is on this disk?")
    assert not page.is_visible(".filter")
    page.close()


@pytest.mark.browsers
def test_printed_it_is_a_document(pages: dict[str, str], browser: Any, tmp_path: Path) -> None:
    opened = OpenPage(browser, pages["broker"], color_scheme="dark")
    opened.page.emulate_media(media="print")
    assert not opened.page.is_visible("nav")
    assert opened.page.is_visible("#topic-0")
    assert opened.page.is_visible("#topic-0 svg")
    color = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert color == "rgb(255, 255, 255)"
    opened.page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") > 5
    opened.page.close()


@pytest.mark.browsers
def test_the_charts_show_the_numbers_of_the_data(
    pages: dict[str, str], browser: Any, tmp_path: Path
) -> None:
    data = tmp_path / "data.json"
    kfmt("report", *PAGES["broker"], "--to", tmp_path / "page.html", "--data", data)
    rows = json.loads(data.read_text())
    page = OpenPage(browser, pages["broker"]).page
    tables = page.evaluate("JSON.parse(document.getElementById('data').textContent).tables")

    def column(table: str, name: str) -> list[Any]:
        index = tables[table]["columns"].index(name)
        return [row[index] for row in tables[table]["rows"]]

    rows_by_type = {
        name: [row for row in rows if row["type"] == name] for name in {r["type"] for r in rows}
    }
    assert sum(column("codecs", "bytes")) == sum(row["bytes"] for row in rows_by_type["codec_use"])
    assert sum(size or 0 for size in column("areas", "bytes")) == rows_by_type["report"][0]["bytes"]
    cells = sum(len(row["cells"]) for row in rows_by_type["segment_strip"])
    assert len(column("cells", "position")) == cells
    assert column("what_if", "would_be_bytes") == [
        row["would_be_bytes"] for row in rows_by_type["what_if"]
    ]
    page.close()


def test_a_hash_that_names_nothing_is_ignored(pages: dict[str, str], browser: Any) -> None:
    opened = OpenPage(browser, f"{pages['damaged']}#%E0%A4%A")
    for name in ("#%", "#%00", "#nowhere", "#"):
        opened.page.evaluate("name => { location.hash = name; }", name)
    assert opened.complaints == []
    opened.page.close()
