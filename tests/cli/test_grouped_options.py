"""Each command's help: every option once, rare options last."""

from __future__ import annotations

import click
import pytest

from kfmt_cli.cli.click_command import MAX_UNTITLED_OPTIONS, OPTION_GROUPS
from tests.support.samples import kfmt
from tools.man import every_command

RARE_GROUP = [*OPTION_GROUPS][-1]


@pytest.mark.parametrize("name", [path for path, command, _ in every_command() if command.params])
def test_every_option_is_listed_once_and_rare_ones_last(name: str) -> None:
    command = next(candidate for path, candidate, _ in every_command() if path == name)
    text = kfmt(*name.split()[1:], "--help").out
    text = text[text.index("\nOptions:") :]
    options = [
        option
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
    ]
    listed_names = [line.split()[0].strip(",") for line in text.splitlines() if line[:3] == "  -"]
    assert len(listed_names) == len(options) + 1  # and --help
    for option in options:
        assert len({*option.opts} & {*listed_names}) == 1
    if isinstance(command, click.Group) or len(listed_names) <= MAX_UNTITLED_OPTIONS:
        assert f"\n{RARE_GROUP}:" not in text
        return
    titles = [line[:-1] for line in text.splitlines() if line[:-1] in ("Options", *OPTION_GROUPS)]
    assert titles == [title for title in ("Options", *OPTION_GROUPS) if title in titles]
    assert titles[0] == "Options"
    rare_section = text[text.index(f"\n{RARE_GROUP}:") :]
    for option in options:
        assert (option.name in OPTION_GROUPS[RARE_GROUP]) is (
            f"\n  {option.opts[0]}" in rare_section
        )


def test_groups_name_options_that_exist() -> None:
    option_names = {option.name for _, command, _ in every_command() for option in command.params}
    assert {name for names in OPTION_GROUPS.values() for name in names} <= option_names
