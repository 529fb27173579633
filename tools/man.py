"""Man pages out of the commands' own help, in the macros of man(7).

`tools/make_docs.py` writes them to docs/man, from where an installation takes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from kfmt_cli import __version__
from kfmt_cli.cli import MODULE_BY_COMMAND, kfmt
from kfmt_cli.cli.options import EXIT_CODES_HELP

HELP = kfmt.context_settings["help_option_names"]
Command = tuple[str, click.Command, click.Context]


def man_pages() -> dict[str, str]:
    """The text of each page by its file's name, such as kfmt-dump.1."""
    commands = list(every_command())
    names = [path.replace(" ", "-") for path, _, _ in commands]
    return {
        f"{name}.1": _page(name, command, context, [text for text in names if text != name])
        for name, (_, command, context) in zip(names, commands, strict=True)
    }


def every_command() -> Iterator[Command]:
    """kfmt itself, its commands and theirs, each under its whole name."""
    context = click.Context(kfmt, info_name="kfmt", help_option_names=HELP)
    yield "kfmt", kfmt, context
    for name in MODULE_BY_COMMAND:
        command = kfmt.get_command(context, name)
        assert command is not None
        within = click.Context(command, info_name=name, parent=context)
        yield within.command_path, command, within
        if isinstance(command, click.Group):
            for inner in command.list_commands(within):
                job = command.get_command(within, inner)
                assert job is not None
                below = click.Context(job, info_name=inner, parent=within)
                yield below.command_path, job, below


def _page(name: str, command: click.Command, context: click.Context, others: list[str]) -> str:
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
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            lines += _entry(*record)
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for inner in command.list_commands(context):
            job = command.get_command(context, inner)
            assert job is not None
            lines += _entry(f"{name}-{inner}(1)", job.get_short_help_str(limit=1000))
    lines += [".SH EXIT STATUS", _text(EXIT_CODES_HELP.removeprefix("Exit codes: "))]
    related = [
        text for text in others if text == "kfmt" or text.startswith(name) or name.startswith(text)
    ]
    lines += [".SH SEE ALSO", ", ".join(f"\\fB{_text(text)}\\fR(1)" for text in related)]
    return "\n".join(lines) + "\n"


def _entry(term: str, words: str) -> list[str]:
    return [".TP", f"\\fB{_text(term)}\\fR", _text(words)]


def _paragraphs(words: str) -> Iterator[str]:
    """click's paragraphs; one that begins with \\b keeps its lines."""
    for i, paragraph in enumerate(inspect.cleandoc(words).split("\n\n")):
        if i:
            yield ".PP"
        lines = paragraph.splitlines()
        if lines[0].strip() == "\b":
            yield ".nf"
            yield from map(_text, lines[1:])
            yield ".fi"
        else:
            yield _text(" ".join(line.strip() for line in lines))


def _text(words: str) -> str:
    """Words that man(7) prints as they are."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(text if text.isascii() else f"\\[u{ord(text):04X}]" for text in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
