"""The server of warm runs (tests/support/warm_server.py) for tools that instrument the runs.

    python tools/watched_server.py FD        FD: the socket for requests

With KFMT_LINE_MAP in the environment, each run records the lines that it executes; with
KFMT_MUTANT, it executes a mutant.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).resolve().parent.parent))  # last, as kfmt may be a copy

from tests.support import warm_server
from tools import mutated
from tools.line_map import DIRECTORY_VARIABLE, ForkRecorder

MAX_CPU_SECONDS = 60  # of a mutant that hangs, because nothing else ends it


def main() -> None:
    """Run the server."""
    recorder = (
        ForkRecorder(Path(os.environ[DIRECTORY_VARIABLE]))
        if DIRECTORY_VARIABLE in os.environ
        else None
    )
    become, finish = warm_server.become, warm_server.finish

    mutated.install_from_environment()
    initial_mutant = os.environ.get(mutated.VARIABLE)

    def watched_become(request: dict[str, Any]) -> None:
        become(request)
        if os.environ.get(mutated.VARIABLE) != initial_mutant:
            resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
            mutated.install_from_environment()
        if recorder is not None:
            recorder.start(request["env"])

    def watched_finish(code: int) -> NoReturn:
        if recorder is not None:
            recorder.finish()
        finish(code)

    warm_server.become, warm_server.finish = watched_become, watched_finish
    warm_server.main()


if __name__ == "__main__":
    main()
