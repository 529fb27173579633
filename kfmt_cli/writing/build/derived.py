"""The files that a broker derives from complete logs, next to the indexes written with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from kfmt_cli.disk.kinds.fixed import PRODUCER_SNAPSHOT, TRANSACTION_INDEX
from kfmt_cli.disk.tree import classify
from kfmt_cli.writing.output import Staging
from kfmt_cli.writing.rebuild import How, Rebuilt, rebuild
from kfmt_cli.writing.segment_writer import SegmentWriter

FROM_THE_LOG = (TRANSACTION_INDEX.suffix, PRODUCER_SNAPSHOT.suffix)


def write_derived(
    staging: Staging, folder: str, segments: Sequence[SegmentWriter], interval: int
) -> Iterator[Rebuilt]:
    """Read back the complete logs of a partition, and write the files derived from them; raises
    InputError, OutputError. interval: index.interval.bytes."""
    logs = [classify(str(staging.folder / each.name), each.name) for each in segments]
    for done in rebuild(logs, How(interval), lambda _: None, from_nothing=True):
        for name, data in done.files.items():
            known = name.endswith(TRANSACTION_INDEX.suffix) or done.has_producers
            if data is not None and name.endswith(FROM_THE_LOG) and known:
                staging.put(str(PurePath(folder) / name), data)
        yield done
