"""The options that several commands share, each declared once."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.broker.version import KAFKA_VERSIONS, OLDEST_VERSION, version_from_option
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.errors import UsageError, unknown_name_error
from kfmt_cli.findings.finding import MAX_FINDINGS, MAX_LOCATIONS
from kfmt_cli.options import completion
from kfmt_cli.options.declaration import (
    CommandSpec,
    argument,
    declare_field,
    option,
    options_class,
)
from kfmt_cli.options.parameter_types import (
    ByteSizeType,
    KafkaVersionType,
    TimeType,
    parse_input_path,
    parse_literal_path,
)
from kfmt_cli.render.output_formats import OUTPUT_FORMATS, OutputFormat

if TYPE_CHECKING:
    from kfmt_cli.broker.version import PredictedVersion
    from kfmt_cli.core.codecs.decompress import DecompressionLimit
    from kfmt_cli.render.sinks.sink import DisplayOptions


MAX_BASELINE_FINDINGS = 10_000  # of a kind in a file, to write them down or recognise them
FINDING_OPTIONS = (
    *("lists_all", "shows_notes", "wide", "quiet", "color", "output", "strict"),
    *("exit_zero", "baseline", "write_baseline", "given_findings", "jobs", "max_decompressed"),
)
"""The common options of commands whose result is findings."""
ALL_REPLICAS_HELP = "Read every replica of a partition, instead of each record once."


def format_option(formats: list[OutputFormat]) -> Any:
    """Declare --format, with these formats, and --json."""
    *other_descriptions, last_description = (
        format_.description for format_ in formats if format_.description
    )
    format_list = f"{', '.join(other_descriptions)} or {last_description}"

    def create_format_option(name: str, default: str) -> click.Parameter:
        return click.Option(
            ["--format", name],
            type=click.Choice([format_.name for format_ in formats]),
            default=default,
            help=f"Output format: a table for people; {format_list} for programs.",
            show_default=True,
        )

    def create_json_flag(name: str, default: str) -> click.Parameter:
        del default
        return click.Option(["--json", name], flag_value="json", help="Same as --format json.")

    default_format = next(format_.name for format_ in formats if not format_.description)
    return declare_field([create_format_option, create_json_flag], default_format)


def topic_filter_option() -> tuple[str, ...]:
    """Declare --topic as a filter."""
    return option(
        "--topic",
        default=(),
        metavar="NAME",
        help="Only this topic; may be repeated, and may contain * and ?.",
    )


@options_class
class CommonOptions:
    """Options with the same meaning in every command; each takes some of them."""

    command_spec: ClassVar[CommandSpec]
    color: str = option(
        default="auto",
        type=click.Choice(["auto", "always", "never"]),
        help="Use colour; auto: only on a terminal and if NO_COLOR is not set.",
    )
    format_: str = format_option(OUTPUT_FORMATS)
    table: str | None = option(
        default=None,
        metavar="TYPE",
        help="Row type to write as CSV, by its JSON name; a CSV file holds one type. "
        "[default: the type of the first row]",
    )
    wide: bool = option(default=False, help="Show all columns, even if wider than the terminal.")
    strict: bool = option(default=False, help="Also exit with 1 on warnings.")
    given_findings: int | None = option(
        "--max-findings",
        default=None,
        type=click.IntRange(min=1),
        show_default=f"{MAX_LOCATIONS} in the table, {MAX_FINDINGS} per file in other formats",
        help="Maximum findings to show per kind; the rest are counted.",
    )
    lists_all: bool = option(
        "--all", default=False, help="In the table, also list healthy files and directories."
    )
    shows_notes: bool = option(
        "--notes", default=False, help="Show notes in full instead of only counting them."
    )
    quiet: bool = option(
        *("-q", "--quiet"),
        default=False,
        help="In the table and for GitHub, print only errors and warnings.",
    )
    exit_zero: bool = option(default=False, help="Exit with 0 even if there are findings.")
    output: str | None = option(
        *("-o", "--output"),
        default=None,
        metavar="FILE",
        type=parse_literal_path,
        help="Write to FILE, completely or not at all, instead of standard output.",
    )
    baseline: str | None = option(
        default=None,
        metavar="FILE",
        type=parse_literal_path,
        help="Neither show nor count the findings in FILE, which --write-baseline wrote.",
    )
    write_baseline: str | None = option(
        default=None,
        metavar="FILE",
        type=parse_literal_path,
        help="Write the findings to FILE, for later runs with --baseline; exit with 0.",
    )
    jobs: int | None = option(
        default=None,
        type=click.IntRange(min=1),
        show_default="all cores",
        help="Number of CPU cores to use.",
    )
    max_decompressed: int | None = option(
        default=None,
        type=ByteSizeType(),
        help="Maximum decompressed size of one batch, e.g. 512M. [default: 64 MiB, or 100 times "
        "its compressed size up to 1 GiB]",
    )

    @property
    def n_jobs(self) -> int:
        """Number of CPU cores to use."""
        return available_cores() if self.jobs is None else self.jobs

    @property
    def decompression_limit(self) -> DecompressionLimit:
        """Decompression limit for batches."""
        from kfmt_cli.core.codecs.decompress import DecompressionLimit

        return DecompressionLimit.from_option(self.max_decompressed)

    @property
    def max_findings(self) -> int:
        """Limit of findings kept per kind and file."""
        if self.given_findings is not None:
            return self.given_findings
        has_baseline = self.baseline is not None or self.write_baseline is not None
        return MAX_BASELINE_FINDINGS if has_baseline else MAX_FINDINGS

    @property
    def counts_warnings(self) -> bool:
        """Whether warnings lead to exit code 1."""
        return self.strict

    @property
    def display_options(self) -> DisplayOptions:
        """How to show rows."""
        from kfmt_cli.render.sinks.sink import DisplayOptions

        return DisplayOptions(
            wide=self.wide,
            table=self.table or "",
            lists_all=self.lists_all,
            shows_notes=self.shows_notes,
            quiet=self.quiet,
            max_locations=self.given_findings or MAX_LOCATIONS,
        )


@options_class
class InputOptions(CommonOptions):
    """Options of commands that read a disk."""

    rsm_private_key: str | None = option(
        default=None,
        metavar="FILE",
        envvar="KFMT_RSM_PRIVATE_KEY",
        help="Private key (PKCS #8) for segments encrypted by Aiven's tiered storage.",
    )


@options_class
class TopicOptions(InputOptions):
    """Options of commands that read only some topics of a log directory."""

    topic: tuple[str, ...] = topic_filter_option()

    @property
    def directory_topics(self) -> tuple[str, ...]:
        """The topics whose directories are read, as patterns; empty for all."""
        return self.topic


@options_class
class PathsOptions(InputOptions):
    """Options of commands that take PATH…: files, partition directories, log directories, or - for
    standard input."""

    paths: tuple[str, ...] = argument("PATH...", nargs=-1, type=parse_input_path)


@options_class
class TopicFilterOptions(TopicOptions, PathsOptions):
    """Options of commands that take PATH… and read only some topics."""


@options_class
class OptionalPathsOptions(InputOptions):
    """Options of commands that need no PATH."""

    paths: tuple[str, ...] = argument("[PATH...]", default=(), nargs=-1, type=parse_input_path)


@options_class
class TopicSettingsOptions(TopicFilterOptions):
    """Options of commands that depend on topic settings."""

    other_settings: Mapping[str, object] = field(default_factory=dict)
    """Topic settings that are not options, by the names of `TopicSettings`."""

    @property
    def topic_settings(self) -> dict[str, object]:
        """The settings that were given; raises UsageError for an unknown one."""
        from kfmt_cli.broker.topic_settings import TopicSettings

        known_names = TopicSettings.__dataclass_fields__
        for name in self.other_settings:
            if name not in known_names:
                raise unknown_name_error("setting", name, sorted(known_names))
        settings = {name: getattr(self, name, None) for name in known_names}
        settings.update(self.other_settings)
        return {name: value for name, value in settings.items() if value is not None}


# Fields of several commands.


def kafka_version_option() -> str | None:
    """Declare --kafka-version; `predicted_version` parses its value."""
    return option(
        "--kafka-version",
        default=None,
        envvar="KFMT_KAFKA_VERSION",
        type=KafkaVersionType([version.name for version in KAFKA_VERSIONS]),
        help="The broker's version, for predictions. [default: metadata.version in the metadata "
        f"log, {OLDEST_VERSION.name} without one]",
    )


def predicted_version(name: str | None) -> PredictedVersion | None:
    """The version that the user named, or the nearest one; raises UsageError if it is not a
    version."""
    if name is None:
        return None
    version = version_from_option(name)
    if version is None:
        raise UsageError(f"{name!r} is not a version of Kafka, such as 4.2")
    return version


def all_files_option() -> bool:
    """Declare --all for empty files."""
    return option("--all", default=False, help="In the table, also list empty files.")


def decoder_topic_option() -> str | None:
    """Declare --as-topic for the decoder."""
    return option(
        "--as-topic",
        default=None,
        metavar="TOPIC",
        shell_complete=completion.complete_topics,
        help="Topic name, if the directory is named differently; selects the decoder.",
    )


def layout_option() -> str | None:
    """Declare --layout."""
    return option(
        default=None,
        type=click.Choice(["notes-v0"]),
        help="Treat files as this format, whatever their names. notes-v0 is a simplified message "
        "layout used in articles to explain magic 0; no broker writes it.",
    )


def force_option() -> bool:
    """Declare --force for DST."""
    return option(default=False, help="Replace existing files in DST.")


def now_option() -> int | None:
    """Declare --now; None for the current time."""
    return option(
        default=None,
        metavar="TIME",
        type=TimeType(),
        help="Use this as the current time: milliseconds, or 2026-11-20T15:24. [default: now]",
    )


def config_option() -> Path | None:
    """Declare --config."""
    return option(
        default=None,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="File with broker or topic properties.",
    )


def index_interval_option(help_text: str) -> int:
    """Declare --index-interval-bytes. help_text: its help text."""
    return option(
        default=DEFAULT_INDEX_INTERVAL_BYTES,
        type=ByteSizeType(),
        help=help_text,
    )


def require_topic_name(option_name: str, topic_name: str | None) -> None:
    """Raise UsageError if a new topic cannot have this name."""
    if topic_name is not None:
        from kfmt_cli.disk.file_names import find_topic_name_error

        if error := find_topic_name_error(topic_name):
            raise UsageError(f"{option_name} {error}")


def require_packages(extra: str, *packages: str) -> None:
    """Raise UsageError if a package is not installed. extra: the extra of kfmt-cli that has it."""
    for package in packages:
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            raise UsageError(f"{package} is not installed: pip install 'kfmt-cli[{extra}]'")
