"""Partitions with combined damages: what kfmt foretells of their start, and what Kafka's code does.

    python -m tools.fuzz_starts [SEED [COUNT [VERSION]]]

Prints each case in which the two differ, and how many there were.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.combined_cases import Combined, combined
from tests.support.samples import kfmt
from tools.broker import CLEAN_SHUTDOWN
from tools.judge import Judged, Loading, judge
from tools.kafka import VERSION
from tools.observe import RECOVERY_POINTS, Start

AFTER = {Start.CRASH: "crash", Start.CRASH_AT_END: "crash", Start.CLEAN: "clean-shutdown"}
Ranges = list[tuple[int, int]]


def point_of(case: Combined, start: Start) -> int:
    """The recovery point that a start finds."""
    return 0 if start is Start.CRASH else case.log_end


def foretold(case: Combined, start: Start, folder: Path, version: str = VERSION) -> dict[str, Any]:
    """What kfmt says of a start of a version."""
    partition = folder / "given-0"
    partition.mkdir(parents=True)
    for file, content in case.files.items():
        (partition / file).write_bytes(content)
    (folder / RECOVERY_POINTS).write_text(f"0\n1\ngiven 0 {point_of(case, start)}\n")
    if case.log_start:
        (folder / "log-start-offset-checkpoint").write_text(f"0\n1\ngiven 0 {case.log_start}\n")
    if start is Start.CLEAN:
        (folder / ".kafka_cleanshutdown").write_text(CLEAN_SHUTDOWN)
    done = kfmt(
        "check", folder, "--json", "--jobs", "1", "--kafka-version", version.rpartition(".")[0]
    )
    rows = [row for row in done.of("broker_start") if row["after"] == AFTER[start]]
    down = [row for row in rows if not row["starts"]]
    told = [*down, *(row for row in rows if row["file"].endswith("given-0"))]
    return told[0] if told and done.code in (0, 1) else {"failed": f"exit {done.code} {done.err}"}


def inside(offsets: set[int], ranges: Ranges) -> set[int]:
    """Those of the offsets that lie in some ranges."""
    return {offset for offset in offsets if any(a <= offset <= b for a, b in ranges)}


def differences(case: Combined, said: dict[str, Any], seen: Judged) -> dict[str, str]:
    """How what was said differs from what was seen, by subject."""
    if "failed" in said:
        return {"nothing said": said["failed"]}
    if said["starts"] != seen.starts:
        return {"starts": f"said {said['starts']}: {said['reason']}; seen {seen.error}"}
    if not seen.starts:
        return {}
    logs = {k: len(v) for k, v in case.files.items() if k.endswith(".log")}
    cut = {k: v for k, v in seen.files.items() if k in logs and v < logs[k]}
    said_cut = {item["file"].rpartition("/")[2]: item["size"] for item in said["cut"]}
    gone = {log for log in logs if log not in seen.files}
    said_gone = {item.rpartition("/")[2] for item in said["deleted"] if item.endswith(".log")}
    answers = {
        "log end": (said["log_end_offset"], seen.log_end),
        "cut": (said_cut, cut),
        "deleted": (said_gone, gone),
    }
    if "log_start_offset" in said:
        answers["log start"] = (said["log_start_offset"], seen.log_start)
    found = {k: f"said {a}, seen {b}" for k, (a, b) in answers.items() if a != b}
    told = [tuple(item) for item in [*said["lost_offsets"], *said["unreachable_offsets"]]]
    given = list(seen.reached)
    every = set(range(case.log_end))
    alarm = inside(inside(every, told), given)
    if alarm:
        found["false alarm"] = f"{_ranges(alarm)}: said gone, given to consumers"
    missed = inside(every, case_ranges(case)) - inside(every, given) - inside(every, told)
    missed -= set(range(case.log_start))
    if missed:
        found["missed"] = f"{_ranges(missed)}: not given to consumers, and nothing was said"
    return found


def case_ranges(case: Combined) -> Ranges:
    """The offsets of the batches that lie in the logs, as kfmt shows them."""
    with tempfile.TemporaryDirectory() as scratch:
        for file, content in case.files.items():
            if file.endswith(".log") and len(file) == 24:
                (Path(scratch) / file).write_bytes(content)
        rows = kfmt("dump", scratch, "--records", "--json").of("record")
    offsets = sorted(row["offset"] for row in rows if "control" not in row)
    return [(offset, offset) for offset in offsets]


def _ranges(offsets: set[int]) -> str:
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return ", ".join(f"{a}–{b}" for a, b in found[:6]) + (" …" if len(found) > 6 else "")


def compare(
    cases: list[Combined], version: str = VERSION
) -> list[tuple[Combined, Start, dict[str, str]]]:
    """The starts of which kfmt says something else than Kafka's code of a version does.

    Those that the size of the heap decides are left out.
    """
    starts = [(case, start) for case in cases for start in case.kinds]
    loadings = [
        Loading(
            case.files, start is Start.CLEAN, point_of(case, start), case.log_start, case.log_end
        )
        for case, start in starts
    ]
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        for i, (pair, seen) in enumerate(zip(starts, judge(loadings, version), strict=True)):
            case, start = pair
            said = foretold(case, start, Path(scratch) / str(i), version)
            if not seen.out_of_memory and (found := differences(case, said, seen)):
                wrong.append((case, start, found))
    return wrong


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cases = list(combined(seed, int(sys.argv[2]) if len(sys.argv) > 2 else 100))
    starts = sum(len(case.kinds) for case in cases)
    version = sys.argv[3] if len(sys.argv) > 3 else VERSION
    wrong = compare(cases, version)
    subjects: Counter[str] = Counter()
    for case, start, found in wrong:
        subjects.update(found.keys())
        print(f"{case.what}\n  {start.name}:")
        for subject, words in found.items():
            print(f"    {subject}: {words}")
    print(f"Kafka {version}: {starts} starts, {len(wrong)} not as foretold {dict(subjects)}")


if __name__ == "__main__":
    main()
