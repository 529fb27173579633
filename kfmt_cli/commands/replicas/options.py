"""Options of replicas."""

from __future__ import annotations

from kfmt_cli.options.common import TopicFilterOptions
from kfmt_cli.options.declaration import command_options, option


@command_options(
    "replicas",
    "Show which broker of a dead cluster to start first, and the cost.",
    common=("lists_all", "wide", "format_", "table", "color", "jobs", "max_decompressed"),
)
class ReplicasOptions(TopicFilterOptions):
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

    orders: tuple[str, ...] = option(
        "--order",
        default=(),
        metavar="IDS",
        help="Order of starts: 1,2,3 in turn, each once the previous one leads; 1+2,3 the first "
        "two together; 2!,1 with an unclean election after 2. May be repeated. [default: each "
        "broker first, and all together]",
    )

    @property
    def directory_topics(self) -> tuple[str, ...]:
        """None: the outcome for some topics depends on the metadata log and the coordinators'."""
        return ()
