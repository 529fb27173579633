"""What an export was made of, and into what: `_kfmt/manifest.json`, by which it can be audited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from kfmt_cli.arrow.lake import Output
from kfmt_cli.arrow.output import put_json
from kfmt_cli.disk.tree import printable
from kfmt_cli.sharing.piece import Piece

FOLDER = "_kfmt"
VERSION = 1


@dataclass(slots=True)
class ExportManifest:
    """The inputs of an export and its files."""

    inputs: list[dict[str, Any]] = field(default_factory=list)
    """Of each part of an input: its file and bytes, offsets and rows, the files that they are in.
    """
    outputs: list[dict[str, Any]] = field(default_factory=list)
    """Of each file: its table, rows and bytes."""

    def add_piece(
        self,
        piece: Piece,
        rows: dict[str, int],
        offsets: Iterable[int | None],
        outputs: Iterable[str],
    ) -> None:
        """Add an input, or a part of one."""
        topic, partition = piece.place
        first, last = offsets
        self.inputs.append(
            {
                "file": printable(piece.path),
                "topic": None if topic is None else printable(topic),
                "partition": partition,
                "bytes": piece.size,
                "start": piece.start,
                "end": piece.end,
                "first_offset": first,
                "last_offset": last,
                "rows": rows,
                "outputs": list(outputs),
            }
        )

    def add_outputs(self, outputs: Iterable[Output]) -> None:
        """Add files."""
        for output in outputs:
            known = asdict(output)
            self.outputs.append({"file": known.pop("name"), **known})

    def write(self, to: str) -> None:
        """Write it below the directory of an export; raises OutputError."""
        about = {"version": VERSION, "inputs": self.inputs, "outputs": self.outputs}
        put_json(f"{to}/{FOLDER}/manifest.json", about)
