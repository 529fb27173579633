"""What the browser shows of commands: as they write it, and not without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfmt_cli.browse.text_host import capture_output
from kfmt_cli.commands.command_run import CommandRun
from tests.support.outlines import selected_batch, without_ansi
from tests.support.samples import kfmt

MEBIBYTE = 1 << 20


@pytest.mark.parametrize(("mebibytes", "is_whole"), [(1, True), (4, True), (5, False), (9, False)])
def test_much_output_ends_with_a_remark(mebibytes: int, is_whole: bool) -> None:
    def command(run: CommandRun) -> None:
        for _ in range(mebibytes):
            run.sink.write_to_stderr("x" * (MEBIBYTE - 1) + "\n")

    text = capture_output(command, 80)
    assert text.count("x\n") == min(mebibytes, 5)
    assert text.endswith("run the command above to see the rest\n") is not is_whole


@pytest.mark.parametrize("width", [60, 80, 120, 400])
def test_long_values_are_truncated_to_the_screen(width: int, tmp_path: Path) -> None:
    lines = "".join(f'{{"key":"k{i}","value":"{"long words " * 20}{i}"}}\n' for i in range(3))
    log = tmp_path / "t-0" / f"{0:020}.log"
    assert kfmt("build", "-", log.parent, stdin=lines.encode()).code == 0
    shown = without_ansi(selected_batch(log).render_record_lines(0, 3, width))
    assert all(len(line) <= width for line in shown)
    dumped = [line for line in kfmt("dump", log, "--records").out.splitlines() if '"k' in line]
    for dumped_line, line in zip(dumped, shown, strict=True):
        start, ellipsis, size = line.partition("…")
        assert dumped_line.startswith(start.rstrip())
        assert (ellipsis, size) == (("", "") if width == 400 else ("…", "221"))


def test_many_headers_are_truncated_to_the_screen(tmp_path: Path) -> None:
    headers = ",".join(f'{{"key":"trace-{i}","value":"x"}}' for i in range(30))
    line = f'{{"key":"k","value":"v","headers":[{headers}]}}\n'
    log = tmp_path / "t-0" / f"{0:020}.log"
    assert kfmt("build", "-", log.parent, stdin=line.encode()).code == 0
    (shown,) = without_ansi(selected_batch(log).render_record_lines(0, 1, 120))
    assert len(shown) <= 120
    assert shown.endswith("…")
