"""`kfmt explain`: every finding code has a page."""

from __future__ import annotations

import re
from pathlib import Path

from kfmt_cli.findings.codes import CODES_BY_SUBJECT
from tests.support.samples import kfmt
from tools.kafka import ROOT


def test_all_codes_are_listed_once() -> None:
    rows = kfmt("explain", "--json").of("code")
    names = [row["code"] for row in rows]
    assert names == [code.name for _, codes in CODES_BY_SUBJECT.items() for code in codes]
    assert len(set(names)) == len(names)
    page = Path(ROOT / "docs/findings.md").read_text()
    assert re.findall(r"^### `(.+)`$", page, re.MULTILINE) == names
    output = kfmt("explain").out
    assert all(f" {name} " in output for name in names)


def test_every_code_of_a_finding_has_a_page() -> None:
    names = {row["code"] for row in kfmt("explain", "--json").of("code")}
    finding_codes = kfmt("verify-crc", "--deep", "damaged_segments", "--json").codes
    finding_codes += kfmt("index-check", "damaged_segments", "--json").codes
    assert finding_codes
    assert set(finding_codes) <= names


def test_a_page_says_what_findings_say() -> None:
    (finding,) = kfmt("verify-crc", "damaged_segments/flipped-bit-0", "--json").of("finding")
    (row,) = kfmt("explain", "crc-mismatch", "--json").of("code")
    for name in ("code", "severity", "after_crash", "after_clean_shutdown", "advice"):
        assert row[name] == finding[name]
    text = " ".join(kfmt("explain", "crc-mismatch", COLUMNS="60").out.split())
    for name in ("meaning", "after_crash", "after_clean_shutdown", "advice"):
        assert row[name] in text


def test_an_unknown_code_suggests_similar_codes() -> None:
    result = kfmt("explain", "crc-missmatch")
    assert result.code == 2
    assert "crc-mismatch" in result.err
