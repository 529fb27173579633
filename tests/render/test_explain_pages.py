"""The pages about mechanisms fit a terminal, and have the numbers of the partition."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest

from kfmt_cli.commands.explain.pages import EXPLAIN_PAGES
from kfmt_cli.commands.explain.pages.system import count_cached_pages
from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

ORDERS = SAMPLES / "kafka-3.9.1-broker1/orders-0"
TXN = ORDERS.parent / "txn-0"


@pytest.mark.parametrize("name", EXPLAIN_PAGES)
def test_a_page_fits_a_terminal(name: str) -> None:
    for path in ([], [ORDERS]):
        result = kfmt("explain", name, *path, COLUMNS="80")
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(EXPLAIN_PAGES[name].title)
        assert max(len(line) for line in result.out.splitlines()) <= 80
        assert "Kafka: " in result.out


@pytest.mark.parametrize("name", EXPLAIN_PAGES)
def test_docs_have_the_page(name: str) -> None:
    page = (ROOT / "docs" / "explain" / f"{name}.md").read_text()
    assert page.startswith(f"# {EXPLAIN_PAGES[name].title}\n")


def test_the_numbers_are_those_of_the_partition() -> None:
    assert "Offset 14" in kfmt("explain", "look-up", ORDERS).out
    assert "30887 bytes" in kfmt("explain", "rolling", ORDERS).out
    markers = sum(row["attributes"]["control"] for row in kfmt("dump", TXN, "--json").of("batch"))
    page = kfmt("explain", "control-records", TXN).out.split()  # a long path is wrapped
    assert f"txn-0 has {markers} control batches" in " ".join(page)
    (row,) = kfmt("explain", "transactions", "--json").of("topic")
    assert any("91 transactions have ended" in str(item) for item in row["parts"])


@pytest.mark.parametrize(
    ("page", "suffix", "line"),
    [
        ("offset-index", "index", r"^ *\d+   +\d+$"),
        ("time-index", "timeindex", r"^ *\d{4}-\d\d-\d\d .*offset \d+$"),
    ],
)
def test_an_index_page_shows_the_first_entries_of_the_first_index(
    page: str, suffix: str, line: str, tmp_path: Path
) -> None:
    def shown(partition: Path) -> tuple[list[str], list[str]]:
        text = kfmt("explain", page, partition).out
        headings = re.findall(rf"\d+\.{suffix} of \S+ \d+ entries", " ".join(text.split()))
        return headings, re.findall(line, text, re.M)

    n_entries = len(kfmt("dump", ORDERS / f"{0:020}.{suffix}", "--json").rows)
    heading, entry_lines = shown(ORDERS)
    assert heading == [f"{0:020}.{suffix} of {ORDERS}, {n_entries} entries"]
    assert len(entry_lines) == 5
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    (tmp_path / "orders-0" / f"{0:020}.{suffix}").write_bytes(b"")
    assert shown(tmp_path / "orders-0")[0][0].startswith(f"{240:020}.{suffix} of ")
    for index in (tmp_path / "orders-0").glob(f"*.{suffix}"):
        index.unlink()
    assert shown(tmp_path / "orders-0") == ([], [])


def test_of_many_segments_a_page_shows_the_first() -> None:
    assert len(list(ORDERS.glob("*.log"))) > 5
    base_offsets = re.findall(
        r"^ *(\d{20})\.log  newest record", kfmt("explain", "retention", ORDERS).out, re.M
    )
    assert base_offsets == [f"{240 * i:020}" for i in range(5)]


def test_a_page_needs_a_log_with_a_batch(tmp_path: Path) -> None:
    for message in ("no log segments in or under this directory", "no batch in its logs"):
        for name in ("record-batch", "attributes"):
            result = kfmt("explain", name, tmp_path)
            assert (result.code, result.err) == (3, f"kfmt: {tmp_path}: {message}\n")
        (tmp_path / f"{0:020}.log").touch()
    assert kfmt("explain", "rolling", tmp_path).code == 0


def test_a_page_is_about_one_partition_which_may_be_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "packed.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(ORDERS, "broker/orders-0")
    expected = kfmt("explain", "rolling", ORDERS).out.replace(str(ORDERS), "DIR")
    for path in (archive, archive / "broker/orders-0"):
        result = kfmt("explain", "rolling", path)
        assert result.code == 0
        output = result.out.replace(str(archive / "broker/orders-0"), "DIR")
        assert output.split() == expected.split()
    result = kfmt("explain", "rolling", ORDERS.parent)
    assert result.code == 2
    assert "a topic is explained with a single partition" in result.err


def test_the_list_has_codes_and_topics() -> None:
    result = kfmt("explain")
    assert all(f" {name} " in result.out for name in ("crc-mismatch", *EXPLAIN_PAGES))
    assert kfmt("explain", "no-such-thing").code == 2
    assert "retention" in kfmt("explain", "retentoin").err
    assert kfmt("explain", "retention", "/nowhere/at-all").code == 3


def test_pages_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100_000)
    counts = count_cached_pages(str(file))
    assert counts is None or (0 <= counts[0] <= counts[1] and counts[1] >= 2)
    assert count_cached_pages(str(tmp_path / "nothing")) is None


def test_names_do_not_control_a_terminal(tmp_path: Path) -> None:
    partition = tmp_path / "a\x1b[31mb-0"
    shutil.copytree(ORDERS, partition)
    for name in ("retention", "compaction", "transactions", "zero-copy"):
        result = kfmt("explain", name, partition)
        assert (result.code, "\x1b" in result.out) == (0, False)
    assert "a\\x1b[31mb-0" in result.out
