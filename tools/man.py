"""Man pages from the commands' own help, in the macros of man(7).

`tools/make_docs.py` writes them to docs/man, from where they are installed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from kfmt_cli import __version__
from kfmt_cli.cli import MODULE_BY_COMMAND, kfmt
from kfmt_cli.cli.help_pages import EXIT_CODES_HELP

HELP = kfmt.context_settings["help_option_names"]
Command = tuple[str, click.Command, click.Context]


def man_pages() -> dict[str, str]:
    """The text of each page by its file name, such as kfmt-dump.1."""
    commands = list(every_command())
    names = [path.replace(" ", "-") for path, _, _ in commands]
    return {
        f"{name}.1": _page(name, command, context, [text for text in names if text != name])
        for name, (_, command, context) in zip(names, commands, strict=True)
    }


def every_command() -> Iterator[Command]:
    """kfmt, its commands and their subcommands, each with its full name."""
    context = click.Context(kfmt, info_name="kfmt", help_option_names=HELP)
    yield "kfmt", kfmt, context
    for name in MODULE_BY_COMMAND:
        command = kfmt.get_command(context, name)
        assert command is not None
        group_context = click.Context(command, info_name=name, parent=context)
        yield group_context.command_path, command, group_context
        if isinstance(command, click.Group):
            for subcommand_name in command.list_commands(group_context):
                subcommand = command.get_command(group_context, subcommand_name)
                assert subcommand is not None
                subcommand_context = click.Context(
                    subcommand, info_name=subcommand_name, parent=group_context
                )
                yield subcommand_context.command_path, subcommand, subcommand_context


def _page(name: str, command: click.Command, context: click.Context, other_pages: list[str]) -> str:
    path = context.command_path
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        '.\\" made by tools/make_docs.py',
        f'.TH "{name.upper()}" "1" "" "kfmt {__version__}" "User Commands"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(command.get_short_help_str(limit=1000).rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_text(path)}\\fR {_text(usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".SH OPTIONS",
    ]
    for parameter in command.get_params(context):
        help_record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and help_record is not None:
            lines += _entry(*help_record)
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for subcommand_name in command.list_commands(context):
            subcommand = command.get_command(context, subcommand_name)
            assert subcommand is not None
            lines += _entry(
                f"{name}-{subcommand_name}(1)", subcommand.get_short_help_str(limit=1000)
            )
    lines += [".SH EXIT STATUS", _text(EXIT_CODES_HELP.removeprefix("Exit codes: "))]
    related = [
        text
        for text in other_pages
        if text == "kfmt" or text.startswith(name) or name.startswith(text)
    ]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_text(text)}\\fR(1)" for text in related)]
    return "\n".join(lines) + "\n"


def _entry(term: str, description: str) -> list[str]:
    return [".TP", f"\\fB{_text(term)}\\fR", _text(description)]


def _paragraphs(help_text: str) -> Iterator[str]:
    """click's paragraphs; one that begins with \\b keeps its lines."""
    for i, paragraph in enumerate(inspect.cleandoc(help_text).split("\n\n")):
        if i:
            yield ".PP"
        lines = paragraph.splitlines()
        if lines[0].strip() == "\b":
            yield ".nf"
            yield from map(_text, lines[1:])
            yield ".fi"
        else:
            yield _text(" ".join(line.strip() for line in lines))


def _text(content: str) -> str:
    """Text escaped so that man(7) prints it unchanged."""
    escaped = content.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(
        character if character.isascii() else f"\\[u{ord(character):04X}]" for character in escaped
    )
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
