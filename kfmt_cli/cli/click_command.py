"""Commands of click, created from classes of options.

The help of a command lists its options in titled groups, rarely needed ones last.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kfmt_cli.cli.help_pages import (
    SHORT_HELP_KEY,
    split_help,
    wants_short_help,
    write_first_screen,
)
from kfmt_cli.cli.option_errors import create_option_error
from kfmt_cli.core.lazy import import_object
from kfmt_cli.errors import UsageError
from kfmt_cli.findings.finding import MAX_LOCATIONS
from kfmt_cli.options.common import CommonOptions, InputOptions, TopicOptions
from kfmt_cli.options.declaration import deprecation_messages, iter_parameters

if TYPE_CHECKING:
    from kfmt_cli.commands.command_run import CommandRun

# The groups after a command's own options, by parameter name.
OPTION_GROUPS: dict[str, Sequence[str]] = {
    "Selection": (
        *("from_offset", "to_offset", "from_time", "to_time", "key", "value", "header"),
        *("producer_id", "last", "isolation", "commit_unknown"),
    ),
    "Keys and values": (
        *("decode", "schemas", "key_format", "key_schema", "value_format", "value_schema"),
    ),
    "Output": (
        *("all_files", "lists_all", "shows_notes", "wide", "quiet", "format_", "table", "color"),
        *("output", "strict", "exit_zero", "baseline", "write_baseline", "given_findings"),
    ),
    "Rarely needed": (
        *("throttle", "layout", "index_interval_bytes", "now", "conf", "traceback", "patience"),
        *("max_split_bytes", "jobs", "rsm_private_key", "max_decompressed"),
    ),
}
_TITLE_BY_OPTION = {name: title for title, names in OPTION_GROUPS.items() for name in names}
_ORDER_BY_OPTION = {name: position for position, name in enumerate(_TITLE_BY_OPTION)}
MAX_UNTITLED_OPTIONS = 12  # options that need no titles


class GroupedCommand(click.Command):
    """A command that lists its own options first, then those of the groups in their order; with
    titles if there are more than `MAX_UNTITLED_OPTIONS`."""

    def __init__(
        self,
        *arguments: Any,
        write_epilog: Callable[[click.HelpFormatter], None] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.params.sort(key=lambda param: _ORDER_BY_OPTION.get(param.name or "", -1))
        self._write_epilog = write_epilog

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an unknown option is named with the most similar ones."""
        ctx.meta[SHORT_HELP_KEY] = wants_short_help(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise create_option_error(self, ctx, error.option_name) from None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help: usage, examples and options, then the details."""
        if ctx.meta.get(SHORT_HELP_KEY):
            write_first_screen(self, ctx, formatter, self._ordered_options(ctx))
            return
        summary, examples, details = split_help(self.help or "")
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(summary)
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples))
        self.format_options(ctx, formatter)
        if details:
            # Deeper than options, so that a sentence about one does not look like its entry.
            with formatter.section("Details"), formatter.indentation():
                formatter.write_text("\n\n".join(details))
        self.format_epilog(ctx, formatter)

    def _ordered_options(self, ctx: click.Context) -> list[click.Option]:
        """The options, --json after the command's own, rare ones last."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        options = [option for option in options if "--help" not in option.opts]
        own = [option for option in options if option.name not in _TITLE_BY_OPTION]
        json_flags = [option for option in options if option.opts == ["--json"]]
        return [*own, *json_flags, *(o for o in options if o not in (*own, *json_flags))]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section for each group."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if len(options) <= MAX_UNTITLED_OPTIONS:
            super().format_options(ctx, formatter)
            return
        sections: dict[str, list[tuple[str, str]]] = {
            title: [] for title in ("Options", *OPTION_GROUPS)
        }
        for option in options:
            if (help_record := option.get_help_record(ctx)) is not None:
                sections[_TITLE_BY_OPTION.get(option.name or "", "Options")].append(help_record)
        for title, help_records in sections.items():
            if help_records:
                with formatter.section(title):
                    formatter.write_dl(help_records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self._write_epilog is not None:
            self._write_epilog(formatter)


_COMMON_FIELDS = {field.name: field for field in fields(CommonOptions)}


def create_command(options_class: type[CommonOptions]) -> click.Command:
    """The command for a class of options: `SalvageOptions` in `options.py` belongs to
    `SalvageCommand` in `command.py`, which is imported when it is called."""
    spec = options_class.command_spec

    def is_included(field: Field[Any]) -> bool:
        is_own = field is not _COMMON_FIELDS.get(field.name)
        return is_own or field.name in spec.common

    def execute(**values: Any) -> int:
        options = options_class(**values)
        command_class = import_object(
            f"{options_class.__module__.removesuffix('options')}command:"
            f"{options_class.__name__.removesuffix('Options')}Command"
        )
        with _open_output_file(options) as output_fd:
            run = create_run(options, output_fd)
            exit_code = command_class(run, options).execute()
            run.sink.flush_texts()
            if run.baseline is not None:
                run.baseline.finish(lambda text: run.output.write_error(f"kfmt: {text}\n"))
        return int(run.output.exit_code if exit_code is None else exit_code)

    return GroupedCommand(
        spec.name,
        callback=execute,
        params=list(iter_parameters(options_class, is_included)),
        help=inspect.cleandoc(options_class.__doc__ or ""),
        short_help=spec.short_help,
        context_settings=spec.context_settings,
        write_epilog=spec.write_epilog,
    )


@contextmanager
def _open_output_file(options: CommonOptions) -> Iterator[int | None]:
    """Yield the descriptor of the file of --output, which appears at the end of the block; None for
    standard output. Raises UsageError, OutputError."""
    if options.output in (None, "-"):
        yield None
        return
    from kfmt_cli.writers.output import require_free_of_broker_files
    from kfmt_cli.writers.single_file import open_single_file

    path = Path(os.path.realpath(options.output or ""))
    require_free_of_broker_files(path)
    with open_single_file(path) as output_fd:
        yield output_fd


def create_run(options: CommonOptions, output_fd: int | None = None) -> CommandRun:
    """A run of a command on the process's own streams, or with output to a descriptor; raises
    UsageError."""
    from kfmt_cli.cli.command_output import CommandOutput
    from kfmt_cli.commands.command_run import CommandRun
    from kfmt_cli.render.output_formats import load_sink_class

    spec = options.command_spec
    if isinstance(options, InputOptions):
        from kfmt_cli.disk.path_resolution import RSM_PRIVATE_KEY_PATH

        RSM_PRIVATE_KEY_PATH.set(options.rsm_private_key)
    if options.table is not None:
        from kfmt_cli.commands.contract import variants_by_type_name

        if options.table not in variants_by_type_name():
            raise UsageError(
                f"--table {options.table}: no such row type; see docs/json.md for all types"
            )
    baseline = None
    if options.baseline is not None or options.write_baseline is not None:
        from kfmt_cli.commands.baseline import Baseline

        baseline = Baseline(
            options.baseline, options.write_baseline, spec.name, getattr(options, "paths", ())
        )
    output = CommandOutput(
        options.color,
        ignores_closed_output=spec.writes_files,
        output_fd=output_fd,
        ignores_findings=options.exit_zero or options.write_baseline is not None,
    )
    display_options = replace(options.display_options, shows_findings=spec.shows_findings)
    if isinstance(options, InputOptions):
        from kfmt_cli.disk.pasted_input import ON_PASTED
        from kfmt_cli.disk.topic_filter import TOPIC_PATTERNS

        ON_PASTED.set(lambda message: output.write_error(f"kfmt: {message}"))
        TOPIC_PATTERNS.set(options.directory_topics if isinstance(options, TopicOptions) else ())
    for message in deprecation_messages(options):
        output.write_error(f"kfmt: {message}\n")
    sink = load_sink_class(options.format_)(output, display_options)
    max_findings = options.max_findings
    if sink.is_for_people and not spec.shows_findings and options.given_findings is None:
        max_findings = MAX_LOCATIONS
    return CommandRun(output, sink, options.counts_warnings, max_findings, baseline)
