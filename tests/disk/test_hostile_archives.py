"""Archives that no packer wrote: what is odd is one line, and the rest is read."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.samples import ORDERS, kfmt

NAME = f"orders-0/{ORDERS.name}"


def tar_of(path: Path, *members: tarfile.TarInfo) -> Path:
    """A tar with the log, and other members before it."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
        tar.add(ORDERS, NAME)
    return path


def member_of(name: str, **headers: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo("orders-0/odd")
    member.pax_headers = {"path": name, **headers}
    return member


@pytest.mark.parametrize("time", ["1e300", "inf", "nan", "-1", "99999999999999"])
def test_a_time_that_is_none(time: str, tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a.tar", member_of("orders-0/odd.bin", mtime=time))
    done = kfmt("verify-crc", path)
    assert done.code == 0, done.err
    assert "240 records" in done.out


@pytest.mark.parametrize("name", ["../out.log", "a/../../out.log", "orders-0/x\0.log"])
def test_a_member_that_points_outside_is_named(name: str, tmp_path: Path) -> None:
    done = kfmt("verify-crc", tar_of(tmp_path / "a.tar", member_of(name)))
    assert done.code == 3
    assert "points outside the archive, skipped" in done.err
    assert "240 records" in done.out
    assert not (tmp_path / "out.log").exists()


def test_a_sparse_file_larger_than_any_of_kafka(tmp_path: Path) -> None:
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "orders-0/00000000000000000240.log",
        "GNU.sparse.realsize": str(1 << 50),
    }
    sparse = tarfile.TarInfo("orders-0/GNUSparseFile.0/x")
    sparse.pax_headers, sparse.size = headers, 512
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(sparse, io.BytesIO(f"1\n{1 << 50}\n0\n".encode().ljust(512, b"\0")))
        tar.add(ORDERS, NAME)
    done = kfmt("verify-crc", path)
    assert done.code == 3
    assert f"sparse file of {1 << 50} bytes, skipped" in done.err
    assert "240 records" in done.out


def test_a_link_in_a_zip_is_a_link(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.write(ORDERS, f"data/{ORDERS.name}")
        link = zipfile.ZipInfo(NAME)
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, f"../data/{ORDERS.name}")
    done = kfmt("verify-crc", path)
    assert done.code == 0, done.out
    assert "480 records" in done.out


def test_a_zip_with_a_date_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(zipfile.ZipInfo(NAME, (1980, 1, 1, 0, 0, 0)), ORDERS.read_bytes())
    data = bytearray(path.read_bytes())
    for signature, at in ((b"PK\x03\x04", 10), (b"PK\x01\x02", 12)):
        place = data.index(signature) + at
        data[place : place + 4] = b"\xff\xff\x00\x00"
    path.write_bytes(data)
    done = kfmt("verify-crc", path)
    assert done.code == 0, done.err


def test_an_encrypted_zip_says_which_member(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.write(ORDERS, NAME)
    data = bytearray(path.read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + at] |= 1
    path.write_bytes(data)
    done = kfmt("check", path)
    assert done.code == 3
    assert f"{NAME} is encrypted" in done.err
    assert "ZipInfo" not in done.err


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["orders-0/a", "orders-0/a/b"], "File exists"),
        (["orders-0/a/b", "orders-0/a"], "Is a directory"),
        (["orders-0/" + 300 * "a"], "File name too long"),
    ],
)
def test_a_name_that_has_no_place_is_named(names: list[str], why: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    done = kfmt("verify-crc", tar_of(path, *map(tarfile.TarInfo, names)))
    assert done.code == 3
    assert "TMPDIR" not in done.err
    assert done.err.startswith(f"kfmt: {path}: orders-0/a")
    assert done.err.endswith(f": cannot be unpacked: {why}\n")


def zip_with(path: Path, name: bytes, flags: int = 0, offset: int | None = None) -> Path:
    """A zip with the log, and before it a member whose name, flags and place are these."""
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(zipfile.ZipInfo("x" * len(name)), b"")
        packed.write(ORDERS, NAME)
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\1\2")
    for front, at in ((data.index(b"PK\3\4"), 30), (entry, 46)):
        data[front + at : front + at + len(name)] = name
    data[entry + 8 : entry + 10] = flags.to_bytes(2, "little")
    if offset is not None:
        data[entry + 42 : entry + 46] = offset.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def test_a_member_of_a_zip_without_a_name_is_left_out(tmp_path: Path) -> None:
    done = kfmt("verify-crc", zip_with(tmp_path / "a.zip", b""))
    assert done.code == 3
    assert "a.zip: a member without a name, skipped" in done.err
    assert "240 records" in done.out


UTF_8 = 0x800


@pytest.mark.parametrize(
    ("name", "flags", "offset"), [(b"\xff\xfe", UTF_8, None), (b"a", 0, 1 << 31)]
)
def test_a_directory_of_a_zip_that_is_corrupt(
    name: bytes, flags: int, offset: int | None, tmp_path: Path
) -> None:
    done = kfmt("verify-crc", zip_with(tmp_path / "a.zip", name, flags, offset))
    assert done.code == 3
    assert "a.zip: truncated or corrupt archive: " in done.err
