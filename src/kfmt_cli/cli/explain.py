"""explain: what a finding means."""

from __future__ import annotations

import click

from kfmt_cli.cli.options import color, output_format


@click.command(name="explain")
@click.argument("codes", nargs=-1, metavar="[CODE]...")
@output_format
@color
def explain(codes: tuple[str, ...], format_: str, color: str) -> int:
    """Say what a finding means, what a broker does about it, and what to do.

    CODE is the name of a finding, such as crc-mismatch. Without one, all are listed. What is said
    of brokers was observed on real ones.

    \b
    Examples:
      kfmt explain
      kfmt explain crc-mismatch
      kfmt explain crc-mismatch zero-tail --json
    """
    from kfmt_cli.cli.runs import run_of
    from kfmt_cli.tasks.explain import explain

    run = run_of(color, format_)
    explain(run, codes)
    return run.host.exit_code
