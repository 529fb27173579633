"""replicas: the disks of a dead cluster side by side."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import command
from kfmt_cli.cli.options import (
    Common,
    color,
    common,
    jobs,
    lists_all,
    max_decompressed,
    output_format,
    paths,
    wide,
)


@command(short_help="Which broker of a dead cluster to start first, and what it costs.")
@paths
@click.option(
    "--order",
    "orders",
    multiple=True,
    metavar="IDS",
    help="An order of starts: 1,2,3 in turn, each until its partitions lead; 1+2,3 the first two "
    "together; 2!,1 with an unclean election after 2. May be repeated. By default, each broker "
    "first, and all together.",
)
@common(lists_all, wide, output_format, color, jobs, max_decompressed)
def replicas(paths: tuple[str, ...], orders: tuple[str, ...], common: Common) -> int:
    """Compare the replicas on the disks of a cluster's brokers, and predict what each order of
    starting the brokers does. Name the log directories of all brokers and controllers, or copies.

    For each partition, shows where each replica ends now and after its own start, where replicas
    part, who may lead by the newest metadata, and which offsets an order loses. A controller elects
    by the ISR and by who is there, never by the length of a log: an empty or damaged replica that
    may lead truncates the others.

    \b
    Examples:
      kfmt replicas sample_segments/kafka-3.9.1-broker1 sample_segments/kafka-3.9.1-broker2
      kfmt replicas sample_segments/kafka-3.9.1-broker1 --all --json
    """
    from kfmt_cli.commands.replicas.command import CompareDisks
    from kfmt_cli.commands.replicas.show import show

    run = common.run()
    found = CompareDisks(run, common.jobs, common.limit).look(paths, orders)
    return show(run, found, paths)
