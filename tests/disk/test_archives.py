"""kfmt reads archives like the directories in them, and shows paths as the user wrote them."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from tests.support.samples import Done, environment, kfmt
from tools.kafka import ROOT, SAMPLES

BROKER = SAMPLES / "kafka-3.9.1-broker1"
DAMAGED = ROOT / "damaged_segments"


def run_kfmt(*arguments: str | Path, cwd: Path) -> Done:
    """Run kfmt; it must not print the directory to which it unpacks, and leave no files in it."""
    unpack_directory = cwd / "unpacked"
    unpack_directory.mkdir(exist_ok=True)
    result = kfmt(*arguments, cwd=cwd, TMPDIR=str(unpack_directory))
    assert str(unpack_directory) not in result.out + result.err
    assert list(unpack_directory.iterdir()) == []
    return result


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The damaged samples in every kind of archive, and the same as a directory."""
    directory = tmp_path_factory.mktemp("archives")
    shutil.copytree(DAMAGED, directory / "plain")
    for kind in ("tar", "gztar", "zip"):
        shutil.make_archive(str(directory / "a"), kind, directory, "plain")
    tar_data = (directory / "a.tar").read_bytes()
    (directory / "a.tar.zst").write_bytes(zstandard.ZstdCompressor().compress(tar_data))
    shutil.copy(directory / "a.tar.gz", directory / "b.tgz")
    return directory


ARCHIVES = ["a.tar", "a.tar.gz", "b.tgz", "a.tar.zst", "a.zip"]
COMMANDS = [
    *(("check",), ("check", "--json"), ("verify-crc",), ("index-check",), ("stat", "--json")),
    *(("dump", "--json"), ("cat", "-f", "%o\\n"), ("find", "--offset", "3"), ("txn",)),
    ("retention", "--now", "2026-11-22"),
]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_an_archive_reads_like_its_directory(archive: str, archives: Path) -> None:
    for name, *options in COMMANDS if archive == "a.tar.gz" else COMMANDS[:2]:
        archive_result = run_kfmt(name, f"{archive}/plain", *options, cwd=archives)
        directory_result = run_kfmt(name, "plain", *options, cwd=archives)
        assert archive_result.code == directory_result.code
        ignored = ("disk_usage", "rebuild-index --in-place", '"type":"next"', "kfmt retention")
        archive_lines, directory_lines = (
            [line for line in text.splitlines() if not any(part in line for part in ignored)]
            for text in (
                archive_result.out.replace(f"{archive}/plain", "plain"),
                directory_result.out,
            )
        )
        normalized = [
            [" ".join(line.split()) for line in lines] for lines in (archive_lines, directory_lines)
        ]
        assert normalized[0] == normalized[1], name
    assert run_kfmt("check", archive, cwd=archives).code == 1


def test_commands_accept_paths_in_archives(archives: Path, tmp_path: Path) -> None:
    log = f"a.zip/plain/flipped-bit-0/{0:020}.log"
    assert run_kfmt("dump", log, "--limit", "2", cwd=archives).out.startswith(log)
    assert run_kfmt("hex", log, "--position", "0", cwd=archives).code == 0
    result = run_kfmt("salvage", "a.tar/plain/flipped-bit-0", tmp_path / "saved", cwd=archives)
    assert (tmp_path / "saved" / f"{0:020}.log").exists()
    assert "salvaged 11 of 12 batches into" in result.out
    directories = ("a.tar/plain/flipped-bit-0", "a.zip/plain/flipped-bit-0")
    assert "no divergence" in run_kfmt("diff", *directories, cwd=archives).out
    report = run_kfmt("check", "a.tar", cwd=archives).out
    assert "kfmt salvage a.tar/plain DST" in report
    assert "--in-place" not in report
    pytest.importorskip("pyarrow")
    result = run_kfmt("export", "a.tar", "--to", tmp_path / "ex", "--format", "csv", cwd=archives)
    assert result.code == 1
    rows = "".join(file.read_text() for file in (tmp_path / "ex").rglob("*.csv"))
    assert f"{archives}/a.tar/plain/flipped-bit-0/" in rows


def test_an_archive_with_two_names_is_read_once(archives: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    (tmp_path / "link.tar").symlink_to(archives / "a.tar")
    spellings = ("a.tar", "./a.tar", str(archives / "a.tar"), str(tmp_path / "link.tar"))
    rows = []
    for i, paths in enumerate((spellings[:1], spellings)):
        sql_result = run_kfmt(
            "sql", "SELECT count(*) n FROM records", *paths, "--json", cwd=archives
        )
        run_kfmt("export", *paths, "--to", tmp_path / str(i), "--format", "csv", cwd=archives)
        exported = [file.read_text() for file in (tmp_path / str(i)).rglob("*.csv")]
        rows.append((sql_result.out, sorted(exported)))
    assert rows[0] == rows[1]


def test_times_and_holes_are_kept(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "data/orders-0")
    with (tmp_path / "data/orders-0" / f"{1440:020}.index").open("r+b") as index:
        index.truncate(10 << 20)
    for file in (tmp_path / "data/orders-0").iterdir():
        os.utime(file, (1e9, 1e9))
    shutil.make_archive(str(tmp_path / "a"), "gztar", tmp_path / "data")
    rows = {
        row["purpose"]: row
        for row in run_kfmt("stat", "a.tar.gz", "--json", cwd=tmp_path).of("disk_usage")
    }
    assert rows["indexes"]["bytes"] > 10 << 20 > rows["indexes"]["disk_bytes"]
    assert rows["logs"]["file"] == "a.tar.gz"
    options = ("--now", "2026-11-22", "--json")
    archive_rows, directory_rows = (
        run_kfmt("retention", path, *options, cwd=tmp_path).of("retention")
        for path in ("a.tar.gz", "data")
    )
    assert [row["deletable_at"] for row in archive_rows] == [
        row["deletable_at"] for row in directory_rows
    ]


def test_invalid_archives_and_members_outside_are_not_read(tmp_path: Path) -> None:
    for name in ("a.tar", "a.tar.gz", "a.zip", "a.tar.zst"):
        (tmp_path / name).write_bytes(b"no archive at all" * 100)
        result = run_kfmt("check", name, cwd=tmp_path)
        assert result.code == 3
        assert result.err.startswith(f"kfmt: {name}: ")
        assert "Traceback" not in result.err
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        for name in ("../gone.log", "/etc/gone.log", "t-0/../../gone.log"):
            member = tarfile.TarInfo(name)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("t-0/link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    result = run_kfmt("stat", "out.tar", cwd=tmp_path)
    assert not list(tmp_path.parent.rglob("gone.log"))
    assert "passwd" not in result.out
    with zipfile.ZipFile(tmp_path / "cut.zip", "w") as archive:
        archive.writestr("t-0/x", b"a" * 9000)
    data = (tmp_path / "cut.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[:4000])
    assert run_kfmt("check", "cut.zip", cwd=tmp_path).code == 3
    (tmp_path / "dir.tar").mkdir()
    assert run_kfmt("check", "dir.tar", cwd=tmp_path).code == 3  # a directory with such a name
    assert run_kfmt("check", "none.tar/t-0", cwd=tmp_path).code == 3


@pytest.mark.parametrize("command", [("check",), ("export", "--to", "made")])
def test_a_skipped_member_is_reported(command: tuple[str, ...], tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        tar.add(BROKER / "orders-0", "orders-0")
        tar.addfile(tarfile.TarInfo("../gone.log"))
    result = run_kfmt(command[0], "out.tar", *command[1:], cwd=tmp_path)
    message = "kfmt: out.tar: ../gone.log: points outside the archive, skipped\n"
    errors = [line for line in result.err.splitlines(keepends=True) if line.startswith("kfmt: ")]
    assert (result.code, errors) == (3, [message])


def test_links_lead_to_what_is_in_the_archive(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "data/snap")
    (tmp_path / "data/orders-0").mkdir()
    for i, file in enumerate(sorted((tmp_path / "data/snap").iterdir())):
        link = tmp_path / "data/orders-0" / file.name
        if i % 2:
            link.hardlink_to(file)
        else:
            link.symlink_to(f"../snap/{file.name}")
    shutil.make_archive(str(tmp_path / "a"), "tar", tmp_path / "data")
    for path in ("a.tar/orders-0", "data/orders-0"):
        result = run_kfmt("check", path, cwd=tmp_path)
        assert (result.code, result.err) == (0, "")
        assert "7 segments, 1 500 records" in result.out


def test_an_archive_that_is_damaged_is_not_half_an_archive(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "data/orders-0")
    for kind in ("tar", "gztar"):
        shutil.make_archive(str(tmp_path / "a"), kind, tmp_path / "data")
    data = bytearray((tmp_path / "a.tar").read_bytes())
    with tarfile.open(tmp_path / "a.tar") as tar:
        members = [member for member in tar if member.isreg()]
    position = members[5].offset
    flipped = bytes([*data[: position + 3], data[position + 3] ^ 1, *data[position + 4 :]])
    compressed = bytearray((tmp_path / "a.tar.gz").read_bytes())
    compressed[-6] ^= 1  # in the checksum at its end
    for name, content in (
        ("header.tar", flipped),
        ("cut.tar", data[:position]),
        ("inside.tar", data[: position + 700]),
        ("sum.tar.gz", compressed),
        ("cut.tar.gz", compressed[: len(compressed) // 2]),
    ):
        (tmp_path / name).write_bytes(content)
        result = run_kfmt("check", name, cwd=tmp_path)
        assert result.code == 3, name
        assert result.err.startswith(f"kfmt: {name}: "), result.err


def test_paths_outside_an_archive_and_writes_into_it_are_refused(
    archives: Path, tmp_path: Path
) -> None:
    for path in ("a.tar/..", "a.tar/plain/../../x"):
        result = run_kfmt("check", path, cwd=archives)
        assert (result.code, result.out) == (3, "")
        assert "points outside a.tar" in result.err
    result = run_kfmt("rebuild-index", "a.tar/plain/flipped-bit-0", "--in-place", cwd=archives)
    assert result.code == 2
    assert "cannot be changed" in result.err
    assert (
        run_kfmt("rebuild-index", "a.tar/plain/zero-hole-0", tmp_path / "i", cwd=archives).code == 1
    )
    rows = run_kfmt("check", "a.tar/", "--json", cwd=archives).rows
    assert {row["file"].partition("/")[0] for row in rows if row.get("file")} == {"a.tar"}


def test_python_reads_archives(archives: Path) -> None:
    import kfmt_cli

    findings = list(kfmt_cli.verify(archives / "a.tar.gz"))
    assert findings
    assert {finding.file.partition("/plain/")[0] for finding in findings} == {
        str(archives / "a.tar.gz")
    }


def test_reports_name_what_is_in_an_archive(archives: Path) -> None:
    for name in ("sarif", "github"):
        report = run_kfmt("check", "a.tar", "--format", name, cwd=archives).out
        assert f"a.tar/plain/flipped-bit-0/{0:020}.log: " in report


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_directory_of_packed_logs_is_read_by_every_command(suffix: str, tmp_path: Path) -> None:
    directory = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", tmp_path / "plain/orders-0")
    shutil.copytree(BROKER / "orders-0", directory)
    compress = gzip.compress if suffix == ".gz" else zstandard.ZstdCompressor().compress
    for log in sorted(directory.glob("0*.*"))[::2]:
        log.with_name(log.name + suffix).write_bytes(compress(log.read_bytes()))
        log.unlink()
    for name, *options in [*COMMANDS, ("export", "--to", "lake"), ("compaction",)]:
        shutil.rmtree(tmp_path / "lake", ignore_errors=True)
        compressed_result = run_kfmt(name, "logs", *options, cwd=tmp_path)
        shutil.rmtree(tmp_path / "lake", ignore_errors=True)
        uncompressed_result = run_kfmt(name, "plain", *options, cwd=tmp_path)
        assert compressed_result.code == uncompressed_result.code, compressed_result.err
        compressed_lines, uncompressed_lines = (
            [line for line in result.out.splitlines() if "disk_usage" not in line]
            for result in (compressed_result, uncompressed_result)
        )
        assert len(compressed_lines) == len(uncompressed_lines)
    batches = run_kfmt("dump", "logs", "--json", cwd=tmp_path).of("batch")
    for path in {row["file"] for row in batches}:
        assert (tmp_path / path).exists()
    assert run_kfmt("salvage", "logs/orders-0", "saved", cwd=tmp_path).code == 0
    assert run_kfmt("convert-v0-to-v2", "logs/orders-0", "converted", cwd=tmp_path).code in (0, 3)
    compressed_log = next(directory.glob(f"*.log{suffix}"))
    compressed_log.write_bytes(compressed_log.read_bytes()[:100])
    for name in ("check", "retention", "verify-crc"):
        truncated_result = run_kfmt(name, "logs", cwd=tmp_path)
        assert truncated_result.code == 3
        assert (
            f"kfmt: logs/orders-0/{compressed_log.name}: cannot be decompressed"
            in truncated_result.err
        )


def test_a_packed_file_that_is_cut_does_not_hide_the_others(tmp_path: Path) -> None:
    directory = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", directory)
    expected = run_kfmt("dump", "logs", "--json", cwd=tmp_path).of("batch")
    log, index = directory / f"{480:020}.log", directory / f"{240:020}.index"
    data = zstandard.ZstdCompressor().compress(log.read_bytes()) * 30
    log.with_name(log.name + ".zst").write_bytes(data[: len(data) * 2 // 3 - 9])
    index.with_name(index.name + ".gz").write_bytes(b"\x1f\x8b")
    log.unlink()
    index.unlink()
    result = run_kfmt("dump", "logs", "--json", cwd=tmp_path)
    assert result.code == 3
    message = "logs/orders-0/{}: cannot be decompressed: "
    assert message.format(f"{log.name}.zst") in result.err
    batches = result.of("batch")
    assert [row for row in batches if f"{480:020}" not in row["file"]] == [
        row for row in expected if f"{480:020}" not in row["file"]
    ]
    offsets = [row["base_offset"] for row in batches if f"{480:020}" in row["file"]]
    assert offsets[:12] == [row["base_offset"] for row in expected if f"{480:020}" in row["file"]]
    assert len(offsets) > 100
    check_result = run_kfmt("check", "logs", cwd=tmp_path)
    assert check_result.code == 3
    for name in (f"{log.name}.zst", f"{index.name}.gz"):
        assert message.format(name) in check_result.err
    assert "2 inputs not read" in check_result.out


def test_an_undecodable_compressed_file_is_not_an_empty_one(tmp_path: Path) -> None:
    directory = tmp_path / "logs/orders-0"
    directory.mkdir(parents=True)
    shutil.copy(BROKER / "orders-0" / f"{0:020}.log", directory)
    (directory / f"{240:020}.log.gz").write_bytes(b"x")
    for path in ("logs", f"logs/orders-0/{240:020}.log", f"logs/orders-0/{240:020}.log.gz"):
        for command in ("verify-crc", "dump", "stat", "check"):
            result = run_kfmt(command, path, cwd=tmp_path)
            assert result.code == 3, (command, path)
            assert f"logs/orders-0/{240:020}.log.gz: cannot be decompressed: " in result.err


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".lz4"])
def test_a_packed_log_is_read_up_to_its_damage(suffix: str, tmp_path: Path) -> None:
    """Also if only the checksum of the compressed file, or of a later frame, is wrong."""
    compressors: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
        ".lz4": partial(lz4.frame.compress, content_checksum=True),
    }
    data = (BROKER / "orders-0" / f"{480:020}.log").read_bytes()
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for frames in ([data], [data[:20_000], data[20_000:]]):
        compressed = bytearray(b"".join(map(compressors[suffix], frames)))
        compressed[-8 if suffix == ".gz" else -1] ^= 1
        (directory / f"{480:020}.log{suffix}").write_bytes(compressed)
        result = run_kfmt("salvage", "orders-0", f"out-{len(frames)}", "--json", cwd=tmp_path)
        assert result.code == 3
        assert result.of("summary")[0]["batches_after"] == 12
        salvaged = tmp_path / f"out-{len(frames)}" / f"{480:020}.log"
        assert salvaged.read_bytes() == data


def test_a_compressed_log_opens_by_its_uncompressed_name(tmp_path: Path) -> None:
    log = BROKER / "orders-0" / f"{480:020}.log"
    (tmp_path / f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    expected = run_kfmt("cat", log, cwd=tmp_path).out
    for path in (log.name, f"./{log.name}", tmp_path / log.name):
        assert run_kfmt("cat", path, cwd=tmp_path).out == expected


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "a/orders-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log.gz").write_bytes(b"x")
    for path in ("none", "a/none", "a/orders-1", f"a/orders-0/{1:020}.log", "none/x"):
        result = run_kfmt("check", path, cwd=tmp_path)
        question = "; did you mean orders-0?" if path == "a/orders-1" else ""
        assert (result.code, result.err) == (
            3,
            f"kfmt: {path}: No such file or directory{question}\n",
        )


@pytest.mark.parametrize("command", ["check", "index-check", "report"])
def test_a_packed_log_without_indexes_lacks_those_next_to_it(command: str, tmp_path: Path) -> None:
    directory = tmp_path / "logs/orders-0"
    directory.mkdir(parents=True)
    log = BROKER / "orders-0" / f"{0:020}.log"
    (directory / f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    options = ["--to", "r.html", "--data", "r.json"] if command == "report" else ["--json"]
    result = run_kfmt(command, "logs", *options, cwd=tmp_path)
    assert result.code == 0, result.err
    rows = json.loads((tmp_path / "r.json").read_text()) if command == "report" else result.rows
    missing = {row["file"] for row in rows if row.get("code", "").endswith("index-missing")}
    assert missing == {f"logs/orders-0/{0:020}.{suffix}" for suffix in ("index", "timeindex")}


def test_a_compressed_log_is_found_in_any_directory(tmp_path: Path) -> None:
    for i in range(8):
        shutil.copytree(BROKER / "orders-0", tmp_path / f"logs/t{i}-0")
    for i in range(8):
        directory = tmp_path / f"logs/t{i}-0"
        log = min(directory.glob("*.log"))
        compressed_log = directory / f"{log.name}.gz"
        compressed_log.write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        for command, total in (("index-check", "112 indexes"), ("verify-crc", "56 segments")):
            result = run_kfmt(command, "logs", cwd=tmp_path)
            assert result.code == 0, result.out
            assert f"{total}, " in result.out
        compressed_log.rename(log)
        log.write_bytes(gzip.decompress(log.read_bytes()))


def test_an_archive_in_an_archive_is_read(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "logs/orders-0")
    shutil.make_archive(str(tmp_path / "inner"), "zip", tmp_path, "logs")
    with tarfile.open(tmp_path / "outer.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "inner.zip", "kept/inner.zip")
    expected = run_kfmt("dump", "logs", "--json", cwd=tmp_path)
    for path in ("kept/inner.zip/logs", "kept/inner.zip/logs/orders-0"):
        actual = run_kfmt("dump", f"outer.tar.gz/{path}", "--json", cwd=tmp_path)
        assert actual.code == 0, actual.err
        assert actual.out.replace("outer.tar.gz/kept/inner.zip/", "") == expected.out
    result = run_kfmt("check", "outer.tar.gz/kept/inner.zip/../x", cwd=tmp_path)
    assert (result.code, result.out) == (3, "")
    assert "points outside outer.tar.gz" in result.err


SPAWN_SCRIPT = """
import multiprocessing, sys
from kfmt_cli.execution import processes
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    processes.MIN_PARALLEL_BYTES = 0
    from kfmt_cli.cli import kfmt
    kfmt(sys.argv[2:])
"""


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_spawned_processes_read_archives(start_method: str, tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "logs/orders-0")
    log = tmp_path / "logs/orders-0" / f"{0:020}.log"
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    script = tmp_path / "spawns.py"
    script.write_text(SPAWN_SCRIPT)
    for path in ("a.tar", "logs"):
        command = ["check", path, "--jobs", "2"]
        result = subprocess.run(
            [sys.executable, script, start_method, *command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "7 segments, 1 500 records, no damage" in result.stdout


def test_a_directory_whose_name_begins_with_an_archives_is_read_from_the_disk(
    tmp_path: Path,
) -> None:
    shutil.make_archive(str(tmp_path / "a"), "tar", BROKER, "txn-0")
    shutil.copytree(BROKER / "orders-0", tmp_path / "a.tar-old/orders-0")
    result = run_kfmt("verify-crc", "a.tar", "a.tar-old", cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    assert "10 segments, 258 batches" in result.out


def test_files_next_to_a_member_are_used(tmp_path: Path) -> None:
    """A producer snapshot by `rebuild-index`, schemas by `cat`."""
    shutil.make_archive(str(tmp_path / "a"), "tar", BROKER, "txn-0")
    log = f"txn-0/{635:020}.log"
    assert run_kfmt("rebuild-index", f"a.tar/{log}", "ours", cwd=tmp_path).code == 0
    assert kfmt("rebuild-index", BROKER / log, "theirs", cwd=tmp_path).code == 0
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == names
    assert f"{736:020}.snapshot" in names


def test_a_packed_log_given_with_its_directory_is_read_once(tmp_path: Path) -> None:
    directory = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", directory)
    log = directory / f"{0:020}.log"
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    for paths in (
        (f"logs/orders-0/{log.name}.gz", "logs"),
        ("logs", f"logs/orders-0/{log.name}.gz"),
    ):
        assert len(run_kfmt("cat", *paths, "-f", "%o\n", cwd=tmp_path).out.split()) == 1500
    assert (
        run_kfmt("cat", f"logs/orders-0/{log.name}", "-f", "%o\n", cwd=tmp_path).out.count("\n")
        == 240
    )
    result = run_kfmt("rebuild-index", "logs", "--in-place", cwd=tmp_path)
    assert result.code == 2
    assert "cannot be changed" in result.err


def test_python_reads_files_that_were_replaced(tmp_path: Path) -> None:
    import kfmt_cli

    counts = []
    for name in ("orders-0", "txn-0"):
        shutil.make_archive(str(tmp_path / "a"), "tar", BROKER, name)
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)
        shutil.copytree(BROKER / name, tmp_path / "logs" / name)
        log = min((tmp_path / "logs" / name).glob("*.log"))
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        paths = (tmp_path / "a.tar", tmp_path / "logs")
        counts += [sum(map(len, kfmt_cli.read_records(path))) for path in paths]
    assert counts[0] == counts[1] == 1500
    assert counts[2] == counts[3] != 1500
