"""report: writes a page to one file and its data to another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.commands.report.page.charts import vega_script
from kfmt_cli.commands.report.page.document import render_page
from kfmt_cli.commands.report.page.page_data import PageData
from kfmt_cli.core.json_text import json_text
from kfmt_cli.errors import ExitCode, OutputError, UsageError
from kfmt_cli.render.style import format_bytes
from kfmt_cli.writers.output import Staging, require_outside_inputs, stage_output


def write_page(
    run: CommandRun,
    gather: Callable[[], PageData],
    page_path: str,
    data_path: str | None,
    inputs: Sequence[str],
    *,
    force: bool = False,
) -> None:
    """Write the page of the gathered data to `page_path` and, if requested, the data to
    `data_path`; the files appear only if all are complete. inputs: paths to keep free of output.
    Raises UsageError, OutputError."""
    outputs = [path for path in (page_path, data_path) if path is not None]
    if len(set(map(os.path.abspath, outputs))) < len(outputs):
        raise UsageError(f"{page_path}: --to and --data must be different files")
    for path in outputs:
        require_outside_inputs(path, inputs)
        _require_replaceable(path)
    path_parts = map(os.path.split, outputs)
    directories_and_names = [(directory or os.curdir, name) for directory, name in path_parts]
    with ExitStack() as stack, ThreadPoolExecutor(1) as executor:
        staging_by_directory: dict[str, Staging] = {}
        for directory, _ in directories_and_names:
            if directory not in staging_by_directory:
                staging_by_directory[directory] = stack.enter_context(
                    stage_output(directory, force)
                )
                run.report_leftovers(staging_by_directory[directory].removed_leftovers)
        files = [
            stack.enter_context(staging_by_directory[directory].create_file(name))
            for directory, name in directories_and_names
        ]
        script = executor.submit(vega_script)  # takes a second; meanwhile, files are read
        data = gather()
        run.host.raise_exit_code(data.exit_code)
        for text in data.message_lines:
            run.sink.note(f"{text}\n")
        if data.exit_code is ExitCode.UNREADABLE and not data.partitions:
            for staging in staging_by_directory.values():
                staging.reject()
            return
        contents = [render_page(data, partial(_chart_script, run, script))]
        if data_path is not None:
            objects_json = ",\n".join(map(json_text, data.iter_objects()))
            contents.append(f"[\n{objects_json}\n]\n")
        for file, text in zip(files, contents, strict=True):
            file.write(text.encode("utf-8", "backslashreplace"))
    for file in files:
        run.sink.write_line(f"{file.path}  {format_bytes(file.size)}\n")


def _chart_script(run: CommandRun, script: Future[str]) -> str:
    """The script that draws the charts; empty, with a note, if it cannot be created."""
    try:
        return script.result()
    except OutputError as error:
        run.sink.note(f"kfmt: {error}; the page has no charts, only their data as tables\n")
        return ""


# First bytes of files that may be replaced on request.
_REPLACEABLE_STARTS = (b"<!doctype html>", b'[\n{"type":"report"')


def _require_replaceable(path: str) -> None:
    """Raise UsageError if the path exists and is neither a page nor its data."""
    if not os.path.basename(path) or Path(path).is_dir():  # noqa: PTH119 (as it was given)
        raise UsageError(f"{path}: is a directory; name a file")
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            first_bytes = file.read(len(max(_REPLACEABLE_STARTS, key=len)))
        if not first_bytes.startswith(_REPLACEABLE_STARTS):
            raise UsageError(f"{path}: exists and is not a kfmt report; choose another name")
