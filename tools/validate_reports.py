"""Validate the output of `kfmt check` for CI systems against the schemas of those formats.

    python -m tools.validate_reports SARIF_SCHEMA.json JUNIT.xsd PATH…

The schemas are OASIS's sarif-schema-2.1.0.json and Jenkins's junit-10.xsd. Requires jsonschema and
xmlschema.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KFMT = [sys.executable, "-m", "kfmt_cli"]


def report(format_: str, path: str) -> str:
    """The output of check for a path."""
    command = [*KFMT, "check", path, "--format", format_]
    return subprocess.run(command, capture_output=True, check=False, text=True).stdout


def main(arguments: list[str]) -> None:
    """Validate both formats for each path."""
    import jsonschema  # type: ignore[import-untyped,import-not-found,unused-ignore]
    import xmlschema  # type: ignore[import-not-found,unused-ignore]

    sarif, junit, *paths = arguments
    schema = json.loads(Path(sarif).read_text())
    suites = xmlschema.XMLSchema(junit)
    for path in paths:
        jsonschema.validate(json.loads(report("sarif", path)), schema)
        suites.validate(report("junit", path))
        print(f"{path}: SARIF and JUnit are valid")


if __name__ == "__main__":
    main(sys.argv[1:])
