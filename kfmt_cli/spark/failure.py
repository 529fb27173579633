"""Why a query or a job failed: what the worker said, in one line."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
# Spark's words before the reason that it has for a task's failure.
_TASK = re.compile(r"most recent failure: Lost task [^\n]*?executor [^)]*\): ")
_JAVA = re.compile(r"^(?:: |Caused by: )?(?:[\w.$]+\.)?[\w$]*(?:Exception|Error): ")


def reason(error: BaseException) -> str:
    """What went wrong in a query or a job, in one line: the last of the worker's traceback, or
    else the cause that Spark gives."""
    text = str(error)
    if _TRACEBACK in text:
        last = text.rpartition(_TRACEBACK)[2]
        for line in last.splitlines():
            if line.strip() and not line[0].isspace():
                name, _, words = line.partition(": ")
                return words if name.startswith("kfmt_cli.") and words else line
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    task = _TASK.search(text)
    if task:
        return _JAVA.sub("", text[task.end() :].partition("\n")[0])
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes:
        return _JAVA.sub("", causes[-1])
    return lines[0] if lines else type(error).__name__
