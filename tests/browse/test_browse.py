"""The browser on a terminal: the tree, lists, fields, bytes, every key; and the command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed: pip install 'kfmt-cli[browse]'")

from textual.pilot import Pilot
from textual.worker_manager import WorkerManager

from kfmt_cli.browse.headless import wait_until_idle
from kfmt_cli.browse.keys import KEY_BINDINGS, MOVEMENT_KEYS
from kfmt_cli.browse.launch import open_session
from kfmt_cli.browse.screen.app import BrowserApp
from kfmt_cli.browse.screen.dialogs import PageWindow
from kfmt_cli.browse.views import VIEWS
from tests.support.browser import (
    BROKER,
    FLIPPED,
    LARGE,
    SMALL,
    TXN,
    Driver,
    check_command,
    open_browser,
    run,
)
from tests.support.samples import ORDERS, environment, kfmt
from tools.kafka import ROOT

pytestmark = pytest.mark.usefixtures("at_root")


# The tree.


def test_a_directory_says_what_is_in_it_and_what_is_damaged() -> None:
    async def work() -> None:
        async with open_browser("damaged_segments") as browser:
            screen = browser.screen
            assert "8 partitions of 8 topics, 8 segments" in screen
            assert "✗ 8 partitions of 8 with errors" in screen
            assert re.search(r"✗1 flipped-bit-0", screen)
            for view in VIEWS:
                assert view.question in screen
            assert "$ kfmt check damaged_segments" in screen
        async with open_browser(BROKER) as browser:
            assert "✓ checked: no errors" in browser.screen
            assert "▸ ✓ orders-0" in browser.screen

    run(work())


def test_the_tree_is_walked_with_keys() -> None:
    async def work() -> None:
        async with open_browser(BROKER, size=LARGE) as browser:
            screen = await browser.press("down", "down")
            assert "2 partitions of 1 topic" in screen
            screen = await browser.press("enter", "down")
            assert "__consumer_offsets-1" in screen
            assert browser.command == ["kfmt", "check", f"{BROKER}/__consumer_offsets-1"]
            screen = await browser.press("enter")  # its only log
            assert browser.command[1] == "dump"
            assert "7 batches" in screen

    run(work())


def test_a_path_to_a_log_opens_it() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            assert "6–11" in browser.screen
            assert '"acct-0-0"' in browser.screen
            assert "batch 0 at byte 0   102 batches" in browser.screen
            command = browser.command
        check_command(command, "6–11")

    run(work())


def test_other_files_show_their_entries() -> None:
    async def work() -> None:
        for name, expected in (
            ("orders-0/00000000000000000000.index", "23 218"),
            ("txn-0/00000000000000000736.snapshot", "1001"),
            ("meta.properties", "node"),
            ("replication-offset-checkpoint", "orders"),
            ("orders-0/00000000000000000000.timeindex", "199"),
            ("cleaner-offset-checkpoint", "compacted"),
        ):
            async with open_browser(f"{BROKER}/{name}") as browser:
                assert expected in browser.screen, name
                assert browser.command == ["kfmt", "dump", f"{BROKER}/{name}"]

    run(work())


# From batches to bytes.


def test_enter_leads_to_records_and_fields_and_escape_back() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press("down")
            assert browser.rows == (1, 0)
            screen = await browser.press("enter")
            assert browser.command[2:4] == [TXN, "--records"]
            check_command(browser.command, "acct-1-2")
            screen = await browser.press("down", "enter")
            assert "offset 7, decompressed with lz4" in screen
            assert "key_length" in screen
            assert browser.command == ["kfmt", "hex", TXN, "--offset", "7", "--alone"]
            check_command(browser.command, "→ offset 7")
            screen = await browser.press("escape")
            assert "acct-1-4" in screen
            screen = await browser.press("escape")
            assert browser.focused == "batches"
            assert browser.command[1] == "dump"
            await browser.press("escape")
            assert browser.focused == "tree"

    run(work())


def test_the_fields_of_a_header_are_shown_without_a_record() -> None:
    async def work() -> None:
        async with open_browser(FLIPPED, size=LARGE) as browser:
            screen = await browser.press("down", "down", "down")
            assert "✗ CRC-32C of bytes" in screen
            assert "bad checksum" in screen
            assert "00001e16" in screen
            await browser.press("tab", "tab")
            assert browser.command[1] == "hex"

    run(work())


def test_payloads_are_decoded() -> None:
    async def work() -> None:
        log = f"{BROKER}/__consumer_offsets-1/00000000000000000000.log"
        async with open_browser(log) as browser:
            screen = await browser.press("down", "down", "down", "down", "enter", "p")
            assert '"group": "billing"' in screen
            assert len(re.findall(r"^ +key  ", screen, re.MULTILINE)) == 1
            assert browser.command[-1] == "--json"
            check_command(browser.command, '"decoded_value"')
            assert "key_length" in await browser.press("p")

    run(work())


def test_bytes_are_shown_next_to_lists_or_below() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            assert "00000010" not in browser.screen
            assert "00000010" in await browser.press("x")
            assert "00000010" not in await browser.press("x")
        async with open_browser(TXN, size=LARGE) as browser:
            assert "00000010" in browser.screen
            assert "00000010" not in await browser.press("x")
        for columns, is_wide in ((109, False), (110, True)):
            async with open_browser(TXN, size=(columns, 40)) as browser:
                assert ("00000010" in browser.screen) == is_wide

    run(work())


def byte_columns(browser: Driver) -> tuple[int, int]:
    """Bytes per line in the pane of bytes, and the columns that they take."""
    bytes_per_line = browser.app.log_panes._byte_lines[0].n_bytes_per_line
    return bytes_per_line, 11 + 4 * bytes_per_line


def test_bytes_fit_their_pane_whatever_its_width() -> None:
    async def work() -> None:
        async with open_browser("damaged_segments") as browser:
            await browser.press("n", "x")
            for tree_key, width, height, expected in (
                ("", 80, 24, 16),
                ("t", 80, 24, 8),
                ("", 70, 24, 4),
                ("", 120, 30, 8),
            ):
                if tree_key:
                    await browser.press(tree_key)
                await browser.pilot.resize_terminal(width, height)
                await browser.pilot.pause(0.2)
                await wait_until_idle(browser.app, browser.pilot)
                bytes_per_line, columns = byte_columns(browser)
                pane_width = browser.app.log_panes.byte_pane.size.width
                assert (bytes_per_line, columns < pane_width) == (expected, True), (
                    width,
                    pane_width,
                )

    run(work())


def test_columns_come_back_when_the_terminal_is_wide_again() -> None:
    async def work() -> None:
        async with open_browser(TXN, size=(120, 30)) as browser:
            original_screen = browser.screen
            assert "codec" in original_screen
            for width, height in ((30, 8), (120, 30)):
                await browser.pilot.resize_terminal(width, height)
                await browser.pilot.pause()
                await wait_until_idle(browser.app, browser.pilot)
            assert browser.screen == original_screen

    run(work())


def test_home_and_end_and_pages() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press("end")
            assert browser.rows[0] == 101
            await browser.press("home")
            assert browser.rows[0] == 0
            await browser.press("pagedown")
            page = browser.rows[0]
            assert 5 < page < 20
            pane = browser.app.log_panes.batch_pane
            assert pane.scroll_offset.y == page  # the cursor keeps its position on the screen
            await browser.press("pagedown", "down")
            assert (pane.scroll_offset.y, pane.cursor_row) == (2 * page, 2 * page + 1)
            await browser.press("pageup", "pageup", "up")
            assert browser.rows[0] == pane.scroll_offset.y == 0
            await browser.press("right", "left")

    run(work())


def test_the_thumb_of_a_scrollbar_is_where_the_list_is() -> None:
    """Also if the list is scrolled before its scrollbar appears."""

    async def work() -> None:
        async with open_browser(TXN) as browser:
            page = browser.app.text_pane
            await browser.press("1")
            page.show_lines([" reading …"])
            await wait_until_idle(browser.app, browser.pilot)
            page.show_lines([str(i) for i in range(100)])
            page.scroll_to(y=50, animate=False, force=True)
            await wait_until_idle(browser.app, browser.pilot)
            assert (page.scroll_offset.y, page.vertical_scrollbar.position) == (50, 50)

    run(work())


# Help, mouse, sizes.


def test_help_has_every_key() -> None:
    async def work() -> None:
        async with open_browser(TXN, size=(120, 70)) as browser:
            screen = await browser.press("question_mark")
            for key in KEY_BINDINGS:
                assert key.doc in screen
            await browser.press("q")
            assert not isinstance(browser.app.screen, PageWindow)

    run(work())


def test_every_key_is_in_the_docs() -> None:
    page = (ROOT / "docs/browse.md").read_text()
    for display_key, doc in (*MOVEMENT_KEYS, *((key.display_key, key.doc) for key in KEY_BINDINGS)):
        assert f"| `{display_key}` | {doc} |" in page


def test_every_action_is_there() -> None:
    for key in KEY_BINDINGS:
        name = key.action.partition("(")[0]
        if not name.startswith("app."):
            assert hasattr(BrowserApp, f"action_{name}"), name


def test_the_mouse_selects_and_opens() -> None:
    async def work() -> None:
        async with open_browser(TXN, size=LARGE) as browser:
            await browser.pilot.click("#batches", offset=(5, 3))
            await wait_until_idle(browser.app, browser.pilot)
            assert browser.rows[0] == 2
            await browser.pilot.click("#batches", offset=(5, 4), times=2)
            await wait_until_idle(browser.app, browser.pilot)
            assert browser.focused == "records"
            await browser.pilot.click("#tabs", offset=(25, 0))
            await wait_until_idle(browser.app, browser.pilot)
            assert browser.app.active_view is not None

    run(work())


def test_the_tree_is_shown_and_hidden() -> None:
    async def work() -> None:
        async with open_browser(BROKER) as browser:
            assert "orders-0" in browser.screen
            assert "orders-0" not in await browser.press("t")
            assert "orders-0" in await browser.press("t")

    run(work())


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (109, 33), (240, 80)])
def test_any_size_will_do(size: tuple[int, int]) -> None:
    async def work() -> None:
        async with open_browser("damaged_segments", size=size) as browser:
            await browser.press("n", "enter", "enter", "x", "x", "escape", "2", "escape", "t")
            await browser.pilot.resize_terminal(100, 30)
            await wait_until_idle(browser.app, browser.pilot)
            assert browser.screen.count("\n") == 30

    run(work())


def test_quit() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.pilot.press("q")
        assert browser.app.return_code == 0

    run(work())


# The command.


def test_without_a_terminal_the_first_screen_is_printed() -> None:
    result = kfmt("browse", BROKER, COLUMNS="100", LINES="30")
    assert result.code == 0
    assert result.out.count("\n") == 30
    assert "What is on this disk?" in result.out
    assert "\x1b" not in result.out


def test_without_textual_one_line_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['textual'] = None; from kfmt_cli.__main__ import main; main()"
    command = [sys.executable, "-c", code, "browse", TXN]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment())
    assert result.returncode == 2
    assert "pip install 'kfmt-cli[browse]'" in result.stderr
    assert result.stderr.count("\n") == 1


def test_payload_formats_are_used() -> None:
    from kfmt_cli.topics.payloads import PayloadDeclaration, PayloadDeclarations

    payloads = PayloadDeclarations(value=PayloadDeclaration("json"))
    options = ("--value-format", "json")
    session = open_session((str(ORDERS.relative_to(ROOT)),), None, payloads, options)

    async def work() -> None:
        app = BrowserApp(session)
        async with app.run_test(size=LARGE) as pilot:
            await wait_until_idle(app, pilot)
            browser = Driver(app, pilot)
            await browser.press("enter", "down", "p")
            assert browser.command[-3:] == ["--value-format", "json", "--json"]
            check_command(browser.command, "decoded_value")

    run(work())


# Pictures.


def test_a_worker_that_is_cancelled_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a poll of a growing file is by the next one, half a second later."""
    is_over = Event()

    async def work() -> None:
        async with open_browser(TXN) as browser:
            worker = browser.app.run_worker(is_over.wait, thread=True)
            wait_for_complete = WorkerManager.wait_for_complete

            async def cancel_and_wait(manager: WorkerManager, *workers: Any) -> None:
                browser.app.call_later(worker.cancel)
                await wait_for_complete(manager, *workers)

            monkeypatch.setattr(WorkerManager, "wait_for_complete", cancel_and_wait)
            try:
                await wait_until_idle(browser.app, browser.pilot)
                assert worker.is_cancelled
            finally:
                is_over.set()

    run(work())


def test_a_picture_for_a_page_has_no_path_of_this_machine() -> None:
    from tools.make_pictures import browse_picture

    svg = browse_picture(keys=("n",), size=SMALL).decode()
    assert svg.startswith("<svg")
    assert "crc-mismatch" in svg
    assert str(ROOT) not in svg


SNAPSHOTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "home": ("damaged_segments", ()),
    "log": (TXN, ("down",)),
    "fields": (TXN, ("down", "enter", "down", "enter", "down", "down")),
    "finding": ("damaged_segments", ("n",)),
    "explain": ("damaged_segments", ("n", "e")),
    "check": ("damaged_segments", ("2",)),
    "help": (TXN, ("question_mark",)),
}


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "160x50"])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_pictures(
    name: str,
    size: tuple[int, int],
    theme: str,
    snap_compare: Callable[..., bool],
) -> None:
    path, keys = SNAPSHOTS[name]
    app = BrowserApp(open_session((path,)), theme=theme)

    async def press_keys(pilot: Pilot[None]) -> None:
        await wait_until_idle(app, pilot)
        for key in keys:
            await pilot.press(key)
            await wait_until_idle(app, pilot)

    run_before: Callable[[Pilot[None]], Awaitable[None]] = press_keys
    assert snap_compare(app, run_before=run_before, terminal_size=size)
