"""txn: the transactions in partitions."""

from __future__ import annotations

import click

from kfmt_cli.cli.options import color, max_findings, output_format, paths, strict, wide


@click.command(name="txn")
@paths
@click.option("--open", "only_open", is_flag=True, help="Only those that have not ended.")
@wide
@output_format
@color
@strict
@max_findings
def txn(
    paths: tuple[str, ...],
    only_open: bool,
    wide: bool,
    format_: str,
    color: str,
    strict: bool,
    max_findings: int,
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
    from kfmt_cli.cli.runs import run_of
    from kfmt_cli.commands.txn import ShowTransactions
    from kfmt_cli.render.sinks.sink import Look

    look = Look(wide=wide)
    run = run_of(color, format_, strict=strict, max_findings=max_findings, look=look)
    ShowTransactions(run, only_open).paths(paths)
    return run.host.exit_code
