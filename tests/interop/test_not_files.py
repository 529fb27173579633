"""What a start does with directories, pipes and broken links in the place of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.not_file_cases import loadings
from tests.support.samples import kfmt
from tests.support.selected import selected, with_smoke
from tools import kafka
from tools.judge import Judged, judge
from tools.not_files import place

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing())),
]
LOADINGS = loadings()
CASES = {
    f"{name} {version}": (name, version)
    for version in (kafka.VERSION, kafka.NEWEST)
    for name in LOADINGS
}
SMOKE = [
    f"DIRECTORY 00000000000000000736.snapshot crash {version}"
    for version in (kafka.VERSION, kafka.NEWEST)
]
SMOKE += [
    f"{name} {kafka.VERSION}"
    for name in (
        "DIRECTORY 00000000000000000357.txnindex clean",
        "DIRECTORY 00000000000000000357.timeindex crash",
        "DIRECTORY leader-epoch-checkpoint clean",
        "DIRECTORY partition.metadata clean",
        "DANGLING_LINK 00000000000000000357.log clean",
        "LOOP 00000000000000000357.timeindex crash at the end",
    )
]


@pytest.fixture(scope="module")
def observed(request: pytest.FixtureRequest) -> dict[str, Judged]:
    """What UnifiedLog does with each selected case."""
    names = [str(name) for name in selected(request, "name")]
    observed_by_name: dict[str, Judged] = {}
    for version in (kafka.VERSION, kafka.NEWEST):
        of_version = [name for name in names if CASES[name][1] == version]
        judged = judge([LOADINGS[CASES[name][0]] for name in of_version], version)
        observed_by_name |= zip(of_version, judged, strict=True)
    return observed_by_name


@pytest.mark.parametrize("name", with_smoke(list(CASES), SMOKE, pytest.mark.long))
def test_kafka_does_what_check_said(name: str, observed: dict[str, Judged], tmp_path: Path) -> None:
    loading, version = LOADINGS[CASES[name][0]], CASES[name][1]
    partition = tmp_path / "txn-0"
    partition.mkdir()
    for file_name, content in loading.files.items():
        place(partition / file_name, content)
    points = tmp_path / "recovery-point-offset-checkpoint"
    points.write_text(f"0\n1\ntxn 0 {loading.recovery_point}\n")
    options = ("--json", "--jobs", "1", "--kafka-version", version.rpartition(".")[0])
    rows = kfmt("check", tmp_path, *options).of("broker_start")
    after = "clean-shutdown" if loading.is_clean else "crash"
    [row] = [row for row in rows if row["after"] == after and row["file"].endswith("txn-0")]
    seen = observed[name]
    assert (row["starts"] or bool(row["becomes"])) == seen.starts, (row, seen)
    if row["starts"] and not row["becomes"]:
        assert (row["log_start_offset"], row["log_end_offset"]) == (seen.log_start, seen.log_end)
        cut = {item["file"].rpartition("/")[2]: item["size"] for item in row["cut"]}
        logs = {f: len(c) for f, c in loading.files.items() if isinstance(c, bytes)}
        sizes = {f: s for f, s in seen.files.items() if f.endswith(".log") and f in logs}
        assert cut == {f: s for f, s in sizes.items() if s < logs[f]}
