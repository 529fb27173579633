"""Options of state."""

from __future__ import annotations

import click

from kfmt_cli.errors import UsageError
from kfmt_cli.options import completion
from kfmt_cli.options.common import TopicFilterOptions
from kfmt_cli.options.declaration import command_options, deprecated, option


@command_options(
    "state",
    "Show groups, offsets and metadata from internal topics.",
    common=(
        *("wide", "format_", "table", "color", "strict"),
        *("given_findings", "max_decompressed"),
    ),
)
class StateOptions(TopicFilterOptions):
    """Show the current state held in internal topics: consumer groups and committed offsets,
    transactional ids, cluster metadata, share groups and remote segments, as well as the topics of
    Kafka Connect, MirrorMaker and schema registries.

    Records are replayed the way a broker loads the topic: the last record per key wins, tombstones
    delete, and transactional records count once committed. For metadata, the newest snapshot is
    loaded and the log is replayed on top. Passwords are hidden, as are all settings of brokers,
    topics and connectors that are not known to be harmless. PATH is a partition of an internal
    topic, or a log directory that contains some. Group lag is shown if the consumed partitions are
    in the same log directory.

    Records that compaction has already removed are gone, even with --at-offset.

    \b
    Examples:
      kfmt state sample_segments/kafka-3.9.1-broker1/__consumer_offsets-1
      kfmt state sample_segments/kafka-3.9.1-broker1 --topic orders
      kfmt state sample_segments/kafka-3.9.1-broker1/__cluster_metadata-0 --since-offset 500
      kfmt state sample_segments/kafka-3.9.1-broker1/__transaction_state-0 --json
      kfmt state sample_segments/kafka-3.9.1-connect/connect-status-0
    """

    at_offset: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Show the state as of this offset, inclusive. Needs a single partition.",
    )
    since_offset: int | None = option(
        default=None,
        type=click.IntRange(min=0),
        help="Show only changes after this offset, with old values.",
    )
    group: str | None = option(default=None, help="Only this group.")
    of_topic: str | None = deprecated("--of-topic", use="--as-topic", default=None)
    as_topic: str | None = option(
        "--as-topic",
        default=None,
        metavar="TOPIC",
        shell_complete=completion.complete_topics,
        help="Name of the internal topic, if the directory is named differently.",
    )
    show_values: bool = option(
        default=False,
        help="Show the values of all settings but Kafka's passwords; they may be secrets.",
    )

    @property
    def directory_topics(self) -> tuple[str, ...]:
        """None: the topics of --topic are those in the state."""
        return ()

    @property
    def internal_topic(self) -> str | None:
        """The internal topic at the paths; None to use the directories' names."""
        return self.as_topic or self.of_topic

    def __post_init__(self) -> None:
        if self.internal_topic is not None:
            from kfmt_cli.broker.state import REPLAYS, can_replay

            if not can_replay(self.internal_topic):
                message = f"{self.internal_topic!r} is not an internal topic"
                raise UsageError(f"{message}; choose from {', '.join(REPLAYS)}")
        at_offset, since_offset = self.at_offset, self.since_offset
        if at_offset is not None and since_offset is not None and since_offset > at_offset:
            raise UsageError(f"--since-offset {since_offset} is after --at-offset {at_offset}")
