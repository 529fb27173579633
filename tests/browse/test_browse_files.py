"""The browser on a terminal: growing, unreadable and remote files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed: pip install 'kfmt-cli[browse]'")


from rich.style import Style
from textual.widgets import Input

from kfmt_cli.browse.headless import wait_until_idle
from kfmt_cli.browse.help_page import help_lines
from kfmt_cli.browse.launch import open_session
from kfmt_cli.browse.screen.app import BrowserApp
from kfmt_cli.browse.screen.dialogs import PageWindow
from kfmt_cli.render.style import format_bytes
from tests.support.browser import LARGE, TXN, check_command, open_browser, run
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import write
from tests.support.store_server import Bucket
from tools.kafka import ROOT, SAMPLES

pytestmark = pytest.mark.usefixtures("at_root")
DAMAGED = sorted(directory.name for directory in (ROOT / "damaged_segments").iterdir())


# Filter, follow, copy, colours.


def test_filters() -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press("f")
            screen = await browser.type("codec=zstd")
            assert "batches of 102 with codec=zstd" in screen
            assert " lz4 " not in screen
            assert "jq" in browser.app.command_line()
            await browser.press("f")
            assert "no codec named" in await browser.type("codec=x")
            await browser.press("escape", "f")
            await browser.type("producer=1000")
            assert browser.command[-2:] == ["--producer-id", "1000"]
            check_command(browser.command, "1000")
            await browser.press("f")
            assert "no batches match the filter damaged" in await browser.type("damaged")
            await browser.press("f", "backspace", "enter")
            assert "102 batches" in browser.screen

    run(work())


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    file = write(tmp_path, data[:10_225])

    async def work() -> None:
        async with open_browser(file) as browser:
            assert "4 batches" in browser.screen
            assert "following" in await browser.press("F")
            file.write_bytes(data)
            for _ in range(40):
                await browser.pilot.pause(0.05)
                if browser.app.log_panes.batch_pane.n_rows == 12:
                    break
            await wait_until_idle(browser.app, browser.pilot)
            assert browser.rows[0] == 11
            assert "12 batches" in browser.app.log_panes.status_text()
            assert browser.app.session.root.total_bytes == len(data)
            assert "stopped following" in await browser.press("F")

    run(work())


def test_batches_are_listed_while_the_rest_of_the_log_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ORDERS.read_bytes()
    file = write(tmp_path, data[:10_225])
    app = BrowserApp(open_session((str(file),)))
    monkeypatch.setattr(app, "query", lambda _: True)  # as if its panes were on a terminal
    app.session.open_log(app.session.root, 80)
    opened_log = app.session.opened_log
    assert opened_log is not None
    opened_log.select_batch(0)
    for content, n_batches in ((data[:10_225], 4), (data, 12)):
        file.write_bytes(content)
        opened_log.block_index.index_appended_bytes()
        app._poll_threads()
        assert app.log_panes.batch_pane.n_rows == n_batches


def test_a_batch_that_was_half_written_is_shown_anew(tmp_path: Path) -> None:
    data = ORDERS.read_bytes()
    file = write(tmp_path, data[:10_000] + bytes(225))

    async def work() -> None:
        async with open_browser(file, size=LARGE) as browser:
            assert "✗ fa97f1bb" in browser.screen
            assert "n goes to it" in browser.screen
            await browser.press("F")
            file.write_bytes(data)
            for _ in range(40):
                await browser.pilot.pause(0.05)
                if browser.app.log_panes.batch_pane.n_rows == 12:
                    break
            await wait_until_idle(browser.app, browser.pilot)
            assert "✓ fa97f1bb" in browser.screen
            assert "✓ 48eff861" in browser.screen
            assert "n goes to it" not in browser.screen

    run(work())


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_followed_file_that_is_truncated_or_deleted_is_reported(
    tmp_path: Path, is_deleted: bool
) -> None:
    file = write(tmp_path, ORDERS.read_bytes())

    async def work() -> None:
        async with open_browser(file) as browser:
            await browser.press("F", "down")
            assert "FOLLOWING" in browser.screen
            if is_deleted:
                file.unlink()
            else:
                os.truncate(file, 10_225)
            for _ in range(40):
                await browser.pilot.pause(0.05)
                if not browser.app.tailer.is_following:
                    break
            await wait_until_idle(browser.app, browser.pilot)
            assert "FOLLOWING" not in browser.screen
            assert "stopped following" in browser.screen
            assert (
                "No such file" if is_deleted else "shrank from 30887 to 10225 bytes"
            ) in browser.app.status_bar.message

    run(work())


def test_help_fits_a_narrow_terminal() -> None:
    for line in help_lines(70):
        assert line.cell_len <= 71
    assert len(help_lines(70)) > len(help_lines(200))


def test_a_segment_that_is_rolled_is_followed(tmp_path: Path) -> None:
    """In the tree it follows the previous segment, not the other files."""
    file = write(tmp_path / "orders-0", ORDERS.read_bytes())
    (file.parent / "z").touch()

    async def work() -> None:
        async with open_browser(file.parent) as browser:
            await browser.press("enter", "F")
            browser.app.open_node(browser.app.session.root.logs()[0])
            await wait_until_idle(browser.app, browser.pilot)
            next_segment = file.with_name(f"{240:020}.log")
            next_segment.write_bytes((ORDERS.parent / next_segment.name).read_bytes())
            if not browser.app.tailer.is_following:
                await browser.press("F")
            for _ in range(60):
                await browser.pilot.pause(0.05)
                if (
                    browser.app.session.opened_node
                    and browser.app.session.opened_node.display_path == str(next_segment)
                ):
                    break
            await wait_until_idle(browser.app, browser.pilot)
            assert "240–259" in browser.screen
            nodes = [child.data for child in browser.app.disk_tree.root.children]
            assert [node.label for node in nodes if node] == ["…000000.log", "…000240.log", "z"]
            n_bytes = file.stat().st_size + next_segment.stat().st_size
            assert browser.app.session.root.total_bytes == n_bytes
            assert format_bytes(n_bytes) in str(
                browser.app.disk_tree.render_label(browser.app.disk_tree.root, Style(), Style())
            )

    run(work())


def test_the_end_of_a_check_is_seen_first() -> None:
    async def work() -> None:
        async with open_browser("damaged_segments") as browser:
            screen = await browser.press("2")
            assert "next steps" in screen
            assert "kfmt salvage damaged_segments DST" in screen
            assert "Home: all findings" in screen
            assert "crc-mismatch" in await browser.press("home")

    run(work())


def test_a_record_is_copied_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(BrowserApp, "copy_to_clipboard", lambda _, text: copied.append(text))

    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press("enter", "down", "y")
            assert "copied the record with offset 1" in browser.screen
            await browser.press("escape", "y")
            assert "copied the command line" in browser.screen

    run(work())
    rows = kfmt("dump", TXN, "--records", "--json", "--limit", "2").of("record")
    assert json.loads(copied[0]) == rows[1]
    assert copied[1].startswith("kfmt dump")


def test_the_steps_of_a_plan_are_copied_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(BrowserApp, "copy_to_clipboard", lambda _, text: copied.append(text))
    result = kfmt("check", "damaged_segments", cwd=ROOT)
    text = result.out.rpartition("next steps")[2]
    steps = [line.strip().partition("   ")[0] for line in text.splitlines() if "kfmt " in line]

    async def work() -> None:
        async with open_browser("damaged_segments") as browser:
            for view in ("2", "7"):
                copied.clear()
                await browser.press(view)
                await browser.press(*["y"] * (len(steps) + 1))
                assert f"copied step 1 of {len(steps)}: {steps[0]}" in browser.screen
                assert copied == [*steps, steps[0]]
            await browser.press("1", "y")
            assert copied[-1].startswith("kfmt stat")

    run(work())


def test_dark_and_light() -> None:
    async def work() -> None:
        async with open_browser(TXN, theme="light") as browser:
            assert browser.app.theme == "textual-light"
            await browser.press("d")
            assert browser.app.theme == "textual-dark"

    run(work())


# Unreadable files.


def test_unreadable_files_are_reported_in_sentences(tmp_path: Path) -> None:
    empty_log = write(tmp_path / "empty-0", b"")
    html_file = tmp_path / "notes-0" / ORDERS.name
    html_file.parent.mkdir()
    html_file.write_bytes(b"<html>" * 100)
    unreadable_log = write(tmp_path / "hidden-0", ORDERS.read_bytes())
    deleted_log = write(tmp_path / "gone-0", ORDERS.read_bytes())

    async def work() -> None:
        async with open_browser(empty_log) as browser:
            assert "the log is empty" in browser.screen
        async with open_browser(html_file) as browser:
            assert "not a Kafka log" in browser.screen
            await browser.press("g", "slash", "f", "n", "e", "y", "enter", "6", "escape")
        async with open_browser(deleted_log, size=LARGE) as browser:
            deleted_log.unlink()
            await browser.press("down", "end", "F", "6", "escape", "2")
            assert "Traceback" not in browser.screen
        if os.geteuid():
            unreadable_log.chmod(0)
            async with open_browser(unreadable_log) as browser:
                assert "Permission denied" in browser.screen

    run(work())


def test_a_missing_path_is_an_error() -> None:
    result = kfmt("browse", "/no/such/path")
    assert (result.code, result.err) == (3, "kfmt: /no/such/path: No such file or directory\n")


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_walked(name: str) -> None:
    async def work() -> None:
        async with open_browser(f"damaged_segments/{name}") as browser:
            await browser.press("n", "enter", "down", "enter", "p", "x", "escape", "escape", "e")
            assert isinstance(browser.app.screen, PageWindow)

    run(work())


def test_nothing_of_a_file_is_markup(tmp_path: Path) -> None:
    markup = b"[bold red]\x1b]0;owned\x07[/] [@click=app.quit]x[/]"
    write(tmp_path / "odd[red]-0", batch_of(record(markup, markup), 0, 1))

    async def work() -> None:
        async with open_browser(tmp_path, size=LARGE) as browser:
            assert "odd[red]-0" in browser.screen
            node = next(iter(browser.app.session.root.iter_partitions())).logs()[0]
            browser.app.open_node(node)
            await wait_until_idle(browser.app, browser.pilot)
            screen = await browser.press("enter", "enter")
            assert "[bold red]" in screen
            assert "\x1b" not in screen
            assert "\x1b" not in await browser.press("p")
            await browser.press("slash")
            await browser.type("bold")
            assert "offset 0" in browser.screen

    run(work())


# Stores and archives.


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_url_is_browsed(bucket: Bucket) -> None:
    from kfmt_cli.disk.path_resolution import mount_and_resolve_path

    async def work() -> None:
        async with open_browser(
            mount_and_resolve_path(f"{bucket.url}/data"), size=LARGE
        ) as browser:
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
    result = kfmt("browse", archive)
    assert result.code == 0
    assert "7 segments" in result.out
    result = kfmt("browse", SAMPLES / "kafka-3.9.1-tiered")
    assert result.code == 0, result.err


@pytest.mark.parametrize("key", ["/", "g"])
def test_a_second_enter_before_a_window_has_closed(key: str) -> None:
    async def work() -> None:
        async with open_browser(TXN) as browser:
            await browser.press(key)
            input_line = browser.app.screen.query_one(Input)
            input_line.value = "5"
            await input_line.action_submit()
            await input_line.action_submit()
            await wait_until_idle(browser.app, browser.pilot)
            assert len(browser.app.screen_stack) == 1

    run(work())
