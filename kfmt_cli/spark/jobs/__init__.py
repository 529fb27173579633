"""The jobs of `kfmt pipeline`: one module a job; `JOBS` names them.

A module has `run_job(context)`, which returns a `Summary`. The next job is one more file and its
name here.
"""

from __future__ import annotations

JOBS = ("segments", "verify", "export", "stats")
