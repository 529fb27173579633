"""Messages about options that a command does not have."""

from __future__ import annotations

import click

from kfmt_cli.cli.first_guesses import OPTION_GUESSES
from kfmt_cli.errors import unknown_name_question

MAX_OWNERS = 4  # commands with the option, in a message


def create_option_error(
    command: click.Command, context: click.Context, option_name: str
) -> click.UsageError:
    """The error for an unknown option: the most similar ones, and the commands that have it."""
    known_names = [
        name for param in command.params for name in (*param.opts, *param.secondary_opts)
    ]
    if option_name in OPTION_GUESSES:
        hint = f"; {OPTION_GUESSES[option_name]}"
    elif related_names := _related_names(option_name, known_names):
        hint = f"; did you mean {' or '.join(related_names)}?"
    elif owners := _commands_with_option(context, option_name):
        more = f" and {len(owners) - MAX_OWNERS} others" if len(owners) > MAX_OWNERS else ""
        verb = "has" if len(owners) == 1 else "have"
        hint = f"; {', '.join(owners[:MAX_OWNERS])}{more} {verb} it"
    else:
        hint = unknown_name_question(option_name, [name for name in known_names if name[:1] == "-"])
    return click.UsageError(f"no such option: {option_name}{hint}", context)


def _related_names(option_name: str, known_names: list[str]) -> list[str]:
    """The options of which a name is the beginning or a word, or the plural."""
    word = option_name.removeprefix("--")
    return [
        name
        for name in known_names
        if name.startswith("--")
        and (
            name.startswith(option_name)
            or word in name.removeprefix("--").split("-")
            or option_name == f"{name}s"
        )
    ]


def _commands_with_option(context: click.Context, option_name: str) -> list[str]:
    """The other commands that have an option."""
    root_context = context.find_root()
    group = root_context.command
    if not isinstance(group, click.Group):
        return []
    commands = {
        name: group.get_command(root_context, name) for name in group.list_commands(root_context)
    }
    return [
        name
        for name, command in commands.items()
        if command is not None and any(option_name in param.opts for param in command.params)
    ]
