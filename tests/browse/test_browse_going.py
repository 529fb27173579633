"""The browser on a terminal: go to, searches, findings, views."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed: pip install 'kfmt-cli[browse]'")


from kfmt_cli.browse.disk_nodes import NodeKind
from kfmt_cli.browse.headless import wait_until_idle
from kfmt_cli.browse.log_search import PartitionSearch
from kfmt_cli.browse.screen.dialogs import PageWindow, SearchDialog
from kfmt_cli.browse.views import VIEWS
from tests.support.browser import (
    BROKER,
    FLIPPED,
    LARGE,
    SMALL,
    TXN,
    check_command,
    open_browser,
    run,
)
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import write
from tools.kafka import ROOT

pytestmark = pytest.mark.usefixtures("at_root")


# Go to an offset, a time or a byte.


@pytest.mark.parametrize(
    ("text", "row"),
    [("700", 11), ("b2250", 7), ("0x8ca", 7), ("2026-11-20T15:24:10.200", 20)],
)
def test_go_to(text: str, row: int) -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            assert "Go to an offset" in await browser.press("g")
            await browser.type(text)
            batch_row = browser.rows[0]
            assert (batch_row == row) if text.startswith(("b", "0x")) else batch_row > 0

    run(work())


def test_going_nowhere_says_why() -> None:
    async def work() -> None:
        async with open_browser(ORDERS.relative_to(ROOT)) as browser:
            await browser.press("g")
            assert "not" in await browser.type("elsewhere")
            await browser.press("escape", "g")
            await browser.type("135")
            assert browser.rows == (6, 15)
            await browser.press("g")
            assert "is not in this file" in await browser.type("99999")
        async with open_browser(BROKER) as browser:
            for key in ("g", "slash"):
                await browser.press(key)
                assert "select a partition or segment" in await browser.type("17")
                await browser.press("escape")

    run(work())


@pytest.mark.parametrize("text", ["700", "1", "2026-11-20T15:00", "now"])
def test_an_offset_leads_to_its_segment(text: str) -> None:
    base_offsets = [int(file.stem) for file in sorted(ORDERS.parent.glob("*.log"))]

    async def work() -> None:
        async with open_browser(BROKER) as browser:
            await browser.press("down", "down", "down", "down", "down")
            partition = browser.app.highlighted_node
            assert partition.kind is NodeKind.PARTITION
            while "orders" not in browser.app.highlighted_node.label:
                await browser.press("down")
            await browser.press("g")
            await browser.type(text)
            node, batch = browser.opened_log.node, browser.opened_log.batch_fields
            assert batch is not None
            assert node.file is not None
            if text.isdigit():
                assert node.file.base_offset == max(
                    base_offset for base_offset in base_offsets if base_offset <= int(text)
                )
                assert batch.base_offset <= int(text) <= batch.last_offset
            elif text == "now":
                assert node.file.base_offset == base_offsets[-1]
                assert "the time is not in this partition" in browser.screen
            assert browser.focused == "batches"
            await browser.press("g")
            await browser.type("1")
            assert browser.app.session.opened_node is not None
            assert browser.app.session.opened_node.display_path.endswith(ORDERS.name)

    run(work())


# Search.


def test_a_partition_is_searched_segment_by_segment() -> None:
    directory = str(ORDERS.parent.relative_to(ROOT))

    async def work() -> None:
        async with open_browser(directory, size=LARGE) as browser:
            await browser.press("slash")
            screen = await browser.type('"order_id": 700,')
            match = re.search(r"1 of 1 record in this partition: offset (\d+)", screen)
            assert match is not None
            assert kfmt("find", directory, "--value", '~"order_id": 700,', "--json").of("found")[0][
                "offset"
            ] == int(match[1])
            assert f"kfmt find {directory} --key" in screen
            assert browser.app.session.opened_node is not None
            assert browser.app.session.opened_node.display_path != str(ORDERS)
            await browser.press("slash")
            await browser.type("customer-1$")
            assert "not found in this partition: customer-1$" in browser.screen
            assert "not found in this partition" in await browser.press("right_square_bracket")
            await browser.press("slash")
            screen = await browser.type("quartz")
            match = re.search(r"1 of (\d+) records in this partition", screen)
            assert match is not None
            expected = kfmt("find", directory, "--value", "~quartz", "--json").of("found")
            assert int(match[1]) == len(expected)
            offsets = [hit.offset for hit in browser.search_state.hits]
            assert sorted(offsets) == [row["offset"] for row in expected]
            await browser.press("left_square_bracket")
            content, record_index = browser.opened_log.selected_batch, browser.rows[1]
            assert content is not None
            assert content.record_offset(record_index) == offsets[-1]

    run(work())


def test_the_search_dialog_is_small_and_shows_what_is_chosen() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
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
        async with open_browser(log, size=LARGE) as browser:
            assert "from the selected batch" in await browser.press("slash")
            screen = await browser.type("quartz")
            match = re.search(r"1 of (\d+) records in this file: offset (\d+)", screen)
            assert match is not None
            expected = kfmt("find", log, "--value", "~quartz", "--json").of("found")
            assert int(match[1]) == len(expected)
            assert int(match[2]) == expected[0]["offset"]
            assert f"kfmt find {log} --key" in screen
            await browser.press("right_square_bracket")
            content, record_index = browser.opened_log.selected_batch, browser.rows[1]
            assert content is not None
            assert content.record_offset(record_index) == expected[1]["offset"]
            await browser.press("left_square_bracket", "left_square_bracket")
            assert browser.search_state.hit_index == len(expected) - 1

    run(work())


def test_a_search_for_any_expression_ends(tmp_path: Path) -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed: pip install 'kfmt-cli[regex]'")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"type": "record", "key": "k-7", "value": "a" * 40 + "!"}))
    assert kfmt("build", rows, tmp_path / "odd-0").code == 0

    async def work() -> None:
        async with open_browser(str(tmp_path / "odd-0"), size=LARGE) as browser:
            await browser.press("slash", "ctrl+t")
            assert "not found in this" in await browser.type("(a+)+$")
            await browser.press("slash")
            assert "is not a regular expression" in await browser.type(r"(a+)\1")
            await browser.press("escape", "slash")
            assert "1 of 1 record" in await browser.type("^k-[0-9]$")

    run(work())


def test_a_hit_in_another_file_is_named_on_arrival() -> None:
    async def work() -> None:
        async with open_browser(ORDERS.parent.relative_to(ROOT), size=LARGE) as browser:
            session = browser.app.session
            await browser.press("slash")
            await browser.type("quartz")
            hits = browser.search_state.hits
            n_hits = len(hits)
            assert hits[0].file_name != hits[-1].file_name
            for key, hit_index in (
                ("left", n_hits - 1),
                ("left", n_hits - 2),
                ("right", n_hits - 1),
                ("right", 0),
            ):
                screen = await browser.press(f"{key}_square_bracket")
                message = f"{hit_index + 1} of {n_hits} records in this partition: offset "
                assert f"{message}{hits[hit_index].offset} " in screen
                assert session.opened_node is not None
                assert session.opened_node.display_path == hits[hit_index].file_name

    run(work())


def test_search_for_a_regular_expression_in_keys_and_for_bytes() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press("slash", "ctrl+t", "ctrl+o")
            screen = await browser.type("acct-1-4$")
            assert "offset 8" in screen
            await browser.press("slash")
            assert isinstance(browser.app.screen, SearchDialog)
            await browser.press("escape", "slash", "ctrl+t")
            assert "two digits per byte" in await browser.type("xyz")
            await browser.press("escape")
            assert "no search yet" not in await browser.press("right_square_bracket")
        async with open_browser(TXN) as browser:
            assert "no search yet" in await browser.press("right_square_bracket")
            await browser.press("slash")
            assert "not found in this file: nowhere" in await browser.type("nowhere")

    run(work())


def test_a_search_is_cancelled(tmp_path: Path) -> None:
    file = write(tmp_path, ORDERS.read_bytes() * 500)

    async def work() -> None:
        async with open_browser(file, checks_on_start=False) as browser:
            app = browser.app
            await browser.pilot.press("slash")
            await browser.pilot.press(*"zephyr", "enter")
            await browser.pilot.pause()
            if progress := app.search.progress_text:
                assert "searching" in progress
                [worker] = [each for each in app.workers if each.group == "search"]
                screen = await browser.press("escape")
                assert worker.is_cancelled
                assert app.search.progress_text == ""
                assert "search cancelled" in screen

    run(work())


def test_a_hit_of_a_search_that_a_filter_has_ended_is_dropped() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press("slash")
            await browser.type("acct-0-0")
            app, search = browser.app, browser.search_state
            n_hits = len(search.hits)
            app.search.running_search = PartitionSearch(
                [], browser.opened_log.block_index, search.term
            )
            await browser.press("f")
            await browser.type("codec=lz4")
            app.search._add_hit(search, search.hits[-1])
            assert (len(search.hits), app.session.search) == (n_hits, None)
            assert app.navigator.pending_target is None
            app.search._show_result("")
            assert app.search.running_search is None

    run(work())


# Findings.


def test_findings_are_gone_through_and_explained() -> None:
    async def work() -> None:
        async with open_browser("damaged_segments") as browser:
            screen = await browser.press("n")
            assert "1 of 8 (e explains)  crc-mismatch byte 7 702" in screen
            assert browser.rows[0] == 3
            assert browser.command[2] == FLIPPED
            screen = await browser.press("e")
            assert isinstance(browser.app.screen, PageWindow)
            assert "kfmt explain crc-mismatch" in screen
            assert "after a crash" in screen
            await browser.press("escape", "n")
            assert "2 of 8" in browser.screen
            await browser.press("N", "N")
            assert "8 of 8" in browser.screen

    run(work())


def test_without_findings_the_screen_says_so() -> None:
    async def work() -> None:
        async with open_browser(ORDERS.parent.relative_to(ROOT)) as browser:
            assert "no damage in what was checked" in await browser.press("n")
        async with open_browser("damaged_segments/flipped-bit-0", checks_on_start=False) as browser:
            assert "press c to check it first" in await browser.press("n")
            assert "not checked yet" in browser.screen
            await browser.press("c")
            assert "✗1" in browser.screen

    run(work())


def test_a_small_damaged_log_is_marked_without_a_key() -> None:
    async def work() -> None:
        async with open_browser(FLIPPED) as browser:
            assert "batch 0 at byte 0   12 batches   ✗1: n goes to it" in browser.screen
            assert "1 of 1 (e explains)  crc-mismatch byte 7 702" in await browser.press("n")
            assert browser.rows[0] == 3
        async with open_browser(ORDERS.parent.relative_to(ROOT), FLIPPED) as browser:
            assert "└ ✗1 damaged_segments/flipped" in browser.screen
            assert "✗ 1 input of 2 with errors" in browser.screen
        async with open_browser(TXN) as browser:
            assert "102 batches\n" in browser.screen

    run(work())


# Views.


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.label)
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80×24", "160×50"])
def test_views_show_what_their_command_shows(view: Any, size: tuple[int, int]) -> None:
    expected = {
        "1": "txn-0",
        "2": "no damage",
        "3": "no __consumer_offsets partition here",
        "4": "committed",
        "5": "1001",
        "6": "scan from byte",
        "7": "would start",
        "8": "cleanup.policy",
        "9": "no metadata log",
    }

    async def work() -> None:
        async with open_browser(f"{BROKER}/txn-0", size=size) as browser:
            screen = await browser.press(view.key)
            text = "\n".join(str(line) for line in browser.app.text_pane._fetch_lines(0, 10_000))
            assert expected[view.key] in " ".join(text.split())
            assert f"txn-0: {view.question}" in screen
            if view.key != "3":
                command_names = (
                    "stat",
                    "check",
                    "txn",
                    "dump",
                    "index-check",
                    "retention",
                    "replicas",
                )
                assert browser.command[1] in command_names
            await browser.press("0")
            assert browser.app.active_view is None

    run(work())


def test_a_view_of_the_whole_disk_and_back() -> None:
    async def work() -> None:
        async with open_browser(BROKER) as browser:
            screen = await browser.press("3")
            assert "kafka-3.9.1-broker1: Which groups are lagging?" in screen
            assert "billing" in screen
            assert "1020" in screen
            check_command(browser.command, "1020")
            screen = await browser.press("escape")
            assert "What is on this disk?" in screen
        async with open_browser(TXN) as browser:
            await browser.press("down", "down", "4")
            assert "committed" in browser.screen
            await browser.press("escape")
            assert browser.rows[0] == 2

    run(work())


def test_a_look_up_is_of_the_selected_offset() -> None:
    async def work() -> None:
        async with open_browser(f"{BROKER}/txn-0") as browser:
            await browser.press("n")
            node = browser.app.session.find_file_node(TXN)
            assert node is not None
            browser.app.open_node(node)
            await wait_until_idle(browser.app, browser.pilot)
            await browser.press("g")
            await browser.type("100")
            await browser.press("6")
            assert browser.command[-2:] == ["--lookup-offset", "100"]
            check_command(browser.command, "scan from byte")

    run(work())
