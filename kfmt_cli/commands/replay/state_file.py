"""The state file of a replay: the acknowledged progress, so that another run can continue.

It contains a JSON object with the cluster and the options that select the records; for each
partition on the disks, the next offset, the target offset of the last record before it, and the
target offsets of the records at which groups continue; for each partition in the cluster, the
offset after the last acknowledged record. It is written once all records sent so far are
acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kfmt_cli.core.json_text import json_text, parse_json
from kfmt_cli.core.regular_files import read_regular_file
from kfmt_cli.errors import InputError, UsageError
from kfmt_cli.writers.single_file import write_single_file

STATE_FILE_VERSION = 1


@dataclass(slots=True)
class ReplaySourceState:
    """The acknowledged progress of a partition on the disks."""

    next_offset: int = 0
    target_offset: int | None = None
    """The offset of the last acknowledged record in the cluster; None before the first one, and
    with --by-key."""
    points: dict[int, int] = field(default_factory=dict)
    """For each offset, the target offset of the first record at or after it."""


@dataclass(slots=True)
class ReplayState:
    """The content of a state file."""

    path: Path | None
    """The path of the file; None to keep the state in memory only."""
    cluster_id: str
    """The id of the cluster; empty with --dry-run, which does not connect."""
    options: dict[str, Any]
    """The options that must be the same in every run."""
    sources: dict[str, ReplaySourceState] = field(default_factory=dict)
    targets: dict[str, dict[int, int]] = field(default_factory=dict)
    """By topic and partition: the offset after the last acknowledged record."""

    def write_file(self) -> None:
        """Write the file atomically; raises OutputError."""
        if self.path is None:
            return
        content = {"version": STATE_FILE_VERSION, **asdict(self)}
        del content["path"]
        write_single_file(self.path, f"{json_text(content)}\n".encode())


def load_replay_state(path: Path | None, cluster_id: str, options: dict[str, Any]) -> ReplayState:
    """The state in a file, a new state if the file does not exist; raises InputError for an
    unreadable or malformed file, UsageError for the file of another replay."""
    replay_state = ReplayState(path, cluster_id, options)
    if path is None:
        return replay_state
    try:
        content = parse_json(read_regular_file(path))
        if content["version"] != STATE_FILE_VERSION:
            raise UsageError(
                f"{path}: version {content['version']}; only {STATE_FILE_VERSION} is supported"
            )
        _require_same_replay(path, content, replay_state)
        for source_name, stored_source in content["sources"].items():
            points = {
                int(offset): int(target_point)
                for offset, target_point in stored_source["points"].items()
            }
            target_offset = stored_source["target_offset"]
            replay_state.sources[source_name] = ReplaySourceState(
                int(stored_source["next_offset"]), target_offset, points
            )
        for topic, partitions in content["targets"].items():
            replay_state.targets[topic] = {
                int(partition): int(end_offset) for partition, end_offset in partitions.items()
            }
    except FileNotFoundError:
        return replay_state
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", file=str(path)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = "not a state file of kfmt replay"
        raise InputError(f"{path}: {message}: {error}", file=str(path)) from error
    return replay_state


def _require_same_replay(path: Path, content: Mapping[str, Any], replay_state: ReplayState) -> None:
    if replay_state.cluster_id and content["cluster_id"] != replay_state.cluster_id:
        message = (
            f"state of a replay into cluster {content['cluster_id']}, not {replay_state.cluster_id}"
        )
        raise UsageError(f"{path}: {message}")
    for option_name, option_value in replay_state.options.items():
        if content["options"].get(option_name) != option_value:
            option_flag = f"--{option_name.replace('_', '-')}"
            message = (
                f"state of a replay with {option_flag} "
                f"{content['options'].get(option_name)}, not {option_value}"
            )
            raise UsageError(f"{path}: {message}; give another --state file")
