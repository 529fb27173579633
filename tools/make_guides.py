"""Write into the guides what their commands print now.

python -m tools.make_guides [GUIDE.md…]    these, or all of docs/guides

A new command needs no more than its line `$ …`. To leave lines out, put `…` in their place; when
the output has changed, as many lines as before are kept above the first `…` and below the last.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.guides import guides, rewritten, run


def main(pages: list[Path]) -> None:
    """Rewrite the pages."""
    for page in pages:
        text = page.read_text()
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder) / "guide"
            scratch.mkdir()
            new = rewritten(text, run(text, scratch))
        print(f"{page.name}: {'as it was' if new == text else 'rewritten'}")
        page.write_text(new)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or guides())
