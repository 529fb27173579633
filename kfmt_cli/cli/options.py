"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.broker.defaults import DEFAULT_INDEX_INTERVAL_BYTES
from kfmt_cli.broker.version import KAFKA_VERSIONS, OLDEST_VERSION, version_from_option
from kfmt_cli.cli import completion
from kfmt_cli.core.integers import parse_int
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.urls import normalize_path, strip_file_scheme
from kfmt_cli.errors import UsageError
from kfmt_cli.findings.finding import MAX_FINDINGS, MAX_LOCATIONS
from kfmt_cli.render.output_formats import OUTPUT_FORMATS, REPORT_FORMATS, OutputFormat

CommandFunction = Callable[..., Any]
Decorator = Callable[[CommandFunction], CommandFunction]
RUN_CONTEXT_KEY = "kfmt.run"  # context key of the command's run

if TYPE_CHECKING:
    from kfmt_cli.commands.command_run import CommandRun
    from kfmt_cli.core.codecs.decompress import DecompressionLimit
    from kfmt_cli.render.sinks.sink import DisplayOptions
    from kfmt_cli.rows.file_result import FileResultType

    _IntType = click.ParamType[int]
else:  # not generic in every version of click
    _IntType = click.ParamType

EXIT_CODES_HELP = (
    "Exit codes: 0 clean; 1 findings of severity error, or a lookup found nothing; 2 usage error; "
    "3 an input could not be read, or output not written; 4 Spark could not start (pipeline), or "
    "kfmt's compiled kernel is incomplete; 130 interrupted. If the output is closed early, as by "
    "head, the code reflects what was read so far."
)


def add_options(function: CommandFunction, options: Sequence[Decorator]) -> CommandFunction:
    """The function with options added in this order."""
    for option in reversed(options):
        function = option(function)
    return function


class ByteSizeType(_IntType):
    """A number of bytes, with K, M or G for powers of 1024."""

    name = "bytes"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        digits = value.upper().removesuffix("B").removesuffix("I")
        factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(digits[-1:], 1)
        if factor > 1:
            digits = digits[:-1]
        number = parse_int(digits)
        if number is None or number < 1:
            self.fail(f"{value!r} is not a size (examples: 1048576, 64M, 1G)", param, ctx)
        return number * factor


def parse_input_path(path: str) -> str:
    """A path or URL to read, without its credentials."""
    from kfmt_cli.core.credentials import strip_credentials

    return normalize_path(strip_credentials(path))


def parse_literal_path(path: str) -> str:
    """A path or URL that is not unpacked, without its credentials and without file://."""
    from kfmt_cli.core.credentials import strip_credentials

    if not path:
        raise click.BadParameter("a path cannot be empty")
    return strip_file_scheme(strip_credentials(path))


def _paths_argument(metavar: str, *, required: bool) -> Decorator:
    argument = click.argument(
        "paths", nargs=-1, required=required, metavar=metavar, type=parse_input_path
    )
    return lambda function: private_key_option(argument(function))


def _store_private_key(ctx: click.Context, param: click.Parameter, key_path: str | None) -> None:
    del ctx, param
    from kfmt_cli.disk.path_resolution import RSM_PRIVATE_KEY_PATH

    RSM_PRIVATE_KEY_PATH.set(key_path)


private_key_option = click.option(
    "--rsm-private-key",
    metavar="FILE",
    envvar="KFMT_RSM_PRIVATE_KEY",
    expose_value=False,
    callback=_store_private_key,
    help="Private key (PKCS #8) for segments encrypted by Aiven's tiered storage.",
)


# PATH…: files, partition directories, log directories, - for standard input.
paths_argument = _paths_argument("PATH...", required=True)
optional_paths_argument = _paths_argument("[PATH...]", required=False)


def _format_option(formats: list[OutputFormat]) -> Decorator:
    *other_descriptions, last_description = (
        format_.description for format_ in formats if format_.description
    )
    format_list = f"{', '.join(other_descriptions)} or {last_description}"

    def decorate(function: CommandFunction) -> CommandFunction:
        if any(format_.name == "csv" for format_ in formats):
            function = click.option(
                "--table",
                metavar="TYPE",
                callback=_validate_row_type,
                help="Row type to write as CSV, by its JSON name; a CSV file holds one type. "
                "[default: the type of the first row]",
            )(function)
        function = click.option(
            "--json", "format_", flag_value="json", help="Same as --format json."
        )(function)
        return click.option(
            "--format",
            "format_",
            type=click.Choice([format_.name for format_ in formats]),
            default=next(format_.name for format_ in formats if not format_.description),
            help=f"Output format: a table for people; {format_list} for programs.",
            show_default=True,
        )(function)

    return decorate


def _validate_row_type(
    _ctx: click.Context, _param: click.Parameter, type_name: str | None
) -> str | None:
    if type_name is not None:
        from kfmt_cli.commands.contract import variants_by_type_name

        if type_name not in variants_by_type_name():
            raise UsageError(
                f"--table {type_name}: no such row type; see docs/json.md for all types"
            )
    return type_name


# The options whose values are in `CommonOptions`, by the names that `common_options` takes.
# Also the formats of programs that show findings.
COMMON_OPTIONS: dict[str, Decorator] = {
    "format": _format_option(OUTPUT_FORMATS),
    "report-format": _format_option(REPORT_FORMATS),
    "color": click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Use colour; auto: only on a terminal and if NO_COLOR is not set.",
    ),
    "wide": click.option(
        "--wide", is_flag=True, help="Show all columns, even if wider than the terminal."
    ),
    "strict": click.option("--strict", is_flag=True, help="Also exit with 1 on warnings."),
    "max-findings": click.option(
        "--max-findings",
        "given_findings",
        type=click.IntRange(min=1),
        default=None,
        show_default=f"{MAX_LOCATIONS} in the table, {MAX_FINDINGS} per file in other formats",
        help="Maximum findings to show per kind; the rest are counted.",
    ),
    "all": click.option(
        "--all",
        "lists_all",
        is_flag=True,
        help="In the table, also list healthy files and directories.",
    ),
    "notes": click.option(
        "--notes",
        "shows_notes",
        is_flag=True,
        help="Show notes in full instead of only counting them.",
    ),
    "jobs": click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=available_cores,
        show_default="all cores",
        help="Number of CPU cores to use.",
    ),
    "max-decompressed": click.option(
        "--max-decompressed",
        type=ByteSizeType(),
        default=None,
        help="Maximum decompressed size of one batch, e.g. 512M. [default: 64 MiB, or 100 times "
        "its compressed size up to 1 GiB]",
    ),
}

kafka_version_option = click.option(
    "--kafka-version",
    "kafka",
    type=click.Choice([version.name for version in KAFKA_VERSIONS]),
    callback=lambda _context, _option, name: None if name is None else version_from_option(name),
    help="The broker's version, for predictions. [default: metadata.version in the metadata "
    f"log, {OLDEST_VERSION.name} without one]",
)

all_files_option = click.option(
    "--all",
    "all_files",
    is_flag=True,
    help="In the table, also list empty files.",
)

topic_option = click.option(
    "--topic",
    shell_complete=completion.complete_topics,
    help="Topic name, if the directory is named differently; selects the decoder.",
)

layout_option = click.option(
    "--layout",
    type=click.Choice(["notes-v0"]),
    help="Treat files as this format, whatever their names. notes-v0 is a simplified message "
    "layout used in articles to explain magic 0; no broker writes it.",
)


def validate_topic_name(
    ctx: click.Context, param: click.Parameter, topic_name: str | None
) -> str | None:
    """Callback of options whose value is a new topic's name; raises UsageError."""
    del ctx
    if topic_name is not None:
        from kfmt_cli.disk.file_names import find_topic_name_error

        if error := find_topic_name_error(topic_name):
            raise UsageError(f"{param.opts[0]} {error}")
    return topic_name


force_option = click.option("--force", is_flag=True, help="Replace existing files in DST.")


def _parse_now(ctx: click.Context, param: click.Parameter, time_text: str) -> int:
    del ctx, param
    from kfmt_cli.core.times import parse_time_ms

    return parse_time_ms("--now", time_text)


now_option = click.option(
    "--now",
    metavar="TIME",
    default="now",
    callback=_parse_now,
    help="Use this as the current time: milliseconds, or 2026-11-20T15:24. [default: now]",
)

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with broker or topic properties.",
)


def index_interval_option(help_text: str) -> Decorator:
    """--index-interval-bytes. help_text: its help text."""
    return click.option(
        "--index-interval-bytes",
        type=ByteSizeType(),
        default=DEFAULT_INDEX_INTERVAL_BYTES,
        show_default=True,
        help=help_text,
    )


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """Values of the `COMMON_OPTIONS` options; each command has some of them."""

    color: str = "auto"
    format_: str = "table"
    table: str | None = None
    wide: bool = False
    strict: bool = False
    given_findings: int | None = None
    lists_all: bool = False
    shows_notes: bool = False
    jobs: int = 1
    max_decompressed: int | None = None

    @property
    def decompression_limit(self) -> DecompressionLimit:
        """Decompression limit for batches."""
        from kfmt_cli.core.codecs.decompress import DecompressionLimit

        return DecompressionLimit.from_option(self.max_decompressed)

    @property
    def max_findings(self) -> int:
        """Limit of findings kept per kind and file."""
        return MAX_FINDINGS if self.given_findings is None else self.given_findings

    def start_run(
        self,
        result_type: FileResultType | None = None,
        *,
        display_options: DisplayOptions | None = None,
        writes_files: bool = False,
        shows_findings: bool = False,
    ) -> CommandRun:
        """A run on the process's own streams.

        result_type: type of its results. display_options: how to show rows, if more than the shared
        options determine it. writes_files: the command writes files, even if its output is closed.
        shows_findings: findings are its main result.
        """
        from kfmt_cli.cli.command_output import CommandOutput
        from kfmt_cli.commands.command_run import CommandRun
        from kfmt_cli.render.output_formats import load_sink_class
        from kfmt_cli.render.sinks.sink import DisplayOptions

        output = CommandOutput(self.color, ignores_closed_output=writes_files)
        display_options = replace(
            display_options or DisplayOptions(wide=self.wide),
            table=self.table or "",
            shows_findings=shows_findings,
            lists_all=self.lists_all,
            shows_notes=self.shows_notes,
            max_locations=self.given_findings or MAX_LOCATIONS,
        )
        sink = load_sink_class(self.format_)(output, display_options)
        max_findings = self.max_findings
        if sink.is_for_people and not shows_findings and self.given_findings is None:
            max_findings = MAX_LOCATIONS
        run = CommandRun(output, sink, result_type, self.strict, max_findings)
        click_context = click.get_current_context(silent=True)
        if click_context is not None:
            click_context.meta[RUN_CONTEXT_KEY] = run
        return run


def common_options(*option_keys: str) -> Decorator:
    """Give a command some of the `COMMON_OPTIONS` options; it receives them as one `CommonOptions`.

    A command that returns nothing ends with the exit code of its run.
    """
    field_names = tuple(field.name for field in fields(CommonOptions))

    def decorate(function: CommandFunction) -> CommandFunction:
        @wraps(function)
        def command(**arguments: Any) -> Any:
            common_values = {name: arguments.pop(name) for name in field_names if name in arguments}
            exit_code = function(common=CommonOptions(**common_values), **arguments)
            run: CommandRun | None = click.get_current_context().meta.get(RUN_CONTEXT_KEY)
            if exit_code is not None or run is None:
                return exit_code
            run.sink.flush_texts()
            return run.output.exit_code

        return add_options(command, [COMMON_OPTIONS[name] for name in option_keys])

    return decorate
