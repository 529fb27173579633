"""check, verify-crc and index-check have the same outputs: formats, files, known findings."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kfmt_cli.commands.python.command_result import NullHost
from kfmt_cli.findings.codes import CRC_MISMATCH
from kfmt_cli.findings.finding import Finding
from kfmt_cli.render.sinks.sarif import SarifSink
from kfmt_cli.rows.file_result import FileResultType, RunSummary
from tests.support.samples import kfmt
from tools.kafka import ROOT

DAMAGED = ROOT / "damaged_segments"
COMMANDS = ("check", "verify-crc", "index-check")
FLIPPED, HEALTHY = DAMAGED / "flipped-bit-0", ROOT / "sample_segments/kafka-3.9.1-broker1/orders-0"
of_each_command = pytest.mark.parametrize("command", COMMANDS)


@of_each_command
def test_each_format_has_the_same_findings(command: str) -> None:
    result = kfmt(command, DAMAGED, "--json")
    findings = result.of("finding")
    errors = [row["code"] for row in findings if row["severity"] == "error"]
    assert errors
    sarif = kfmt(command, DAMAGED, "--format", "sarif")
    assert [item["ruleId"] for item in json.loads(sarif.out)["runs"][0]["results"]] == [
        row["code"] for row in findings
    ]
    junit = kfmt(command, DAMAGED, "--format", "junit")
    suites = ET.fromstring(junit.out)  # noqa: S314 (our own)
    failures = [case.attrib["type"] for case in suites.iter("failure")]
    assert sorted(failures) == sorted(errors)
    for suite in suites:  # a suite has the cases of its own file or directory
        for case in suite:
            if suite.attrib["name"] != "plan" and "file" in case.attrib:
                name = suite.attrib["name"].removesuffix(".index").removesuffix(".timeindex")
                assert Path(name).name.removesuffix(".log") in case.attrib["name"]
    assert {result.code, sarif.code, junit.code} == {1}


@of_each_command
def test_github_gets_errors_one_closing_line_and_a_summary(command: str, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    result = kfmt(command, DAMAGED, "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    *annotations, closing = result.out.splitlines()
    assert not closing.startswith("::")
    assert closing.startswith("kfmt: ")
    findings = kfmt(command, DAMAGED, "--json").of("finding")
    errors = [row for row in findings if row["severity"] == "error"]
    assert sum(line.startswith("::error ") for line in annotations) == len(errors)
    assert all("plan" in line for line in annotations if line.startswith("::notice "))
    text = summary.read_text()
    assert text.startswith("before\n### kfmt: ")
    assert text.count("| error | ") == len(errors)
    with_notes = kfmt(command, DAMAGED, "--format", "github", "--notes").out
    notes = sum("::notice file=" in line for line in with_notes.splitlines())
    assert notes == len(findings) - len(errors)


def test_a_summary_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    result = kfmt("check", HEALTHY, "--format", "github", GITHUB_STEP_SUMMARY=str(tmp_path))
    assert result.code == 0
    assert "GITHUB_STEP_SUMMARY" in result.err


@of_each_command
def test_quiet(command: str) -> None:
    assert kfmt(command, HEALTHY, "-q").out == ""
    assert kfmt(command, HEALTHY, "-q", "--format", "github").out == ""
    result = kfmt(command, DAMAGED, "-q")
    assert result.code == 1
    assert result.out.startswith("error ")
    assert "--notes" not in result.out
    assert "exit code" not in result.out


@of_each_command
def test_output_to_a_file(command: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    printed = kfmt(command, FLIPPED.parent, "--json")
    result = kfmt(command, FLIPPED.parent, "--json", "-o", file)
    assert (result.code, result.out) == (printed.code, "")
    assert file.read_text() == printed.out
    file.chmod(0o640)
    assert kfmt(command, HEALTHY, "-o", file, "--color", "auto").code == 0
    assert "no damage" in file.read_text() or "start" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@of_each_command
def test_a_file_appears_whole_or_not_at_all(command: str, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("before")
    assert kfmt(command, HEALTHY, "-o", file, "--baseline", tmp_path / "none").code == 2
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    shutil.copytree(HEALTHY, tmp_path / "orders-0")
    log = next((tmp_path / "orders-0").glob("*.log"))
    for output in (log, log.with_name("new.txt"), tmp_path, Path("/dev/null"), tmp_path / "a/b"):
        result = kfmt(command, tmp_path / "orders-0", "-o", output)
        assert result.code in (2, 3), output
        assert "Traceback" not in result.err
    assert not log.with_name("new.txt").exists()
    assert log.read_bytes() == (HEALTHY / log.name).read_bytes()


@of_each_command
def test_exit_zero(command: str, tmp_path: Path) -> None:
    assert kfmt(command, DAMAGED, "--exit-zero").code == 0
    assert kfmt(command, DAMAGED, "--json", "--exit-zero").rows[-1]["exit_code"] == 0
    assert kfmt(command, tmp_path / "none", "--exit-zero").code == 3
    assert kfmt(command, DAMAGED, "--exit-zero", "--no-such").code == 2


@of_each_command
@pytest.mark.parametrize("way", ["--write-baseline", "--json"])
def test_a_baseline_has_what_is_known(command: str, way: str, tmp_path: Path) -> None:
    for directory in DAMAGED.iterdir():
        if directory.is_dir() and directory != FLIPPED:
            shutil.copytree(directory, tmp_path / "logs" / directory.name)
    baseline = tmp_path / "known.jsonl"
    if way == "--json":
        baseline.write_text(kfmt(command, "logs", "--json", cwd=tmp_path).out)
    else:
        assert kfmt(command, "logs", way, baseline, cwd=tmp_path).code == 0
    result = kfmt(command, "logs", "--baseline", baseline, "--json", cwd=tmp_path)
    assert (result.code, result.of("finding"), result.err) == (0, [], "")
    assert result.rows[-1]["errors"] == 0
    text = kfmt(command, tmp_path / "logs", "--baseline", baseline, cwd=tmp_path).out
    assert "known finding" in text
    assert "no damage" not in text
    new = tmp_path / "logs" / FLIPPED.name
    shutil.copytree(FLIPPED, new)
    result = kfmt(command, "logs", "--baseline", baseline, "--json", cwd=tmp_path)
    assert result.code == 1
    assert {Path(row["file"]).parent.name for row in result.of("finding")} == {FLIPPED.name}
    # What is mended is named, also in a baseline of the same run, which then lacks it.
    mended = sorted(
        {
            Path(json.loads(line)["file"]).parent.name
            for line in baseline.read_text().splitlines()
            if '"finding"' in line
        }
    )[0]
    shutil.rmtree(tmp_path / "logs" / mended)
    options = ("--baseline", baseline, "--write-baseline", baseline)
    result = kfmt(command, "logs", *options, cwd=tmp_path)
    assert result.code == 0
    assert "not found again" in result.err
    assert mended not in baseline.read_text()
    assert FLIPPED.name in baseline.read_text()
    result = kfmt(command, "logs", "--baseline", baseline, "-q", cwd=tmp_path)
    assert (result.code, result.out, result.err) == (0, "", "")


def test_a_baseline_of_one_command_serves_the_others(tmp_path: Path) -> None:
    baseline = tmp_path / "known.jsonl"
    kfmt("check", DAMAGED, "--write-baseline", baseline)
    for command in COMMANDS:
        result = kfmt(command, DAMAGED, "--baseline", baseline)
        assert (result.code, result.err) == (0, ""), command
    result = kfmt("verify-crc", FLIPPED, "--baseline", baseline)
    assert (result.code, result.err) == (0, "")  # files outside PATH are not stale


@pytest.mark.parametrize("text", ["{", "[1]", '{"type":"finding"}', "1", '"a"', "[[" * 50_000])
def test_a_baseline_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "b").write_text(f"\n{text}\n")
    result = kfmt("check", HEALTHY, "--baseline", tmp_path / "b")
    assert result.code == 2
    assert "line 2 is not a finding" in result.err


def test_sarif_names_objects_by_their_url() -> None:
    class Streams(NullHost):
        text = ""

        def write_text(self, text: str) -> None:
            self.text += text

    streams = Streams()
    sink = SarifSink(streams)
    for name in ("s3://bucket/a b/x.log", "s3:/bucket", "abfss://c@account.net/x-0/1.log"):
        sink.write_finding(Finding(name, CRC_MISMATCH, None, "m"))
    sink.write_summary(RunSummary(FileResultType((), {})))
    sink.flush_texts()
    results = json.loads(streams.text)["runs"][0]["results"]
    locations = [result["locations"][0]["physicalLocation"] for result in results]
    assert [location["artifactLocation"] for location in locations] == [
        {"uri": "s3://bucket/a%20b/x.log"},
        {"uri": "s3://bucket"},
        {"uri": "abfss://c%40account.net/x-0/1.log"},
    ]
