"""Each command's help: every option once, those that few need last."""

from __future__ import annotations

import click
import pytest

from kfmt_cli.cli.grouped_options import MAX_UNTITLED_OPTIONS, OPTION_GROUPS
from tests.support.samples import kfmt
from tools.man import every_command

RARE = [*OPTION_GROUPS][-1]


@pytest.mark.parametrize("name", [path for path, command, _ in every_command() if command.params])
def test_every_option_is_listed_once_and_rare_ones_last(name: str) -> None:
    command = next(its for path, its, _ in every_command() if path == name)
    text = kfmt(*name.split()[1:], "--help").out
    text = text[text.index("\nOptions:") :]
    options = [
        param for param in command.params if isinstance(param, click.Option) and not param.hidden
    ]
    listed = [line.split()[0].strip(",") for line in text.splitlines() if line[:3] == "  -"]
    assert len(listed) == len(options) + 1  # and --help
    for param in options:
        assert len({*param.opts} & {*listed}) == 1
    if isinstance(command, click.Group) or len(listed) <= MAX_UNTITLED_OPTIONS:
        assert f"\n{RARE}:" not in text
        return
    titles = [line[:-1] for line in text.splitlines() if line[:-1] in ("Options", *OPTION_GROUPS)]
    assert titles == [title for title in ("Options", *OPTION_GROUPS) if title in titles]
    assert titles[0] == "Options"
    rare = text[text.index(f"\n{RARE}:") :]
    for param in options:
        assert (param.name in OPTION_GROUPS[RARE]) is (f"\n  {param.opts[0]}" in rare)


def test_groups_name_options_that_exist() -> None:
    known = {param.name for _, command, _ in every_command() for param in command.params}
    assert {name for names in OPTION_GROUPS.values() for name in names} <= known
