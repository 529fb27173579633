"""Options of replicas."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, paths_argument


@grouped_command(short_help="Show which broker of a dead cluster to start first, and the cost.")
@paths_argument
@click.option(
    "--order",
    "orders",
    multiple=True,
    metavar="IDS",
    help="Order of starts: 1,2,3 in turn, each once the previous one leads; 1+2,3 the first two "
    "together; 2!,1 with an unclean election after 2. May be repeated. [default: each broker "
    "first, and all together]",
)
@common_options("all", "wide", "format", "color", "jobs", "max-decompressed")
def replicas(paths: tuple[str, ...], orders: tuple[str, ...], common: CommonOptions) -> None:
    """Compare the replicas on the disks of a cluster's brokers, and predict the outcome of each
    order of starting the brokers. Name the log directories of all brokers and controllers, or
    copies.

    For each partition, shows where each replica ends now and after its own start, where replicas
    diverge, which replicas can be elected according to the newest metadata, and which offsets an
    order loses. A controller elects from the ISR and the running brokers, never by the length of a
    log: if an empty or damaged replica becomes the leader, the others are truncated to it.

    \b
    Examples:
      kfmt replicas sample_segments/kafka-3.9.1-broker1 sample_segments/kafka-3.9.1-broker2
      kfmt replicas sample_segments/kafka-3.9.1-broker1 --all --json
    """
    from kfmt_cli.commands.replicas.command import ReplicasCommand
    from kfmt_cli.commands.replicas.row_output import show_cluster

    run = common.start_run()
    cluster = ReplicasCommand(run, common.jobs, common.decompression_limit).compare_paths(
        paths, orders
    )
    show_cluster(run, cluster, paths)
