"""The inputs and outputs of an export, for audits: `_kfmt/manifest.json`."""

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
    """The inputs and files of an export. Inputs are kept in a temporary file until the end, as
    there can be many."""

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
        """Add an input, or part of one: its file and bytes, its offsets and rows, and the files
        that contain them."""
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
        """Write the manifest under the directory of an export; raises OutputError."""
        with appearing(f"{to}/{FOLDER}/manifest.json") as out:
            out.write(b'{"version": %d, "inputs": [\n' % VERSION)
            self._inputs.seek(0)
            shutil.copyfileobj(self._inputs, out)
            self._inputs.close()
            out.write(b'\n], "outputs": [\n' + b",\n".join(self._outputs) + b"\n]}\n")
