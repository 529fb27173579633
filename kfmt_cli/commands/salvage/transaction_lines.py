"""Reports on the transactions of the logs that salvage and merge wrote."""

from __future__ import annotations

from kfmt_cli.broker.transactions.transaction import ABORTED, COMMITTED
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.partition_selection import format_hidden_ends
from kfmt_cli.disk.directory_listing import list_directory
from kfmt_cli.disk.kinds.fixed_size_rows import PRODUCER_SNAPSHOT_KIND
from kfmt_cli.errors import ExitCode
from kfmt_cli.render.style import escape_unprintable, format_count
from kfmt_cli.rows.documents import RESTORED_MARKERS_ROW
from kfmt_cli.writers.output import StagingDirectory
from kfmt_cli.writers.salvage.restored_markers import RestoredMarkers


def report_restored_markers(
    run: CommandRun, partition_name: str, restored: RestoredMarkers, *, commits_unknown: bool
) -> None:
    """Report the markers of a partition; the exit code is 1 if an outcome is unknown."""
    if not restored:
        return
    n_committed = restored.count_by_outcome[COMMITTED]
    n_aborted = restored.count_by_outcome[ABORTED]
    name, lines = escape_unprintable(partition_name), []
    if n_committed + n_aborted:
        markers_text = format_count(n_committed + n_aborted, "damaged transaction marker")
        lines.append(
            f"{name}: {markers_text} rewritten: {n_committed} COMMIT, {n_aborted} ABORT, as "
            "the markers' remains and the transaction indexes show\n"
        )
    unknown = restored.unknown_transactions
    if unknown:
        effect_text = (
            "committed because of --commit-unknown"
            if commits_unknown
            else "aborted; --commit-unknown commits them"
        )
        lines.append(f"{name}: {format_hidden_ends(unknown)}: {effect_text}\n")
        run.output.raise_exit_code(ExitCode.FINDINGS)
    if restored.n_without_offset:
        lines.append(
            f"{name}: {format_count(restored.n_without_offset, 'marker')} had no free offset: the "
            "producer's next marker ends the transaction\n"
        )
    row: dict[str, object] = {
        "file": partition_name,
        "committed": n_committed,
        "aborted": n_aborted,
        "unknown": len(unknown),
        "unmarked": restored.n_without_offset,
    }
    run.sink.write_document(RESTORED_MARKERS_ROW, row, lines)


def note_open_transactions(run: CommandRun, staging: StagingDirectory, directory_name: str) -> None:
    """Note the transactions that are open at the end of a partition."""
    directory_listing = list_directory(str(staging.directory / directory_name), display_prefix="")
    snapshot_names = [
        name for name in directory_listing.files if name.endswith(PRODUCER_SNAPSHOT_KIND.suffix)
    ]
    if not snapshot_names:
        return
    snapshot = directory_listing.input_file(snapshot_names[-1])
    first_offsets = snapshot.read_contents().table.current_txn_first_offset
    first_offsets = first_offsets[first_offsets >= 0]
    if len(first_offsets):
        prefix = "" if directory_name == "." else f"{escape_unprintable(directory_name)}: "
        open_text = f"{prefix}{format_count(len(first_offsets), 'open transaction')} at the end"
        effect_text = f"read_committed consumers stop at offset {first_offsets.min()}"
        run.sink.write_to_stderr(f"{open_text}: {effect_text}; see kfmt txn\n")
