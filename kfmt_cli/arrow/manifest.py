"""What an export was made of, and into what: `_kfmt/manifest.json`, by which it can be audited."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict

from kfmt_cli.arrow.lake import Output
from kfmt_cli.arrow.output import appearing, as_json
from kfmt_cli.disk.tree import printable
from kfmt_cli.sharing.piece import Piece

FOLDER = "_kfmt"
VERSION = 1
IN_MEMORY = 1 << 20  # bytes


class ExportManifest:
    """The inputs of an export and its files. What is said of inputs is in a temporary file until it
    is written: they are many."""

    def __init__(self) -> None:
        self._inputs = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 (until it is written)
        self._outputs: list[bytes] = []

    def add_piece(
        self,
        piece: Piece,
        rows: dict[str, int],
        offsets: Iterable[int | None],
        outputs: Iterable[str],
    ) -> None:
        """Add an input, or a part of one: its file and bytes, offsets and rows, the files that they
        are in."""
        topic, partition = piece.place
        first, last = offsets
        about = {
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
        self._inputs.write((b",\n" if self._inputs.tell() else b"") + as_json(about))

    def add_outputs(self, outputs: Iterable[Output]) -> None:
        """Add files: the table, rows and bytes of each."""
        for output in outputs:
            known = asdict(output)
            self._outputs.append(as_json({"file": known.pop("name"), **known}))

    def write(self, to: str) -> None:
        """Write it below the directory of an export; raises OutputError."""
        with appearing(f"{to}/{FOLDER}/manifest.json") as out:
            out.write(b'{"version": %d, "inputs": [\n' % VERSION)
            self._inputs.seek(0)
            shutil.copyfileobj(self._inputs, out)
            self._inputs.close()
            out.write(b'\n], "outputs": [\n' + b",\n".join(self._outputs) + b"\n]}\n")
