"""txn: the transactions in partitions."""

from __future__ import annotations

import click

from kfmt_cli.cli.options import (
    Common,
    color,
    common,
    max_findings,
    output_format,
    paths,
    strict,
    wide,
)


@click.command(name="txn", short_help="Show the transactions of partitions.")
@paths
@click.option("--open", "only_open", is_flag=True, help="Only those that have not ended.")
@common(wide, output_format, color, strict, max_findings)
def txn(
    paths: tuple[str, ...],
    only_open: bool,
    common: Common,
) -> int:
    """Show the transactions of partitions: producer, offsets, records, duration, outcome.

    Those that are open come first; the one that holds the last stable offset is what consumers of
    committed records wait for. A partition of __transaction_state in the same log directory gives
    the transactional ids, and tells which open transactions hang: nobody will end them.

    \b
    Examples:
      kfmt txn sample_segments/kafka-3.9.1-broker1/txn-0
      kfmt txn sample_segments/kafka-3.9.1-live --open
    """
    from kfmt_cli.commands.txn import ShowTransactions

    run = common.run()
    ShowTransactions(run, only_open).paths(paths)
    return run.host.exit_code
