"""Options of partition-of."""

from __future__ import annotations

import click

from kfmt_cli.broker.partitioners import DEFAULT_INTERNAL_PARTITIONS, PARTITIONERS
from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import CommonOptions
from kfmt_cli.options.declaration import command_options, option


@command_options(
    "partition-of",
    "Show the partition of a key, group or transactional id.",
    common=("format_", "table", "color"),
)
class PartitionOfOptions(CommonOptions):
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

    groups: tuple[str, ...] = option("--group", default=(), help="Group id; may be repeated.")
    ids: tuple[str, ...] = option(
        "--transactional-id", default=(), help="Transactional id; may be repeated."
    )
    keys: tuple[str, ...] = option(
        "--key",
        default=(),
        help="Key of a record: text, or a value prefixed with hex:, base64:, int:, long:, double: "
        "or uuid:. May be repeated.",
    )
    partitions: int | None = option(
        default=None,
        type=click.IntRange(min=1),
        help="Number of partitions of the topic; for --key, give the number at the time of the "
        f"send. [default: {DEFAULT_INTERNAL_PARTITIONS} for internal topics]",
    )
    partitioner: str = option(
        default="murmur2",
        type=click.Choice([*PARTITIONERS]),
        help="For --key: librdkafka's name of the producer's partitioner.",
    )

    def __post_init__(self) -> None:
        if not self.groups and not self.ids and not self.keys:
            raise UsageError("give --group, --transactional-id or --key")
        if self.keys and self.partitions is None:
            raise UsageError("--key needs --partitions, the topic's number of partitions")
        for identifier in (*self.groups, *self.ids):
            if not identifier.isascii() and any(
                "\ud800" <= character <= "\udfff" for character in identifier
            ):
                raise UsageError(f"{identifier!r} is not UTF-8")
