"""What the commands report for every kind of damage, in numbers and codes: findings with their
locations, starts, what is salvaged, rebuilt, counted and read. `pytest --update-golden` rewrites
the file; review the diff.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.matrix import Damage, matrix
from tests.support.samples import Row, kfmt
from tools.kafka import ROOT

GOLDEN = ROOT / "tests" / "golden" / "damage.json"
# Without messages that are recompressed: their bytes depend on the codec's library.
DAMAGES = [damage for damage in matrix() if not damage.code.startswith(("inner-", "wrapper-"))]
MODIFIED_TIME = 1_800_000_000  # of all files: messages without a timestamp have their file's
FINDING_FIELDS = ("position", "offset", "expected", "found")
START_FIELDS = (
    *("starts", "becomes", "log_start_offset", "log_end_offset", "cut", "deleted"),
    *("lost_offsets", "unreachable_offsets"),
)
STAT_FIELDS = (
    *("batches", "records", "codecs", "magics", "first_offset", "last_offset", "min_timestamp"),
    *("max_timestamp", "null_keys", "tombstones", "transactional_batches", "control_batches"),
)
SALVAGE_FIELDS = ("batches_after", "holes", "reencoded", "errors")
TRANSACTION_FIELDS = ("producer_id", "outcome", "first_offset", "last_offset", "marker_offset")


def name_of(damage: Damage) -> str:
    return f"{damage.code}: {damage.description}"


def without_directory(value: Any, directory: Path) -> Any:
    """A value with paths relative to the directory."""
    return json.loads(json.dumps(value).replace(f"{directory}/", "").replace(str(directory), "."))


def findings(rows: list[Row]) -> list[list[Any]]:
    """Each finding: its code, its file, and its location in the file."""
    return [
        [row["code"], Path(row["file"]).name, *(row[name] for name in FINDING_FIELDS)]
        for row in rows
        if row["type"] == "finding"
    ]


def values(rows: list[Row], type_: str, *names: str) -> list[list[Any]]:
    return [[row.get(name) for name in names] for row in rows if row["type"] == type_]


def numeric_fields(rows: list[Row], type_: str) -> list[Row]:
    """All numeric fields of the rows of a type, and the names of their files."""
    return [
        {
            name: Path(value).name if name == "file" else value
            for name, value in row.items()
            if name == "file" or isinstance(value, int | list)
        }
        for row in rows
        if row["type"] == type_
    ]


def changed_logs(rows: list[Row]) -> list[list[Any]]:
    """The logs that salvage changes."""
    logs = values(rows, "file", "file", "batches", *SALVAGE_FIELDS)
    return [[Path(name).name, n, *counts] for name, n, *counts in logs if [n, 0, 0, 0] != counts]


def digest(value: Any) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:10]


def contents(directory: Path) -> list[Any]:
    """The files of a directory: how many, their total size, and a hash of names and bytes."""
    files = {
        str(file.relative_to(directory)): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }
    size = sum(map(len, files.values()))
    return [len(files), size, digest({name: data.hex() for name, data in files.items()})]


def command_outputs(damage: Damage, directory: Path) -> dict[str, Any]:
    """The results of all commands for a damage."""
    disk, out = directory / "disk", directory / "out"
    damage.make(disk)
    for file in disk.rglob("*"):
        os.utime(file, (MODIFIED_TIME, MODIFIED_TIME))
    check = kfmt("check", disk, "--json", *damage.options)
    verify = kfmt("verify-crc", disk, "--deep", "--json")
    index = kfmt("index-check", disk, "--json")
    salvage = kfmt("salvage", disk, out / "salvaged", "--records", "--json")
    partitions = sorted({str(log.parent) for log in disk.rglob("*.log")})
    rebuilt = [
        kfmt("rebuild-index", path, out / f"rebuilt-{i}", "--json")
        for i, path in enumerate(partitions)
    ]
    stat = kfmt("stat", disk, "--deep", "--json")
    records = kfmt("dump", *partitions, "--records", "--json") if partitions else None
    batches = kfmt("dump", *partitions, "--json") if partitions else None
    txn = kfmt("txn", disk, "--json")
    outputs: dict[str, Any] = {
        "exit codes": [result.code for result in (check, verify, index, salvage, stat, txn)],
        "check": findings(check.rows),
        "starts": values(check.rows, "broker_start", "after", *START_FIELDS),
        "verify": findings(verify.rows),
        "index": findings(index.rows),
        "salvaged": changed_logs(salvage.rows),
        "holes": numeric_fields(salvage.rows, "hole"),
        "missing": numeric_fields(salvage.rows, "missing"),
        "rebuilt": [[result.code, *findings(result.rows)] for result in rebuilt],
        "written": [contents(directory) for directory in sorted(out.glob("rebuilt-*"))],
        "stat": values(stat.rows, "stat", *STAT_FIELDS),
        "transactions": values(txn.rows, "transaction", *TRANSACTION_FIELDS)[:5],
    }
    if not any(row[3] for row in outputs["salvaged"]):  # which a codec may compress differently
        outputs["written"].append(contents(out / "salvaged"))
    for name, result in (("batch", batches), ("record", records)):
        rows = [] if result is None else result.of(name)
        outputs[name] = [
            len(rows),
            digest(without_directory(without_directory(rows, disk), directory)),
        ]
    relative_outputs: dict[str, Any] = without_directory(
        without_directory(outputs, disk), directory
    )
    return relative_outputs


@pytest.mark.parametrize("damage", DAMAGES, ids=name_of)
def test_outputs_for_a_damage_are_the_golden_ones(
    damage: Damage, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = name_of(damage)
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    outputs = command_outputs(damage, tmp_path)
    if request.config.getoption("--update-golden"):
        golden = {key: golden[key] for key in map(name_of, DAMAGES) if key in golden}
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in sorted({**golden, name: outputs}.items())
        )
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    else:
        assert outputs == golden[name]


def test_every_golden_damage_exists() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(map(name_of, DAMAGES))
