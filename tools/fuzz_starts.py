"""Partitions with combined damage: kfmt's prediction of their start, and what Kafka's code does.

    python -m tools.fuzz_starts [SEED [COUNT [VERSION]]]

Prints each case in which the two differ, and the number of such cases.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.combined_cases import CombinedCase, combined
from tests.support.samples import kfmt
from tools.broker import CLEAN_SHUTDOWN
from tools.judge import Judged, Loading, judge
from tools.kafka import VERSION
from tools.observe import RECOVERY_POINTS, Start

AFTER = {Start.CRASH: "crash", Start.CRASH_AT_END: "crash", Start.CLEAN: "clean-shutdown"}
Ranges = list[tuple[int, int]]


def recovery_point(case: CombinedCase, start: Start) -> int:
    """The recovery point that a start finds."""
    return 0 if start is Start.CRASH else case.log_end


def predicted_start(
    case: CombinedCase, start: Start, directory: Path, version: str = VERSION
) -> dict[str, Any]:
    """kfmt's prediction of a start with a Kafka version."""
    partition = directory / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    (directory / RECOVERY_POINTS).write_text(f"0\n1\ngiven 0 {recovery_point(case, start)}\n")
    if case.log_start:
        (directory / "log-start-offset-checkpoint").write_text(f"0\n1\ngiven 0 {case.log_start}\n")
    if start is Start.CLEAN:
        (directory / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    result = kfmt(
        "check", directory, "--json", "--jobs", "1", "--kafka-version", version.rpartition(".")[0]
    )
    rows = [row for row in result.of("broker_start") if row["after"] == AFTER[start]]
    failed_rows = [row for row in rows if not row["starts"]]
    candidates = [*failed_rows, *(row for row in rows if row["file"].endswith("given-0"))]
    return (
        candidates[0]
        if candidates and result.code in (0, 1)
        else {"failed": f"exit {result.code} {result.err}"}
    )


def offsets_in_ranges(offsets: set[int], ranges: Ranges) -> set[int]:
    """The offsets that are in one of the ranges."""
    return {offset for offset in offsets if any(a <= offset <= b for a, b in ranges)}


def differences(case: CombinedCase, predicted: dict[str, Any], actual: Judged) -> dict[str, str]:
    """How the prediction differs from the actual start, by subject."""
    if "failed" in predicted:
        return {"nothing said": predicted["failed"]}
    if predicted["starts"] != actual.starts:
        return {"starts": f"said {predicted['starts']}: {predicted['reason']}; seen {actual.error}"}
    if not actual.starts:
        return {}
    logs = {k: len(v) for k, v in case.files.items() if k.endswith(".log")}
    truncated = {k: v for k, v in actual.files.items() if k in logs and v < logs[k]}
    predicted_truncated = {
        item["file"].rpartition("/")[2]: item["size"] for item in predicted["cut"]
    }
    deleted = {log for log in logs if log not in actual.files}
    predicted_deleted = {
        item.rpartition("/")[2] for item in predicted["deleted"] if item.endswith(".log")
    }
    pairs = {
        "log end": (predicted["log_end_offset"], actual.log_end),
        "cut": (predicted_truncated, truncated),
        "deleted": (predicted_deleted, deleted),
    }
    # Kafka looks the first unstable offset up: a wrong index leads it to another batch.
    if "index" not in case.description:
        pairs["last stable offset"] = predicted["last_stable_offset"], actual.last_stable
    if "log_start_offset" in predicted:
        pairs["log start"] = (predicted["log_start_offset"], actual.log_start)
    result = {k: f"said {a}, seen {b}" for k, (a, b) in pairs.items() if a != b}
    reported_ranges = [
        tuple(item) for item in [*predicted["lost_offsets"], *predicted["unreachable_offsets"]]
    ]
    delivered_ranges = list(actual.reached)
    all_offsets = set(range(case.log_end))
    false_alarms = offsets_in_ranges(
        offsets_in_ranges(all_offsets, reported_ranges), delivered_ranges
    )
    if false_alarms:
        result["false alarm"] = f"{_format_ranges(false_alarms)}: said gone, given to consumers"
    missed = (
        offsets_in_ranges(all_offsets, case_ranges(case))
        - offsets_in_ranges(all_offsets, delivered_ranges)
        - offsets_in_ranges(all_offsets, reported_ranges)
    )
    missed -= set(range(case.log_start))
    if missed:
        result["missed"] = f"{_format_ranges(missed)}: not given to consumers, and nothing was said"
    return result


def case_ranges(case: CombinedCase) -> Ranges:
    """The offsets of the records in the logs, from `kfmt dump`. An offset that a control record
    has, too, is reached there."""
    with tempfile.TemporaryDirectory() as scratch:
        for file, content in case.files.items():
            if file.endswith(".log") and len(file) == 24:
                (Path(scratch) / file).write_bytes(content)
        rows = kfmt("dump", scratch, "--records", "--json").of("record")
    control_offsets = {row["offset"] for row in rows if "control" in row}
    return [
        (offset, offset) for offset in sorted({row["offset"] for row in rows} - control_offsets)
    ]


def _format_ranges(offsets: set[int]) -> str:
    ranges: list[list[int]] = []
    for offset in sorted(offsets):
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ", ".join(f"{a}–{b}" for a, b in ranges[:6]) + (" …" if len(ranges) > 6 else "")


def compare(
    cases: list[CombinedCase], version: str = VERSION
) -> list[tuple[CombinedCase, Start, dict[str, str]]]:
    """The starts for which kfmt's prediction differs from Kafka's code of a version.

    Skips starts whose result depends on the heap size.
    """
    starts = [(case, start) for case in cases for start in case.kinds]
    loadings = [
        Loading(
            case.files,
            start is Start.CLEAN,
            recovery_point(case, start),
            case.log_start,
            case.log_end,
        )
        for case, start in starts
    ]
    mismatches = []
    with tempfile.TemporaryDirectory() as scratch:
        for i, (case_and_start, actual) in enumerate(
            zip(starts, judge(loadings, version), strict=True)
        ):
            case, start = case_and_start
            predicted = predicted_start(case, start, Path(scratch) / str(i), version)
            if not actual.out_of_memory and (mismatch := differences(case, predicted, actual)):
                mismatches.append((case, start, mismatch))
    return mismatches


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cases = list(combined(seed, int(sys.argv[2]) if len(sys.argv) > 2 else 100))
    starts = sum(len(case.kinds) for case in cases)
    version = sys.argv[3] if len(sys.argv) > 3 else VERSION
    mismatches = compare(cases, version)
    subjects: Counter[str] = Counter()
    for case, start, mismatch in mismatches:
        subjects.update(mismatch.keys())
        print(f"{case.description}\n  {start.name}:")
        for subject, text in mismatch.items():
            print(f"    {subject}: {text}")
    print(f"Kafka {version}: {starts} starts, {len(mismatches)} not as foretold {dict(subjects)}")


if __name__ == "__main__":
    main()
