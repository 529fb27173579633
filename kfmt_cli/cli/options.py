"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.broker.defaults import INDEX_INTERVAL_BYTES
from kfmt_cli.broker.version import OLDEST, VERSIONS, by_option
from kfmt_cli.cli import completion
from kfmt_cli.core.parallel import available_cores
from kfmt_cli.core.urls import local, plain
from kfmt_cli.errors import UsageError
from kfmt_cli.findings.finding import MOST_FINDINGS, MOST_PLACES
from kfmt_cli.render.formats import FORMATS, REPORTS, OutputFormat

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]
RUN = "kfmt.run"  # context key of the command's run

if TYPE_CHECKING:
    from kfmt_cli.commands.run import Run
    from kfmt_cli.core.codecs.decompress import Limit
    from kfmt_cli.render.sinks.sink import Look
    from kfmt_cli.rows.result import ResultType

    _IntType = click.ParamType[int]
else:  # not generic in every version of click
    _IntType = click.ParamType

EXIT_CODES = (
    "Exit codes: 0 clean; 1 findings of severity error, or a lookup found nothing; 2 usage error; "
    "3 an input could not be read, or output not written; 4 Spark could not start (pipeline), or "
    "kfmt's compiled kernel is incomplete; 130 interrupted. If the output is closed early, as by "
    "head, the code reflects what was read so far."
)


def with_options(function: Function, options: Sequence[Decorator]) -> Function:
    """A command with more options, in this order."""
    for option in reversed(options):
        function = option(function)
    return function


class Size(_IntType):
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
        if not digits.isascii() or not digits.isdigit() or int(digits) == 0:
            self.fail(f"{value!r} is not a size (examples: 1048576, 64M, 1G)", param, ctx)
        return int(digits) * factor


def input_path(path: str) -> str:
    """A path or URL to read, without its credentials."""
    from kfmt_cli.core.credentials import without_credentials

    return plain(without_credentials(path))


def stored_path(path: str) -> str:
    """A path or URL that is not unpacked, without its credentials and without file://."""
    from kfmt_cli.core.credentials import without_credentials

    if not path:
        raise click.BadParameter("a path cannot be empty")
    return local(without_credentials(path))


def _paths(metavar: str, *, required: bool) -> Decorator:
    argument = click.argument(
        "paths", nargs=-1, required=required, metavar=metavar, type=input_path
    )
    return lambda function: private_key(argument(function))


def _keep_key(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del ctx, param
    from kfmt_cli.disk.given import RSM_PRIVATE_KEY

    RSM_PRIVATE_KEY.set(value)


private_key = click.option(
    "--rsm-private-key",
    metavar="FILE",
    envvar="KFMT_RSM_PRIVATE_KEY",
    expose_value=False,
    callback=_keep_key,
    help="Private key (PKCS #8) for segments encrypted by Aiven's tiered storage.",
)


# PATH…: files, partition directories, log directories, - for standard input.
paths = _paths("PATH...", required=True)
optional_paths = _paths("[PATH...]", required=False)


def _format(formats: list[OutputFormat]) -> Decorator:
    *others, last = (format_.words for format_ in formats if format_.words)
    words = f"{', '.join(others)} or {last}"

    def decorate(function: Function) -> Function:
        if any(format_.name == "csv" for format_ in formats):
            function = click.option(
                "--table",
                metavar="TYPE",
                callback=_row_type,
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
            default=next(format_.name for format_ in formats if not format_.words),
            help=f"Output format: a table for people; {words} for programs.",
            show_default=True,
        )(function)

    return decorate


def _row_type(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    if name is not None:
        from kfmt_cli.commands.contract import shapes_by_name

        if name not in shapes_by_name():
            raise UsageError(f"--table {name}: no such row type; see docs/json.md for all types")
    return name


# The options whose values are in `Common`, by the names that commands give.
COMMON: dict[str, Decorator] = {
    "format": _format(FORMATS),
    "report-format": _format(REPORTS),  # with those for programs that show findings
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
        show_default=f"{MOST_PLACES} in the table, {MOST_FINDINGS} per file in other formats",
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
        type=Size(),
        default=None,
        help="Maximum decompressed size of one batch, e.g. 512M. [default: 64 MiB, or 100 times "
        "its compressed size up to 1 GiB]",
    ),
}

kafka_version = click.option(
    "--kafka-version",
    "kafka",
    type=click.Choice([version.name for version in VERSIONS]),
    callback=lambda _context, _option, name: None if name is None else by_option(name),
    help="The broker's version, for predictions. [default: metadata.version in the metadata "
    f"log, {OLDEST.name} without one]",
)

all_files = click.option(
    "--all",
    "all_files",
    is_flag=True,
    help="In the table, also list empty files.",
)

topic = click.option(
    "--topic",
    shell_complete=completion.topics,
    help="Topic name, if the directory is named differently; selects the decoder.",
)

layout = click.option(
    "--layout",
    type=click.Choice(["notes-v0"]),
    help="Treat files as this format, whatever their names. notes-v0 is a simplified message "
    "layout used in articles to explain magic 0; no broker writes it.",
)


def topic_name(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    """Callback of options whose value is a new topic's name; raises UsageError."""
    del ctx
    if name is not None:
        from kfmt_cli.disk.names import topic_trouble

        if trouble := topic_trouble(name):
            raise UsageError(f"{param.opts[0]} {trouble}")
    return name


force = click.option("--force", is_flag=True, help="Replace existing files in DST.")


def _milliseconds(ctx: click.Context, param: click.Parameter, value: str) -> int:
    del ctx, param
    from kfmt_cli.core.times import milliseconds

    return milliseconds("--now", value)


now = click.option(
    "--now",
    metavar="TIME",
    default="now",
    callback=_milliseconds,
    help="Use this as the current time: milliseconds, or 2026-11-20T15:24. [default: now]",
)

config = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with broker or topic properties.",
)


def index_interval(help_: str) -> Decorator:
    """--index-interval-bytes. help_: its help text."""
    return click.option(
        "--index-interval-bytes",
        type=Size(),
        default=INDEX_INTERVAL_BYTES,
        show_default=True,
        help=help_,
    )


@dataclass(frozen=True, slots=True)
class Common:
    """Values of the `COMMON` options; each command has some of them."""

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
    def limit(self) -> Limit:
        """Decompression limit for batches."""
        from kfmt_cli.core.codecs.decompress import Limit

        return Limit.of_option(self.max_decompressed)

    @property
    def max_findings(self) -> int:
        """Limit of findings kept per kind and file."""
        return MOST_FINDINGS if self.given_findings is None else self.given_findings

    def run(
        self,
        type_: ResultType | None = None,
        *,
        look: Look | None = None,
        writes: bool = False,
        finds: bool = False,
    ) -> Run:
        """A run on the process's own streams.

        type_: type of its results. look: how to show rows, if more than the shared options
        determine it. writes: the command writes files, even if its output is closed. finds:
        findings are its main result.
        """
        from kfmt_cli.cli.screen import Screen
        from kfmt_cli.commands.run import Run
        from kfmt_cli.render.formats import sink_named
        from kfmt_cli.render.sinks.sink import Look

        screen = Screen(self.color, goes_on=writes)
        look = replace(
            look or Look(wide=self.wide),
            table=self.table or "",
            finds=finds,
            lists_all=self.lists_all,
            shows_notes=self.shows_notes,
            places=self.given_findings or MOST_PLACES,
        )
        sink = sink_named(self.format_)(screen, look)
        most = self.max_findings
        if sink.for_people and not finds and self.given_findings is None:
            most = MOST_PLACES
        run = Run(screen, sink, type_, self.strict, most)
        context = click.get_current_context(silent=True)
        if context is not None:
            context.meta[RUN] = run
        return run


def common(*names: str) -> Decorator:
    """Give a command some of the `COMMON` options; it receives them as one `Common`.

    A command that returns nothing ends with the exit code of its run.
    """
    members = tuple(field.name for field in fields(Common))

    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(**given: Any) -> Any:
            said = {name: given.pop(name) for name in members if name in given}
            code = function(common=Common(**said), **given)
            run: Run | None = click.get_current_context().meta.get(RUN)
            if code is not None or run is None:
                return code
            run.sink.flush()
            return run.host.exit_code

        return with_options(command, [COMMON[name] for name in names])

    return decorate
