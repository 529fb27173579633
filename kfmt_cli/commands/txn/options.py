"""Options of txn."""

from __future__ import annotations

from kfmt_cli.options.common import TopicFilterOptions
from kfmt_cli.options.declaration import command_options, option


@command_options(
    "txn",
    "Show transactions, open ones first.",
    common=("wide", "format_", "table", "color", "strict", "given_findings"),
)
class TxnOptions(TopicFilterOptions):
    """Show the transactions in partitions: producer, offsets, records, duration, outcome.

    Open transactions come first. read_committed consumers are waiting for the one that
    holds back the last stable offset. If the log directory also has the partition of
    __transaction_state, transactional ids are shown, and hanging transactions, which will never
    end by themselves, are marked.

    \b
    Examples:
      kfmt txn sample_segments/kafka-3.9.1-broker1/txn-0
      kfmt txn sample_segments/kafka-3.9.1-live --open
    """

    only_open: bool = option("--open", default=False, help="Show only open transactions.")
