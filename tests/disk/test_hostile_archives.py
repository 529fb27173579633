"""Malformed archives: kfmt reports an invalid member in one line, and reads the others."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt

NAME = f"orders-0/{ORDERS.name}"


def write_tar(path: Path, *members: tarfile.TarInfo) -> Path:
    """Write a tar with the log and, before it, other members."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
        tar.add(ORDERS, NAME)
    return path


def pax_member(name: str, **headers: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo("orders-0/odd")
    member.pax_headers = {"path": name, **headers}
    return member


@pytest.mark.parametrize("time", ["1e300", "inf", "nan", "-1", "99999999999999"])
def test_a_member_with_an_invalid_time_is_read(time: str, tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", pax_member("orders-0/odd.bin", mtime=time))
    result = kfmt("verify-crc", path)
    assert result.code == 0, result.err
    assert "240 records" in result.out


@pytest.mark.parametrize("name", ["../out.log", "a/../../out.log", "orders-0/x\0.log"])
def test_a_member_that_points_outside_is_named(name: str, tmp_path: Path) -> None:
    result = kfmt("verify-crc", write_tar(tmp_path / "a.tar", pax_member(name)))
    assert result.code == 3
    assert "points outside the archive, skipped" in result.err
    assert "240 records" in result.out
    assert not (tmp_path / "out.log").exists()


def test_a_huge_sparse_file_is_skipped(tmp_path: Path) -> None:
    pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "orders-0/00000000000000000240.log",
        "GNU.sparse.realsize": str(1 << 50),
    }
    sparse = tarfile.TarInfo("orders-0/GNUSparseFile.0/x")
    sparse.pax_headers, sparse.size = pax_headers, 512
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(sparse, io.BytesIO(f"1\n{1 << 50}\n0\n".encode().ljust(512, b"\0")))
        tar.add(ORDERS, NAME)
    result = kfmt("verify-crc", path)
    assert result.code == 3
    assert f"sparse file of {1 << 50} bytes, skipped" in result.err
    assert "240 records" in result.out


def test_a_link_in_a_zip_is_a_link(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(ORDERS, f"data/{ORDERS.name}")
        link = zipfile.ZipInfo(NAME)
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, f"../data/{ORDERS.name}")
    result = kfmt("verify-crc", path)
    assert result.code == 0, result.out
    assert "480 records" in result.out


def test_a_zip_with_an_invalid_date_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(NAME, (1980, 1, 1, 0, 0, 0)), ORDERS.read_bytes())
    data = bytearray(path.read_bytes())
    for signature, field_offset in ((b"PK\x03\x04", 10), (b"PK\x01\x02", 12)):
        position = data.index(signature) + field_offset
        data[position : position + 4] = b"\xff\xff\x00\x00"
    path.write_bytes(data)
    result = kfmt("verify-crc", path)
    assert result.code == 0, result.err


def test_an_encrypted_zip_says_which_member(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(ORDERS, NAME)
    data = bytearray(path.read_bytes())
    for signature, field_offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + field_offset] |= 1
    path.write_bytes(data)
    result = kfmt("check", path)
    assert result.code == 3
    assert f"{NAME}: is encrypted" in result.err
    assert "ZipInfo" not in result.err


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["orders-0/a", "orders-0/a/b"], "File exists"),
        (["orders-0/a/b", "orders-0/a"], "Is a directory"),
        (["orders-0/" + 300 * "a"], "File name too long"),
    ],
)
def test_a_member_that_cannot_be_unpacked_is_named(
    names: list[str], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.tar"
    result = kfmt("verify-crc", write_tar(path, *map(tarfile.TarInfo, names)))
    assert result.code == 3
    assert "TMPDIR" not in result.err
    assert result.err.startswith(f"kfmt: {path}: orders-0/a")
    assert f": cannot be unpacked: {reason}\n" in result.err
    assert [row["batches"] for row in kfmt("verify-crc", path, "--json").of("file")][:1] == [12]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("tail", ["garbage", "damaged checksum"])
def test_the_members_before_a_damaged_end_are_read(suffix: str, tail: str, tmp_path: Path) -> None:
    packed = write_tar(tmp_path / "a.tar").read_bytes()
    if suffix == ".gz":
        compressed = bytearray(gzip.compress(packed))
    else:
        compressed = bytearray((lzma if suffix == ".xz" else bz2).compress(packed))
    if tail == "garbage":
        compressed += b"garbage behind the end"
    elif suffix == ".gz":
        compressed[-8] ^= 1
    else:
        return
    path = tmp_path / f"a.tar{suffix}"
    path.write_bytes(compressed)
    result = kfmt("verify-crc", path, "--json")
    assert [row["batches"] for row in result.of("file")] == [12]
    assert result.code == (3 if suffix == ".gz" else 0)  # the others end before other bytes
    if suffix == ".gz":
        assert f"kfmt: {path}: the end of the archive cannot be read: " in result.err


def write_zip(path: Path, name: bytes, flags: int = 0, offset: int | None = None) -> Path:
    """Write a zip with the log and, before it, a member with this name, flags and offset."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("x" * len(name)), b"")
        archive.write(ORDERS, NAME)
    data = bytearray(path.read_bytes())
    entry_position = data.index(b"PK\1\2")
    for header_position, name_offset in ((data.index(b"PK\3\4"), 30), (entry_position, 46)):
        data[header_position + name_offset : header_position + name_offset + len(name)] = name
    data[entry_position + 8 : entry_position + 10] = flags.to_bytes(2, "little")
    if offset is not None:
        data[entry_position + 42 : entry_position + 46] = offset.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def test_a_member_of_a_zip_without_a_name_is_skipped(tmp_path: Path) -> None:
    result = kfmt("verify-crc", write_zip(tmp_path / "a.zip", b""))
    assert result.code == 3
    assert "a.zip: a member without a name, skipped" in result.err
    assert "240 records" in result.out


UTF_8 = 0x800


@pytest.mark.parametrize(
    ("name", "flags", "offset"), [(b"\xff\xfe", UTF_8, None), (b"a", 0, 1 << 31)]
)
def test_a_corrupt_central_directory_of_a_zip_is_reported(
    name: bytes, flags: int, offset: int | None, tmp_path: Path
) -> None:
    result = kfmt("verify-crc", write_zip(tmp_path / "a.zip", name, flags, offset))
    assert result.code == 3
    assert re.search("a.zip: (truncated or corrupt archive|a: cannot be read): ", result.err)
