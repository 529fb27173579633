"""How a real broker starts on log directories that it created and that were then changed.

Requires what tools/kafka.py requires.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.broker import DEFAULTS, SERVER, BrokerError, free_ports
from tools.kafka import VERSION
from tools.observe import TRIES, Files, run_starts

META = "version=1\ncluster.id={cluster}\nnode.id=1\ndirectory.id={directory}\n"
SECOND_ID = "2aaaaaaaQaaaaaaaaaaaaa"
Change = Callable[[Path], object]
"""Changes the directories `one` and, if there are two, `two` below a path."""


@dataclass(frozen=True)
class Seen:
    """The result of a broker's start."""

    up: bool
    """It came up and stayed up."""
    errors: Sequence[str]
    topics: Mapping[str, tuple[int, int, Sequence[int]] | None]
    """Log start offset, log end offset and consumed offsets of each topic's only partition; None if
    it was not served."""
    left: Mapping[str, Sequence[str]]
    """The names in each log directory afterwards."""
    sought: Mapping[str, frozenset[int]]
    """The offsets of each topic that a consumer received, from its start and wherever it sought."""


def run_on(
    topics: Mapping[str, Files],
    destination: Path,
    *,
    is_double: bool = False,
    has_snapshot: bool = False,
    version: str = VERSION,
) -> None:
    """Run a broker on partitions of topics and stop it: log directories `one` and `two`.

    has_snapshot: the metadata log has a snapshot in addition to that of offset 0.
    """
    first_directory = destination / "one"
    for topic, files in topics.items():
        (first_directory / f"{topic}-0").mkdir(parents=True)
        for name, content in files.items():
            (first_directory / f"{topic}-0" / name).write_bytes(content)
    settings: dict[str, dict[str, str]] = {topic: {} for topic in topics}
    snapshot_settings = (
        {"metadata.log.max.record.bytes.between.snapshots": "1"} if has_snapshot else {}
    )
    [outcome] = _run(
        [(destination, {"topics": settings, "as_is": False}, topics)], version, snapshot_settings
    )
    if not outcome["up"]:
        raise BrokerError("\n".join(outcome["errors"]))
    if is_double:
        (destination / "two").mkdir()
        properties = dict(
            line.split("=", 1)
            for line in (first_directory / "meta.properties").read_text().splitlines()
            if "=" in line
        )
        (destination / "two/meta.properties").write_text(
            META.format(cluster=properties["cluster.id"], directory=SECOND_ID)
        )
        [outcome] = _run([(destination, {"topics": {}, "as_is": True}, topics)], version)
        if not outcome["up"]:
            raise BrokerError("\n".join(outcome["errors"]))


def start_all(
    base: Path,
    changes: Sequence[Change],
    topics: Sequence[str],
    version: str = VERSION,
    seeks: Sequence[int] = (),
) -> list[Seen]:
    """Start a broker on copies of its directories, each with another change.

    Sometimes a broker reads its directories before its metadata and renames partitions that it does
    not know yet to strays. Such a start is repeated on a fresh copy, up to a limit.
    """
    results: dict[int, Seen] = {}
    remaining = list(range(len(changes)))
    for _ in range(TRIES):
        if not remaining:
            break
        with tempfile.TemporaryDirectory() as scratch:
            plans = []
            for i in remaining:
                copy = Path(scratch) / str(i)
                shutil.copytree(base, copy)
                changes[i](copy)
                plans.append((copy, {"topics": {}, "as_is": True}, topics))
            previous_strays = [_strays(copy) for copy, _, _ in plans]
            rows = _run(plans, version, seeks=seeks)
            retried = []
            for i, row, (copy, _, _), known_strays in zip(
                remaining, rows, plans, previous_strays, strict=True
            ):
                results[i] = _seen(row, copy)
                if _strays(copy) - known_strays:
                    retried.append(i)
            remaining = retried
    return [results[i] for i in range(len(changes))]


def _strays(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("*/*-stray")}


def _run(
    plans: Sequence[tuple[Path, dict[str, Any], Sequence[str] | Mapping[str, Any]]],
    version: str,
    settings: Mapping[str, str] = DEFAULTS,
    seeks: Sequence[int] = (),
) -> list[dict[str, Any]]:
    ports = free_ports(2 * len(plans))
    starts = []
    for i, (parent, plan, topics) in enumerate(plans):
        log_directories = ",".join(
            str(directory) for directory in (parent / "one", parent / "two") if directory.exists()
        )
        broker, controller = ports[2 * i : 2 * i + 2]
        server = {
            "log.dirs": log_directories,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        }
        probe: dict[str, Any] = {
            "isolations": ["read_uncommitted"],
            "seeks": list(seeks),
            "times": [],
        }
        probes = dict.fromkeys(topics, probe)
        all_settings = {**SERVER, **server, **settings}
        starts.append({**plan, "server": all_settings, "pause": 0, "probes": probes})
    return run_starts(starts, version)


def _seen(row: Mapping[str, Any], parent: Path) -> Seen:
    topics: dict[str, tuple[int, int, Sequence[int]] | None] = {}
    sought: dict[str, frozenset[int]] = {}
    for topic, observed in row["topics"].items():
        topics[topic] = None
        if "failed" not in observed:
            read = observed["reads"]["read_uncommitted"]
            topics[topic] = observed["log_start"], observed["log_end"], read["offsets"]
            reads = [read, *observed["seeks"]]
            sought[topic] = frozenset(offset for read in reads for offset in read["offsets"])
    names_by_directory = {
        path.name: sorted(child.name for child in path.iterdir())
        for path in parent.iterdir()
        if path.is_dir()
    }
    return Seen(row["up"], row["errors"], topics, names_by_directory, sought)
