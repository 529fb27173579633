"""What the browser takes: to open a large segment, to scroll, to search, and its memory.

python -m bench.browse            1 GiB of a real segment's batches, and a file of tiny batches;
                                  --write puts the table in docs/benchmarks.md
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

from bench.make_files import MIB, Spec, make
from bench.process import machine, put
from kfmt_cli.browse.launch import open_session
from kfmt_cli.browse.log_search import REGEX_SEARCH, PartitionSearch, SearchTerm
from kfmt_cli.browse.screen.app import BrowserApp

DATA = Path(__file__).resolve().parent / "data"
SIZE = 160, 50
SCROLLS = 40
SOUGHT = (SearchTerm("nowhere to be found"), SearchTerm("nowhere to be fo[a-z]nd", REGEX_SEARCH))


async def measured(file: Path) -> dict[str, Any]:
    """The numbers of one file."""
    found: dict[str, Any] = {"file": file.parent.name, "MiB": file.stat().st_size // MIB}
    app = BrowserApp(open_session((str(file),)), checks_on_start=False)
    began = time.perf_counter()
    async with app.run_test(size=SIZE):
        found["start-up s"] = round(time.perf_counter() - began, 3)
        began = time.perf_counter()
        # On the screen, and not only read: the pilot would wait for threads, too.
        while not (app.panes.display and app.session.selected_batch and app.panes.batches._strips):
            await asyncio.sleep(0.001)
        found["first rows s"] = round(time.perf_counter() - began, 3)
        while app.session.log_view is None or not app.session.log_view.index.is_complete:
            await asyncio.sleep(0.05)
        found["outlined s"] = round(time.perf_counter() - began, 3)
        await asyncio.sleep(0.2)
        found["batches"] = app.session.log_view.index.n_rows
        paged = [await _paged(app, app.panes.batches.action_page, 1) for _ in range(SCROLLS)]
        far = []
        for i in range(SCROLLS):
            row = (i * 7919 * 31) % max(found["batches"], 1)
            far.append(await _paged(app, app.panes.batches.move_cursor, row))
        found["page ms"] = f"{median(paged) * 1000:.0f}, at most {max(paged) * 1000:.0f}"
        found["jump ms"] = f"{median(far) * 1000:.0f}, at most {max(far) * 1000:.0f}"
        for sought in SOUGHT:
            outline = app.session.log_view.index
            hunt = PartitionSearch([outline.file], outline, sought)
            start = time.perf_counter()
            assert list(hunt.iter_hits()) == []
            rate = hunt.searched_bytes / (time.perf_counter() - start) / 1e9
            found[f"{sought.kind} GB/s"] = round(rate, 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["peak MB"] = peak // (1024 if sys.platform != "darwin" else 1 << 20)
    return found


async def _paged(app: BrowserApp, move: Any, argument: int) -> float:
    """How long it takes until a move is on the screen; a frame of Textual's takes 1/60 s."""
    drawn = asyncio.Event()
    start = time.process_time()
    move(argument)
    app.panes.batches.call_after_refresh(drawn.set)
    await drawn.wait()
    await asyncio.sleep(0)
    return time.process_time() - start


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="small files")
    parser.add_argument("--write", action="store_true", help="put the table in the docs")
    parser.add_argument("--data", type=Path, default=DATA, help="where the files are made")
    given = parser.parse_args()
    sizes = (4, 2) if given.smoke else (1024, 256)
    mark = "smoke-browse" if given.smoke else "browse"
    specs = [
        Spec(f"{mark}-{seed}-0", f"{seed}.log", size * MIB)
        for seed, size in zip(("none", "tiny"), sizes, strict=True)
    ]
    rows = [asyncio.run(measured(make(spec, given.data))) for spec in specs]
    lines = [machine(), "", "| | " + " | ".join(str(row.pop("file")) for row in rows) + " |"]
    lines.append("|---|" + "---|" * len(rows))
    lines += [
        f"| {name} | " + " | ".join(str(row[name]) for row in rows) + " |" for name in rows[0]
    ]
    print("\n".join(lines))
    if given.write:
        put("browse", lines)


if __name__ == "__main__":
    main()
