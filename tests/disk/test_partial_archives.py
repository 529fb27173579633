"""Archives of which a part cannot be read: the rest is, and what is not is named."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt

FIRST, SECOND = f"orders-0/{0:020}.log", f"orders-0/{240:020}.log"
LOG, OTHER_LOG = ORDERS.read_bytes(), (ORDERS.parent / f"{240:020}.log").read_bytes()


def make_tar(*names_and_contents: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in names_and_contents:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def make_zip(*names_and_contents: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in names_and_contents:
            archive.writestr(name, content)
    return buffer.getvalue()


def records_and_error(path: Path, subpath: str = "") -> tuple[int, str]:
    """The number of records that are read, and the error output; the exit code is 3, and nothing is
    called damaged."""
    result = kfmt("verify-crc", path / subpath, "--json")
    assert result.code == 3
    assert all(row["severity"] == "note" for row in result.of("finding"))
    result = kfmt("dump", path / subpath, "--json")
    return sum(row["records_count"] for row in result.of("batch")), result.err


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("n_cut_bytes", [1, 5000, len(OTHER_LOG) - 20])
def test_the_start_of_a_file_that_is_cut_is_read(
    is_packed: bool, n_cut_bytes: int, tmp_path: Path
) -> None:
    data = make_tar((FIRST, LOG), (SECOND, OTHER_LOG))
    data = data[: data.index(OTHER_LOG) + len(OTHER_LOG) - n_cut_bytes]
    path = tmp_path / ("a.tar.gz" if is_packed else "a.tar")
    path.write_bytes(gzip.compress(data) if is_packed else data)
    (tmp_path / "cut.log").write_bytes(OTHER_LOG[:-n_cut_bytes])
    n_complete = kfmt("stat", tmp_path / "cut.log", "--json").of("stat")[0]["records"]
    for subpath in ("", "orders-0", SECOND):
        n_records, error = records_and_error(path, subpath)
        assert n_records == n_complete + (240 if subpath != SECOND else 0)
        assert f"the end of {SECOND}, and what follows it in the archive, cannot be read" in error
    # Another file of the archive may have been the one that is missing.
    assert "what follows it" in records_and_error(path, FIRST)[1]


def test_a_tar_without_its_end_is_read_and_named(tmp_path: Path) -> None:
    data = make_tar((FIRST, LOG), (SECOND, OTHER_LOG))
    path = tmp_path / "a.tar"
    path.write_bytes(data[: data.index(OTHER_LOG) - tarfile.BLOCKSIZE])
    n_records, error = records_and_error(path)
    assert n_records == 240
    assert "a.tar: the end of the archive cannot be read: unexpected end of data" in error


def test_a_size_beyond_all_disks_costs_nothing(tmp_path: Path) -> None:
    info = tarfile.TarInfo(SECOND)
    info.size = 1 << 62
    header = info.tobuf(tarfile.GNU_FORMAT)
    path = tmp_path / "a.tar"
    path.write_bytes(make_tar((FIRST, LOG))[: 1024 + -(-len(LOG) // 512) * 512 - 512] + header)
    assert records_and_error(path)[0] == 240


def test_a_damaged_file_of_a_zip_costs_only_itself(tmp_path: Path) -> None:
    data = bytearray(make_zip((FIRST, LOG), (SECOND, OTHER_LOG)))
    data[data.index(b"PK\x03\x04")] ^= 1  # the header of the first
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    n_records, error = records_and_error(path)
    assert n_records == 240
    assert f"a.zip: {FIRST}: cannot be read" in error


def test_a_wrong_checksum_of_a_zip_withholds_nothing(tmp_path: Path) -> None:
    data = make_zip((FIRST, LOG), (SECOND, OTHER_LOG))
    position = data.index(LOG) + len(LOG) - 1
    path = tmp_path / "a.zip"
    path.write_bytes(bytes([*data[:position], data[position] ^ 1, *data[position + 1 :]]))
    result = kfmt("verify-crc", path, "--json")
    assert result.code == 3
    assert "crc-mismatch" in [row["code"] for row in result.of("finding")]
    assert sum(row["records"] for row in result.of("file")) == 480
    assert f"a.zip: {FIRST}: its checksum in the archive does not match its bytes" in result.err
