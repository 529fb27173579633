"""Compare the offsets in a log directory's checkpoints with its logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kfmt_cli.broker.start.directory import LogDirectory
from kfmt_cli.broker.start.own_files import LOG_STARTS
from kfmt_cli.checks.history.scopes import CheckpointCheck, Extents, some_of
from kfmt_cli.disk.tree import Folder
from kfmt_cli.findings import history as codes
from kfmt_cli.findings.finding import Finding


class CheckpointOffsets(CheckpointCheck):
    """No checkpoint offset is above its log end offset, and each has its partition."""

    codes = (
        codes.LOG_START_ABOVE_END,
        codes.CHECKPOINT_ABOVE_END,
        codes.CHECKPOINT_WITHOUT_PARTITION,
    )

    def look(
        self,
        folder: Folder,
        directory: LogDirectory,
        partitions: Mapping[tuple[str | None, int | None], Extents],
        proven: Mapping[tuple[str | None, int | None], int],
    ) -> Iterator[Finding]:
        for name, offsets in directory.offsets.items():
            file = folder.input(name).name
            missing = []
            for (topic, partition), offset in offsets.items():
                extents = partitions.get((topic, partition))
                if extents is None:
                    missing.append(f"{topic}-{partition}")
                    continue
                end = max((end for _, end in extents.values()), default=None)
                if end is None or offset <= end:
                    continue
                is_start = name == LOG_STARTS
                if not is_start and offset <= proven.get((topic, partition), 0):
                    continue  # offsets-lost has it
                code = codes.LOG_START_ABOVE_END if is_start else codes.CHECKPOINT_ABOVE_END
                words = f"{topic}-{partition}: checkpoint offset {offset}, log end offset {end}"
                yield Finding(file, code, None, words, offset=offset, expected=end, found=offset)
            if missing:
                words = f"no directory for {some_of(missing)}"
                yield Finding(file, codes.CHECKPOINT_WITHOUT_PARTITION, None, words)
