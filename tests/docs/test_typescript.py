"""The program in TypeScript: its types are the schema's, and it prints findings of `check`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.samples import kfmt
from tools.kafka import ROOT

EXAMPLE = ROOT / "examples/typescript"


def run(*command: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program of Node."""
    return subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its dependencies, in a copy of the project's directories."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    root = tmp_path_factory.mktemp("typescript")
    if run("npm", "ping", cwd=root).returncode != 0:
        pytest.skip("npm does not reach its registry")
    shutil.copytree(ROOT / "docs/schema", root / "docs/schema")
    ignored = shutil.ignore_patterns("node_modules", "dist")
    example = Path(shutil.copytree(EXAMPLE, root / "examples/typescript", ignore=ignored))
    result = run("npm", "ci", cwd=example)
    assert result.returncode == 0, result.stderr
    return example


def test_the_types_have_the_members_of_the_schema() -> None:
    types = (EXAMPLE / "kfmt.d.ts").read_text()
    bodies = re.findall(r"^export interface (\w+) \{\n(.*?)^\}", types, re.MULTILINE | re.DOTALL)
    members_by_type = {
        name.lower(): re.findall(r"^  (\w+)\??:", body, re.MULTILINE) for name, body in bodies
    }
    schema = json.loads((ROOT / "docs/schema/kfmt-1.json").read_text())
    expected = {
        name.replace("_", ""): list(definition["properties"])
        for name, definition in schema["$defs"].items()
        if "properties" in definition and name != "kcat"  # lines without a type
    }
    assert members_by_type == expected, "run npm ci && npm run generate in examples/typescript"


def test_the_types_are_those_of_the_schema(installed: Path) -> None:
    result = run("npm", "run", "generate", cwd=installed)
    assert result.returncode == 0, result.stderr
    assert (installed / "kfmt.d.ts").read_text() == (EXAMPLE / "kfmt.d.ts").read_text(), (
        "run npm ci && npm run generate in examples/typescript"
    )


def test_it_prints_what_check_found(installed: Path) -> None:
    build_result = run("npm", "run", "build", cwd=installed)
    assert build_result.returncode == 0, build_result.stdout
    checked = kfmt("check", "damaged_segments", "--json")
    result = run("node", "dist/findings.js", cwd=installed, stdin=checked.out)
    assert result.returncode == checked.code == 1, result.stderr
    for row in checked.of("finding"):
        assert f"{row['severity']} {row['code']} {row['file']}" in result.stdout


def test_a_member_that_the_schema_lacks_does_not_compile(installed: Path) -> None:
    program = installed / "findings.ts"
    source = program.read_text()
    program.write_text(source.replace("row.position", "row.place"))
    build_result = run("npm", "run", "build", cwd=installed)
    program.write_text(source)
    assert build_result.returncode != 0
    assert "Property 'place' does not exist" in build_result.stdout
