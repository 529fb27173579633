"""What a contributor adds to the interfaces: a view, a chart, a store, an option, a function."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kfmt_cli
from kfmt_cli.browse import views
from kfmt_cli.browse.views import ViewSpec, ViewSubject
from kfmt_cli.cli.click_command import create_command
from kfmt_cli.commands.command_run import CommandRun
from kfmt_cli.core import file_systems
from kfmt_cli.options.common import CommonOptions
from kfmt_cli.options.declaration import command_options, option
from tests.recipes.test_recipes import Ran, run
from tests.support.samples import ORDERS, environment
from tools.kafka import ROOT

__all__ = ["run"]
MODULE = __name__


# A view of browse: a function with the output of a command, and a line.


def show_file_counts(run: CommandRun, subject: ViewSubject) -> None:
    for node in subject.node.iter_partitions():
        run.sink.write_hint(f"{node.label}: {len(node.children)} files")


FILES_VIEW = ViewSpec(
    "v",
    "Files",
    "How many files are there?",
    show_file_counts,
    lambda subject: ["stat", *subject.node.display_paths, "--by", "partition"],
)


def browsed() -> None:
    """The view in the browser, which reads the registry as it starts."""
    views.VIEWS = (*views.VIEWS, FILES_VIEW)
    from tests.support.browser import BROKER, LARGE, open_browser
    from tests.support.browser import run as run_all

    async def work() -> None:
        async with open_browser(f"{BROKER}/orders-0", BROKER, size=LARGE) as browser:
            assert "v Files" in browser.screen  # the bar
            assert "How many files are there?" in browser.screen  # what a directory offers
            screen = await browser.press("v")
            assert "orders-0: " in screen
            assert browser.command[:2] == ["kfmt", "stat"]
            assert "How many files are there?" in await browser.press("question_mark")

    run_all(work())


def test_a_view() -> None:
    pytest.importorskip("textual")
    command = [sys.executable, "-c", f"import {MODULE} as recipe; recipe.browsed()"]
    result = subprocess.run(
        command, cwd=ROOT, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr.decode()


# A chart of the report: its spec, a function that adds its figures and rows, and a line.


def spec_of_ages() -> dict[str, Any]:
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "mark": "bar"}


def ages(figures: Any, data: Any) -> None:
    from kfmt_cli.commands.report.page.figures import ChartFigure

    rows = [{"partition": row.partition, "segments": row.segments} for row in data.partition_rows]
    description = "Few segments roll often."
    figures.add(
        "topics", ChartFigure("segments", "Segments by partition", description), "segments", rows
    )


def test_a_chart(run: Ran, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="the extra report is not installed")
    from kfmt_cli.commands.report.page import chart_registry

    chart_group = chart_registry.ChartGroup(ages, {"segments": spec_of_ages})
    monkeypatch.setattr(chart_registry, "CHART_GROUPS", [*chart_registry.CHART_GROUPS, chart_group])
    run("report", ORDERS.parent, "--to", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Segments by partition" in page
    assert "Few segments roll often." in page
    data_section = page.partition('id="data"')[2].partition(">")[2]
    charts = json.loads(data_section.partition("</script>")[0])
    assert charts["specs"]["segments"] == spec_of_ages()
    assert charts["tables"]["segments"] == {"columns": ["partition", "segments"], "rows": [[0, 7]]}


# A store: a function that creates its file system, and a line.


def shelf(scheme: str, host: str) -> tuple[Any, str]:
    from pyarrow import fs

    assert (scheme, host) == ("shelf", "broker1")
    return fs.SubTreeFileSystem(str(ORDERS.parent.parent), fs.LocalFileSystem()), ""


def test_a_store(run: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    monkeypatch.setattr(file_systems, "STORES", {**file_systems.STORES, "shelf": shelf})
    for arguments in (["verify-crc"], ["cat", "--limit", "3"], ["stat"]):
        remote = run(*arguments, "shelf://broker1/orders-0", "--json")
        local = run(*arguments, ORDERS.parent, "--json")
        assert run.code == 0
        assert len(remote.splitlines()) == len(local.splitlines())
    assert '"file":"shelf://broker1/orders-0/' in run("verify-crc", "shelf://broker1", "--json")


# An option of several commands: a function that declares it, and a field of each.


def least_option() -> int:
    return option("--least", default=1, type=int, help="How many at least.")


@command_options("one", "Show one.", common=("format_", "table", "color"))
class OneOptions(CommonOptions):
    least: int = least_option()


@command_options("two", "Show two.", common=("format_", "table", "color"))
class TwoOptions(CommonOptions):
    least: int = least_option()


@dataclass
class LeastCommand:
    run: CommandRun
    options: OneOptions | TwoOptions

    def execute(self) -> None:
        name = self.options.command_spec.name
        self.run.sink.write_hint(f"{name}: at least {self.options.least}")


def test_an_option(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    module = ModuleType("kfmt_cli.commands.least.command")
    module.OneCommand = module.TwoCommand = LeastCommand  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for options_class in (OneOptions, TwoOptions):
        monkeypatch.setattr(options_class, "__module__", "kfmt_cli.commands.least.options")
        command = create_command(options_class)
        with pytest.raises(SystemExit):
            command.main(["--help"], command.name)
        assert "How many at least." in capfd.readouterr().out
        command.main(["--least", "3"], command.name, standalone_mode=False)
        assert f"{command.name}: at least 3" in "".join(capfd.readouterr())


# A function of the Python API: it calls a command's task, and a line names it.


def largest_offset(path: str | Path) -> int:
    return max(
        int(columns["last_offset"].max()) for columns in kfmt_cli.read_batches(path).columns()
    )


def test_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kfmt_cli.commands.python.offsets")
    module.largest_offset = largest_offset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    modules = {**kfmt_cli._NAMES_BY_MODULE, module.__name__: ("largest_offset",)}
    monkeypatch.setattr(kfmt_cli, "_NAMES_BY_MODULE", modules)
    added: Any = kfmt_cli
    assert added.largest_offset(ORDERS.parent) == 1499
    with pytest.raises(AttributeError, match="smallest_offset"):
        _ = added.smallest_offset
