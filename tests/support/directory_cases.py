"""Log directories with one error each: brokers are started on them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.not_file_cases import directory_changes
from tests.support.segments import positions

Change = Callable[[Path], None]
META, MARKER = "meta.properties", ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS, HIGH_WATERMARKS = "log-start-offset-checkpoint", "replication-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
OTHER_ID = "3bbbbbbbQbbbbbbbbbbbbb"
_QUORUM_STATE_EDITS = [
    ("of the last epoch", '"leaderEpoch":[0-9]+', '"leaderEpoch":2147483647'),
    ("of the epoch before", '"leaderEpoch":[0-9]+', '"leaderEpoch":2147483646'),
    ("of a negative epoch", '"leaderEpoch":[0-9]+', '"leaderEpoch":-5'),
    ("with its epoch as text", '"leaderEpoch":([0-9]+)', r'"leaderEpoch":"\1"'),
    ("with a null epoch", '"leaderEpoch":[0-9]+', '"leaderEpoch":null'),
    ("with a leader in a decimal", '"leaderId":([0-9]+)', r'"leaderId":\1.0'),
    ("without votedId", '"votedId":-?[0-9]+,', ""),
    ("of another voter", '"voterId":[0-9]+', '"voterId":9'),
    ("with a voter as text", '"voterId":([0-9]+)', r'"voterId":"\1"'),
    ("with a voter without an id", '"voterId":[0-9]+', '"x":1'),
    ("without voters", '"currentVoters":[^]]*]', '"currentVoters":[]'),
    ("with null voters", '"currentVoters":[^]]*]', '"currentVoters":null'),
    ("with a number as its cluster", '"clusterId":"[^"]*"', '"clusterId":5'),
    ("with an unknown member", "^{", '{"x":1,'),
]
STRAY = "victim-0.0123456789abcdef0123456789abcdef-stray"


@dataclass(frozen=True)
class Case:
    """A change of the log directory `one` of a path."""

    description: str
    change: Change
    is_double: bool = False
    """Whether there is a log directory `two` as well."""
    has_snapshot: bool = False
    """Whether the metadata log has a snapshot in addition to that of offset 0."""


def cases() -> Iterator[Case]:
    """Every case."""
    yield Case("nothing", lambda _: None)
    yield Case("a crash", lambda path: (path / "one" / MARKER).unlink())
    yield from _meta()
    yield from _partition_metadata()
    yield from _files()
    yield from _directories()
    yield from _metadata_log()
    yield from _metadata_snapshots()
    yield from _checkpoints()
    yield from _two_directories()
    for description, change in directory_changes():
        yield Case(description, change)
        yield Case(f"{description}, after a crash", crashed(change))


def crashed(change: Change) -> Change:
    """The same change, and no marker of a clean shutdown."""

    def change_and_crash(path: Path) -> None:
        for marker in path.glob(f"*/{MARKER}"):
            marker.unlink()
        change(path)

    return change_and_crash


def _write(name: str, content: bytes | str) -> Change:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: void((path / name).write_bytes(data))


def _edit(name: str, pattern: str, replacement: str) -> Change:
    def change(path: Path) -> None:
        text = (path / name).read_text("latin-1")  # an earlier change may have left other bytes
        changed = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        assert changed != text
        (path / name).write_text(changed, "latin-1")

    return change


def _bytes(name: str, old: bytes, new: bytes) -> Change:
    def change(path: Path) -> None:
        data = (path / name).read_bytes()
        assert old in data
        (path / name).write_bytes(data.replace(old, new, 1))

    return change


def _delete(name: str) -> Change:
    def change(path: Path) -> None:
        if (path / name).is_dir():
            shutil.rmtree(path / name)
        else:
            (path / name).unlink()

    return change


def _make_directory(name: str) -> Change:
    def change(path: Path) -> None:
        if (path / name).is_file():
            (path / name).unlink()
        (path / name).mkdir()

    return change


def _renamed(name: str, new_name: str) -> Change:
    return lambda path: void((path / name).rename(path / new_name))


def _linked(name: str) -> Change:
    """Move a directory and replace it with a link."""

    def change(path: Path) -> None:
        target = path / "other disk" / "moved"
        target.parent.mkdir()
        shutil.move(path / name, target)
        (path / name).symlink_to(Path("..", *target.relative_to(path).parts))

    return change


def _copied(name: str, new_name: str) -> Change:
    return lambda path: void(shutil.copytree(path / name, path / new_name))


def _sequence(first: Change, second: Change) -> Change:
    def change(path: Path) -> None:
        first(path)
        second(path)

    return change


def void(_: object) -> None:
    """Ignore the argument and return None."""


def _meta() -> Iterator[Case]:
    file = f"one/{META}"
    yield Case("no meta.properties", _delete(file))
    yield Case("meta.properties empty", _write(file, ""))
    yield Case("no cluster.id", _edit(file, "^cluster.id=.*$", ""))
    yield Case("no node.id", _edit(file, "^node.id=.*$", ""))
    for version in ("0", "2", "x"):
        yield Case(f"version {version}", _edit(file, "^version=.*$", f"version={version}"))
    yield Case("no version", _edit(file, "^version=.*$", ""))
    yield Case("node.id -1", _edit(file, "^node.id=.*$", "node.id=-1"))
    yield Case("node.id x", _edit(file, "^node.id=.*$", "node.id=x"))
    reserved = "directory.id=AAAAAAAAAAAAAAAAAAAAAQ"
    yield Case("a reserved directory.id", _edit(file, "^directory.id=.*$", reserved))
    yield Case("a directory.id that is none", _edit(file, "^directory.id=.*$", "directory.id=x"))
    for form, text in _IDS_OF_OTHER_FORMS.items():
        yield Case(
            f"a directory.id {form}", _edit(file, "^directory.id=.*$", f"directory.id={text}")
        )
    yield Case("no directory.id", _edit(file, "^directory.id=.*$", ""))
    unknown = "directory.id=5ddddddddddddddddddddA"
    yield Case("another directory.id", _edit(file, "^directory.id=.*$", unknown))
    yield Case("an extra key", _edit(file, "^version=", "answer=42\nversion="))
    yield Case("broker.id as well", _edit(file, "^version=", "broker.id=7\nversion="))
    yield Case("meta.properties.tmp", _write(f"{file}.tmp", "x"))
    yield Case("a space after node.id", _edit(file, "^node.id=.*$", "node.id=1 "))
    yield Case("a sign before node.id", _edit(file, "^node.id=.*$", "node.id=+1"))
    yield Case("a large node.id", _edit(file, "^node.id=.*$", "node.id=4294967297"))
    yield Case("an escaped node.id", _edit(file, "^node.id=.*$", r"node.id=\\u0031"))
    yield Case("a node.id in Arabic digits", _edit(file, "^node.id=.*$", r"node.id=\\u0661"))
    yield Case("half an escape", _edit(file, "^node.id=.*$", r"node.id=1\nanswer=\\u12"))
    yield Case("a space after the version", _edit(file, "^version=.*$", "version=1 "))
    yield Case("lines that end with a return", _edit(file, "\n", "\r"))
    yield Case("Latin-1 in meta.properties", _bytes(file, b"#", b"#\xe4"))
    yield Case("Latin-1 in cluster.id", _bytes(file, b"cluster.id=", b"cluster.id=\xe4"))
    yield Case("a space after directory.id", _edit(file, "^(directory.id=.*)$", r"\1 "))


# Texts that some readers of base64 take for an id of 16 bytes, and that Kafka refuses.
_IDS_OF_OTHER_FORMS = {
    "of plain base64": "Id4qCpYkZMw8zR87hsZy+Q",
    "with half its padding": "Id4qCpYkZMw8zR87hsZy-Q=",
    "with text after it": "Id4qCpYkZMw8zR87hsZy-Q!!!!",
    "with hyphens": "21de2a0a-9624-64cc-3ccd-1f3b86c672f9",
}


def _partition_metadata() -> Iterator[Case]:
    file = "one/victim-0/partition.metadata"
    zero = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"
    yield Case("partition.metadata missing", _delete(file))
    yield Case("partition.metadata empty", _write(file, ""))
    yield Case("partition.metadata garbage", _write(file, b"\x00\x01garbage"))
    yield Case("partition.metadata a zero id", _write(file, zero))
    for form, text in _IDS_OF_OTHER_FORMS.items():
        yield Case(
            f"partition.metadata an id {form}", _write(file, f"version: 0\ntopic_id: {text}")
        )
    yield Case(
        "partition.metadata another id", _edit(file, "^topic_id: .*", f"topic_id: {OTHER_ID}")
    )
    yield Case("partition.metadata version 1", _edit(file, "^version: 0", "version: 1"))
    yield Case("partition.metadata no id", _write(file, "version: 0\n"))
    crash = crashed(_edit(file, "^topic_id: .*", f"topic_id: {OTHER_ID}"))
    yield Case("partition.metadata another id, after a crash", crash)
    yield Case("partition.metadata of the other topic", _copied_file(_OTHER, file))
    yield Case("partition.metadata exchanged", _exchanged(_OTHER, file))
    yield Case("partition directories exchanged", _exchanged("one/bystander-0", "one/victim-0"))
    metadata = "one/__cluster_metadata-0/partition.metadata"
    other = _edit(metadata, "^topic_id: .*", f"topic_id: {OTHER_ID}")
    yield Case("another id of the metadata log", other)
    yield Case("no id of the metadata log", _delete(metadata))
    yield Case("an empty id of the metadata log", _write(metadata, ""))


_OTHER = "one/bystander-0/partition.metadata"


def _copied_file(name: str, target: str) -> Change:
    return lambda path: void((path / target).write_bytes((path / name).read_bytes()))


def _exchanged(name: str, other: str) -> Change:
    def change(path: Path) -> None:
        assert all((path / moved).exists() for moved in (name, other))
        (path / name).rename(path / "between")
        (path / other).rename(path / name)
        (path / "between").rename(path / other)

    return change


def _files() -> Iterator[Case]:
    for kind, content in (("garbage", b"\0" * 7 + b"\1" * 90), ("empty", b""), ("text", b"x" * 99)):
        yield Case(f"bootstrap.checkpoint {kind}", _write("one/bootstrap.checkpoint", content))
    yield Case("a bit of bootstrap.checkpoint", _flipped("one/bootstrap.checkpoint", -5))
    yield Case("bootstrap.checkpoint cut", _cut("one/bootstrap.checkpoint", 10))
    yield Case("no bootstrap.checkpoint", _delete("one/bootstrap.checkpoint"))
    yield Case(f"{MARKER} a directory", _make_directory(f"one/{MARKER}"))
    yield Case(f"{MARKER} garbage", _write(f"one/{MARKER}", b"\xff\xff"))
    index = "one/victim-0/00000000000000001440.index"
    yield Case("a directory in the place of an index", crashed(_make_directory(index)))
    index = "one/victim-0/00000000000000000240.index"
    yield Case("a directory in the place of a closed index", _make_directory(index))
    yield Case("a file in the log directory", _write("one/notes.txt", "mine"))


def _directories() -> Iterator[Case]:
    yield Case(
        "an empty victim-0",
        _sequence(_delete("one/victim-0"), _make_directory("one/victim-0")),
    )
    yield Case("no victim-0", _delete("one/victim-0"))
    for name in ("foreign-0", "a b-0", ".Trash-0", "foreign--1"):
        yield Case(f"a directory {name}", _make_directory(f"one/{name}"))
        yield Case(f"a partition {name}", _copied("one/victim-0", f"one/{name}"))
    for name in ("foreign-", "foreign-99999999999", "foreign-2147483647"):
        yield Case(f"a partition {name}", _copied("one/victim-0", f"one/{name}"))
    for name in ("foreign", "victim-0-delete", "lost+found", "snapshots"):
        yield Case(f"a directory {name}", _make_directory(f"one/{name}"))
    yield Case("a partition that is a link", _linked("one/victim-0"))
    yield Case("a partition that is a link, after a crash", crashed(_linked("one/victim-0")))
    yield Case("victim-00 as well", _copied("one/victim-0", "one/victim-00"))
    yield Case("victim-+0 as well", _copied("one/victim-0", "one/victim-+0"))
    yield Case("only victim-00", _renamed("one/victim-0", "one/victim-00"))
    for suffix in ("delete", "stray", "future"):
        name = STRAY.replace("stray", suffix)
        yield Case(f"only {suffix}", _renamed("one/victim-0", f"one/{name}"))
        yield Case(f"{suffix} as well", _copied("one/victim-0", f"one/{name}"))


def _metadata_log() -> Iterator[Case]:
    log = "one/__cluster_metadata-0/00000000000000000000.log"

    def flip(batch_index: int) -> Change:
        def change(path: Path) -> None:
            data = bytearray((path / log).read_bytes())
            starts = positions(bytes(data))
            start = starts[min(batch_index, len(starts) - 2)]
            data[start + 70 if start + 70 < len(data) else start + 62] ^= 1
            (path / log).write_bytes(bytes(data))

        return change

    def cut(n_bytes: int) -> Change:
        return lambda path: void((path / log).write_bytes((path / log).read_bytes()[:-n_bytes]))

    yield Case("a bit of the first metadata batches", flip(1))
    yield Case("a bit of the last metadata batches", flip(999))
    yield Case("the metadata log cut by 40 bytes", cut(40))
    yield Case("zeros after the metadata log", lambda path: _append(path / log, bytes(100)))
    yield Case("no metadata log", _delete("one/__cluster_metadata-0"))
    yield Case("quorum-state garbage", _write("one/__cluster_metadata-0/quorum-state", "x"))
    state = "one/__cluster_metadata-0/quorum-state"
    yield Case("quorum-state version 7", _edit(state, '"data_version":[0-9]+', '"data_version":7'))
    epochs = f"one/__cluster_metadata-0/{EPOCHS}"
    yield Case("bad epochs of the metadata log", _write(epochs, "7\n1\n0 0\n"))
    yield Case("quorum-state empty", _write(state, ""))
    for description, pattern, replacement in _QUORUM_STATE_EDITS:
        yield Case(f"quorum-state {description}", _edit(state, pattern, replacement))
    yield Case("quorum-state missing", _delete("one/__cluster_metadata-0/quorum-state"))


def _flipped(name: str, position: int) -> Change:
    def change(path: Path) -> None:
        for file in sorted(path.glob(name))[-1:]:
            data = bytearray(file.read_bytes())
            data[position] ^= 1
            file.write_bytes(bytes(data))

    return change


def _cut(name: str, n_bytes: int) -> Change:
    def change(path: Path) -> None:
        for file in sorted(path.glob(name))[-1:]:
            file.write_bytes(file.read_bytes()[:-n_bytes])

    return change


def _metadata_snapshots() -> Iterator[Case]:
    """A newest snapshot that cannot be loaded, and metadata logs that start after it."""
    newest = "one/__cluster_metadata-0/*.checkpoint"

    def replaced(content: bytes | None) -> Change:
        def change(path: Path) -> None:
            file = sorted(path.glob(newest))[-1]
            file.write_bytes(bytes(file.stat().st_size) if content is None else content)

        return change

    def delete(path: Path) -> None:
        sorted(path.glob(newest))[-1].unlink()

    def without_footer(path: Path) -> None:
        file = sorted(path.glob(newest))[-1]
        data = file.read_bytes()
        file.write_bytes(data[: positions(data)[-1]])

    def without_header(path: Path) -> None:
        file = sorted(path.glob(newest))[-1]
        data = file.read_bytes()
        file.write_bytes(data[positions(data)[1] :])

    changes: dict[str, Change] = {
        "nothing, a snapshot": lambda _: None,
        "a bit of the newest snapshot": _flipped(newest, -100),
        "a bit of the newest snapshot's header": _flipped(newest, 75),
        "the newest snapshot empty": replaced(b""),
        "the newest snapshot zeros": replaced(None),
        "the newest snapshot garbage": replaced(b"garbage, and more of it" * 4),
        "the newest snapshot cut": _cut(newest, 20),
        "the newest snapshot without its footer": without_footer,
        "the newest snapshot without its header": without_header,
        "the newest snapshot gone": delete,
    }
    for description, change in changes.items():
        yield Case(description, change, has_snapshot=True)


def _append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def _checkpoints() -> Iterator[Case]:
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
        yield Case(f"{name}: no number", _write(f"one/{name}", "0\n1\nvictim 0 x\n"))
        yield Case(f"{name}: missing", _delete(f"one/{name}"))
        yield Case(
            f"{name}: a large partition", _write(f"one/{name}", "0\n1\nvictim 3000000000 5\n")
        )
        yield Case(f"{name}: version 9", _write(f"one/{name}", "9\n1\nvictim 0 5\n"))
        yield Case(f"{name}: empty", _write(f"one/{name}", ""))
    epochs = f"one/victim-0/{EPOCHS}"
    yield Case("a large epoch", _write(epochs, "0\n1\n3000000000 0\n"))
    yield Case("an epoch that is no number", _write(epochs, "0\n1\nx 0\n"))
    yield Case("epochs of version 7", _write(epochs, "7\n1\n0 0\n"))


def _two_directories() -> Iterator[Case]:
    yield Case("nothing, two directories", lambda _: None, True)
    yield Case("the partition in both", _copied("one/victim-0", "two/victim-0"), True)
    yield Case("the partition in the second", _renamed("one/victim-0", "two/victim-0"), True)

    def same_id(path: Path) -> None:
        text = (path / "one" / META).read_text()
        directory = re.search(r"^directory.id=(.*)$", text, re.MULTILINE)
        assert directory
        _edit(f"two/{META}", "^directory.id=.*$", f"directory.id={directory[1]}")(path)

    yield Case("the same directory.id", same_id, True)
    garbage = _write("two/bootstrap.checkpoint", b"x" * 99)
    yield Case("bootstrap.checkpoint garbage in the second", garbage, True)
    unknown = _edit(f"one/{META}", "^directory.id=.*$", "directory.id=5ddddddddddddddddddddA")
    yield Case("another directory.id in the first", unknown, True)

    def exchanged_ids(path: Path) -> None:
        texts = [(path / name / META).read_text() for name in ("one", "two")]
        for name, text in zip(("two", "one"), texts, strict=True):
            (path / name / META).write_text(text)

    yield Case("directory.ids exchanged", exchanged_ids, True)
    future = STRAY.replace("stray", "future")
    as_future = _copied("one/victim-0", f"two/{future}")
    yield Case("a future replica in the second", as_future, True)
    file = f"two/{META}"
    yield Case("another cluster.id", _edit(file, "^cluster.id=.*$", f"cluster.id={OTHER_ID}"), True)
    yield Case("another node.id", _edit(file, "^node.id=.*$", "node.id=2"), True)
    yield Case("no meta.properties in the second", _delete(file), True)
    yield Case("no meta.properties in the first", _delete(f"one/{META}"), True)
    yield Case("no directory.id in the second", _edit(file, "^directory.id=.*$", ""), True)

    def empty(path: Path) -> None:
        shutil.rmtree(path / "two")
        (path / "two").mkdir()

    yield Case("the second new and empty", empty, True)
    yield Case("only the second crashed", _delete(f"two/{MARKER}"), True)

    def moved(change: Change) -> Change:
        return _sequence(_renamed("one/victim-0", "two/victim-0"), change)

    invalid = moved(_write(f"two/victim-0/{EPOCHS}", "7\n1\n0 0\n"))
    yield Case("bad epochs in the second", invalid, True)
    yield Case("bad epochs in the first", _write(f"one/victim-0/{EPOCHS}", "7\n1\n0 0\n"), True)
    large = moved(_write(f"two/victim-0/{EPOCHS}", "0\n1\n3000000000 0\n"))
    yield Case("a large epoch in the second", large, True)
    yield Case(
        "a bad checkpoint in the second", moved(_write(f"two/{RECOVERY_POINTS}", "9\n")), True
    )
    high_watermarks = moved(_write(f"two/{HIGH_WATERMARKS}", "0\n1\nvictim 0 x\n"))
    yield Case("no number in the marks of the second", high_watermarks, True)
    zero = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"
    invalid = moved(_write("two/victim-0/partition.metadata", zero))
    yield Case("a zero topic id in the second", invalid, True)
    yield Case("a directory lost+found in the second", _make_directory("two/lost+found"), True)
    yield Case(
        "a metadata log in the second",
        _copied("one/__cluster_metadata-0", "two/__cluster_metadata-0"),
        True,
    )
