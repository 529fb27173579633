"""Archives are read as the directories that were packed, and shown by the path that was given."""

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


def ran(*arguments: str | Path, cwd: Path) -> Done:
    """A command, which says nothing of where an archive was unpacked, and leaves nothing there."""
    rest = cwd / "unpacked"
    rest.mkdir(exist_ok=True)
    done = kfmt(*arguments, cwd=cwd, TMPDIR=str(rest))
    assert str(rest) not in done.out + done.err
    assert list(rest.iterdir()) == []
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The damaged samples in every kind of archive, and the same as a directory."""
    top = tmp_path_factory.mktemp("archives")
    shutil.copytree(DAMAGED, top / "plain")
    for kind in ("tar", "gztar", "zip"):
        shutil.make_archive(str(top / "a"), kind, top, "plain")
    plain = (top / "a.tar").read_bytes()
    (top / "a.tar.zst").write_bytes(zstandard.ZstdCompressor().compress(plain))
    shutil.copy(top / "a.tar.gz", top / "b.tgz")
    return top


ARCHIVES = ["a.tar", "a.tar.gz", "b.tgz", "a.tar.zst", "a.zip"]
COMMANDS = [
    *(("check",), ("check", "--json"), ("verify-crc",), ("index-check",), ("stat", "--json")),
    *(("dump", "--json"), ("cat", "-f", "%o\\n"), ("find", "--offset", "3"), ("txn",)),
    ("retention", "--now", "2026-11-22"),
]


@pytest.mark.parametrize("archive", ARCHIVES)
def test_an_archive_is_what_was_packed(archive: str, folder: Path) -> None:
    for name, *options in COMMANDS if archive == "a.tar.gz" else COMMANDS[:2]:
        whole = ran(name, f"{archive}/plain", *options, cwd=folder)
        plain = ran(name, "plain", *options, cwd=folder)
        assert whole.code == plain.code
        unlike = ("disk_usage", "rebuild-index --in-place", '"type":"next"', "kfmt retention")
        ours, theirs = (
            [line for line in text.splitlines() if not any(word in line for word in unlike)]
            for text in (whole.out.replace(f"{archive}/plain", "plain"), plain.out)
        )
        squeezed = [[" ".join(line.split()) for line in lines] for lines in (ours, theirs)]
        assert squeezed[0] == squeezed[1], name
    assert ran("check", archive, cwd=folder).code == 1


def test_a_member_and_what_is_written(folder: Path, tmp_path: Path) -> None:
    log = f"a.zip/plain/flipped-bit-0/{0:020}.log"
    assert ran("dump", log, "--limit", "2", cwd=folder).out.startswith(log)
    assert ran("hex", log, "--position", "0", cwd=folder).code == 0
    done = ran("salvage", "a.tar/plain/flipped-bit-0", tmp_path / "saved", cwd=folder)
    assert (tmp_path / "saved" / f"{0:020}.log").exists()
    assert "salvaged 11 of 12 batches into" in done.out
    both = ("a.tar/plain/flipped-bit-0", "a.zip/plain/flipped-bit-0")
    assert "no divergence" in ran("diff", *both, cwd=folder).out
    shown = ran("check", "a.tar", cwd=folder).out
    assert "kfmt salvage a.tar/plain DST" in shown
    assert "--in-place" not in shown
    pytest.importorskip("pyarrow")
    done = ran("export", "a.tar", "--to", tmp_path / "ex", "--format", "csv", cwd=folder)
    assert done.code == 1
    rows = "".join(file.read_text() for file in (tmp_path / "ex").rglob("*.csv"))
    assert f"{folder}/a.tar/plain/flipped-bit-0/" in rows


def test_an_archive_with_two_names_is_read_once(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    (tmp_path / "link.tar").symlink_to(folder / "a.tar")
    spellings = ("a.tar", "./a.tar", str(folder / "a.tar"), str(tmp_path / "link.tar"))
    rows = []
    for i, given in enumerate((spellings[:1], spellings)):
        of_sql = ran("sql", "SELECT count(*) n FROM records", *given, "--json", cwd=folder)
        ran("export", *given, "--to", tmp_path / str(i), "--format", "csv", cwd=folder)
        written = [file.read_text() for file in (tmp_path / str(i)).rglob("*.csv")]
        rows.append((of_sql.out, sorted(written)))
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
        for row in ran("stat", "a.tar.gz", "--json", cwd=tmp_path).of("disk_usage")
    }
    assert rows["indexes"]["bytes"] > 10 << 20 > rows["indexes"]["disk_bytes"]
    assert rows["logs"]["file"] == "a.tar.gz"
    at = ("--now", "2026-11-22", "--json")
    packed, plain = (
        ran("retention", path, *at, cwd=tmp_path).of("retention") for path in ("a.tar.gz", "data")
    )
    assert [row["deletable_at"] for row in packed] == [row["deletable_at"] for row in plain]


def test_what_is_no_archive_or_leads_out_of_it(tmp_path: Path) -> None:
    for name in ("a.tar", "a.tar.gz", "a.zip", "a.tar.zst"):
        (tmp_path / name).write_bytes(b"no archive at all" * 100)
        done = ran("check", name, cwd=tmp_path)
        assert done.code == 3
        assert done.err.startswith(f"kfmt: {name}: ")
        assert "Traceback" not in done.err
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        for name in ("../gone.log", "/etc/gone.log", "t-0/../../gone.log"):
            member = tarfile.TarInfo(name)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("t-0/link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    done = ran("stat", "out.tar", cwd=tmp_path)
    assert not list(tmp_path.parent.rglob("gone.log"))
    assert "passwd" not in done.out
    with zipfile.ZipFile(tmp_path / "cut.zip", "w") as packed:
        packed.writestr("t-0/x", b"a" * 9000)
    whole = (tmp_path / "cut.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:4000])
    assert ran("check", "cut.zip", cwd=tmp_path).code == 3
    (tmp_path / "dir.tar").mkdir()
    assert ran("check", "dir.tar", cwd=tmp_path).code == 3  # a directory of such a name
    assert ran("check", "none.tar/t-0", cwd=tmp_path).code == 3


@pytest.mark.parametrize("command", [("check",), ("export", "--to", "made")])
def test_a_member_that_is_left_out_is_not_read(command: tuple[str, ...], tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        tar.add(BROKER / "orders-0", "orders-0")
        tar.addfile(tarfile.TarInfo("../gone.log"))
    done = ran(command[0], "out.tar", *command[1:], cwd=tmp_path)
    words = "kfmt: out.tar: ../gone.log: points outside the archive, skipped\n"
    assert (done.code, done.err) == (3, words)


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
        done = ran("check", path, cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        assert "7 segments, 1 500 records" in done.out


def test_an_archive_that_is_damaged_is_not_half_an_archive(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "data/orders-0")
    for kind in ("tar", "gztar"):
        shutil.make_archive(str(tmp_path / "a"), kind, tmp_path / "data")
    data = bytearray((tmp_path / "a.tar").read_bytes())
    with tarfile.open(tmp_path / "a.tar") as tar:
        members = [member for member in tar if member.isreg()]
    at = members[5].offset
    flipped = bytes([*data[: at + 3], data[at + 3] ^ 1, *data[at + 4 :]])
    packed = bytearray((tmp_path / "a.tar.gz").read_bytes())
    packed[-6] ^= 1  # of the checksum at its end
    for name, content in (
        ("header.tar", flipped),
        ("cut.tar", data[:at]),
        ("inside.tar", data[: at + 700]),
        ("sum.tar.gz", packed),
        ("cut.tar.gz", packed[: len(packed) // 2]),
    ):
        (tmp_path / name).write_bytes(content)
        done = ran("check", name, cwd=tmp_path)
        assert done.code == 3, name
        assert done.err.startswith(f"kfmt: {name}: "), done.err


def test_paths_that_lead_out_or_need_to_be_written(folder: Path, tmp_path: Path) -> None:
    for path in ("a.tar/..", "a.tar/plain/../../x"):
        done = ran("check", path, cwd=folder)
        assert (done.code, done.out) == (3, "")
        assert "points outside a.tar" in done.err
    done = ran("rebuild-index", "a.tar/plain/flipped-bit-0", "--in-place", cwd=folder)
    assert done.code == 2
    assert "cannot be changed" in done.err
    assert ran("rebuild-index", "a.tar/plain/zero-hole-0", tmp_path / "i", cwd=folder).code == 1
    rows = ran("check", "a.tar/", "--json", cwd=folder).rows
    assert {row["file"].partition("/")[0] for row in rows if row.get("file")} == {"a.tar"}


def test_python_reads_archives(folder: Path) -> None:
    import kfmt_cli

    found = list(kfmt_cli.verify(folder / "a.tar.gz"))
    assert found
    assert {finding.file.partition("/plain/")[0] for finding in found} == {str(folder / "a.tar.gz")}


def test_reports_name_what_is_in_an_archive(folder: Path) -> None:
    for name in ("sarif", "github"):
        said = ran("check", "a.tar", "--format", name, cwd=folder).out
        assert f"a.tar/plain/flipped-bit-0/{0:020}.log: " in said


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_directory_of_packed_logs_is_read_by_every_command(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", tmp_path / "plain/orders-0")
    shutil.copytree(BROKER / "orders-0", folder)
    pack = gzip.compress if suffix == ".gz" else zstandard.ZstdCompressor().compress
    for log in sorted(folder.glob("0*.*"))[::2]:
        log.with_name(log.name + suffix).write_bytes(pack(log.read_bytes()))
        log.unlink()
    for name, *options in [*COMMANDS, ("export", "--to", "lake"), ("compaction",)]:
        shutil.rmtree(tmp_path / "lake", ignore_errors=True)
        ours = ran(name, "logs", *options, cwd=tmp_path)
        shutil.rmtree(tmp_path / "lake", ignore_errors=True)
        theirs = ran(name, "plain", *options, cwd=tmp_path)
        assert ours.code == theirs.code, ours.err
        ours_lines, theirs_lines = (
            [line for line in done.out.splitlines() if "disk_usage" not in line]
            for done in (ours, theirs)
        )
        assert len(ours_lines) == len(theirs_lines)
    batches = ran("dump", "logs", "--json", cwd=tmp_path).of("batch")
    for path in {row["file"] for row in batches}:
        assert (tmp_path / path).exists()
    assert ran("salvage", "logs/orders-0", "saved", cwd=tmp_path).code == 0
    assert ran("convert-v0-to-v2", "logs/orders-0", "converted", cwd=tmp_path).code in (0, 3)
    packed = next(folder.glob(f"*.log{suffix}"))
    packed.write_bytes(packed.read_bytes()[:100])
    for name in ("check", "retention", "verify-crc"):
        cut = ran(name, "logs", cwd=tmp_path)
        assert cut.code == 3
        assert f"kfmt: logs/orders-0/{packed.name}: cannot be decompressed" in cut.err


def test_a_packed_file_that_is_cut_does_not_hide_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", folder)
    whole = ran("dump", "logs", "--json", cwd=tmp_path).of("batch")
    log, index = folder / f"{480:020}.log", folder / f"{240:020}.index"
    data = zstandard.ZstdCompressor().compress(log.read_bytes()) * 30
    log.with_name(log.name + ".zst").write_bytes(data[: len(data) * 2 // 3 - 9])
    index.with_name(index.name + ".gz").write_bytes(b"\x1f\x8b")
    log.unlink()
    index.unlink()
    done = ran("dump", "logs", "--json", cwd=tmp_path)
    assert done.code == 3
    words = "logs/orders-0/{}: cannot be decompressed: "
    assert words.format(f"{log.name}.zst") in done.err
    shown = done.of("batch")
    assert [row for row in shown if f"{480:020}" not in row["file"]] == [
        row for row in whole if f"{480:020}" not in row["file"]
    ]
    rest = [row["base_offset"] for row in shown if f"{480:020}" in row["file"]]
    assert rest[:12] == [row["base_offset"] for row in whole if f"{480:020}" in row["file"]]
    assert len(rest) > 100
    checked = ran("check", "logs", cwd=tmp_path)
    assert checked.code == 3
    for name in (f"{log.name}.zst", f"{index.name}.gz"):
        assert words.format(name) in checked.err
    assert "2 inputs not read" in checked.out


def test_a_packed_file_of_which_nothing_can_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    folder = tmp_path / "logs/orders-0"
    folder.mkdir(parents=True)
    shutil.copy(BROKER / "orders-0" / f"{0:020}.log", folder)
    (folder / f"{240:020}.log.gz").write_bytes(b"x")
    for path in ("logs", f"logs/orders-0/{240:020}.log", f"logs/orders-0/{240:020}.log.gz"):
        for command in ("verify-crc", "dump", "stat", "check"):
            done = ran(command, path, cwd=tmp_path)
            assert done.code == 3, (command, path)
            assert f"logs/orders-0/{240:020}.log.gz: cannot be decompressed: " in done.err


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".lz4"])
def test_a_packed_log_is_read_up_to_its_damage(suffix: str, tmp_path: Path) -> None:
    """Also where only its own checksum is wrong, or a later frame."""
    packers: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
        ".lz4": partial(lz4.frame.compress, content_checksum=True),
    }
    data = (BROKER / "orders-0" / f"{480:020}.log").read_bytes()
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for frames in ([data], [data[:20_000], data[20_000:]]):
        packed = bytearray(b"".join(map(packers[suffix], frames)))
        packed[-8 if suffix == ".gz" else -1] ^= 1
        (folder / f"{480:020}.log{suffix}").write_bytes(packed)
        done = ran("salvage", "orders-0", f"out-{len(frames)}", "--json", cwd=tmp_path)
        assert done.code == 3
        assert done.of("summary")[0]["batches_after"] == 12
        made = tmp_path / f"out-{len(frames)}" / f"{480:020}.log"
        assert made.read_bytes() == data


def test_a_packed_log_opens_by_its_plain_name_alone(tmp_path: Path) -> None:
    log = BROKER / "orders-0" / f"{480:020}.log"
    (tmp_path / f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    of_log = ran("cat", log, cwd=tmp_path).out
    for path in (log.name, f"./{log.name}", tmp_path / log.name):
        assert ran("cat", path, cwd=tmp_path).out == of_log


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "a/orders-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log.gz").write_bytes(b"x")
    for path in ("none", "a/none", "a/orders-1", f"a/orders-0/{1:020}.log", "none/x"):
        done = ran("check", path, cwd=tmp_path)
        assert (done.code, done.err) == (3, f"kfmt: {path}: No such file or directory\n")


@pytest.mark.parametrize("command", ["check", "index-check", "report"])
def test_a_packed_log_without_indexes_lacks_those_next_to_it(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "logs/orders-0"
    folder.mkdir(parents=True)
    log = BROKER / "orders-0" / f"{0:020}.log"
    (folder / f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    options = ["--to", "r.html", "--data", "r.json"] if command == "report" else ["--json"]
    done = ran(command, "logs", *options, cwd=tmp_path)
    assert done.code == 1, done.err
    rows = json.loads((tmp_path / "r.json").read_text()) if command == "report" else done.rows
    missing = {row["file"] for row in rows if row.get("code", "").endswith("index-missing")}
    assert missing == {f"logs/orders-0/{0:020}.{end}" for end in ("index", "timeindex")}


def test_a_packed_log_is_found_in_whichever_directory(tmp_path: Path) -> None:
    for i in range(8):
        shutil.copytree(BROKER / "orders-0", tmp_path / f"logs/t{i}-0")
    for i in range(8):
        folder = tmp_path / f"logs/t{i}-0"
        log = min(folder.glob("*.log"))
        packed = folder / f"{log.name}.gz"
        packed.write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        for command, all_of_them in (("index-check", "112 indexes"), ("verify-crc", "56 segments")):
            done = ran(command, "logs", cwd=tmp_path)
            assert done.code == 0, done.out
            assert f"{all_of_them}, " in done.out
        packed.rename(log)
        log.write_bytes(gzip.decompress(log.read_bytes()))


def test_an_archive_in_an_archive_is_read(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "logs/orders-0")
    shutil.make_archive(str(tmp_path / "inner"), "zip", tmp_path, "logs")
    with tarfile.open(tmp_path / "outer.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "inner.zip", "kept/inner.zip")
    plain = ran("dump", "logs", "--json", cwd=tmp_path)
    for path in ("kept/inner.zip/logs", "kept/inner.zip/logs/orders-0"):
        ours = ran("dump", f"outer.tar.gz/{path}", "--json", cwd=tmp_path)
        assert ours.code == 0, ours.err
        assert ours.out.replace("outer.tar.gz/kept/inner.zip/", "") == plain.out
    done = ran("check", "outer.tar.gz/kept/inner.zip/../x", cwd=tmp_path)
    assert (done.code, done.out) == (3, "")
    assert "points outside outer.tar.gz" in done.err


SPAWNS = """
import multiprocessing, sys
from kfmt_cli.execution import processes
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    processes.MIN_PARALLEL_BYTES = 0
    from kfmt_cli.cli import kfmt
    kfmt(sys.argv[2:])
"""


@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_processes_that_are_no_forks_read_archives(how: str, tmp_path: Path) -> None:
    shutil.copytree(BROKER / "orders-0", tmp_path / "logs/orders-0")
    log = tmp_path / "logs/orders-0" / f"{0:020}.log"
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS)
    for path in ("a.tar", "logs"):
        command = ["check", path, "--jobs", "2"]
        done = subprocess.run(
            [sys.executable, script, how, *command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "7 segments, 1 500 records, no damage" in done.stdout


def test_files_next_to_a_member_are_used(tmp_path: Path) -> None:
    """A producer snapshot by `rebuild-index`, schemas by `cat`."""
    shutil.make_archive(str(tmp_path / "a"), "tar", BROKER, "txn-0")
    log = f"txn-0/{635:020}.log"
    assert ran("rebuild-index", f"a.tar/{log}", "ours", cwd=tmp_path).code == 0
    assert kfmt("rebuild-index", BROKER / log, "theirs", cwd=tmp_path).code == 0
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == names
    assert f"{736:020}.snapshot" in names


def test_a_packed_log_given_with_its_directory_is_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "logs/orders-0"
    shutil.copytree(BROKER / "orders-0", folder)
    log = folder / f"{0:020}.log"
    log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    for paths in (
        (f"logs/orders-0/{log.name}.gz", "logs"),
        ("logs", f"logs/orders-0/{log.name}.gz"),
    ):
        assert len(ran("cat", *paths, "-f", "%o\n", cwd=tmp_path).out.split()) == 1500
    assert (
        ran("cat", f"logs/orders-0/{log.name}", "-f", "%o\n", cwd=tmp_path).out.count("\n") == 240
    )
    done = ran("rebuild-index", "logs", "--in-place", cwd=tmp_path)
    assert done.code == 2
    assert "cannot be changed" in done.err


def test_python_reads_what_is_there_now(tmp_path: Path) -> None:
    import kfmt_cli

    counts = []
    for name in ("orders-0", "txn-0"):
        shutil.make_archive(str(tmp_path / "a"), "tar", BROKER, name)
        shutil.rmtree(tmp_path / "logs", ignore_errors=True)
        shutil.copytree(BROKER / name, tmp_path / "logs" / name)
        log = min((tmp_path / "logs" / name).glob("*.log"))
        log.with_name(f"{log.name}.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        both = (tmp_path / "a.tar", tmp_path / "logs")
        counts += [sum(map(len, kfmt_cli.read_records(path))) for path in both]
    assert counts[0] == counts[1] == 1500
    assert counts[2] == counts[3] != 1500
