"""The server of warm runs (tests/support/warm_server.py) for a tool that looks into the runs.

    python tools/watched_server.py FD        FD: the socket that runs are asked for on

The environment says what for: KFMT_LINE_MAP has each run record the lines that it executes,
KFMT_MUTANT has it execute a changed line.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).resolve().parent.parent))  # the last, as kfmt may be a copy

from tests.support import warm_server
from tools import mutated
from tools.line_map import FOLDER, InFork

LONGEST_RUN = 60  # seconds of computing that a mutant may take, as nobody else ends one that hangs


def main() -> None:
    """Run the server."""
    recorder = InFork(Path(os.environ[FOLDER])) if FOLDER in os.environ else None
    become, finish = warm_server.become, warm_server.finish

    mutated.put_in()
    at_start = os.environ.get(mutated.VARIABLE)

    def watched_become(request: dict[str, Any]) -> None:
        become(request)
        if os.environ.get(mutated.VARIABLE) != at_start:
            resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_RUN, LONGEST_RUN))
            mutated.put_in()
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
