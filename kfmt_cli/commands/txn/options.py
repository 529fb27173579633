"""Options of txn."""

from __future__ import annotations

import click

from kfmt_cli.cli.grouped_options import grouped_command
from kfmt_cli.cli.options import CommonOptions, common_options, paths_argument


@grouped_command(name="txn", short_help="Show transactions, open ones first.")
@paths_argument
@click.option("--open", "only_open", is_flag=True, help="Show only open transactions.")
@common_options("wide", "format", "color", "strict", "max-findings")
def txn(
    paths: tuple[str, ...],
    only_open: bool,
    common: CommonOptions,
) -> None:
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
    from kfmt_cli.commands.txn.command import TxnCommand

    TxnCommand(common.start_run(), only_open).show_paths(paths)
