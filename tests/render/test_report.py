"""report: its numbers are those of the commands, and it appears whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import markupsafe
import pytest

from kfmt_cli.commands.report import report_data
from kfmt_cli.commands.stat import command as stat_command
from kfmt_cli.execution import item_processor
from kfmt_cli.render.style import format_bytes
from tests.rows.test_contract import TYPES, fits
from tests.support.samples import ORDERS, Row, environment, kfmt
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("altair", reason="the extra report is not installed")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
DIRECTORIES = [
    *sorted(path for path in SAMPLES.iterdir() if path.is_dir()),
    ROOT / "damaged_segments",
]
NOW = "2026-11-25T12:00"


def made(*arguments: str | Path, at: Path, code: int | None = None) -> tuple[str, list[Row]]:
    """A page, and its data."""
    page, data = at / "page.html", at / "page.json"
    done = kfmt("report", *arguments, "--to", page, "--data", data, "--now", NOW)
    assert page.exists(), done.err
    if code is not None:
        assert done.code == code
    rows: list[Row] = json.loads(data.read_text())
    return page.read_text(), rows


def of(rows: list[Row], type_: str) -> list[Row]:
    return [row for row in rows if row["type"] == type_]


def same(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def without(rows: list[Row], *names: str) -> list[Row]:
    return [{name: row[name] for name in row if name not in names} for row in rows]


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_its_numbers_are_those_of_the_commands(directory: Path, tmp_path: Path) -> None:
    _, rows = made(directory, at=tmp_path)
    assert rows[0]["type"] == "report"
    for row in rows:
        reasons = [fits(row, type_) for type_ in TYPES if type_.name == row["type"]]
        assert "" in reasons, (row, reasons)
    check = kfmt("check", directory, "--json")
    for type_ in ("partition", "broker_start", "log_directory", "next"):
        assert same(of(rows, type_)) == same(check.of(type_)), type_
    assert same(of(rows, "finding")) == same(check.of("finding"))
    stat = kfmt("stat", directory, "--plot", "--json")
    assert same([row for row in of(rows, "stat") if not is_of_topic(row)]) == same(stat.of("stat"))
    by_topic = kfmt("stat", directory, "--by", "topic", "--json").of("stat")
    topics = [row for row in by_topic if is_of_topic(row)]
    assert same([row for row in of(rows, "stat") if is_of_topic(row)]) == same(topics)
    for type_ in ("time_bucket", "codec_use", "time_order"):
        assert same(of(rows, type_)) == same(stat.of(type_)), type_
    txn = kfmt("txn", directory, "--json")
    assert same(of(rows, "transaction")) == same(txn.of("transaction"))
    counted = [row for row in txn.of("transactions") if any(row[name] for name in OUTCOMES)]
    assert same(of(rows, "transactions")) == same(counted)
    retention = kfmt("retention", directory, "--now", NOW, "--json")
    for type_ in ("retention", "roll", "freed"):
        assert same(of(rows, type_)) == same(retention.of(type_)), type_
    offsets = [path for path in directory.rglob("__consumer_offsets-*") if path.is_dir()]
    state = kfmt("state", *offsets, "--json").rows if offsets else []
    for type_ in ("group", "committed_offset"):
        told = [row for row in state if row["type"] == type_]
        assert same(without(of(rows, type_), "file")) == same(without(told, "file"))


@pytest.mark.parametrize("now", ["2023-11-16T00:00", "2026-11-22T00:00", "2033-05-18T00:00"])
def test_what_retention_frees_is_said_once(now: str, tmp_path: Path) -> None:
    """By the same clock and the same settings, in rows, totals and words."""
    config, page, data = (tmp_path / name for name in ("server.properties", "p.html", "p.json"))
    config.write_text("log.retention.hours=48\n")
    options = ("--now", now, "--config", config)
    kfmt("report", BROKER, "--to", page, "--data", data, *options)
    rows = json.loads(data.read_text())
    (freed,) = kfmt("retention", BROKER, *options, "--json").of("freed")
    (usage,) = (row for row in of(rows, "disk_usage") if row["purpose"] == "logs")
    assert usage["freed_now"] == freed["bytes_now"]
    assert usage["freed_later"] == freed["bytes_later"]
    words = f"The next retention check frees {format_bytes(freed['bytes_now'])}."
    assert (words in page.read_text()) == bool(freed["bytes_later"])  # else there is no chart


OUTCOMES = ("committed", "aborted", "open")


def is_of_topic(row: Row) -> bool:
    return row["topic"] is not None and row["partition"] is None


def test_the_strips_cover_the_logs(tmp_path: Path) -> None:
    _, rows = made(BROKER, at=tmp_path)
    strips = of(rows, "segment_strip")
    logs = [path for path in BROKER.glob("*/*.log") if path.stem.isdigit()]
    assert len(strips) == len(logs)
    for strip in strips:
        path = ROOT / strip["file"] if not Path(strip["file"]).is_absolute() else strip["file"]
        assert strip["bytes"] == Path(path).stat().st_size
        cells = strip["cells"]
        assert sum(cell[1] for cell in cells) == strip["bytes"]
        assert sum(cell[2] for cell in cells) == strip["batches"]
        assert sum(cell[3] for cell in cells) == strip["records"]
        assert cells == sorted(cells)
        if strip["index_entries"]:
            entries = kfmt("dump", Path(path).with_suffix(".index"), "--json").rows
            assert strip["index_entries"] == len(entries)


def test_it_reads_healthy_logs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking a log also counts it; `stat` reads those with findings, as it judges them itself."""
    logs = tmp_path / "logs"
    shutil.copytree(BROKER / "orders-0", logs / "orders-0")
    shutil.copytree(BROKER / "orders-0", logs / "large-0")
    first, *others = sorted((logs / "large-0").glob("*.log"))
    first.write_bytes(b"".join(path.read_bytes() for path in (first, *others)))  # alone
    for path in others:
        path.unlink()
    damaged = sorted((logs / "orders-0").glob("*.log"))[2]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    read: list[str] = []

    def outcomes(work: Any, sized: Any, *more: Any) -> Any:
        read.extend(Path(task[0].path).name for task, _ in sized)
        return item_processor.process_items(work, sized, *more)

    monkeypatch.setattr(stat_command, "process_items", outcomes)
    _, rows = made(logs, at=tmp_path)
    assert read == [damaged.name]
    assert len(of(rows, "segment_strip")) == 8


def test_codecs_are_tried_on_a_sample_of_all_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        folder = tmp_path / "logs" / f"t-{number}"
        folder.mkdir(parents=True)
        shutil.copy(BROKER / f"orders-0/{0:020}.log", folder)
    whole, least = 16 << 20, 64 << 10
    tried = {}
    for total in (whole, 4 * least):
        monkeypatch.setattr(report_data, "CODEC_SAMPLE_BYTES", total)
        _, rows = made(tmp_path / "logs", "--force", at=tmp_path)
        (tried[total],) = {row["sample_bytes"] for row in of(rows, "what_if")}
    assert tried[whole] == 10 * tried[4 * least]  # of every tenth partition


class Words(HTMLParser):
    """What a reader without JavaScript sees, and what a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.addresses: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")
        named = dict(attrs)
        self.addresses += [str(named[name]) for name in ("src", "href", "action") if name in named]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def read(page: str) -> tuple[str, list[str]]:
    parser = Words()
    parser.feed(page)
    return re.sub(r"\s+", " ", " ".join(parser.text)), parser.addresses


def test_the_page_is_read_without_javascript_and_asks_for_nothing(tmp_path: Path) -> None:
    page, rows = made(BROKER, at=tmp_path, code=0)
    words, addresses = read(page)
    assert all(address.startswith("#") for address in addresses)
    assert "default-src 'none'" in page
    for question in ("What is on this disk?", "What is damaged?", "What is lost?"):
        assert question in words
    assert "What should I do?" in words
    assert "billing on orders-0: 1 020 records" in words
    for row in of(rows, "stat"):
        assert str(row["topic"]) in words
    anchors = {address[1:] for address in addresses}
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))
    assert len(page.encode()) < 3_000_000


def test_damage_is_told_with_what_to_do(tmp_path: Path) -> None:
    page, rows = made(ROOT / "damaged_segments", at=tmp_path, code=1)
    words, _ = read(page)
    for row in of(rows, "finding"):
        assert row["code"] in words
    for row in of(rows, "next"):
        assert row["command"].split()[1] in words
    lost = 740
    assert f"{lost} offsets will be lost" in words


def test_a_path_with_spaces_stays_whole_in_the_next_steps(tmp_path: Path) -> None:
    folder = tmp_path / "sp/x   y"
    shutil.copytree(ROOT / "damaged_segments/flipped-bit-0", folder / "flipped-bit-0")
    page, rows = made(folder, at=tmp_path, code=1)
    (step,) = of(rows, "next")
    assert f"<code>{markupsafe.escape(step['command'])}</code>" in page
    assert f"next steps|  {step['command']}   {step['price']}" in "|".join(rows[0]["answers"])


def test_what_files_say_is_never_code(tmp_path: Path) -> None:
    name = "<script>alert(1)<x>-0"
    folder = tmp_path / name
    folder.mkdir()
    log = folder / "00000000000000000000.log"
    log.write_bytes((BROKER / "orders-0" / log.name).read_bytes())
    page, _ = made(folder, at=tmp_path)
    assert "<script>alert" not in page
    assert "alert(1)" in read(page)[0]


# Outputs.


def test_a_page_is_not_replaced_without_force(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert kfmt("report", BROKER / "orders-0", "--to", page).code == 0
    before = page.read_bytes()
    done = kfmt("report", BROKER / "txn-0", "--to", page)
    assert done.code == 2
    assert "use --force to replace it" in done.err
    assert page.read_bytes() == before
    assert kfmt("report", BROKER / "txn-0", "--to", page, "--force").code == 0
    assert "txn-0" in page.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_is_no_page_is_never_replaced(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(BROKER / "orders-0", disk / "orders-0")
    log = disk / "orders-0/00000000000000000240.log"
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    other = tmp_path / "mine.txt"
    other.write_text("mine")
    for to, words in (
        (log, "which kfmt never writes to"),
        (disk / "page.html", "which kfmt never writes to"),
        (other, "is not a kfmt report"),
    ):
        done = kfmt("report", disk, "--to", to, "--force")
        assert (done.code, words in done.err) == (2, True)
        other_disk = kfmt("report", BROKER / "txn-0", "--to", log, "--force")
        assert (other_disk.code, "is not a kfmt report" in other_disk.err) == (2, True)
        data = ("--data", to, "--force")
        assert kfmt("report", disk, "--to", tmp_path / "new.html", *data).code == 2
    both = tmp_path / "both"
    assert kfmt("report", BROKER / "txn-0", "--to", both, "--data", both).code == 2
    assert {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "mine.txt"]


def test_a_finding_is_counted_once(tmp_path: Path) -> None:
    """Transactions are gone through, too, and meet the same damage."""
    disk = tmp_path / "disk"
    shutil.copytree(BROKER / "txn-0", disk / "txn-0")
    os.truncate(disk / "txn-0/00000000000000000357.log", 25_000)
    _, rows = made(disk, at=tmp_path, code=1)
    found = kfmt("check", disk, "--json").of("finding")
    assert found
    assert same(of(rows, "finding")) == same(found)


@pytest.mark.parametrize("path", ["nowhere", "README.md"])
def test_nothing_that_can_be_read_makes_no_page(path: str, tmp_path: Path) -> None:
    done = kfmt("report", path, "--to", tmp_path / "page.html", "--data", tmp_path / "page.json")
    assert done.code == 3
    assert done.err.startswith(f"kfmt: {path}: ")
    assert len(done.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_wrong_usage_is_said_in_a_line(tmp_path: Path) -> None:
    for arguments in (
        ("--to", tmp_path / "page.html"),
        (BROKER, "--from", tmp_path, "--to", tmp_path / "page.html"),
        (BROKER, "--to", tmp_path),
    ):
        done = kfmt("report", *arguments)
        assert done.code == 2
        assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_said_on_the_page(tmp_path: Path) -> None:
    done = kfmt("report", BROKER / "orders-0", "nowhere", "--to", tmp_path / "page.html")
    assert done.code == 3
    words, _ = read((tmp_path / "page.html").read_text())
    assert "nowhere: No such file or directory" in words


# Of what jobs on Spark wrote.


def job(folder: Path, name: str, tables: dict[str, list[dict[str, Any]]]) -> Path:
    """What a job leaves, with tables of JSON Lines."""
    (folder / "_kfmt").mkdir(parents=True)
    written = []
    for table, rows in tables.items():
        file = folder / table / "part-0.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        written.append(str(file))
    summary = {"job": name, "inputs": ["/disks"], "written": written, "unread": []}
    (folder / "_kfmt/summary.json").write_text(json.dumps(summary))
    about = {"job": name, "options": {"format": "json"}}
    (folder / "_kfmt/job.json").write_text(json.dumps(about))
    return folder


def test_a_directory_without_a_job_is_told(tmp_path: Path) -> None:
    done = kfmt("report", "--from", tmp_path / "new", "--to", tmp_path / "page.html")
    assert done.code == 3
    assert "no completed kfmt pipeline job found" in done.err


def test_a_job_without_tables_of_a_page_is_told(tmp_path: Path) -> None:
    folder = job(tmp_path / "out", "export", {"records": [{"offset": 1}]})
    done = kfmt("report", "--from", folder, "--to", tmp_path / "page.html")
    assert done.code == 2
    assert "use verify, segments or stats" in done.err


def test_it_needs_little_memory(tmp_path: Path) -> None:
    """V8 ends its process under this limit."""
    command = [sys.executable, "-m", "kfmt_cli", "report", ORDERS.parent, "--to", "page.html"]
    limited = ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "bash", *map(str, command)]
    done = subprocess.run(
        limited, capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False
    )
    page = (tmp_path / "page.html").read_text()
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert "vl_convert was ended by signal" in done.stderr
    assert "the page has no charts, only their data as tables" in done.stderr
    assert 'class="chart"' not in page
    assert "<details open><summary>Data for this chart" in page
    (tmp_path / "page.html").unlink()
    whole = made(ORDERS.parent, at=tmp_path)[0]
    assert 'class="chart"' in whole
    assert "<details open>" not in whole


def test_what_draws_the_charts_is_not_taken_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "vl_convert.py").write_text("raise SystemExit(7)")
    done = kfmt("report", ORDERS.parent, "--to", "page.html", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")


def test_a_healthy_directory_needs_no_remark(tmp_path: Path) -> None:
    done = kfmt("report", SAMPLES / "kafka-3.9.1-broker1", "--to", tmp_path / "page.html")
    assert "does not apply" not in done.out + done.err


def test_a_page_of_several_brokers_says_which_to_start_first(tmp_path: Path) -> None:
    cluster = Path(__file__).parent.parent / "kept" / "clusters" / "c05-leader-damaged.tar.xz"
    page = tmp_path / "page.html"
    assert kfmt("report", cluster, "--to", page).code == 1
    said = page.read_text()
    assert "Which broker to start first" in said
    assert "EVERY ORDER LOSES OFFSETS" in said
    assert "30, 70 offsets lost" in said
    alone = tmp_path / "alone.html"
    kfmt("report", SAMPLES / "kafka-3.9.1-broker1", "--to", alone)
    assert "Which broker to start first" not in alone.read_text()
