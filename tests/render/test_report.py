"""report: its numbers are those of the commands, and it is written completely or not at all."""

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
from tests.rows.test_contract import TYPES, mismatch_reason
from tests.support.samples import ORDERS, Row, environment, kfmt
from tools.kafka import ROOT, SAMPLES

pytest.importorskip("altair", reason="the extra report is not installed")

BROKER = SAMPLES / "kafka-3.9.1-broker1"
DIRECTORIES = [
    *sorted(path for path in SAMPLES.iterdir() if path.is_dir()),
    ROOT / "damaged_segments",
]
NOW = "2026-11-25T12:00"


def write_report(
    *arguments: str | Path, output_directory: Path, code: int | None = None
) -> tuple[str, list[Row]]:
    """Write a page and its data."""
    page, data = output_directory / "page.html", output_directory / "page.json"
    result = kfmt("report", *arguments, "--to", page, "--data", data, "--now", NOW)
    assert page.exists(), result.err
    if code is not None:
        assert result.code == code
    rows: list[Row] = json.loads(data.read_text())
    return page.read_text(), rows


def of(rows: list[Row], type_: str) -> list[Row]:
    return [row for row in rows if row["type"] == type_]


def sorted_json(rows: list[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def excluding(rows: list[Row], *names: str) -> list[Row]:
    return [{name: row[name] for name in row if name not in names} for row in rows]


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_its_numbers_are_those_of_the_commands(directory: Path, tmp_path: Path) -> None:
    _, rows = write_report(directory, output_directory=tmp_path)
    assert rows[0]["type"] == "report"
    for row in rows:
        reasons = [mismatch_reason(row, type_) for type_ in TYPES if type_.name == row["type"]]
        assert "" in reasons, (row, reasons)
    check = kfmt("check", directory, "--json")
    for type_ in ("partition", "broker_start", "log_directory", "next"):
        assert sorted_json(of(rows, type_)) == sorted_json(check.of(type_)), type_
    assert sorted_json(of(rows, "finding")) == sorted_json(check.of("finding"))
    stat = kfmt("stat", directory, "--plot", "--json")
    assert sorted_json([row for row in of(rows, "stat") if not is_topic_total(row)]) == sorted_json(
        stat.of("stat")
    )
    by_topic = kfmt("stat", directory, "--by", "topic", "--json").of("stat")
    topics = [row for row in by_topic if is_topic_total(row)]
    assert sorted_json([row for row in of(rows, "stat") if is_topic_total(row)]) == sorted_json(
        topics
    )
    for type_ in ("time_bucket", "codec_use", "time_order"):
        assert sorted_json(of(rows, type_)) == sorted_json(stat.of(type_)), type_
    txn = kfmt("txn", directory, "--json")
    assert sorted_json(of(rows, "transaction")) == sorted_json(txn.of("transaction"))
    ended_counts = [row for row in txn.of("transactions") if any(row[name] for name in OUTCOMES)]
    assert sorted_json(of(rows, "transactions")) == sorted_json(ended_counts)
    retention = kfmt("retention", directory, "--now", NOW, "--json")
    for type_ in ("retention", "roll", "freed"):
        assert sorted_json(of(rows, type_)) == sorted_json(retention.of(type_)), type_
    offsets = [path for path in directory.rglob("__consumer_offsets-*") if path.is_dir()]
    state = kfmt("state", *offsets, "--json").rows if offsets else []
    for type_ in ("group", "committed_offset"):
        state_rows = [row for row in state if row["type"] == type_]
        assert sorted_json(excluding(of(rows, type_), "file")) == sorted_json(
            excluding(state_rows, "file")
        )


@pytest.mark.parametrize("now", ["2023-11-16T00:00", "2026-11-22T00:00", "2033-05-18T00:00"])
def test_freed_bytes_are_the_same_everywhere(now: str, tmp_path: Path) -> None:
    """Rows, totals and text use the same clock and the same settings."""
    config, page, data = (tmp_path / name for name in ("server.properties", "p.html", "p.json"))
    config.write_text("log.retention.hours=48\n")
    options = ("--now", now, "--config", config)
    kfmt("report", BROKER, "--to", page, "--data", data, *options)
    rows = json.loads(data.read_text())
    (freed,) = kfmt("retention", BROKER, *options, "--json").of("freed")
    (usage,) = (row for row in of(rows, "disk_usage") if row["purpose"] == "logs")
    assert usage["freed_now"] == freed["bytes_now"]
    assert usage["freed_later"] == freed["bytes_later"]
    message = f"The next retention check frees {format_bytes(freed['bytes_now'])}."
    assert (message in page.read_text()) == bool(freed["bytes_later"])  # else there is no chart


OUTCOMES = ("committed", "aborted", "open")


def is_topic_total(row: Row) -> bool:
    return row["topic"] is not None and row["partition"] is None


def test_the_strips_cover_the_logs(tmp_path: Path) -> None:
    _, rows = write_report(BROKER, output_directory=tmp_path)
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
    """Checking a log also counts it; `stat` reads only logs with findings again."""
    logs = tmp_path / "logs"
    shutil.copytree(BROKER / "orders-0", logs / "orders-0")
    shutil.copytree(BROKER / "orders-0", logs / "large-0")
    first, *remaining = sorted((logs / "large-0").glob("*.log"))
    # Checked separately.
    first.write_bytes(b"".join(path.read_bytes() for path in (first, *remaining)))
    for path in remaining:
        path.unlink()
    damaged = sorted((logs / "orders-0").glob("*.log"))[2]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    read_names: list[str] = []

    def process_items(process: Any, sized_items: Any, *arguments: Any) -> Any:
        read_names.extend(Path(task[0].path).name for task, _ in sized_items)
        return item_processor.process_items(process, sized_items, *arguments)

    monkeypatch.setattr(stat_command, "process_items", process_items)
    _, rows = write_report(logs, output_directory=tmp_path)
    assert read_names == [damaged.name]
    assert len(of(rows, "segment_strip")) == 8


def test_codecs_are_tried_on_a_sample_of_all_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(40):
        partition = tmp_path / "logs" / f"t-{i}"
        partition.mkdir(parents=True)
        shutil.copy(BROKER / f"orders-0/{0:020}.log", partition)
    full_bytes, min_bytes = 16 << 20, 64 << 10
    sampled = {}
    for sample_bytes in (full_bytes, 4 * min_bytes):
        monkeypatch.setattr(report_data, "CODEC_SAMPLE_BYTES", sample_bytes)
        _, rows = write_report(tmp_path / "logs", "--force", output_directory=tmp_path)
        (sampled[sample_bytes],) = {row["sample_bytes"] for row in of(rows, "what_if")}
    assert sampled[full_bytes] == 10 * sampled[4 * min_bytes]  # of every tenth partition


class PageParser(HTMLParser):
    """The text that is visible without JavaScript, and the addresses of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.addresses: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")
        attributes = dict(attrs)
        self.addresses += [
            str(attributes[name]) for name in ("src", "href", "action") if name in attributes
        ]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def read_page(text: str) -> tuple[str, list[str]]:
    parser = PageParser()
    parser.feed(text)
    return re.sub(r"\s+", " ", " ".join(parser.text)), parser.addresses


def test_the_page_is_read_without_javascript_and_asks_for_nothing(tmp_path: Path) -> None:
    page, rows = write_report(BROKER, output_directory=tmp_path, code=0)
    text, addresses = read_page(page)
    assert all(address.startswith("#") for address in addresses)
    assert "default-src 'none'" in page
    for question in ("What is on this disk?", "What is damaged?", "What is lost?"):
        assert question in text
    assert "What should I do?" in text
    assert "billing on orders-0: 1 020 records" in text
    for row in of(rows, "stat"):
        assert str(row["topic"]) in text
    anchors = {address[1:] for address in addresses}
    assert anchors <= set(re.findall(r'id="([^"]+)"', page))
    assert len(page.encode()) < 3_000_000


def test_damage_is_reported_with_next_steps(tmp_path: Path) -> None:
    page, rows = write_report(ROOT / "damaged_segments", output_directory=tmp_path, code=1)
    text, _ = read_page(page)
    for row in of(rows, "finding"):
        assert row["code"] in text
    for row in of(rows, "next"):
        assert row["command"].split()[1] in text
    n_lost = 740
    assert f"{n_lost} offsets will be lost" in text


def test_a_path_with_spaces_stays_whole_in_the_next_steps(tmp_path: Path) -> None:
    directory = tmp_path / "sp/x   y"
    shutil.copytree(ROOT / "damaged_segments/flipped-bit-0", directory / "flipped-bit-0")
    page, rows = write_report(directory, output_directory=tmp_path, code=1)
    (step,) = of(rows, "next")
    assert f"<code>{markupsafe.escape(step['command'])}</code>" in page
    assert f"next steps|  {step['command']}   {step['price']}" in "|".join(rows[0]["answers"])


def test_contents_of_files_are_never_code(tmp_path: Path) -> None:
    name = "<script>alert(1)<x>-0"
    directory = tmp_path / name
    directory.mkdir()
    log = directory / "00000000000000000000.log"
    log.write_bytes((BROKER / "orders-0" / log.name).read_bytes())
    page, _ = write_report(directory, output_directory=tmp_path)
    assert "<script>alert" not in page
    assert "alert(1)" in read_page(page)[0]


# Outputs.


def test_a_page_is_not_replaced_without_force(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert kfmt("report", BROKER / "orders-0", "--to", page).code == 0
    original = page.read_bytes()
    result = kfmt("report", BROKER / "txn-0", "--to", page)
    assert result.code == 2
    assert "use --force to replace it" in result.err
    assert page.read_bytes() == original
    assert kfmt("report", BROKER / "txn-0", "--to", page, "--force").code == 0
    assert "txn-0" in page.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_file_that_is_no_report_is_never_replaced(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(BROKER / "orders-0", disk / "orders-0")
    log = disk / "orders-0/00000000000000000240.log"
    original = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    unrelated_file = tmp_path / "mine.txt"
    unrelated_file.write_text("mine")
    for to_path, message in (
        (log, "which kfmt never writes to"),
        (disk / "page.html", "which kfmt never writes to"),
        (unrelated_file, "is not a kfmt report"),
    ):
        result = kfmt("report", disk, "--to", to_path, "--force")
        assert (result.code, message in result.err) == (2, True)
        other_result = kfmt("report", BROKER / "txn-0", "--to", log, "--force")
        assert (other_result.code, "is not a kfmt report" in other_result.err) == (2, True)
        data = ("--data", to_path, "--force")
        assert kfmt("report", disk, "--to", tmp_path / "new.html", *data).code == 2
    shared_path = tmp_path / "both"
    assert kfmt("report", BROKER / "txn-0", "--to", shared_path, "--data", shared_path).code == 2
    assert {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()} == original
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "mine.txt"]


def test_a_finding_is_counted_once(tmp_path: Path) -> None:
    """The replay of transactions reads the same damage."""
    disk = tmp_path / "disk"
    shutil.copytree(BROKER / "txn-0", disk / "txn-0")
    os.truncate(disk / "txn-0/00000000000000000357.log", 25_000)
    _, rows = write_report(disk, output_directory=tmp_path, code=1)
    findings = kfmt("check", disk, "--json").of("finding")
    assert findings
    assert sorted_json(of(rows, "finding")) == sorted_json(findings)


@pytest.mark.parametrize("path", ["nowhere", "README.md"])
def test_nothing_that_can_be_read_makes_no_page(path: str, tmp_path: Path) -> None:
    result = kfmt("report", path, "--to", tmp_path / "page.html", "--data", tmp_path / "page.json")
    assert result.code == 3
    assert result.err.startswith(f"kfmt: {path}: ")
    assert len(result.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_wrong_usage_is_exit_2(tmp_path: Path) -> None:
    for arguments in (
        ("--to", tmp_path / "page.html"),
        (BROKER, "--from", tmp_path, "--to", tmp_path / "page.html"),
        (BROKER, "--to", tmp_path),
    ):
        result = kfmt("report", *arguments)
        assert result.code == 2
        assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_said_on_the_page(tmp_path: Path) -> None:
    result = kfmt("report", BROKER / "orders-0", "nowhere", "--to", tmp_path / "page.html")
    assert result.code == 3
    text, _ = read_page((tmp_path / "page.html").read_text())
    assert "nowhere: No such file or directory" in text


# Reports on the output of Spark jobs.


def job(directory: Path, name: str, tables: dict[str, list[dict[str, Any]]]) -> Path:
    """Write a job's output, with tables of JSON Lines."""
    (directory / "_kfmt").mkdir(parents=True)
    output_files = []
    for table, rows in tables.items():
        file = directory / table / "part-0.jsonl"
        file.parent.mkdir()
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        output_files.append(str(file))
    summary = {"job": name, "inputs": ["/disks"], "written": output_files, "unread": []}
    (directory / "_kfmt/summary.json").write_text(json.dumps(summary))
    job_options = {"job": name, "options": {"format": "json"}}
    (directory / "_kfmt/job.json").write_text(json.dumps(job_options))
    return directory


def test_a_directory_without_a_job_is_reported(tmp_path: Path) -> None:
    result = kfmt("report", "--from", tmp_path / "new", "--to", tmp_path / "page.html")
    assert result.code == 3
    assert "no completed kfmt pipeline job found" in result.err


def test_a_job_without_tables_of_a_page_is_reported(tmp_path: Path) -> None:
    directory = job(tmp_path / "out", "export", {"records": [{"offset": 1}]})
    result = kfmt("report", "--from", directory, "--to", tmp_path / "page.html")
    assert result.code == 2
    assert "use verify, segments or stats" in result.err


def test_it_needs_little_memory(tmp_path: Path) -> None:
    """V8 cannot run under this limit."""
    command = [sys.executable, "-m", "kfmt_cli", "report", ORDERS.parent, "--to", "page.html"]
    limited_command = ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "bash", *map(str, command)]
    result = subprocess.run(
        limited_command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        check=False,
    )
    page = (tmp_path / "page.html").read_text()
    assert (result.returncode, result.stderr.count("\n")) == (0, 1), result.stderr
    assert "vl_convert was killed by signal" in result.stderr
    assert "the page has no charts, only their data as tables" in result.stderr
    assert 'class="chart"' not in page
    assert "<details open><summary>Data for this chart" in page
    (tmp_path / "page.html").unlink()
    full_page = write_report(ORDERS.parent, output_directory=tmp_path)[0]
    assert 'class="chart"' in full_page
    assert "<details open>" not in full_page


def test_what_draws_the_charts_is_not_taken_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "vl_convert.py").write_text("raise SystemExit(7)")
    result = kfmt("report", ORDERS.parent, "--to", "page.html", cwd=tmp_path)
    assert (result.code, result.err) == (0, "")


def test_a_healthy_directory_needs_no_remark(tmp_path: Path) -> None:
    result = kfmt("report", SAMPLES / "kafka-3.9.1-broker1", "--to", tmp_path / "page.html")
    assert "does not apply" not in result.out + result.err


def test_a_page_of_several_brokers_says_which_to_start_first(tmp_path: Path) -> None:
    cluster = Path(__file__).parent.parent / "kept" / "clusters" / "c05-leader-damaged.tar.xz"
    page = tmp_path / "page.html"
    assert kfmt("report", cluster, "--to", page).code == 1
    text = page.read_text()
    assert "Which broker to start first" in text
    assert "EVERY ORDER LOSES OFFSETS" in text
    assert "30, 70 offsets lost" in text
    one_broker = tmp_path / "alone.html"
    kfmt("report", SAMPLES / "kafka-3.9.1-broker1", "--to", one_broker)
    assert "Which broker to start first" not in one_broker.read_text()
