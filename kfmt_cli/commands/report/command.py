"""report: writes a page to one file and its data to another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kfmt_cli.commands.report.page.charts import runtime
from kfmt_cli.commands.report.page.document import document
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.commands.run import Run
from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import ExitCode, OutputError, UsageError
from kfmt_cli.render.style import human
from kfmt_cli.writing.output import Staging, need_apart, staged


def write_page(
    run: Run,
    gather: Callable[[], PageData],
    to: str,
    data_to: str | None,
    inputs: Sequence[str],
    *,
    force: bool = False,
) -> None:
    """Write the page of the gathered data and, if requested, the data; the files appear only if
    all are complete. inputs: paths to keep free of output. Raises UsageError, OutputError."""
    outputs = [path for path in (to, data_to) if path is not None]
    if len(set(map(os.path.abspath, outputs))) < len(outputs):
        raise UsageError(f"{to}: --to and --data must be different files")
    for path in outputs:
        need_apart(path, inputs)
        _need_ours(path)
    split = map(os.path.split, outputs)
    places = [(folder or os.curdir, name) for folder, name in split]
    with ExitStack() as stack, ThreadPoolExecutor(1) as aside:
        stagings: dict[str, Staging] = {}
        for folder, _ in places:
            if folder not in stagings:
                stagings[folder] = stack.enter_context(staged(folder, force))
                run.left_over(stagings[folder].left_over)
        files = [stack.enter_context(stagings[folder].file(name)) for folder, name in places]
        script = aside.submit(runtime)  # takes a second, while files are read
        data = gather()
        run.host.reached(data.exit_code)
        for words in data.said:
            run.sink.note(f"{words}\n")
        if data.exit_code is ExitCode.UNREADABLE and not data.partitions:
            for staging in stagings.values():
                staging.refuse()
            return
        contents = [document(data, partial(_drawing, run, script))]
        if data_to is not None:
            lines = ",\n".join(map(json_text, data.objects()))
            contents.append(f"[\n{lines}\n]\n")
        for file, words in zip(files, contents, strict=True):
            file.write(words.encode("utf-8", "backslashreplace"))
    for file in files:
        run.sink.put(f"{file.path}  {human(file.size)}\n")


def _drawing(run: Run, script: Future[str]) -> str:
    """The script that draws the charts; empty, with a note, if it cannot be made."""
    try:
        return script.result()
    except OutputError as error:
        run.sink.note(f"kfmt: {error}; the page has no charts, only their data as tables\n")
        return ""


# First bytes of files that may be replaced on request.
_OURS = (b"<!doctype html>", b'[\n{"type":"report"')


def _need_ours(path: str) -> None:
    """Raise UsageError if the path exists and is neither a page nor its data."""
    if not os.path.basename(path) or Path(path).is_dir():  # noqa: PTH119 (as it was given)
        raise UsageError(f"{path}: is a directory; name a file")
    if Path(path).is_file():
        with Path(path).open("rb") as there:
            begins = there.read(len(max(_OURS, key=len)))
        if not begins.startswith(_OURS):
            raise UsageError(f"{path}: exists and is not a kfmt report; choose another name")
