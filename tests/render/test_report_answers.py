"""The answers on the page of `report` if it omits rows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kfmt_cli.commands.report.page import page_data
from kfmt_cli.commands.report.page.page_data import PageData, row_label
from kfmt_cli.disk import directory_listing
from kfmt_cli.disk.directory_listing import DirectoryListing
from tests.support.samples import kfmt
from tools.kafka import ROOT, SAMPLES

FLIPPED = ROOT / "damaged_segments/flipped-bit-0"
ORDERS = SAMPLES / "kafka-3.9.1-broker1/orders-0"


def page_answers(tmp_path: Path, *arguments: str | Path) -> tuple[str, int]:
    """The text of the page's answers, and the exit code."""
    page_path = tmp_path / "page.html"
    result = kfmt("report", *arguments, "--to", page_path, "--force")
    cards = page_path.read_text().partition('<div class="cards">')[2].partition("</section>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", cards)), result.code


def broker_start_row(file: str, lost_offsets: list[list[int]]) -> dict[str, object]:
    """A row of `broker_start`."""
    row = {"type": "broker_start", "file": file, "starts": True, "becomes": None}
    return row | {"lost_offsets": lost_offsets, "unreachable_offsets": []}


def test_losses_are_kept_even_if_they_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data, "MAX_ROWS_BY_TYPE", {"broker_start": 3, "finding": 4})
    monkeypatch.setattr(page_data, "MAX_TOP_RANKED_FINDINGS", 1)
    data = PageData()
    for i in range(9):
        data.add_object(broker_start_row(f"a-{i}", [[0, 1]] if i in (5, 8) else []))
    assert [row.file for row in data.rows_of_type("broker_start")] == ["a-0", "a-5", "a-8"]
    assert data.n_omitted_by_type == {"broker_start": 6}
    omits_harm = [data.has_omitted_harmful_start]
    for i in range(9, 12):
        data.add_object(broker_start_row(f"a-{i}", [[0, 1]]))
    assert [*omits_harm, data.has_omitted_harmful_start] == [False, True]

    finding = {"type": "finding", "file": "t-0/x.log", "topic": "t"}
    for code, severity in [("note", "note")] * 3 + [("many", "error")] * 5 + [("rare", "error")]:
        data.add_object({**finding, "code": code, "severity": severity})
    assert [row.code for row in data.rows_of_type("finding")] == ["note", "many", "many", "rare"]
    assert data.finding_counts == {
        ("t", "note", "note"): 3,
        ("t", "many", "error"): 5,
        ("t", "rare", "error"): 1,
    }


def test_a_label_without_a_topic_is_a_directory() -> None:
    log = f"some/plain/{0:020}.log"
    for row in ({"file": "some/plain"}, {"file": log}, {"file": log, "topic": None}):
        assert row_label(page_data.PageRow(row)) == "some/plain"


def test_each_log_directory_counts_by_how_its_broker_stopped(tmp_path: Path) -> None:
    for name, partition in (("a", "orders-0"), ("b", "orders-1")):
        log_directory = tmp_path / "disks" / name
        shutil.copytree(FLIPPED, log_directory / partition)
        (log_directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        (log_directory / "meta.properties").write_text(f"version=0\nbroker.id={len(name)}\n")
    (tmp_path / "disks/a/.kafka_cleanshutdown").touch()
    text, _ = page_answers(tmp_path, tmp_path / "disks")
    checked = kfmt("check", tmp_path / "disks", "--json")
    kinds = {row["file"]: row["next_start"] for row in checked.of("log_directory")}
    assert len(set(kinds.values())) == 2
    n_lost = sum(
        last - first + 1
        for row in checked.of("broker_start")
        for first, last in row["lost_offsets"] + row["unreachable_offsets"]
        if row["after"] == kinds[row["log_dir"]]
    )
    n_shown = sum(map(int, re.findall(r"(\d+) offsets will be", text)))
    assert n_shown == n_lost > 0


def test_unread_files_are_not_called_undamaged(tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "in/orders-0")
    (tmp_path / "in/orders-0" / f"{9999:020}.log").symlink_to("nowhere")
    text, code = page_answers(tmp_path, tmp_path / "in")
    assert code == 3
    assert "What is damaged? Nothing in what could be read" in text
    assert "Make the unread inputs readable" in text
    assert "No action needed" not in text


def test_notes_are_no_errors_and_hidden_findings_count(tmp_path: Path) -> None:
    """The card, the table of topics and `check` agree."""
    directory = tmp_path / "in"
    for name in ("a-0", "d-0"):
        shutil.copytree(FLIPPED, directory / name)
    for name in ("b-0", "c-0"):
        (directory / name).mkdir()
        shutil.copy(ORDERS / f"{0:020}.log", directory / name)
    checked = kfmt("check", directory, "--json").of("summary")[0]
    text, _ = page_answers(tmp_path, directory)
    assert checked["errors"] == 2
    assert f"What is damaged? {checked['errors']} errors" in text


def test_replicas_of_offsets_are_one_group(tmp_path: Path) -> None:
    for broker_id in (1, 2):
        log_directory = tmp_path / "disks" / str(broker_id)
        shutil.copytree(SAMPLES / "kafka-3.9.1-broker1", log_directory)
        meta = (log_directory / "meta.properties").read_text()
        meta = re.sub(r"node\.id=.*", f"node.id={broker_id}", meta)
        (log_directory / "meta.properties").write_text(re.sub(r"directory\.id=.*", "", meta))
    one_broker, _ = page_answers(tmp_path, tmp_path / "disks/1")
    two_brokers, _ = page_answers(tmp_path, tmp_path / "disks")
    lagging = r"Which groups are lagging\? (.*?) More"
    assert re.findall(lagging, two_brokers) == re.findall(lagging, one_broker) != []


def test_a_name_that_is_not_text_has_one_spelling(tmp_path: Path) -> None:
    directory = Path(str(tmp_path / "in" / "bad") + "\udcff-0")
    shutil.copytree(FLIPPED, directory)
    rows = [json.loads(line) for line in kfmt("stat", tmp_path / "in", "--json").out.splitlines()]
    assert {row.get("topic") for row in rows if row["type"] == "stat"} == {"bad\\xff"}
    assert kfmt("cat", directory, "--limit", "1", "-f", "%t").out == "bad\\xff"


def test_the_disk_is_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page uses one listing; only disk usage reads the sizes."""
    walked_roots: list[str] = []

    def walk(root: str, skip: Callable[[str], None]) -> list[DirectoryListing]:
        walked_roots.append(root)
        return directory_listing.walk_directories(root, skip)

    monkeypatch.setattr("kfmt_cli.disk.path_resolution.walk_directories", walk)
    broker = SAMPLES / "kafka-3.9.1-broker1"
    page_answers(tmp_path, broker)
    assert walked_roots == [str(broker)]


def test_verdict_and_plan_are_across_the_page(tmp_path: Path) -> None:
    kfmt("report", FLIPPED, "--to", tmp_path / "page.html")
    wide = re.findall(
        r'<div class="card \w+" data-wide>\s*<h3>(.*?)</h3>', (tmp_path / "page.html").read_text()
    )
    assert wide == ["What is lost?", "What should I do?"]
