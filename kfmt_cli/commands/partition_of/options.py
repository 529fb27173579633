"""Options of partition-of."""

from __future__ import annotations

from collections.abc import Iterator

import click

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
from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options
from kfmt_cli.cli.selection_options import parse_bytes_pattern
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import escape_unprintable
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.documents import KEY_PLACEMENT_ROW, PLACEMENT_ROW


@grouped_command(
    name="partition-of", short_help="Show the partition of a key, group or transactional id."
)
@click.option("--group", "groups", multiple=True, help="Group id; may be repeated.")
@click.option("--transactional-id", "ids", multiple=True, help="Transactional id; may be repeated.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Key of a record: text, or a value prefixed with hex:, base64:, int:, long:, double: or "
    "uuid:. May be repeated.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions of the topic; for --key, give the number at the time of the send. "
    f"[default: {DEFAULT_INTERNAL_PARTITIONS} for internal topics]",
)
@click.option(
    "--partitioner",
    type=click.Choice([*PARTITIONERS]),
    default="murmur2",
    show_default=True,
    help="For --key: librdkafka's name of the producer's partitioner.",
)
@common_options("format", "color")
def partition_of(
    groups: tuple[str, ...],
    ids: tuple[str, ...],
    keys: tuple[str, ...],
    partitions: int | None,
    partitioner: str,
    common: CommonOptions,
) -> None:
    """Show the partition of a key, as producers choose it, or of a group or transactional id.

    The leader of a group's or transactional id's partition is its coordinator. The partition is
    the absolute value of the id's Java hash code, modulo the number of partitions.

    Java producers use murmur2, unless they set partitioner.ignore.keys or partitioner.class.
    librdkafka and its clients (Python, Go, .NET) use consistent_random, a CRC-32, unless they set
    another partitioner; Sarama uses fnv1a.

    \b
    Examples:
      kfmt partition-of --group billing
      kfmt partition-of --transactional-id payments-0 --partitions 2 --json
      kfmt partition-of --key customer-1 --key hex:00ff --partitions 12
    """
    if not groups and not ids and not keys:
        raise UsageError("give --group, --transactional-id or --key")
    if keys and partitions is None:
        raise UsageError("--key needs --partitions, the topic's number of partitions")
    for identifier in (*groups, *ids):
        if not identifier.isascii() and any(
            "\ud800" <= character <= "\udfff" for character in identifier
        ):
            raise UsageError(f"{identifier!r} is not UTF-8")
    placements = [*_iter_id_placements(groups, ids, partitions or DEFAULT_INTERNAL_PARTITIONS)]
    placements += _iter_key_placements(keys, partitions or DEFAULT_INTERNAL_PARTITIONS, partitioner)
    run = common.start_run()
    for row_type, row, line in placements:
        run.sink.write_document(row_type, row, [line])


def _iter_id_placements(
    groups: tuple[str, ...], transactional_ids: tuple[str, ...], n_partitions: int
) -> Iterator[tuple[RowType, dict[str, object], str]]:
    typed_ids = [(GROUPS_TOPIC, "group", group) for group in groups]
    typed_ids += [(TRANSACTIONS_TOPIC, "transactional_id", id_) for id_ in transactional_ids]
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
    keys: tuple[str, ...], n_partitions: int, partitioner: str
) -> Iterator[tuple[RowType, dict[str, object], str]]:
    for key_text in keys:
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
