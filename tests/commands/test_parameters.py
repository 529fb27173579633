"""A command's parameters: the command line, the class of options and the Python API agree."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from typing import Any

import click
import pytest

import kfmt_cli
from kfmt_cli.cli import MODULE_BY_COMMAND, kfmt
from kfmt_cli.core.lazy import import_object
from kfmt_cli.options.common import CommonOptions
from tools.kafka import ROOT

COMMAND_BY_FUNCTION = {
    "read_batches": "dump",
    "read_file": "dump",
    "read_records": "dump",
    "scan": "dump",
    "dataset": "dump",
    "verify": "verify-crc",
}  # others have the name of their command
# Parameters with another name than their option, or another default; all others are the same.
OPTION_BY_PARAMETER = {
    ("check", "kafka_version"): "kafka",
    **{
        (function, "path"): "paths"
        for function in ("read_batches", "read_file", "read_records", "scan", "dataset", "verify")
    },
}
OTHER_DEFAULTS = {
    ("check", "paths"): "the current directory is a default on the command line only",
    ("export", "tables"): "several names, not text with commas",
    ("export", "columns"): "several names, not text with commas",
    ("export", "topics"): "several names, not text with commas",
    ("read_records", "topic"): "the former spelling of as_topic",
    ("salvage", "index_interval_bytes"): "None is the option's default",
}
WITHOUT_OPTION = {
    ("rebuild_index", "destination"): "the last of LOG... DST",
    ("read_batches", "columns"): "of a table, which the command's --columns are not",
    ("read_records", "columns"): "of a table, which the command's --columns are not",
    ("scan", "table"): "which rows a query gets",
    ("dataset", "table"): "which rows a query gets",
    ("scan", "ignore_unreadable"): "a query cannot continue after an error",
    ("dataset", "ignore_unreadable"): "a query cannot continue after an error",
    ("retention", "settings"): "all topic settings, also those that are no options",
    ("compaction", "settings"): "all topic settings, also those that are no options",
    ("build", "options"): "the options that shape batches, by their names",
    ("export", "options"): "the options for lake files, by their names",
}
COMMANDS = [name for name in MODULE_BY_COMMAND if name != "pipeline"]


def command_of(name: str) -> click.Command:
    command = kfmt.get_command(click.Context(kfmt), name)
    assert command is not None
    return command


def options_class_of(name: str) -> type[CommonOptions]:
    module_name = f"kfmt_cli.commands.{MODULE_BY_COMMAND[name]}.options"
    pascal_name = "".join(map(str.capitalize, name.split("-")))
    class_name = {"ConvertV0ToV2": "Convert"}.get(pascal_name, pascal_name) + "Options"
    options_class: type[CommonOptions] = import_object(f"{module_name}:{class_name}")
    return options_class


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_sets_the_fields_of_the_options_to_their_defaults(name: str) -> None:
    options_class, command = options_class_of(name), command_of(name)
    assert options_class.command_spec.name == name
    field_by_name = {field.name: field for field in fields(options_class)}
    assert {param.name for param in command.params} <= field_by_name.keys()
    assert set(options_class.command_spec.common) <= {field.name for field in fields(CommonOptions)}
    arguments = [
        argument
        for param in command.params
        if param.required
        for argument in (["x"] if isinstance(param, click.Argument) else [param.opts[0], "x"])
    ]
    values = command.make_context(name, arguments).params
    for param in command.params:
        default = field_by_name[param.name or ""].default
        assert param.required is (default is MISSING)
        if not param.required:
            value = values[param.name or ""]
            assert (value, type(value)) == (default, type(default)), param.name
    for field_name in field_by_name.keys() - values.keys():
        field = field_by_name[field_name]
        assert (field.default, field.default_factory) != (MISSING, MISSING)


def test_defaults_of_rooms_below_are_those_of_the_options() -> None:
    pytest.importorskip("pyarrow")
    from kfmt_cli.arrow.export.lake_options import DEFAULT_LAKE_OPTIONS
    from kfmt_cli.commands.convert.options import ConvertOptions
    from kfmt_cli.commands.export.options import ExportOptions
    from kfmt_cli.writers.build.batch_drafts import BatchBounds

    options = ExportOptions(paths=("x",), to="x")
    assert {name: getattr(options, name) for name in DEFAULT_LAKE_OPTIONS} == DEFAULT_LAKE_OPTIONS
    convert_options = ConvertOptions(source="x", destination="x")
    assert convert_options.batch_bytes == BatchBounds().max_bytes


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_names_of_their_fields_help_and_a_place_in_the_docs(name: str) -> None:
    page = (ROOT / "docs/commands.md").read_text()
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for param in command_of(name).params:
        if isinstance(param, click.Option):
            assert param.help, param.name
            if param.hidden:  # a former spelling
                continue
            assert all(re.search(rf"  .*{re.escape(text)}\b", section) for text in param.opts)
        else:
            assert param.metavar
            assert param.metavar in section


def api_parameters() -> list[Any]:
    return [
        pytest.param(function, parameter, id=f"{function}-{parameter.name}")
        for function in kfmt_cli.__all__
        for parameter in inspect.signature(getattr(kfmt_cli, function)).parameters.values()
    ]


@pytest.mark.parametrize(("function", "parameter"), api_parameters())
def test_parameters_of_the_python_api_are_options(
    function: str, parameter: inspect.Parameter
) -> None:
    key = function, parameter.name
    command = COMMAND_BY_FUNCTION.get(function, function.replace("_", "-"))
    options_class = options_class_of(command)
    field_by_name = {field.name: field for field in fields(options_class)}
    option_name = OPTION_BY_PARAMETER.get(key, parameter.name)
    if key in WITHOUT_OPTION:
        return
    assert option_name in {param.name for param in command_of(command).params}
    default = field_by_name[option_name].default
    if key not in OTHER_DEFAULTS:
        is_required = parameter.default is inspect.Parameter.empty
        assert default is MISSING if is_required else parameter.default == default


def test_every_exception_is_a_parameter() -> None:
    parameters = {(param.values[0], param.values[1].name) for param in api_parameters()}
    assert {*OPTION_BY_PARAMETER, *OTHER_DEFAULTS, *WITHOUT_OPTION} <= parameters


@pytest.mark.parametrize("function", kfmt_cli.__all__)
def test_the_page_about_python_names_every_function(function: str) -> None:
    assert re.search(rf"`(kfmt_cli\.)?{function}\b", (ROOT / "docs/python.md").read_text())
