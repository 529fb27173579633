"""Other things that a contributor adds: a command, a page of explain, the state of a topic.

The command is the example of CONTRIBUTING: a task, a row type, a command, a line.
"""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kfmt_cli import cli
from kfmt_cli.broker import state as states
from kfmt_cli.broker.state.replay import CompactedTopicReplay
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.each_partition import for_each_partition, iter_log_blocks
from kfmt_cli.commands.explain import pages
from kfmt_cli.commands.explain.pages.page import PageFacts, PageSpec
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.options.common import PathsOptions
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.rows.column import Column, ColumnKind, RowType
from kfmt_cli.rows.types.state_rows import StateType
from kfmt_cli.topics import DECODED_TOPICS, KnownTopic
from kfmt_cli.topics.keyed_json import JsonDecoder, KeyContent
from tests.recipes.test_recipes import Ran, run
from tests.support.samples import ORDERS
from tools.kafka import SAMPLES

__all__ = ["run"]
MODULE = __name__
TXN = SAMPLES / "kafka-3.9.1-broker1/txn-0"

# A command: its row type, …
LARGE_BATCH = RowType(
    "large_batch",
    "One of the largest batches of a partition.",
    (
        Column("log", ColumnKind.TEXT, "The log."),
        Column("position", doc="Byte at which it begins."),
        Column("size", doc="Its bytes."),
        Column("base_offset", doc="Its first offset."),
    ),
)


# … its options, …
@command_options("largest", "Show the largest batches.", common=("format_", "table", "color"))
class LargestOptions(PathsOptions):
    """Show the largest batches of each partition."""

    number: int = option(default=10, help="How many batches.")


# … and its task.
@dataclass
class LargestCommand:
    """One call of `largest`."""

    run: CommandRun
    options: LargestOptions

    def execute(self) -> None:
        """Show the largest batches of each partition."""
        for_each_partition(self.run, self.options.paths, self._show_partition)

    def _show_partition(self, partition: Partition) -> None:
        largest: list[tuple[int, str, int, int]] = []
        for log, block in iter_log_blocks(partition.logs):
            batches = block.batches
            columns = (batches.size, batches.position, batches.base_offset)
            for size, position, base in zip(*(column.tolist() for column in columns), strict=True):
                largest.append((size, log.name, position, base))
            largest = heapq.nlargest(self.options.number, largest)
        rows = [(log, position, size, base) for size, log, position, base in largest]
        self.run.write_rows(partition.name, LARGE_BATCH, [rows], ("batch", "batches"))


def test_a_command(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    for declared, name in ((LargestOptions, "options"), (LargestCommand, "command")):
        module = ModuleType(f"kfmt_cli.commands.largest.{name}")
        setattr(module, declared.__name__, declared)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(LargestOptions, "__module__", "kfmt_cli.commands.largest.options")
    monkeypatch.setitem(cli.MODULE_BY_COMMAND, "largest", "largest")  # the line in `SECTIONS`
    monkeypatch.setitem(
        cli.COMMANDS_BY_SECTION, "Why", (*cli.COMMANDS_BY_SECTION["Why"], "largest")
    )
    assert "largest" in run("--help")
    assert "How many batches." in run("largest", "--help")
    rows = [
        json.loads(line) for line in run("largest", TXN, "--number", "3", "--json").splitlines()
    ]
    dumped_rows = [json.loads(line) for line in run("dump", TXN, "--json").splitlines()]
    expected = heapq.nlargest(3, (item["size"] for item in dumped_rows if item["type"] == "batch"))
    assert [row["size"] for row in rows] == expected
    assert list(rows[0]) == ["type", "file", "log", "position", "size", "base_offset"]
    assert run("largest", TXN, "--number", "3").splitlines()[-1] == "3 batches shown"
    heading, *lines = run("largest", TXN, "--number", "3", "--format", "csv").splitlines()
    assert heading == "file,log,position,size,base_offset"
    assert len(lines) == 3
    run("largest", TXN / "nothing")
    assert run.code == 3
    assert "No such file or directory" in run.err


# A page of explain: a function, and a line.


def sizes(facts: PageFacts) -> Iterator[str | list[str]]:
    yield "A log has batches of many sizes."
    yield [f"{int(facts.batches['size'][0])} bytes"]


def test_a_page(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PageSpec("batch-sizes", "How large batches are", f"{MODULE}:sizes")
    monkeypatch.setitem(pages.EXPLAIN_PAGES, page.name, page)
    assert "batch-sizes" in run("explain")
    output = run("explain", "batch-sizes", ORDERS.parent)
    assert "A log has batches of many sizes." in output
    assert "2575 bytes" in output


# The state of a topic: a decoder, a replay, two lines.

GUEST = RowType(
    "guest",
    "A guest.",
    (Column("name", ColumnKind.TEXT, "The name.", presence_column="has_name"),),
    n_key_columns=1,
)
GUESTS = JsonDecoder(lambda key: KeyContent("Guest", {"name": key.decode()}))


class Guests(CompactedTopicReplay):
    """The guests."""

    topic = "guests"
    row_types = (GUEST,)

    def iter_rows(self) -> Iterator[tuple[StateType, Mapping[str, Any]]]:
        for _, key, _ in self.iter_current_records():
            yield GUEST, key


def test_the_state_of_a_topic(run: Ran, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    topic = KnownTopic("guests", "who is there", decoder_target=f"{MODULE}:GUESTS")
    monkeypatch.setitem(DECODED_TOPICS, "guests", topic)
    monkeypatch.setitem(states.REPLAYS, "guests", f"{MODULE}:Guests")
    lines = [{"key": "ann", "value": "{}"}, {"key": "bob", "value": "{}"}, {"key": "ann"}]
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("build", tmp_path / "lines", tmp_path / "guests-0")
    assert run.code == 0
    rows = [json.loads(line) for line in run("state", tmp_path / "guests-0", "--json").splitlines()]
    assert [(row["type"], row["name"]) for row in rows] == [("guest", "bob")]
    assert "who is there" in run("dump", tmp_path / "guests-0")
