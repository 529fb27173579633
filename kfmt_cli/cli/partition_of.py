"""partition-of: the partition in which coordinators store a group or transactional id."""

from __future__ import annotations

import click

from kfmt_cli.cli.options import Common, color, common, output_format
from kfmt_cli.errors import UsageError
from kfmt_cli.rows.documents import PLACEMENT


@click.command(name="partition-of", short_help="Show the partition of a group or transactional id.")
@click.option("--group", "groups", multiple=True, help="Group id; may be repeated.")
@click.option("--transactional-id", "ids", multiple=True, help="Transactional id; may be repeated.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Number of partitions of the internal topic.",
)
@common(output_format, color)
def partition_of(
    groups: tuple[str, ...], ids: tuple[str, ...], partitions: int, common: Common
) -> int:
    """Show the partition, and therefore the coordinator, of a group or transactional id.

    The leader of that partition is the coordinator. The partition is the absolute value of the id's
    Java hash code, modulo the number of partitions.

    \b
    Examples:
      kfmt partition-of --group billing
      kfmt partition-of --transactional-id payments-0 --partitions 2 --json
    """
    from kfmt_cli.broker.placement import GROUPS, TRANSACTIONS, partition_of_id, string_hash
    from kfmt_cli.render.style import safe

    if not groups and not ids:
        raise UsageError("give --group or --transactional-id")
    for name in (*groups, *ids):
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            raise UsageError(f"{name!r} is not UTF-8")
    run = common.run()
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
        line = f"{label} {safe(name)}: {topic}-{partition}   {hashed}\n"
        run.sink.document(PLACEMENT, row, [line])
    run.sink.flush()
    return run.host.exit_code
