"""The browser on a terminal: every key and view, on healthy, damaged, growing and remote files."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed: pip install 'kfmt-cli[browse]'")

from textual.pilot import Pilot
from textual.widgets import Input

from kfmt_cli.browse.begin import screen_text, session_of, settled
from kfmt_cli.browse.disk_nodes import NodeKind
from kfmt_cli.browse.help_page import help_lines
from kfmt_cli.browse.keys import KEYS, MOVES
from kfmt_cli.browse.screen.app import BrowserApp
from kfmt_cli.browse.screen.dialogs import PageWindow, SearchDialog
from kfmt_cli.browse.views import VIEWS
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, environment, kfmt
from tests.support.segments import write
from tests.support.store_server import Bucket
from tools.kafka import ROOT, SAMPLES

BROKER = "sample_segments/kafka-3.9.1-broker1"
TXN = f"{BROKER}/txn-0/00000000000000000000.log"
FLIPPED = "damaged_segments/flipped-bit-0/00000000000000000000.log"
SMALL, LARGE = (80, 24), (160, 50)
DAMAGED = sorted(folder.name for folder in (ROOT / "damaged_segments").iterdir())


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths on the screen are those that anybody has."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("NO_COLOR", raising=False)


class Driver:
    """Presses keys, and reads the screen."""

    def __init__(self, app: BrowserApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> str:
        """Press keys one after the other; what is on the screen then."""
        for key in keys:
            await self.pilot.press(key)
            await settled(self.app, self.pilot)
        return self.screen

    async def type(self, words: str) -> str:
        """Type a line into a dialog and take it."""
        self.app.screen.query_one(Input).value = words
        return await self.press("enter")

    @property
    def screen(self) -> str:
        return screen_text(self.app)

    @property
    def focused(self) -> str | None:
        """The pane that has the keys."""
        return None if self.app.focused is None else self.app.focused.id

    @property
    def command(self) -> list[str]:
        """The command line on the screen."""
        import shlex

        return shlex.split(self.app.command_line())

    @property
    def rows(self) -> tuple[int, int]:
        """The lines of the batches and of the records that are selected."""
        return self.app.panes.batches.cursor, self.app.panes.records.cursor


@asynccontextmanager
async def driven(
    *paths: str | Path, size: tuple[int, int] = SMALL, **options: Any
) -> AsyncIterator[Driver]:
    """The browser at some paths."""
    app = BrowserApp(session_of(tuple(map(str, paths))), **options)
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        yield Driver(app, pilot)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def shows(command: list[str], expected: str) -> None:
    """Whether a command line that was on the screen runs, and shows what the screen showed."""
    assert command[0] == "kfmt"
    done = kfmt(*command[1:])
    assert expected in done.out + done.err


# The tree.


def test_a_directory_says_what_is_in_it_and_what_is_damaged() -> None:
    async def work() -> None:
        async with driven("damaged_segments") as browser:
            screen = browser.screen
            assert "8 partitions of 8 topics, 8 segments" in screen
            assert "✗ 8 partitions of 8 with errors" in screen
            assert re.search(r"✗3 flipped-bit-0", screen)
            for view in VIEWS:
                assert view.question in screen
            assert "$ kfmt check damaged_segments" in screen
        async with driven(BROKER) as browser:
            assert "✓ checked: no errors" in browser.screen
            assert "▸ ✓ orders-0" in browser.screen

    run(work())


def test_the_tree_is_walked_with_keys() -> None:
    async def work() -> None:
        async with driven(BROKER, size=LARGE) as browser:
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
        async with driven(TXN) as browser:
            assert "6–11" in browser.screen
            assert '"acct-0-0"' in browser.screen
            assert "batch 0 at byte 0   102 batches" in browser.screen
            command = browser.command
        shows(command, "6–11")

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
            async with driven(f"{BROKER}/{name}") as browser:
                assert expected in browser.screen, name
                assert browser.command == ["kfmt", "dump", f"{BROKER}/{name}"]

    run(work())


# From batches to bytes.


def test_enter_leads_to_records_and_fields_and_escape_back() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            await browser.press("down")
            assert browser.rows == (1, 0)
            screen = await browser.press("enter")
            assert browser.command[2:4] == [TXN, "--records"]
            shows(browser.command, "acct-1-2")
            screen = await browser.press("down", "enter")
            assert "offset 7, out of lz4" in screen
            assert "key_length" in screen
            assert browser.command == ["kfmt", "hex", TXN, "--offset", "7", "--alone"]
            shows(browser.command, "→ offset 7")
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
        async with driven(FLIPPED, size=LARGE) as browser:
            screen = await browser.press("down", "down", "down")
            assert "✗ CRC-32C of bytes" in screen
            assert "checksum wrong" in screen
            assert "00001e16" in screen
            await browser.press("tab", "tab")
            assert browser.command[1] == "hex"

    run(work())


def test_payloads_are_decoded() -> None:
    async def work() -> None:
        log = f"{BROKER}/__consumer_offsets-1/00000000000000000000.log"
        async with driven(log) as browser:
            screen = await browser.press("down", "down", "down", "down", "enter", "p")
            assert '"group": "billing"' in screen
            assert browser.command[-1] == "--json"
            shows(browser.command, '"decoded_value"')
            assert "key_length" in await browser.press("p")

    run(work())


def test_bytes_are_shown_next_to_lists_or_below() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            assert "00000010" not in browser.screen
            assert "00000010" in await browser.press("x")
            assert "00000010" not in await browser.press("x")
        async with driven(TXN, size=LARGE) as browser:
            assert "00000010" in browser.screen
            assert "00000010" not in await browser.press("x")

    run(work())


def bytes_shown(browser: Driver) -> tuple[int, int]:
    """Bytes a line in the pane of bytes, and the columns that they take."""
    per_line = browser.app.panes._bytes[0].per_line
    return per_line, 11 + 4 * per_line


def test_bytes_fit_their_pane_whatever_its_width() -> None:
    async def work() -> None:
        async with driven("damaged_segments") as browser:
            await browser.press("n", "x")
            for tree, width, height, expected in (
                ("", 80, 24, 16),
                ("t", 80, 24, 8),
                ("", 70, 24, 4),
                ("", 120, 30, 8),
            ):
                if tree:
                    await browser.press(tree)
                await browser.pilot.resize_terminal(width, height)
                await browser.pilot.pause(0.2)
                await settled(browser.app, browser.pilot)
                per_line, columns = bytes_shown(browser)
                room = browser.app.panes.bytes.size.width
                assert (per_line, columns < room) == (expected, True), (width, room)

    run(work())


def test_columns_come_back_when_the_terminal_is_wide_again() -> None:
    async def work() -> None:
        async with driven(TXN, size=(120, 30)) as browser:
            before = browser.screen
            assert "codec" in before
            for width, height in ((30, 8), (120, 30)):
                await browser.pilot.resize_terminal(width, height)
                await browser.pilot.pause()
                await settled(browser.app, browser.pilot)
            assert browser.screen == before

    run(work())


def test_home_and_end_and_pages() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            await browser.press("end")
            assert browser.rows[0] == 101
            await browser.press("home")
            assert browser.rows[0] == 0
            await browser.press("pagedown")
            assert 5 < browser.rows[0] < 20
            await browser.press("pageup")
            assert browser.rows[0] == 0
            await browser.press("right", "left")

    run(work())


# Going to a place.


@pytest.mark.parametrize(
    ("words", "row"),
    [("700", 11), ("b2250", 7), ("0x8ca", 7), ("2026-11-20T15:24:10.200", 20)],
)
def test_go_to(words: str, row: int) -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            assert "Go to an offset" in await browser.press("g")
            await browser.type(words)
            at = browser.rows[0]
            assert (at == row) if words.startswith(("b", "0x")) else at > 0

    run(work())


def test_going_nowhere_says_why() -> None:
    async def work() -> None:
        async with driven(ORDERS.relative_to(ROOT)) as browser:
            await browser.press("g")
            assert "not" in await browser.type("elsewhere")
            await browser.press("escape", "g")
            await browser.type("135")
            assert browser.rows == (6, 15)
            await browser.press("g")
            assert "is not in this file" in await browser.type("99999")
        async with driven(BROKER) as browser:
            for key in ("g", "slash"):
                await browser.press(key)
                assert "choose a partition or a segment" in await browser.type("17")
                await browser.press("escape")

    run(work())


@pytest.mark.parametrize("words", ["700", "1", "2026-11-20T15:00", "now"])
def test_an_offset_leads_to_its_segment(words: str) -> None:
    bases = [int(file.stem) for file in sorted(ORDERS.parent.glob("*.log"))]

    async def work() -> None:
        async with driven(BROKER) as browser:
            await browser.press("down", "down", "down", "down", "down")
            partition = browser.app._selected
            assert partition.kind is NodeKind.PARTITION
            while "orders" not in browser.app._selected.label:
                await browser.press("down")
            await browser.press("g")
            await browser.type(words)
            node, place = browser.app.session.node, browser.app.session.place
            assert node is not None
            assert place is not None
            assert node.file is not None
            if words.isdigit():
                assert node.file.base_offset == max(base for base in bases if base <= int(words))
                assert place.first_offset is not None
                assert place.first_offset <= int(words) <= place.last_offset
            elif words == "now":
                assert node.file.base_offset == bases[-1]
                assert "the time is not in this partition" in browser.screen
            assert browser.focused == "batches"
            await browser.press("g")
            await browser.type("1")
            assert browser.app.session.node is not None
            assert browser.app.session.node.name.endswith(ORDERS.name)

    run(work())


# Search.


def test_a_partition_is_searched_segment_by_segment() -> None:
    folder = str(ORDERS.parent.relative_to(ROOT))

    async def work() -> None:
        async with driven(folder, size=LARGE) as browser:
            await browser.press("slash")
            screen = await browser.type('"order_id": 700,')
            found = re.search(r"1 of 1 record in this partition: offset (\d+)", screen)
            assert found is not None
            assert kfmt("find", folder, "--value", '~"order_id": 700,', "--json").of("found")[0][
                "offset"
            ] == int(found[1])
            assert f"kfmt find {folder} --key" in screen
            assert browser.app.session.node is not None
            assert browser.app.session.node.name != str(ORDERS)
            await browser.press("slash")
            await browser.type("customer-1$")
            assert "not found in this partition: customer-1$" in browser.screen
            assert "not found in this partition" in await browser.press("right_square_bracket")
            await browser.press("slash")
            screen = await browser.type("quartz")
            found = re.search(r"1 of (\d+) records in this partition", screen)
            assert found is not None
            expected = kfmt("find", folder, "--value", "~quartz", "--json").of("found")
            assert int(found[1]) == len(expected)
            offsets = [hit.offset for hit in browser.app.session.hits]
            assert sorted(offsets) == [row["offset"] for row in expected]
            await browser.press("left_square_bracket")
            content, at = browser.app.session.content, browser.rows[1]
            assert content is not None
            assert content.offset(at) == offsets[-1]

    run(work())


def test_the_search_dialog_is_small_and_shows_what_is_chosen() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            screen = await browser.press("slash")
            assert "(•) text   ( ) regex   ( ) hex" in screen
            assert "(•) keys and values   ( ) keys   ( ) values" in screen
            assert browser.app.screen.query_one(".window").size.height < 12
            screen = await browser.press("ctrl+t", "ctrl+o")
            assert "( ) text   (•) regex   ( ) hex" in screen
            assert "( ) keys and values   (•) keys   ( ) values" in screen
            await browser.pilot.click("#field", offset=(40, 0))
            assert "( ) keys   (•) values" in browser.screen

    run(work())


def test_search_goes_to_hits_and_names_the_command() -> None:
    async def work() -> None:
        log = str(ORDERS.relative_to(ROOT))
        async with driven(log, size=LARGE) as browser:
            assert "from the selected batch on" in await browser.press("slash")
            screen = await browser.type("quartz")
            found = re.search(r"1 of (\d+) records in this file: offset (\d+)", screen)
            assert found is not None
            expected = kfmt("find", log, "--value", "~quartz", "--json").of("found")
            assert int(found[1]) == len(expected)
            assert int(found[2]) == expected[0]["offset"]
            assert f"kfmt find {log} --key" in screen
            await browser.press("right_square_bracket")
            content, at = browser.app.session.content, browser.rows[1]
            assert content is not None
            assert content.offset(at) == expected[1]["offset"]
            await browser.press("left_square_bracket", "left_square_bracket")
            assert browser.app.session.hit_at == len(expected) - 1

    run(work())


def test_search_for_a_regular_expression_in_keys_and_for_bytes() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            await browser.press("slash", "ctrl+t", "ctrl+o")
            screen = await browser.type("acct-1-4$")
            assert "offset 8" in screen
            await browser.press("slash")
            assert isinstance(browser.app.screen, SearchDialog)
            await browser.press("escape", "slash", "ctrl+t")
            assert "two digits a byte" in await browser.type("xyz")
            await browser.press("escape")
            assert "nothing was searched for" not in await browser.press("right_square_bracket")
        async with driven(TXN) as browser:
            assert "nothing was searched" in await browser.press("right_square_bracket")
            await browser.press("slash")
            assert "not found in this file: nowhere" in await browser.type("nowhere")

    run(work())


def test_a_search_is_cancelled(tmp_path: Path) -> None:
    file = write(tmp_path, ORDERS.read_bytes() * 500)

    async def work() -> None:
        async with driven(file, checks=False) as browser:
            app = browser.app
            await browser.pilot.press("slash")
            await browser.pilot.press(*"zephyr", "enter")
            await browser.pilot.pause()
            if words := app.progress_words():
                assert "searching" in words
                screen = await browser.press("escape")
                assert app.progress_words() == ""
                assert "search cancelled" in screen

    run(work())


# Findings.


def test_findings_are_gone_through_and_explained() -> None:
    async def work() -> None:
        async with driven("damaged_segments") as browser:
            screen = await browser.press("n")
            assert "1 of 22 (e explains)  crc-mismatch byte 7 702" in screen
            assert browser.rows[0] == 3
            assert browser.command[2] == FLIPPED
            screen = await browser.press("e")
            assert isinstance(browser.app.screen, PageWindow)
            assert "kfmt explain crc-mismatch" in screen
            assert "after a crash" in screen
            await browser.press("escape", "n")
            assert "2 of 22" in browser.screen
            await browser.press("N", "N")
            assert "22 of 22" in browser.screen

    run(work())


def test_without_findings_that_is_said() -> None:
    async def work() -> None:
        async with driven(ORDERS.parent.relative_to(ROOT)) as browser:
            assert "nothing is damaged" in await browser.press("n")
        async with driven("damaged_segments/flipped-bit-0", checks=False) as browser:
            assert "c checks it first" in await browser.press("n")
            assert "not checked yet" in browser.screen
            await browser.press("c")
            assert "✗3" in browser.screen

    run(work())


# Filter, follow, copy, colours.


def test_filters() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            await browser.press("f")
            screen = await browser.type("codec=zstd")
            assert "batches of 102 with codec=zstd" in screen
            assert " lz4 " not in screen
            assert "jq" in browser.app.command_line()
            await browser.press("f")
            assert "no codec is named" in await browser.type("codec=x")
            await browser.press("escape", "f")
            await browser.type("producer=1000")
            assert browser.command[-2:] == ["--producer-id", "1000"]
            shows(browser.command, "1000")
            await browser.press("f")
            assert "no batch is listed" in await browser.type("damaged")
            await browser.press("f", "backspace", "enter")
            assert "102 batches" in browser.screen

    run(work())


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    file = write(tmp_path, data[:10_225])

    async def work() -> None:
        async with driven(file) as browser:
            assert "4 batches" in browser.screen
            assert "following" in await browser.press("F")
            file.write_bytes(data)
            for _ in range(40):
                await browser.pilot.pause(0.05)
                if browser.app.panes.batches.n_rows == 12:
                    break
            await settled(browser.app, browser.pilot)
            assert browser.rows[0] == 11
            assert "12 batches" in browser.app.panes.words()
            assert "no longer following" in await browser.press("F")

    run(work())


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_followed_file_that_is_cut_or_deleted_is_told(tmp_path: Path, is_gone: bool) -> None:
    file = write(tmp_path, ORDERS.read_bytes())

    async def work() -> None:
        async with driven(file) as browser:
            await browser.press("F", "down")
            assert "FOLLOWING" in browser.screen
            if is_gone:
                file.unlink()
            else:
                os.truncate(file, 10_225)
            for _ in range(40):
                await browser.pilot.pause(0.05)
                if not browser.app.is_following:
                    break
            await settled(browser.app, browser.pilot)
            assert "FOLLOWING" not in browser.screen
            assert "no longer following" in browser.screen
            assert ("No such file" if is_gone else "was cut to 10225 bytes") in browser.app.said

    run(work())


def test_help_fits_a_narrow_terminal() -> None:
    for line in help_lines(70):
        assert line.cell_len <= 71
    assert len(help_lines(70)) > len(help_lines(200))


def test_a_segment_that_is_rolled_is_followed(tmp_path: Path) -> None:
    file = write(tmp_path / "orders-0", ORDERS.read_bytes())

    async def work() -> None:
        async with driven(file.parent) as browser:
            await browser.press("enter", "F")
            browser.app.open_node(browser.app.session.top.logs()[0])
            await settled(browser.app, browser.pilot)
            later = file.with_name(f"{240:020}.log")
            later.write_bytes((ORDERS.parent / later.name).read_bytes())
            if not browser.app.is_following:
                await browser.press("F")
            for _ in range(60):
                await browser.pilot.pause(0.05)
                if browser.app.session.node and browser.app.session.node.name == str(later):
                    break
            await settled(browser.app, browser.pilot)
            assert "240–259" in browser.screen
            nodes = [child.data for child in browser.app.disk_tree.root.children]
            assert "…000240.log" in [node.label for node in nodes if node is not None]

    run(work())


def test_the_end_of_a_check_is_seen_first() -> None:
    async def work() -> None:
        async with driven("damaged_segments") as browser:
            screen = await browser.press("2")
            assert "what to do next" in screen
            assert "kfmt salvage damaged_segments DST" in screen
            assert "Home: every finding" in screen
            assert "crc-mismatch" in await browser.press("home")

    run(work())


def test_a_record_is_copied_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(BrowserApp, "copy_to_clipboard", lambda _, text: copied.append(text))

    async def work() -> None:
        async with driven(TXN) as browser:
            await browser.press("enter", "down", "y")
            assert "copied the record with offset 1" in browser.screen
            await browser.press("escape", "y")
            assert "copied the command line" in browser.screen

    run(work())
    rows = kfmt("dump", TXN, "--records", "--json", "--limit", "2").of("record")
    assert json.loads(copied[0]) == rows[1]
    assert copied[1].startswith("kfmt dump")


def test_dark_and_light() -> None:
    async def work() -> None:
        async with driven(TXN, theme="light") as browser:
            assert browser.app.theme == "textual-light"
            await browser.press("d")
            assert browser.app.theme == "textual-dark"

    run(work())


# Views.


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80×24", "160×50"])
def test_views_show_what_their_command_shows(view: Any, size: tuple[int, int]) -> None:
    expected = {
        "1": "txn-0",
        "2": "none damaged",
        "3": "no partition of __consumer_offsets is here",
        "4": "committed",
        "5": "1001",
        "6": "scan from byte",
        "7": "would start",
        "8": "cleanup.policy",
    }

    async def work() -> None:
        async with driven(f"{BROKER}/txn-0", size=size) as browser:
            screen = await browser.press(view.key)
            shown = "\n".join(str(line) for line in browser.app.text._fetch(0, 10_000))
            assert expected[view.key] in " ".join(shown.split())
            assert view.question in screen
            if view.key != "3":
                words = ("stat", "check", "txn", "dump", "index-check", "retention")
                assert browser.command[1] in words
            await browser.press("0")
            assert browser.app.view is None

    run(work())


def test_a_view_of_the_whole_disk_and_back() -> None:
    async def work() -> None:
        async with driven(BROKER) as browser:
            screen = await browser.press("3")
            assert "billing" in screen
            assert "1020" in screen
            shows(browser.command, "1020")
            screen = await browser.press("escape")
            assert "What is on this disk?" in screen
        async with driven(TXN) as browser:
            await browser.press("down", "down", "4")
            assert "committed" in browser.screen
            await browser.press("escape")
            assert browser.rows[0] == 2

    run(work())


def test_a_look_up_is_of_the_selected_offset() -> None:
    async def work() -> None:
        async with driven(f"{BROKER}/txn-0") as browser:
            await browser.press("n")
            node = browser.app.session.file_named(TXN)
            assert node is not None
            browser.app.open_node(node)
            await settled(browser.app, browser.pilot)
            await browser.press("g")
            await browser.type("100")
            await browser.press("6")
            assert browser.command[-2:] == ["--lookup-offset", "100"]
            shows(browser.command, "scan from byte")

    run(work())


# Help, mouse, sizes.


def test_help_has_every_key() -> None:
    async def work() -> None:
        async with driven(TXN, size=(120, 70)) as browser:
            screen = await browser.press("question_mark")
            for key in KEYS:
                assert key.doc in screen
            await browser.press("q")
            assert not isinstance(browser.app.screen, PageWindow)

    run(work())


def test_every_key_is_in_the_docs() -> None:
    page = (ROOT / "docs/browse.md").read_text()
    for shown, doc in (*MOVES, *((key.shown, key.doc) for key in KEYS)):
        assert f"| `{shown}` | {doc} |" in page


def test_every_action_is_there() -> None:
    for key in KEYS:
        name = key.action.partition("(")[0]
        if not name.startswith("app."):
            assert hasattr(BrowserApp, f"action_{name}"), name


def test_the_mouse_selects_and_opens() -> None:
    async def work() -> None:
        async with driven(TXN, size=LARGE) as browser:
            await browser.pilot.click("#batches", offset=(5, 3))
            await settled(browser.app, browser.pilot)
            assert browser.rows[0] == 2
            await browser.pilot.click("#batches", offset=(5, 4), times=2)
            await settled(browser.app, browser.pilot)
            assert browser.focused == "records"
            await browser.pilot.click("#tabs", offset=(25, 0))
            await settled(browser.app, browser.pilot)
            assert browser.app.view is not None

    run(work())


def test_the_tree_is_shown_and_hidden() -> None:
    async def work() -> None:
        async with driven(BROKER) as browser:
            assert "orders-0" in browser.screen
            assert "orders-0" not in await browser.press("t")
            assert "orders-0" in await browser.press("t")

    run(work())


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (109, 33), (240, 80)])
def test_any_size_will_do(size: tuple[int, int]) -> None:
    async def work() -> None:
        async with driven("damaged_segments", size=size) as browser:
            await browser.press("n", "enter", "enter", "x", "x", "escape", "2", "escape", "t")
            await browser.pilot.resize_terminal(100, 30)
            await settled(browser.app, browser.pilot)
            assert browser.screen.count("\n") == 30

    run(work())


def test_quit() -> None:
    async def work() -> None:
        async with driven(TXN) as browser:
            await browser.pilot.press("q")
        assert browser.app.return_code == 0

    run(work())


# What cannot be read.


def test_odd_files_are_sentences(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty-0", b"")
    foreign = tmp_path / "notes-0" / ORDERS.name
    foreign.parent.mkdir()
    foreign.write_bytes(b"<html>" * 100)
    hidden = write(tmp_path / "hidden-0", ORDERS.read_bytes())
    gone = write(tmp_path / "gone-0", ORDERS.read_bytes())

    async def work() -> None:
        async with driven(empty) as browser:
            assert "the log is empty" in browser.screen
        async with driven(foreign) as browser:
            assert "not a Kafka log" in browser.screen
            await browser.press("g", "slash", "f", "n", "e", "y", "enter", "6", "escape")
        async with driven(gone, size=LARGE) as browser:
            gone.unlink()
            await browser.press("down", "end", "F", "6", "escape", "2")
            assert "Traceback" not in browser.screen
        if os.geteuid():
            hidden.chmod(0)
            async with driven(hidden) as browser:
                assert "Permission denied" in browser.screen

    run(work())


def test_what_is_not_there_is_an_error() -> None:
    done = kfmt("browse", "/no/such/path")
    assert (done.code, done.err) == (3, "kfmt: /no/such/path: No such file or directory\n")


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_walked(name: str) -> None:
    async def work() -> None:
        async with driven(f"damaged_segments/{name}") as browser:
            await browser.press("n", "enter", "down", "enter", "p", "x", "escape", "escape", "e")
            assert isinstance(browser.app.screen, PageWindow)

    run(work())


def test_nothing_of_a_file_is_markup(tmp_path: Path) -> None:
    nasty = b"[bold red]\x1b]0;owned\x07[/] [@click=app.quit]x[/]"
    write(tmp_path / "odd[red]-0", batch_of(record(nasty, nasty), 0, 1))

    async def work() -> None:
        async with driven(tmp_path, size=LARGE) as browser:
            assert "odd[red]-0" in browser.screen
            node = next(iter(browser.app.session.top.partitions())).logs()[0]
            browser.app.open_node(node)
            await settled(browser.app, browser.pilot)
            screen = await browser.press("enter", "enter")
            assert "[bold red]" in screen
            assert "\x1b" not in screen
            assert "\x1b" not in await browser.press("p")
            await browser.press("slash")
            await browser.type("bold")
            assert "offset 0" in browser.screen

    run(work())


# Other places.


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_url_is_browsed(bucket: Bucket) -> None:
    from kfmt_cli.disk.made import made_of

    async def work() -> None:
        async with driven(made_of(f"{bucket.url}/data"), size=LARGE) as browser:
            assert "orders-0" in browser.screen
            await browser.press("down", "enter", "down", "enter")
            assert '{"order_id": 1' in browser.screen
            assert browser.command[2] == bucket.file(f"data/orders-0/{0:020}.log")

    run(work())


def test_an_archive_and_tiered_storage_are_browsed(tmp_path: Path) -> None:
    import tarfile

    archive = tmp_path / "disk.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(ORDERS.parent, "orders-0")
    done = kfmt("browse", archive)
    assert done.code == 0
    assert "7 segments" in done.out
    done = kfmt("browse", SAMPLES / "kafka-3.9.1-tiered")
    assert done.code == 0, done.err


# The command.


def test_without_a_terminal_the_first_screen_is_printed() -> None:
    done = kfmt("browse", BROKER, COLUMNS="100", LINES="30")
    assert done.code == 0
    assert done.out.count("\n") == 30
    assert "What is on this disk?" in done.out
    assert "\x1b" not in done.out


def test_without_textual_one_line_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['textual'] = None; from kfmt_cli.__main__ import main; main()"
    command = [sys.executable, "-c", code, "browse", TXN]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment())
    assert done.returncode == 2
    assert "pip install 'kfmt-cli[browse]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_payload_formats_are_used() -> None:
    from kfmt_cli.topics.payloads import Payload, Payloads

    payloads = Payloads(value=Payload("json"))
    options = ("--value-format", "json")
    session = session_of((str(ORDERS.relative_to(ROOT)),), None, payloads, options)

    async def work() -> None:
        app = BrowserApp(session)
        async with app.run_test(size=LARGE) as pilot:
            await settled(app, pilot)
            browser = Driver(app, pilot)
            await browser.press("enter", "down", "p")
            assert browser.command[-3:] == ["--value-format", "json", "--json"]
            shows(browser.command, "decoded_value")

    run(work())


# Pictures.


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
    app = BrowserApp(session_of((path,)), theme=theme)

    async def before(pilot: Pilot[None]) -> None:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)

    waits: Callable[[Pilot[None]], Awaitable[None]] = before
    assert snap_compare(app, run_before=waits, terminal_size=size)
