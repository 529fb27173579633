"""What a real broker makes of log directories that it has run on, once they are changed.

Needs what tools/kafka.py needs.
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
    """What became of a broker."""

    up: bool
    """It came up and stayed up."""
    errors: Sequence[str]
    topics: Mapping[str, tuple[int, int, Sequence[int]] | None]
    """The first offset, the end and the offsets that a consumer was given of each topic's only
    partition; None where it was not served."""
    left: Mapping[str, Sequence[str]]
    """The names in each log directory afterwards."""


def run_on(
    topics: Mapping[str, Files],
    to: Path,
    *,
    is_double: bool = False,
    has_snapshot: bool = False,
    version: str = VERSION,
) -> None:
    """Let a broker run on partitions of these topics and stop: log directories `one` and `two`.

    has_snapshot: the metadata log has a snapshot besides that of offset 0.
    """
    one = to / "one"
    for topic, files in topics.items():
        (one / f"{topic}-0").mkdir(parents=True)
        for name, content in files.items():
            (one / f"{topic}-0" / name).write_bytes(content)
    settings: dict[str, dict[str, str]] = {topic: {} for topic in topics}
    often = {"metadata.log.max.record.bytes.between.snapshots": "1"} if has_snapshot else {}
    [outcome] = _run([(to, {"topics": settings, "as_is": False}, topics)], version, often)
    if not outcome["up"]:
        raise BrokerError("\n".join(outcome["errors"]))
    if is_double:
        (to / "two").mkdir()
        said = dict(
            line.split("=", 1)
            for line in (one / "meta.properties").read_text().splitlines()
            if "=" in line
        )
        (to / "two/meta.properties").write_text(
            META.format(cluster=said["cluster.id"], directory=SECOND_ID)
        )
        [outcome] = _run([(to, {"topics": {}, "as_is": True}, topics)], version)
        if not outcome["up"]:
            raise BrokerError("\n".join(outcome["errors"]))


def start_all(
    base: Path, changes: Sequence[Change], topics: Sequence[str], version: str = VERSION
) -> list[Seen]:
    """What a broker makes of copies of its directories, each changed in another way.

    Now and then a broker looks at its directories before it has read its metadata, and sets
    aside what it does not know yet. One that has set something aside is started again, on a fresh
    copy; what it does every time is what it does.
    """
    found: dict[int, Seen] = {}
    left = list(range(len(changes)))
    for _ in range(TRIES):
        if not left:
            break
        with tempfile.TemporaryDirectory() as scratch:
            plans = []
            for i in left:
                copy = Path(scratch) / str(i)
                shutil.copytree(base, copy)
                changes[i](copy)
                plans.append((copy, {"topics": {}, "as_is": True}, topics))
            before = [_strays(copy) for copy, _, _ in plans]
            rows = _run(plans, version)
            again = []
            for i, row, (copy, _, _), old in zip(left, rows, plans, before, strict=True):
                found[i] = _seen(row, copy)
                if _strays(copy) - old:
                    again.append(i)
            left = again
    return [found[i] for i in range(len(changes))]


def _strays(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*/*-stray")}


def _run(
    plans: Sequence[tuple[Path, dict[str, Any], Sequence[str] | Mapping[str, Any]]],
    version: str,
    settings: Mapping[str, str] = DEFAULTS,
) -> list[dict[str, Any]]:
    ports = free_ports(2 * len(plans))
    starts = []
    for i, (folder, plan, topics) in enumerate(plans):
        dirs = ",".join(
            str(directory) for directory in (folder / "one", folder / "two") if directory.exists()
        )
        broker, controller = ports[2 * i : 2 * i + 2]
        server = {
            "log.dirs": dirs,
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        }
        probe: dict[str, Any] = {"isolations": ["read_uncommitted"], "seeks": [], "times": []}
        probes = dict.fromkeys(topics, probe)
        whole = {**SERVER, **server, **settings}
        starts.append({**plan, "server": whole, "pause": 0, "probes": probes})
    return run_starts(starts, version)


def _seen(row: Mapping[str, Any], folder: Path) -> Seen:
    topics: dict[str, tuple[int, int, Sequence[int]] | None] = {}
    for topic, found in row["topics"].items():
        topics[topic] = None
        if "failed" not in found:
            read = found["reads"]["read_uncommitted"]
            topics[topic] = found["log_start"], found["log_end"], read["offsets"]
    left = {path.name: sorted(child.name for child in path.iterdir()) for path in folder.iterdir()}
    return Seen(row["up"], row["errors"], topics, left)
