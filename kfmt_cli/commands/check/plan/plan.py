"""check: the plan, computed once for all paths: what to do before the next start, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kfmt_cli.broker.start.brokers import BrokerDirectories
from kfmt_cli.broker.start.identities import BrokerIdentities, Situation
from kfmt_cli.broker.start.outcome import PredictedStart
from kfmt_cli.commands.check.directory_result import DirectoryCheckResult
from kfmt_cli.commands.check.plan.data_steps import (
    add_private_key_option,
    force_recovery_steps,
    rebuild_steps,
    salvage_steps,
    undelete_steps,
)
from kfmt_cli.commands.check.plan.shell_commands import aside_path, move_command
from kfmt_cli.commands.check.plan.start_steps import iter_start_steps
from kfmt_cli.disk.file_access import is_ordinary_disk_path
from kfmt_cli.findings import codes
from kfmt_cli.render.start_lines import NextStep
from kfmt_cli.render.style import escape_unprintable, quote_path_for_shell


def make_plan(
    results: Sequence[DirectoryCheckResult],
    starts: Sequence[PredictedStart],
    next_start_kinds: Collection[str],
    brokers: Sequence[BrokerDirectories],
    identities: Sequence[BrokerIdentities],
    on_error: Callable[[str], None],
) -> list[NextStep]:
    """The steps in order: first those that save records, then those after which the broker starts
    and serves its partitions, then those that rebuild indexes, last the one that costs offsets.

    next_start_kinds: the kinds of the next starts of the log directories; empty if it is unknown
    how the broker stopped.
    on_error: receives errors about unreadable logs.
    """
    start_steps = _distinct_steps(
        [*iter_start_steps(brokers, identities, on_error), *_wrong_name_steps(results)]
    )
    mended_names = frozenset(name for step in start_steps for name in step.mends)
    moved_names = {
        identity.listing.name
        for broker_identities in identities
        for identity in broker_identities.directories
        if identity.situation in (Situation.MISNAMED, Situation.COPY)
    }
    staying_results = [result for result in results if result.display_path not in moved_names]
    rescue_steps = list(
        add_private_key_option(
            [
                *undelete_steps(staying_results, on_error),
                *salvage_steps(staying_results, mended_names),
            ]
        )
    )
    steps = [*_compare_steps(brokers, results), *rescue_steps, *start_steps]
    steps += rebuild_steps(staying_results)
    steps += force_recovery_steps(results, starts)
    covered_names = mended_names | {step.file for step in steps if step.mends or step.reads}
    next_starts = (
        start for start in starts if not next_start_kinds or start.after in next_start_kinds
    )
    steps += _hopeless_steps(next_starts, covered_names)
    return [replace(step, order=order) for order, step in enumerate(steps, 1)]


def _compare_steps(
    brokers: Sequence[BrokerDirectories], results: Sequence[DirectoryCheckResult]
) -> Iterator[NextStep]:
    """The step before all others if there are disks of several brokers of a cluster: what one has
    lost, another may have, unless the wrong one starts first."""
    directories = [directory for broker in brokers for directory in broker.directories]
    node_ids_by_cluster: defaultdict[str, set[int]] = defaultdict(set)
    for directory in directories:
        properties = directory.meta_properties
        if properties.cluster_id is not None and properties.node_id is not None:
            node_ids_by_cluster[properties.cluster_id].add(properties.node_id)
    n_brokers = max(map(len, node_ids_by_cluster.values()), default=0)
    if n_brokers < 2:
        return
    paths = [directory.path for directory in directories if directory.outer_path is None]
    yield NextStep(
        paths[0],
        f"kfmt replicas {' '.join(map(quote_path_for_shell, paths))}",
        f"compares the replicas of {n_brokers} brokers and shows which to start first, so that "
        "the others do not copy its losses",
        reads=sum(result.bytes for result in results),
    )


def _distinct_steps(steps: Iterable[NextStep]) -> list[NextStep]:
    return list({step.command: step for step in steps}.values())


def _wrong_name_steps(results: Sequence[DirectoryCheckResult]) -> Iterator[NextStep]:
    """Steps that move away files from whose names the broker takes no offset."""
    for result in results:
        if result.listing is None or not is_ordinary_disk_path(result.path):
            continue
        for finding in result.all_findings:
            if finding.code is codes.NAME_NOT_NUMERIC:
                path = str(Path(result.path) / Path(finding.file).name)
                yield NextStep(
                    result.display_path,
                    move_command(path, aside_path(path)),
                    "the broker does not start with a file of this name",
                    mends=frozenset({finding.file, result.display_path}),
                )


def _hopeless_steps(
    starts: Iterable[PredictedStart], covered_names: frozenset[str]
) -> Iterator[NextStep]:
    """A sentence for each file that prevents the start and for which there is no step."""
    reason_by_file = {start.file: start.reason_without_file for start in starts if not start.starts}
    for file, reason in reason_by_file.items():
        if file not in covered_names and not any(
            file.startswith(f"{name}/") for name in covered_names
        ):
            yield NextStep(
                file,
                f"# no file on this disk can replace {escape_unprintable(file)}",
                escape_unprintable(reason),
            )
