"""partition-of: the partition of a key, group or transactional id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kfmt_cli.broker.partitioners import (
    DEFAULT_INTERNAL_PARTITIONS,
    EMPTY_KEY_AS_NULL_PARTITIONER,
    GROUPS_TOPIC,
    PARTITIONERS,
    TRANSACTIONS_TOPIC,
    compute_coordinator_partition,
    hash_to_partition,
    java_string_hash,
)
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.partition_of.options import PartitionOfOptions
from kfmt_cli.errors import UsageError
from kfmt_cli.options.selection import parse_bytes_pattern
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.documents import KEY_PLACEMENT_ROW, PLACEMENT_ROW


@dataclass(slots=True)
class PartitionOfCommand:
    """One call of `partition-of`."""

    run: CommandRun
    options: PartitionOfOptions

    def execute(self) -> None:
        """Show the partitions; raises UsageError."""
        n_partitions = self.options.partitions or DEFAULT_INTERNAL_PARTITIONS
        placements = [*_iter_id_placements(self.options, n_partitions)]
        placements += _iter_key_placements(self.options, n_partitions)
        for row_type, row, line in placements:
            self.run.sink.write_document(row_type, row, [line])


def _iter_id_placements(
    options: PartitionOfOptions, n_partitions: int
) -> Iterator[tuple[RowType, dict[str, object], str]]:
    typed_ids = [(GROUPS_TOPIC, "group", group) for group in options.groups]
    typed_ids += [(TRANSACTIONS_TOPIC, "transactional_id", id_) for id_ in options.ids]
    for topic, id_type, identifier in typed_ids:
        partition = compute_coordinator_partition(identifier, n_partitions)
        row: dict[str, object] = {
            "id_type": id_type,
            "id": identifier,
            "hash": java_string_hash(identifier),
            "topic": topic,
            "partitions": n_partitions,
            "partition": partition,
        }
        type_label = id_type.replace("_", " ")
        hash_text = f"hash {row['hash']}, modulo {n_partitions}"
        yield (
            PLACEMENT_ROW,
            row,
            f"{type_label} {escape_unprintable(identifier)}: {topic}-{partition}   {hash_text}\n",
        )


def _iter_key_placements(
    options: PartitionOfOptions, n_partitions: int
) -> Iterator[tuple[RowType, dict[str, object], str]]:
    partitioner = options.partitioner
    for key_text in options.keys:
        key_bytes = parse_bytes_pattern("--key", key_text)
        if not key_bytes and partitioner == EMPTY_KEY_AS_NULL_PARTITIONER:
            raise UsageError(f"{partitioner} sends an empty key to any partition")
        hash_value = PARTITIONERS[partitioner](key_bytes)
        partition = hash_to_partition(hash_value, n_partitions)
        row: dict[str, object] = {
            "key": key_text,
            "hex": key_bytes.hex(),
            "partitioner": partitioner,
            "hash": hash_value,
            "partitions": n_partitions,
            "partition": partition,
        }
        hash_text = f"{partitioner} {hash_value}, modulo {n_partitions}"
        yield (
            KEY_PLACEMENT_ROW,
            row,
            f"key {escape_unprintable(key_text)}: partition {partition}   {hash_text}\n",
        )
