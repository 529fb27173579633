"""Options of report."""

from __future__ import annotations

from pathlib import Path

from kfmt_cli.errors import UsageError
from kfmt_cli.options.common import (
    ALL_REPLICAS_HELP,
    OptionalPathsOptions,
    TopicOptions,
    config_option,
    force_option,
    kafka_version_option,
    now_option,
    require_packages,
)
from kfmt_cli.options.declaration import command_options, option
from kfmt_cli.options.parameter_types import parse_literal_path


@command_options(
    "report",
    "Write one HTML page about a disk.",
    common=("color", "jobs", "max_decompressed"),
    writes_files=True,
)
class ReportOptions(TopicOptions, OptionalPathsOptions):
    """Write one HTML page about a disk: its contents, damage, losses and consumer lag.

    The page combines check, stat, txn, retention and state, with charts. It is a single
    self-contained file that makes no network requests, can be mailed and printed, and is readable
    without JavaScript. Needs pip install 'kfmt-cli[report]'.

    \b
    Examples:
      kfmt report sample_segments/kafka-3.9.1-broker1 --to DST/report.html
      kfmt report damaged_segments --to DST/incident.html --data DST/incident.json
    """

    to: str = option(metavar="FILE", type=parse_literal_path, help="HTML file to write.")
    data: str | None = option(
        default=None,
        metavar="FILE",
        type=parse_literal_path,
        help="Also write the page's data as JSON.",
    )
    of_jobs: tuple[str, ...] = option(
        "--from",
        default=(),
        metavar="DIR",
        type=parse_literal_path,
        help="Instead of PATH: use the output of kfmt pipeline in DIR (or DIR/_kfmt). May be "
        "repeated for several jobs.",
    )
    kafka: str | None = kafka_version_option()
    now: int | None = now_option()
    config: Path | None = config_option()
    all_replicas: bool = option(default=False, help=ALL_REPLICAS_HELP)
    force: bool = force_option()

    def __post_init__(self) -> None:
        if bool(self.paths) == bool(self.of_jobs):
            raise UsageError("give PATH, or --from with the output of kfmt pipeline")
        require_packages("report", "altair", "jinja2", "vl_convert")
