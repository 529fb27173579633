"""salvage: what is undamaged of damaged logs, ready for a broker."""

from __future__ import annotations

import click

from kfmt_cli.cli.options import (
    Common,
    InputPath,
    color,
    common,
    index_interval,
    jobs,
    lists_all,
    max_decompressed,
    output_format,
    private_key,
)


@click.command(name="salvage", short_help="Write every undamaged batch into new logs.")
@private_key
@click.argument("source", metavar="SRC", type=InputPath())
@click.argument("destination", metavar="DST")
@click.option(
    "--records",
    is_flag=True,
    help="Keep what can be read of damaged batches, too: re-encoded, and marked by a header.",
)
@index_interval("The topic's index.interval.bytes.")
@common(lists_all, output_format, color, jobs, max_decompressed)
def salvage(
    source: str,
    destination: str,
    records: bool,
    index_interval_bytes: int,
    common: Common,
) -> int:
    """Write every undamaged batch of damaged logs into new ones, byte for byte.

    SRC is a log, a partition directory or a log directory; it stays as it is. DST must not be
    there yet. A batch is kept if its checksum fits and all of its records can be read. Its
    offsets decide where it goes, in whichever log it lies: also in one that was renamed, that
    overlaps another, or that a swap had finished. Batches whose offsets contradict the others
    are set aside in the folder contradicting of their partition. What is left out is listed
    with its bytes and the offsets that are missing with it. Indexes and producer snapshots are
    made anew; meta.properties, partition.metadata, the leader epochs and the log start offsets
    are carried along if they are undamaged, other checkpoints are not. The exit code is 1 where
    something was damaged.

    --records splits damaged batches and keeps the records that can be read as batches of magic 2;
    nothing proves them, so each gets an extra header, kfmt.salvaged, with the code of the finding.
    Of a transaction they are kept only if an undamaged batch before them names its producer.

    \b
    Examples:
      kfmt salvage damaged_segments/flipped-bit-0 DST
      kfmt salvage damaged_segments DST --records --json
    """
    from kfmt_cli.commands.salvage import SALVAGED, Salvage

    run = common.run(SALVAGED, writes=True)
    limit = common.limit
    Salvage(run, limit, common.jobs, index_interval_bytes, records).salvage(source, destination)
    return run.host.exit_code
