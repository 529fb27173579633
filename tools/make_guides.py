"""Update the output of commands in the guides.

python -m tools.make_guides [GUIDE.md…]    these, or all of docs/guides

A new command needs only its line `$ …`. To omit lines, replace them with `…`; when the output has
changed, as many lines as before are retained above the first `…` and below the last.
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
        with tempfile.TemporaryDirectory() as directory:
            scratch = Path(directory) / "guide"
            scratch.mkdir()
            rewritten_text = rewritten(text, run(text, scratch))
        print(f"{page.name}: {'as it was' if rewritten_text == text else 'rewritten'}")
        page.write_text(rewritten_text)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or guides())
