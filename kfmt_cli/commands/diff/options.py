"""Options of diff."""

from __future__ import annotations

from kfmt_cli.options.common import InputOptions
from kfmt_cli.options.declaration import argument, command_options
from kfmt_cli.options.parameter_types import parse_input_path


@command_options(
    "diff",
    "Compare two replicas of a partition.",
    common=("wide", "format_", "table", "color", "strict", "max_decompressed"),
)
class DiffOptions(InputOptions):
    """Compare two replicas of a partition, A and B, or all partitions that two log directories have
    in common, by offsets, leader epochs and checksums.

    Differences caused by retention, by compaction or by a lagging replica are not divergence. If
    replicas contain different records, shows the offset where they diverge, the leader epochs, and
    what exists only on each side; the exit code is then 1.

    \b
    Examples:
      kfmt diff sample_segments/kafka-3.9.1-broker1 sample_segments/kafka-3.9.1-broker2
      kfmt diff sample_segments/kafka-3.9.1-live sample_segments/kafka-3.9.1-broker1 --json
    """

    a: str = argument("A", type=parse_input_path)
    b: str = argument("B", type=parse_input_path)
