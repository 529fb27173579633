"""Run the shell steps of action.yml as GitHub does, on paths of this machine.

python -m tools.run_action KFMT PATH…

KFMT is what the action installs: this directory or a wheel. Requires PyYAML, as pre-commit does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

import yaml

from tools.kafka import ROOT


def run_action(package: str, paths: list[str]) -> int:
    """The exit code of the first step that fails, else 0."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    inputs = {name: value["default"] for name, value in action["inputs"].items()}
    inputs["paths"] = "\n".join(paths) or inputs["paths"]

    def expand(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda item: inputs[item[1]], text)

    with tempfile.TemporaryDirectory() as directory:
        for step in action["runs"]["steps"]:
            if "run" in step:
                step_env = {name: expand(text) for name, text in step.get("env", {}).items()}
                runner_env = {"RUNNER_TEMP": directory, "GITHUB_ACTION_PATH": package}
                result = subprocess.run(
                    ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", expand(step["run"])],
                    check=False,
                    env={**os.environ, **runner_env, **step_env},
                )
                if result.returncode:
                    return result.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(run_action(sys.argv[1], sys.argv[2:]))
