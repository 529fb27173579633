"""What a contributor adds: a job on Spark.

The other recipes are in tests/recipes; this one needs a session.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from kfmt_cli.spark.jobs import registry
from tests.recipes.test_recipes import Ran, fresh_commands, run
from tests.support.samples import ORDERS
from tools import make_docs

__all__ = ["run"]
HERE = __name__
pytestmark = pytest.mark.spark


def count_files(context: Any) -> Any:
    from kfmt_cli.spark import register
    from kfmt_cli.spark.jobs.context import JobSummary
    from kfmt_cli.spark.session import sql_session

    assert context.options == {"least": 2}
    session = sql_session(context.spark)
    register(session)
    reader = session.read.format("kfmt").option("table", "segments")
    n = reader.load(list(context.request.paths)).count()
    return JobSummary({"segments": n}, lines=[f"{n} files"])


def test_a_job_on_spark(
    run: Ran, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("pyspark")
    option = click.option("--least", help="How many at least.", type=int)
    job = registry.JobSpec("count-files", "Count files.", f"{HERE}:count_files", (option,))
    monkeypatch.setattr(registry, "JOB_SPECS", [*registry.JOB_SPECS, job])
    with fresh_commands(monkeypatch):
        assert "Count files." in run("pipeline", "--help")
        assert "How many at least." in run("pipeline", "count-files", "--help")
        assert "### pipeline count-files" in make_docs.commands()
        if shutil.which("java") is None:
            pytest.skip("java not found")
        session = request.getfixturevalue("spark")
        use_session(monkeypatch, session)
        out = run("pipeline", "count-files", ORDERS.parent, "--to", tmp_path / "to", "--least", "2")
        assert "7 files" in out


def use_session(monkeypatch: pytest.MonkeyPatch, session: Any) -> None:
    """Jobs run in the session of all tests."""
    import contextlib

    from kfmt_cli.spark import session as sessions

    monkeypatch.setattr(
        sessions, "start_session", lambda *_: contextlib.nullcontext(lambda: session)
    )
