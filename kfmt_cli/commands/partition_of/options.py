"""Options of partition-of."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kfmt_cli.broker.cluster.placement import (
    GROUPS,
    PARTITIONS,
    TRANSACTIONS,
    partition_of_id,
    string_hash,
)
from kfmt_cli.broker.partitioners import EMPTY_IS_RANDOM, PARTITIONERS, partition_of_hash
from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import Common, common
from kfmt_cli.cli.selection_options import bytes_of
from kfmt_cli.errors import UsageError
from kfmt_cli.render.style import safe
from kfmt_cli.rows.column import RowType
from kfmt_cli.rows.types.placements import KEY_PLACEMENT, PLACEMENT


@command(name="partition-of", short_help="Show the partition of a key, group or transactional id.")
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
    f"[default: {PARTITIONS} for internal topics]",
)
@click.option(
    "--partitioner",
    type=click.Choice([*PARTITIONERS]),
    default="murmur2",
    show_default=True,
    help="For --key: librdkafka's name of the producer's partitioner.",
)
@common("format", "color")
def partition_of(
    groups: tuple[str, ...],
    ids: tuple[str, ...],
    keys: tuple[str, ...],
    partitions: int | None,
    partitioner: str,
    common: Common,
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
    for name in (*groups, *ids):
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            raise UsageError(f"{name!r} is not UTF-8")
    rows = [*_of_ids(groups, ids, partitions or PARTITIONS)]
    rows += _of_keys(keys, partitions or PARTITIONS, partitioner)
    run = common.run()
    for type_, row, line in rows:
        run.sink.document(type_, row, [line])


def _of_ids(
    groups: tuple[str, ...], ids: tuple[str, ...], partitions: int
) -> Iterator[tuple[RowType, dict[str, object], str]]:
    of = [(GROUPS, "group", group) for group in groups]
    of += [(TRANSACTIONS, "transactional_id", id_) for id_ in ids]
    for topic, kind, name in of:
        partition = partition_of_id(name, partitions)
        row: dict[str, object] = {
            "id_type": kind,
            "id": name,
            "hash": string_hash(name),
            "topic": topic,
            "partitions": partitions,
            "partition": partition,
        }
        label = kind.replace("_", " ")
        hashed = f"hash {row['hash']}, modulo {partitions}"
        yield PLACEMENT, row, f"{label} {safe(name)}: {topic}-{partition}   {hashed}\n"


def _of_keys(
    keys: tuple[str, ...], partitions: int, partitioner: str
) -> Iterator[tuple[RowType, dict[str, object], str]]:
    for text in keys:
        key = bytes_of("--key", text)
        if not key and partitioner == EMPTY_IS_RANDOM:
            raise UsageError(f"{partitioner} sends an empty key to any partition")
        number = PARTITIONERS[partitioner](key)
        partition = partition_of_hash(number, partitions)
        row: dict[str, object] = {
            "key": text,
            "hex": key.hex(),
            "partitioner": partitioner,
            "hash": number,
            "partitions": partitions,
            "partition": partition,
        }
        hashed = f"{partitioner} {number}, modulo {partitions}"
        yield KEY_PLACEMENT, row, f"key {safe(text)}: partition {partition}   {hashed}\n"
