"""The schemas of a schema registry, from its topic."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kfmt_cli.broker.state.schema_registry import RegistryReplay
from kfmt_cli.commands.state.internal_topics import partitions_of, taken
from kfmt_cli.core.urls import is_url
from kfmt_cli.disk.given import located
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.opening import is_folder, is_there
from kfmt_cli.disk.tree import modified_ms, size_of
from kfmt_cli.errors import InputError
from kfmt_cli.topics.payloads import SchemaRegistry

TOPIC = "_schemas"
PARTITION = f"{TOPIC}-0"


def registry_beside(paths: Sequence[str]) -> SchemaRegistry | None:
    """The registry whose topic is in the same log directory as one of the paths; the first such."""
    for given in paths:
        path = given
        with suppress(InputError):  # reading the path reports it
            path = located(given)
        here = Path(path) if is_url(path) else Path(os.path.realpath(path))
        for folder in (here, here.parent, here.parent.parent):
            if is_folder(str(folder / PARTITION)):
                return registry_of(str(folder / PARTITION))
    return None


def registry_of(path: str) -> SchemaRegistry | None:
    """The registry whose topic is at a path, or None; raises InputError if it cannot be read.

    Damaged records are skipped: decoding a payload with a missing schema reports it.
    """
    path = located(path)
    inside = Path(path) / PARTITION
    if is_folder(str(inside)):
        return registry_of(str(inside))
    here = Path(path)
    if not is_there(path) or (is_folder(path) and Path(os.path.realpath(here)).name != PARTITION):
        return None
    logs = [log for each in partitions_of((path,), TOPIC, lambda _: None) for log in each.logs]
    return _registry_in(tuple(logs), tuple((size_of(log), modified_ms(log)) for log in logs))


@lru_cache(maxsize=8)
def _registry_in(logs: tuple[Input, ...], _: tuple[tuple[int, int], ...]) -> SchemaRegistry:
    """The registry in some logs, which are read again once they have another size or time."""
    replay = RegistryReplay()
    for log in logs:
        for _finding in taken(replay, log):
            pass
    return replay.every
