"""The screen of `browse` reports damage and hidden rows correctly."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

pytest.importorskip("textual", reason="Textual is not installed: pip install 'kfmt-cli[browse]'")

from kfmt_cli.browse.headless import wait_until_idle
from tests.support.browser import TXN, Driver, open_browser, run
from tests.support.samples import ORDERS, kfmt
from tests.support.segments import with_broken_checksums, write
from tools.kafka import ROOT, SAMPLES

pytestmark = pytest.mark.usefixtures("at_root")


async def wait_for_checks(browser: Driver) -> str:
    """The screen once everything is checked."""
    await wait_until_idle(browser.app, browser.pilot)
    return browser.screen


def test_files_of_a_log_directory_are_checked(tmp_path: Path) -> None:
    log_directory = tmp_path / "disk"
    shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", log_directory)
    (log_directory / "recovery-point-offset-checkpoint").write_text("garbage\n")

    async def work() -> None:
        async with open_browser(log_directory, size=(100, 40)) as browser:
            screen = await wait_for_checks(browser)
            assert "no errors" not in screen
            assert "✗ 1 input of " in screen
            assert "recovery-point-offset-c" in screen
            assert "checkpoint-malformed" in await browser.press("n")

    run(work())


def test_only_visible_lines_are_redrawn_while_partitions_are_checked(tmp_path: Path) -> None:
    for i in range(100):
        write(tmp_path / f"disk/t-{i}", b"")

    async def work() -> None:
        async with open_browser(tmp_path / "disk", checks_on_start=False) as browser:
            tree = browser.app.disk_tree
            nodes = list(browser.app.session.root.iter_partitions())
            await browser.press("down", "enter")
            with patch.object(tree, "render_label", wraps=tree.render_label) as render_label:
                browser.app.session.checks.paths_in_progress.update(node.path for node in nodes)
                browser.app.show_new_marks()
                await wait_for_checks(browser)
                assert render_label.call_count <= tree.size.height
            assert browser.screen.count("… t-") > 15

    run(work())


def test_an_empty_partition_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "disk/empty-0").mkdir(parents=True)
    shutil.copytree(ORDERS.parent, tmp_path / "disk/orders-0")
    assert kfmt("check", tmp_path / "disk").code == 0

    async def work() -> None:
        async with open_browser(tmp_path / "disk", size=(100, 40)) as browser:
            screen = await wait_for_checks(browser)
            assert "✓ checked: no errors" in screen

    run(work())


def test_an_unreadable_partition_is_shown_as_unread(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "disk/orders-0")
    (tmp_path / "disk/lost-0").mkdir()
    (tmp_path / "disk/lost-0" / ORDERS.name).symlink_to("nowhere")

    async def work() -> None:
        async with open_browser(tmp_path / "disk", size=(100, 40)) as browser:
            assert "✗ 1 partition of 2 unread" in await wait_for_checks(browser)

    run(work())


def test_findings_that_are_counted_only(tmp_path: Path) -> None:
    data = with_broken_checksums(ORDERS.read_bytes())
    write(tmp_path / "disk/t-0", data * 12)

    async def work() -> None:
        async with open_browser(tmp_path / "disk", size=(160, 40)) as browser:
            await wait_for_checks(browser)
            errors = kfmt("check", tmp_path / "disk", "--json").of("summary")[0]["errors"]
            assert errors > 100
            screen = await browser.press("n")
            assert f"✗{errors}" in screen
            assert "more not shown" in screen

    run(work())


def test_what_a_filter_hides_is_not_called_absent() -> None:
    async def work() -> None:
        async with open_browser(TXN, size=(140, 30)) as browser:
            await browser.press("f")
            await browser.type("codec=lz4")
            await browser.press("slash")
            message = await browser.type("acct-0-0")
            assert "not found in this file, in batches that match codec=lz4" in message
            for offset, batch in ((0, "the next"), (356, "its last")):
                await browser.press("f")
                await browser.type("producer=0" if offset else "codec=lz4")
                await browser.press("g")
                message = await browser.type(str(offset))
                assert f"offset {offset} is not in a batch that matches" in message
                assert f"showing {batch} batch" in message
        async with open_browser(ROOT / "damaged_segments/flipped-bit-0", size=(140, 30)) as browser:
            await wait_for_checks(browser)
            await browser.press("n")
            await browser.press("f")
            await browser.type("-damaged")
            assert "crc-mismatch is in a batch that the filter hides" in await browser.press("n")

    run(work())
