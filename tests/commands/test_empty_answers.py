"""A selection that finds nothing says what there is; an export says what it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt

PARTITION = ORDERS.parent


@pytest.mark.parametrize("command", [("cat",), ("dump", "--records"), ("find",)])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("--from-offset", "99999"),
            "no record from offset 99999 on; these logs have offsets 0–1499",
        ),
        (
            ("--from-time", "2099-11-27"),
            "0 of 1 500 records are from 2099-11-27 00:00:00 on; the newest is of 20",
        ),
        (("--to-time", "1999-01-01"), "0 of 1 500 records are up to 1999-01-01 00:00:00; the old"),
        (("--key", "customer-*"), "no key is 'customer-*'; for a pattern: --key '~^customer-'"),
        (("--key", "nobody"), "none of 1 500 records, offsets 0–1499, is selected"),
    ],
)
def test_an_empty_answer_says_what_there_is(
    command: tuple[str, ...], options: tuple[str, ...], text: str
) -> None:
    if command[0] == "dump" and options[0] == "--to-time":
        return  # the batches are shown
    done = kfmt(*command, PARTITION, *options)
    assert f"kfmt: {text}" in done.err
    assert done.code == (1 if command == ("find",) else 0)


def test_an_offset_that_is_not_there() -> None:
    done = kfmt("find", PARTITION, "--offset", "99999")
    assert "no record from offset 99999 on; these logs have offsets 0–1499" in done.err


def test_an_answer_has_no_such_text() -> None:
    assert "kfmt:" not in kfmt("cat", PARTITION, "--from-offset", "1499").err
    assert "kfmt:" not in kfmt("dump", PARTITION, "--from-offset", "1499").err


def test_export_says_what_it_wrote(tmp_path: Path) -> None:
    done = kfmt("export", PARTITION, "--to", tmp_path / "lake")
    assert f"wrote {tmp_path}/lake/records: 1 file, 1 500 records, " in done.err
    assert f"from '{tmp_path}/lake/records/**/*.parquet'" in done.err
    nothing = kfmt("export", PARTITION, "--to", tmp_path / "none", "--from-time", "2099-11-27")
    assert "wrote" not in nothing.err
    assert "0 of 1 500 records are from 2099-11-27 00:00:00 on" in nothing.err
