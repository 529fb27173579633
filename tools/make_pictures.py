"""The pictures of the README, made of real runs: python -m tools.make_pictures."""

from __future__ import annotations

import io
import re
import subprocess
import sys

from rich.console import Console
from rich.text import Text

from tools.kafka import ROOT

COLUMNS = 110
PICTURES = {"check": ["check", "damaged_segments/flipped-bit-0"]}


def picture(arguments: list[str]) -> str:
    """A run of kfmt in colour, on a terminal of so many columns, as SVG."""
    command = ["stty", "cols", str(COLUMNS)]
    inside = f"{' '.join(command)}; {sys.executable} -m kfmt_cli {' '.join(arguments)}"
    done = subprocess.run(
        ["script", "-qec", inside, "/dev/null"], capture_output=True, cwd=ROOT, check=False
    )
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ kfmt {' '.join(arguments)}", style="bold"))
    console.print(Text.from_ansi(done.stdout.decode().replace("\r\n", "\n")))
    drawn = console.export_svg(title="kfmt")
    return re.sub(r"@font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)  # nothing is fetched


def main() -> None:
    """Write them all."""
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    for name, arguments in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture(arguments))


if __name__ == "__main__":
    main()
