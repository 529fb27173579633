"""No version takes back what an earlier one promised."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest

from kfmt_cli import __version__
from kfmt_cli.cli import MODULE_BY_COMMAND
from tools.contract import current_contract, frozen_contracts, iter_taken_back
from tools.kafka import ROOT

CONTRACT = current_contract()


def test_nothing_is_taken_back() -> None:
    contracts = frozen_contracts()
    assert __version__.partition("rc")[0] in contracts, "run python -m tools.contract --freeze"
    for version, contract in contracts.items():
        assert list(iter_taken_back(contract, CONTRACT)) == [], version


def options(contract: Any, command: str) -> Any:
    return contract["commands"][f"kfmt {command}"]["options"]


def members(contract: Any, name: str) -> Any:
    return contract["json"][name]["properties"]


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a command": (lambda c: c["commands"].pop("kfmt stat"), "kfmt stat is gone"),
    "a subcommand": (lambda c: c["commands"].pop("kfmt pipeline find"), "kfmt pipeline find"),
    "an option": (lambda c: options(c, "cat").pop("--limit"), "kfmt cat --limit is gone"),
    "a short option": (lambda c: options(c, "cat").pop("-n"), "kfmt cat -n is gone"),
    "a choice": (
        lambda c: options(c, "check")["--format"]["values"].remove("junit"),
        "kfmt check --format takes",
    ),
    "a range": (
        lambda c: options(c, "cat")["--limit"]["values"].update(min=2),
        "kfmt cat --limit takes",
    ),
    "a default": (
        lambda c: options(c, "cat")["--isolation"].update(default="read_committed"),
        "kfmt cat --isolation has another default",
    ),
    "repeating": (
        lambda c: options(c, "cat")["--topic"].update(repeatable=False),
        "kfmt cat --topic may no longer be repeated",
    ),
    "being optional": (
        lambda c: options(c, "export")["--topic"].update(required=True),
        "kfmt export --topic is now required",
    ),
    "working without an option": (
        lambda c: options(c, "cat").update({"--new": {"required": True}}),
        "kfmt cat --new is new and required",
    ),
    "an argument": (
        lambda c: c["commands"]["kfmt diff"]["arguments"].pop(),
        "kfmt diff: argument 2 is gone",
    ),
    "an exit code": (lambda c: c["exit_codes"].update(FINDINGS=5), "('FINDINGS', 1)"),
    "a finding": (lambda c: c["findings"].remove("crc-mismatch"), "finding crc-mismatch"),
    "a column": (lambda c: c["tables"]["records"].pop("offset"), "records: column ('offset'"),
    "an option of the source": (lambda c: c["source_options"].pop(), "option of the data source"),
    "a function": (lambda c: c["python"].pop("verify"), "kfmt_cli.verify is gone"),
    "a parameter": (lambda c: c["python"]["verify"].pop("deep"), "kfmt_cli.verify: deep"),
    "a parameter's default": (
        lambda c: c["python"]["verify"]["deep"].update(default="True"),
        "kfmt_cli.verify: deep",
    ),
    "a JSON type": (lambda c: c["json"].pop("batch"), "JSON batch is gone"),
    "a JSON member": (lambda c: members(c, "batch").pop("crc"), "JSON batch.crc is gone"),
    "a nested member": (
        lambda c: members(c, "batch")["attributes"]["properties"].pop("raw"),
        "JSON batch.attributes.raw is gone",
    ),
    "being always there": (
        lambda c: c["json"]["finding"]["required"].remove("advice"),
        "JSON finding: certain member advice",
    ),
    "never being null": (
        lambda c: members(c, "batch")["crc"].update(type=["integer", "null"]),
        "JSON batch.crc may be null",
    ),
    "having one type": (
        lambda c: members(c, "batch")["crc"].pop("type"),
        "JSON batch.crc may be anything",
    ),
    "a word": (
        lambda c: members(c, "finding")["severity"]["enum"].remove("note"),
        "JSON finding.severity: value note",
    ),
    "a shape": (lambda c: c["json"]["topic"]["oneOf"].pop(), "JSON topic: shape 1 is gone"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_taken_back_is_named(change: str) -> None:
    take_back, expected_text = CHANGES[change]
    contract = copy.deepcopy(CONTRACT)
    take_back(contract)
    texts = list(iter_taken_back(CONTRACT, contract))
    assert any(expected_text in text for text in texts), texts


def test_additions_take_nothing_back() -> None:
    old = copy.deepcopy(CONTRACT)
    del old["commands"]["kfmt stat"], old["json"]["batch"]
    options(old, "cat").pop("--limit")
    options(old, "check")["--format"]["values"].remove("junit")
    options(old, "cat")["--last"]["values"].update(min=2)
    members(old, "finding").pop("advice")
    members(old, "finding")["severity"]["enum"].remove("note")
    old["tables"]["records"].pop("leader_epoch")
    old["python"].pop("verify")
    assert list(iter_taken_back(old, CONTRACT)) == []


def test_each_command_is_in_the_table_of_stable_ones_once() -> None:
    page = (ROOT / "docs" / "supported.md").read_text()
    table = page.partition("| stable | commands |\n")[2].partition("\n\n")[0]
    names = re.findall(r"`([a-z0-9-]+)`(?: \([^)]*\))?(?:, | \|$)", table, re.MULTILINE)
    assert sorted(names) == sorted(MODULE_BY_COMMAND)
