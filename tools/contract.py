"""What programs rely on: options, exit codes, finding codes, JSON, tables and the Python API.

`python -m tools.contract` names what the sources take back of the versions in `tests/contract`.
`--freeze` writes there what the sources promise, as the version in `kfmt_cli/__init__.py`; a
release candidate's is written again, a release's never.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import click

import kfmt_cli
from kfmt_cli.commands.format.json_schema import format_json_schema
from kfmt_cli.errors import ExitCode
from kfmt_cli.findings.codes import finding_code_by_name
from kfmt_cli.rows.documents import COMPARED_RANGE_ROW, STATS_ROW_BY_TABLE
from kfmt_cli.rows.json_schemas import CONTRACT_VERSION
from kfmt_cli.rows.table_types import FOUND_RECORDS_TABLE, TABLES
from kfmt_cli.spark.source_options import OPTION_DESCRIPTIONS
from kfmt_cli.spark.tables import spark_type
from tools.kafka import ROOT
from tools.man import every_command

FROZEN_CONTRACTS = ROOT / "tests" / "contract"
Json = Any
Taken = Iterator[str]


def current_contract() -> Json:
    """What the sources promise, as JSON."""
    contract = {
        "exit_codes": {code.name: int(code) for code in ExitCode},
        "findings": sorted(finding_code_by_name()),
        "commands": {path: _describe_command(command) for path, command, _ in every_command()},
        "python": {name: _describe_function(name) for name in kfmt_cli.__all__},
        "tables": {
            name: {leaf.name: str(spark_type(leaf)) for leaf in row_type.leaves}
            for name, row_type in {
                **TABLES,
                "ranges": COMPARED_RANGE_ROW,
                "found": FOUND_RECORDS_TABLE,
                **STATS_ROW_BY_TABLE,
            }.items()
        },
        "source_options": sorted(OPTION_DESCRIPTIONS),
        "json_version": CONTRACT_VERSION,
        "json": _without_descriptions(json.loads(format_json_schema())["$defs"]),
    }
    return json.loads(json.dumps(contract))


def _describe_command(command: click.Command) -> Json:
    arguments, options = [], {}
    for parameter in command.params:
        description = {
            "values": _describe_values(parameter.type),
            "required": parameter.required,
            "repeatable": parameter.multiple or parameter.nargs == -1,
        }
        if isinstance(parameter, click.Option):
            description["flag"] = parameter.is_flag
            description["default"] = _known_default(parameter.default)
            for name in (*parameter.opts, *parameter.secondary_opts):
                options[name] = description
        else:
            arguments.append(description)
    return {"arguments": arguments, "options": options}


def _describe_values(value_type: click.ParamType[Any]) -> Json:
    if isinstance(value_type, click.Choice):
        return list(map(str, value_type.choices))
    if isinstance(value_type, click.IntRange | click.FloatRange):
        return {"min": value_type.min, "max": value_type.max}
    return value_type.name


def _known_default(default: object) -> Json:
    return default if isinstance(default, str | int | float) else None


def _describe_function(name: str) -> Json:
    signature = inspect.signature(getattr(kfmt_cli, name))
    return {
        parameter.name: {
            "kind": parameter.kind.description,
            "required": parameter.default is parameter.empty,
            "default": None if parameter.default is parameter.empty else repr(parameter.default),
        }
        for parameter in signature.parameters.values()
    }


def _without_descriptions(schema: Json) -> Json:
    if isinstance(schema, dict):
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
    return list(map(_without_descriptions, schema)) if isinstance(schema, list) else schema


def iter_taken_back(old: Json, new: Json) -> Taken:
    """Yield what `new` lacks or changes of what `old` promised, a sentence each."""
    yield from _missing("exit code", old["exit_codes"].items(), new["exit_codes"].items())
    yield from _missing("finding", old["findings"], new["findings"])
    yield from _missing("option of the data source", old["source_options"], new["source_options"])
    for name, columns in old["tables"].items():
        new_columns = new["tables"].get(name, {})
        yield from _missing(f"table {name}: column", columns.items(), new_columns.items())
    for path, command in old["commands"].items():
        new_command = new["commands"].get(path)
        if new_command is None:
            yield f"{path} is gone"
        else:
            yield from _of_command(path, command, new_command)
    for name, parameters in old["python"].items():
        yield from _of_function(f"kfmt_cli.{name}", parameters, new["python"].get(name))
    if old["json_version"] == new["json_version"]:
        for name, schema in old["json"].items():
            yield from _of_schema(f"JSON {name}", schema, new["json"].get(name))


def _missing(noun: str, old: Iterable[object], new: Iterable[object]) -> Taken:
    known = list(new)
    yield from (f"{noun} {item} is gone or changed" for item in old if item not in known)


def _of_command(path: str, old: Json, new: Json) -> Taken:
    for position, (argument, new_argument) in enumerate(
        zip_longest(old["arguments"], new["arguments"]), 1
    ):
        if argument is not None:
            yield from _of_parameter(f"{path}: argument {position}", argument, new_argument)
        elif new_argument["required"]:
            yield f"{path}: argument {position} is new and required"
    for name, option in old["options"].items():
        yield from _of_parameter(f"{path} {name}", option, new["options"].get(name))
    for name in new["options"].keys() - old["options"].keys():
        if new["options"][name]["required"]:
            yield f"{path} {name} is new and required"


def _of_parameter(name: str, old: Json, new: Json | None) -> Taken:
    if new is None:
        yield f"{name} is gone"
        return
    if new["required"] and not old["required"]:
        yield f"{name} is now required"
    if old["repeatable"] and not new["repeatable"]:
        yield f"{name} may no longer be repeated"
    if old.get("flag") != new.get("flag") or old.get("default") != new.get("default"):
        yield f"{name} has another default, or takes a value where it took none"
    if not _accepts(new["values"], old["values"]):
        yield f"{name} takes {new['values']}, no longer {old['values']}"


def _accepts(new: Json, old: Json) -> bool:
    if isinstance(old, list):
        return new == "text" or (isinstance(new, list) and set(old) <= set(new))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return (new["min"] is None or (old["min"] is not None and new["min"] <= old["min"])) and (
            new["max"] is None or (old["max"] is not None and new["max"] >= old["max"])
        )
    return bool(new == old) or (isinstance(old, Mapping) and new in ("integer", "float", "text"))


def _of_function(name: str, old: Json, new: Json | None) -> Taken:
    if new is None:
        yield f"{name} is gone"
        return
    for parameter, description in old.items():
        if new.get(parameter) != description:
            yield f"{name}: {parameter} is gone or changed"
    for parameter in new.keys() - old.keys():
        if new[parameter]["required"]:
            yield f"{name}: {parameter} is new and required"
    positional = [key for key, d in old.items() if d["kind"].startswith("positional")]
    if list(new)[: len(positional)] != positional:
        yield f"{name}: its positional parameters have another order"


def _of_schema(name: str, old: Json, new: Json | None) -> Taken:
    """Yield what readers of old JSON do not expect: members that are gone, other types."""
    if new is None:
        yield f"{name} is gone"
        return
    for keyword in ("const", "$ref", "format", "pattern"):
        if old.get(keyword) != new.get(keyword):
            yield f"{name}: {keyword} is {new.get(keyword)!r}, no longer {old.get(keyword)!r}"
    if old.get("type") is not None and not _types(new) <= _types(old):
        yield f"{name} may be {', '.join(sorted(_types(new) - _types(old)))}"
    yield from _missing(f"{name}: value", old.get("enum", []), new.get("enum", []))
    yield from _missing(f"{name}: certain member", old.get("required", []), new.get("required", []))
    for member, schema in old.get("properties", {}).items():
        yield from _of_schema(f"{name}.{member}", schema, new.get("properties", {}).get(member))
    for keyword in ("items", "additionalProperties"):
        if isinstance(old.get(keyword), dict):
            yield from _of_schema(f"{name}: {keyword}", old[keyword], new.get(keyword))
    for keyword in ("anyOf", "oneOf"):
        new_shapes = new.get(keyword, [])
        for i, shape in enumerate(old.get(keyword, [])):
            if all(any(_of_schema("", shape, new_shape)) for new_shape in new_shapes):
                yield f"{name}: shape {i} is gone or changed"


def _types(schema: Json) -> set[str]:
    names = schema.get("type", "anything")
    return {names} if isinstance(names, str) else set(names)


def frozen_contracts() -> dict[str, Json]:
    """The contract of each frozen version."""
    return {path.stem: json.loads(path.read_text()) for path in FROZEN_CONTRACTS.glob("*.json")}


def freeze() -> None:
    """Write the contract of this version. Raises SystemExit if that version was released."""
    version, candidate, _ = kfmt_cli.__version__.partition("rc")
    path = FROZEN_CONTRACTS / f"{version}.json"
    if path.exists() and not candidate:
        raise SystemExit(f"{path} is released; what the sources add, the next version freezes")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(current_contract(), indent=1) + "\n")


if __name__ == "__main__":
    if "--freeze" in sys.argv:
        freeze()
    current = current_contract()
    taken_back = [
        f"{version}: {text}"
        for version, contract in frozen_contracts().items()
        for text in iter_taken_back(contract, current)
    ]
    sys.exit("\n".join(taken_back) or 0)
