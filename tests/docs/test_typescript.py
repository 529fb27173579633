"""The program in TypeScript: its types are those of the schema, and it says what `check` found."""

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


def run(*words: str, cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program of Node."""
    return subprocess.run(
        words, cwd=cwd, input=given, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with what it needs, in a copy of the project's folders."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    root = tmp_path_factory.mktemp("typescript")
    if run("npm", "ping", cwd=root).returncode != 0:
        pytest.skip("npm does not reach its registry")
    shutil.copytree(ROOT / "docs/schema", root / "docs/schema")
    leave = shutil.ignore_patterns("node_modules", "dist")
    example = Path(shutil.copytree(EXAMPLE, root / "examples/typescript", ignore=leave))
    done = run("npm", "ci", cwd=example)
    assert done.returncode == 0, done.stderr
    return example


def test_the_types_have_the_members_of_the_schema() -> None:
    types = (EXAMPLE / "kfmt.d.ts").read_text()
    bodies = re.findall(r"^export interface (\w+) \{\n(.*?)^\}", types, re.MULTILINE | re.DOTALL)
    found = {name.lower(): re.findall(r"^  (\w+)\??:", body, re.MULTILINE) for name, body in bodies}
    schema = json.loads((ROOT / "docs/schema/kfmt-1.json").read_text())
    expected = {
        name.replace("_", ""): list(of["properties"])
        for name, of in schema["$defs"].items()
        if "properties" in of and name != "kcat"  # lines without a type
    }
    assert found == expected, "run npm ci && npm run generate in examples/typescript"


def test_the_types_are_those_of_the_schema(installed: Path) -> None:
    done = run("npm", "run", "generate", cwd=installed)
    assert done.returncode == 0, done.stderr
    assert (installed / "kfmt.d.ts").read_text() == (EXAMPLE / "kfmt.d.ts").read_text(), (
        "run npm ci && npm run generate in examples/typescript"
    )


def test_it_prints_what_check_found(installed: Path) -> None:
    built = run("npm", "run", "build", cwd=installed)
    assert built.returncode == 0, built.stdout
    checked = kfmt("check", "damaged_segments", "--json")
    done = run("node", "dist/findings.js", cwd=installed, given=checked.out)
    assert done.returncode == checked.code == 1, done.stderr
    for row in checked.of("finding"):
        assert f"{row['severity']} {row['code']} {row['file']}" in done.stdout


def test_a_member_that_the_schema_lacks_does_not_compile(installed: Path) -> None:
    program = installed / "findings.ts"
    words = program.read_text()
    program.write_text(words.replace("row.position", "row.place"))
    built = run("npm", "run", "build", cwd=installed)
    program.write_text(words)
    assert built.returncode != 0
    assert "Property 'place' does not exist" in built.stdout
