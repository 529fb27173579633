"""The browser's time to open a large segment, to scroll and to search, and its memory.

python -m bench.browse            1 GiB of a real segment's batches, and a file of tiny batches;
                                  --write updates docs/benchmarks.md
python -m bench.browse --smoke    small files, to see that it runs
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.make_files import MIB, Spec, make_file
from bench.process import machine, write_table
from kfmt_cli.browse.launch import open_session
from kfmt_cli.browse.log_search import REGEX_SEARCH, PartitionSearch, SearchTerm
from kfmt_cli.browse.screen.app import BrowserApp

DATA = Path(__file__).resolve().parent / "data"
SIZE = 160, 50
SCROLLS = 40
SEARCH_TERMS = (
    SearchTerm("nowhere to be found"),
    SearchTerm("nowhere to be fo[a-z]nd", REGEX_SEARCH),
)


async def measure_file(file: Path) -> dict[str, Any]:
    """Open, scroll and search a file; the measured values by their names."""
    result: dict[str, Any] = {"file": file.parent.name, "MiB": file.stat().st_size // MIB}
    app = BrowserApp(open_session((str(file),)), checks_on_start=False)
    began = time.perf_counter()
    async with app.run_test(size=SIZE):
        result["start-up s"] = round(time.perf_counter() - began, 3)
        began = time.perf_counter()
        # Until rows are on the screen; the pilot would also wait for threads.
        while not (
            app.log_panes.display
            and app.session.opened_log is not None
            and app.session.opened_log.selected_batch
            and app.log_panes.batch_pane._strip_by_row
        ):
            await asyncio.sleep(0.001)
        result["first rows s"] = round(time.perf_counter() - began, 3)
        index = app.session.opened_log.block_index
        while not index.is_complete:
            await asyncio.sleep(0.05)
        result["outlined s"] = round(time.perf_counter() - began, 3)
        await asyncio.sleep(0.2)
        result["batches"] = index.n_rows
        page_times = [
            await _time_move(app, app.log_panes.batch_pane.action_page, 1) for _ in range(SCROLLS)
        ]
        jump_times = []
        for i in range(SCROLLS):
            row = (i * 7919 * 31) % max(result["batches"], 1)
            jump_times.append(await _time_move(app, app.log_panes.batch_pane.move_cursor, row))
        result["page ms"] = f"{median(page_times) * 1000:.0f}, at most {max(page_times) * 1000:.0f}"
        result["jump ms"] = f"{median(jump_times) * 1000:.0f}, at most {max(jump_times) * 1000:.0f}"
        for term in SEARCH_TERMS:
            search = PartitionSearch([index.file], index, term)
            start = time.perf_counter()
            assert list(search.iter_hits()) == []
            rate = search.searched_bytes / (time.perf_counter() - start) / 1e9
            result[f"{term.search_kind} GB/s"] = round(rate, 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result["peak MB"] = peak // (1024 if sys.platform != "darwin" else 1 << 20)
    return result


async def _time_move(app: BrowserApp, move: Any, argument: int) -> float:
    """CPU seconds until a move is on the screen; a frame of Textual takes 1/60 s."""
    drawn = asyncio.Event()
    start = time.process_time()
    move(argument)
    app.log_panes.batch_pane.call_after_refresh(drawn.set)
    await drawn.wait()
    await asyncio.sleep(0)
    return time.process_time() - start


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small files")
    parser.add_argument("--write", action="store_true", help="put the table in the docs")
    parser.add_argument("--data", type=Path, default=DATA, help="where the files are made")
    arguments = parser.parse_args()
    sizes = (4, 2) if arguments.smoke else (1024, 256)
    prefix = "smoke-browse" if arguments.smoke else "browse"
    specs = [
        Spec(f"{prefix}-{seed}-0", f"{seed}.log", size * MIB)
        for seed, size in zip(("none", "tiny"), sizes, strict=True)
    ]
    rows = [asyncio.run(measure_file(make_file(spec, arguments.data))) for spec in specs]
    lines = [machine(), "", "| | " + " | ".join(str(row.pop("file")) for row in rows) + " |"]
    lines.append("|---|" + "---|" * len(rows))
    lines += [
        f"| {name} | " + " | ".join(str(row[name]) for row in rows) + " |" for name in rows[0]
    ]
    print("\n".join(lines))
    if arguments.write:
        write_table("browse", lines)


if __name__ == "__main__":
    main()
