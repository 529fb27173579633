"""A log that cannot be read is not one that is not there."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.samples import ORDERS, kfmt


def test_a_link_to_nothing_is_an_input_that_was_not_read(tmp_path: Path) -> None:
    shutil.copytree(ORDERS.parent, tmp_path / "orders-0")
    log = tmp_path / f"orders-0/{480:020}.log"
    log.unlink()
    log.symlink_to("nowhere")
    for command in ("check", "verify-crc", "stat", "dump"):
        done = kfmt(command, tmp_path)
        assert done.code == 3, command
        assert f"{log}: No such file or directory" in done.err
        assert "was deleted while" not in done.err
    assert "1 input not read: no broker start predicted" in kfmt("check", tmp_path).out
