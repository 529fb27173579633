"""The command line: the group of commands, and the options that commands share.

The options of a command are in its directory, `commands/*/options.py`.
"""

from __future__ import annotations

import importlib
import platform
from typing import Any

import click

from kfmt_cli import __version__
from kfmt_cli.cli.help_pages import EXIT_CODES_HELP, HELP_TOPICS, create_help_command, first_page
from kfmt_cli.errors import unknown_name_question

COMMANDS_BY_SECTION = {
    "Look": ("dump", "cat", "state", "hex", "stat", "find", "sql", "txn", "browse", "report"),
    "Why": ("retention", "compaction"),
    "Check": ("check", "verify-crc", "index-check", "diff", "replicas"),
    "Write": ("build", "salvage", "merge", "convert-v0-to-v2", "rebuild-index", "export", "replay"),
    "Scale": ("pipeline",),
    "Learn": (
        *("format", "explain", "encode-varint", "decode-varint", "partition-of"),
        *("request-header", "response-header"),
    ),
}
HELP_COMMAND = "help"
# The directories of commands whose names differ from the command's.
_DIRECTORY_BY_COMMAND = {
    "convert-v0-to-v2": "convert",
    "encode-varint": "varint",
    "decode-varint": "varint",
    "request-header": "protocol_headers",
    "response-header": "protocol_headers",
}
MODULE_BY_COMMAND = {
    name: _DIRECTORY_BY_COMMAND.get(name, name.replace("-", "_"))
    for names in COMMANDS_BY_SECTION.values()
    for name in names
}


class LazyCommandGroup(click.Group):
    """Imports a command's module when it is called, and groups commands in the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODULE_BY_COMMAND)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == HELP_COMMAND:
            return create_help_command(self)
        if cmd_name not in MODULE_BY_COMMAND:
            return None
        from kfmt_cli.cli.click_command import create_command

        declaration = _load_declaration(cmd_name)
        if isinstance(declaration, click.Group):
            return declaration
        return create_command(declaration)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        command_name = args[0]
        if command_name not in (*MODULE_BY_COMMAND, HELP_COMMAND) and command_name[:1] != "-":
            from pathlib import Path

            from kfmt_cli.cli.first_guesses import FIRST_GUESSES, path_hint

            path = Path(command_name)
            if path.exists():
                example = path_hint(command_name, path.is_dir())
                ctx.fail(f"{command_name!r} is a path, not a command: {example}")
            if hint := FIRST_GUESSES.get(command_name.lower()):
                ctx.fail(f"no such command: {command_name!r}; {hint}")
            question = unknown_name_question(command_name, MODULE_BY_COMMAND)
            ctx.fail(f"no such command: {command_name!r}{question}")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """The first page, which fits a screen."""
        return first_page(COMMANDS_BY_SECTION)

    def full_help(self, ctx: click.Context) -> str:
        """The help with every command and the sections that apply to all of them."""
        formatter = ctx.make_formatter()
        self.format_help(ctx, formatter)
        for name, text in HELP_TOPICS.items():
            if text != EXIT_CODES_HELP:
                with formatter.section(name.capitalize()):
                    formatter.write_text(text)
        return formatter.getvalue().rstrip("\n")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, command_names in COMMANDS_BY_SECTION.items():
            help_rows = []
            for command_name in command_names:
                declaration = _load_declaration(command_name)
                spec = getattr(declaration, "command_spec", declaration)
                help_rows.append((command_name, spec.short_help))
            with formatter.section(title):
                formatter.write_dl(help_rows)


def _load_declaration(command_name: str) -> Any:
    """The class of options of a command, or the group `pipeline`."""
    module = importlib.import_module(f"kfmt_cli.commands.{MODULE_BY_COMMAND[command_name]}.options")
    return next(
        declaration
        for declaration in vars(module).values()
        if getattr(getattr(declaration, "command_spec", declaration), "name", "") == command_name
    )


def _print_version(ctx: click.Context, _param: click.Parameter, is_requested: bool) -> None:
    if not is_requested or ctx.resilient_parsing:
        return
    from kfmt_cli.core.native.build_state import (
        interpreted_modules,
        interpreted_reason,
        stale_message,
    )
    from kfmt_cli.rows.json_schemas import CONTRACT_VERSION

    slow_modules = interpreted_modules()
    kernel_text = "kernel compiled"
    if slow_modules:
        kernel_text = f"{', '.join(slow_modules)} interpreted (slow: {interpreted_reason()})"
    python_text = f"Python {platform.python_version()} ({platform.python_implementation()})"
    click.echo(f"kfmt {__version__}, JSON {CONTRACT_VERSION}, {python_text}, {kernel_text}")
    if message := stale_message():
        click.echo(f"kfmt: {message}", err=True)
    ctx.exit()


@click.group(
    cls=LazyCommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    epilog=EXIT_CODES_HELP,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of kfmt, its JSON and Python, and whether the native modules are "
    "compiled.",
)
@click.pass_context
def kfmt(context: click.Context) -> None:
    """Inspect, check and repair what is really on a Kafka broker's disk."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
