"""`kfmt pipeline` without Spark: this process calls its tasks.

python -m tests.support.tasks_here pipeline JOB …
"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest

from kfmt_cli import __main__
from kfmt_cli.spark import session
from tests.support.lake_runs import without_spark

if __name__ == "__main__":
    patch = pytest.MonkeyPatch()
    without_spark(patch)
    patch.setattr(session, "start_session", lambda *_: nullcontext(lambda: None))
    sys.exit(__main__.run())
