"""What the commands say of every kind of damage, in numbers and codes: findings with their places,
starts, what is salvaged, rebuilt, counted and read. `pytest --update-golden` rewrites the file, a
person reads the diff.
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
# Without messages that are compressed anew, whose bytes are the library's.
DAMAGES = [damage for damage in matrix() if not damage.code.startswith(("inner-", "wrapper-"))]
WRITTEN = 1_800_000_000  # of all files, as messages without a time have their file's
OF_FINDING = ("position", "offset", "expected", "found")
OF_START = (
    *("starts", "becomes", "log_start_offset", "log_end_offset", "cut", "deleted"),
    *("lost_offsets", "unreachable_offsets"),
)
OF_STAT = (
    *("batches", "records", "codecs", "magics", "first_offset", "last_offset", "min_timestamp"),
    *("max_timestamp", "null_keys", "tombstones", "transactional_batches", "control_batches"),
)
OF_SALVAGE = ("batches_after", "holes", "reencoded", "errors")
OF_TRANSACTION = ("producer_id", "outcome", "first_offset", "last_offset", "marker_offset")


def name_of(damage: Damage) -> str:
    return f"{damage.code}: {damage.words}"


def short(value: Any, folder: Path) -> Any:
    """A value without the folder that it is in."""
    return json.loads(json.dumps(value).replace(f"{folder}/", "").replace(str(folder), "."))


def findings(rows: list[Row]) -> list[list[Any]]:
    """Each finding: its code, its file, and where in it."""
    return [
        [row["code"], Path(row["file"]).name, *(row[name] for name in OF_FINDING)]
        for row in rows
        if row["type"] == "finding"
    ]


def values(rows: list[Row], type_: str, *names: str) -> list[list[Any]]:
    return [[row.get(name) for name in names] for row in rows if row["type"] == type_]


def numbers(rows: list[Row], type_: str) -> list[Row]:
    """All numbers of the objects of a type, and the names of their files."""
    return [
        {
            name: Path(value).name if name == "file" else value
            for name, value in row.items()
            if name == "file" or isinstance(value, int | list)
        }
        for row in rows
        if row["type"] == type_
    ]


def salvaged(rows: list[Row]) -> list[list[Any]]:
    """The logs that do not come out as they were."""
    found = values(rows, "file", "file", "batches", *OF_SALVAGE)
    return [[Path(name).name, n, *more] for name, n, *more in found if [n, 0, 0, 0] != more]


def digest(value: Any) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()[:10]


def contents(folder: Path) -> list[Any]:
    """The files of a folder: how many, of how many bytes, and a hash of names and bytes."""
    files = {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    size = sum(map(len, files.values()))
    return [len(files), size, digest({name: data.hex() for name, data in files.items()})]


def said_of(damage: Damage, folder: Path) -> dict[str, Any]:
    """What the commands say."""
    disk, out = folder / "disk", folder / "out"
    damage.make(disk)
    for file in disk.rglob("*"):
        os.utime(file, (WRITTEN, WRITTEN))
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
    said: dict[str, Any] = {
        "exit codes": [done.code for done in (check, verify, index, salvage, stat, txn)],
        "check": findings(check.rows),
        "starts": values(check.rows, "broker_start", "after", *OF_START),
        "verify": findings(verify.rows),
        "index": findings(index.rows),
        "salvaged": salvaged(salvage.rows),
        "holes": numbers(salvage.rows, "hole"),
        "missing": numbers(salvage.rows, "missing"),
        "rebuilt": [[done.code, *findings(done.rows)] for done in rebuilt],
        "written": [contents(folder) for folder in sorted(out.glob("rebuilt-*"))],
        "stat": values(stat.rows, "stat", *OF_STAT),
        "transactions": values(txn.rows, "transaction", *OF_TRANSACTION)[:5],
    }
    if not any(row[3] for row in said["salvaged"]):  # which a codec may compress differently
        said["written"].append(contents(out / "salvaged"))
    for name, done in (("batch", batches), ("record", records)):
        rows = [] if done is None else done.of(name)
        said[name] = [len(rows), digest(short(short(rows, disk), folder))]
    shown: dict[str, Any] = short(short(said, disk), folder)
    return shown


@pytest.mark.parametrize("damage", DAMAGES, ids=name_of)
def test_all_that_is_said_of_a_damage(
    damage: Damage, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = name_of(damage)
    every = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    said = said_of(damage, tmp_path)
    if request.config.getoption("--update-golden"):
        every = {key: every[key] for key in map(name_of, DAMAGES) if key in every}
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in sorted({**every, name: said}.items())
        )
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    else:
        assert said == every[name]


def test_every_damage_that_is_kept_exists() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(map(name_of, DAMAGES))
