"""cat: records as a stream for other programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kfmt_cli.broker.offsets.latest_keys import LatestKeys
from kfmt_cli.commands.cat.follow import end_of_whole, followed
from kfmt_cli.commands.cat.record_format import Shown, Write, visible
from kfmt_cli.commands.each_partition import blocks_of, each_partition
from kfmt_cli.commands.partition_selection import wanted_of
from kfmt_cli.commands.run import Run
from kfmt_cli.core.codecs.decompress import Limit
from kfmt_cli.disk.kinds.kind import Input
from kfmt_cli.disk.names import partition_of
from kfmt_cli.disk.partitions import Partition
from kfmt_cli.findings.finding import Findings
from kfmt_cli.log.block import Block, undamaged_data
from kfmt_cli.log.records import Records
from kfmt_cli.log.selection.record_match import headers_of
from kfmt_cli.log.selection.select import Asked, Selection
from kfmt_cli.render.style import safe
from kfmt_cli.topics.payloads import Read, text_of

MOST_NOTES = 10  # of payloads that do not decode
POLL = 0.2  # seconds


@dataclass(slots=True)
class Cat:
    """One call of `cat`."""

    run: Run
    write: Write
    """Turns a record into output bytes."""
    asked: Asked = field(default_factory=Asked)
    key: tuple[str, Read] | None = None
    """Decoder for keys, with its name; None to write them as stored."""
    value: tuple[str, Read] | None = None
    """Decoder for values, with its name; None to write them as stored."""
    follow: bool = False
    most: int | None = None
    """Total number of records to write; None for all."""
    limit: Limit = field(default_factory=Limit)
    sleep: Callable[[float], None] = time.sleep
    _latest: LatestKeys | None = None
    """The latest records of the partition's keys, if only these are wanted."""
    _n_notes: int = 0

    def paths(self, paths: tuple[str, ...]) -> None:
        """Write the records of every partition under some paths."""
        each_partition(
            self.run,
            paths,
            self._partition,
            takes_pipe=not self.asked.needs_logs and not self.follow,
            reads_all=True,
            alone="--follow" if self.follow else "",
        )
        if self._n_notes > MOST_NOTES:
            self.run.sink.note(f"… and {self._n_notes - MOST_NOTES} more could not be decoded\n")

    def _partition(self, partition: Partition) -> None:
        wanted = wanted_of(self.asked, partition.logs, self.limit)
        if self.asked.latest:
            self._latest = LatestKeys()
            self._latest.read(partition.logs, wanted, self.limit)
        read = partition.logs[-1], 0
        for file in wanted.logs(partition.logs):
            findings = Findings(self.run.most_findings)
            read = file, 0
            with self.run.complaining():
                for _, block in blocks_of([file]):
                    self.run.tell(block.findings, findings)
                    if self.follow:
                        read = file, end_of_whole(block, read[1])
                    self._block(file, block, wanted, findings)
                    if self.most == 0:
                        break
            self.run.left_out(file.name, findings)
            if self.most == 0:
                return
        if self.follow:
            findings = Findings(self.run.most_findings)
            for file, block in followed(partition, read, lambda: self.sleep(POLL)):
                self._block(file, block, wanted, findings)
                if self.most == 0:
                    return

    def _block(self, file: Input, block: Block, wanted: Selection, findings: Findings) -> None:
        """Write the wanted records of a block."""
        topic, partition = partition_of(file.path)
        place = topic or "", -1 if partition is None else partition
        for run, records in wanted.near(undamaged_data(block), self.limit):
            self.run.tell([*run.findings, *records.findings], findings)
            self._records(run, records, wanted, place)
            if self.most == 0:
                return

    def _records(
        self, run: Block, records: Records, wanted: Selection, place: tuple[str, int]
    ) -> None:
        rows = records.rows
        chosen = np.arange(len(rows))
        if wanted:
            chosen = np.flatnonzero(wanted.of_records(run, records))
        if self._latest is not None:
            chosen = chosen[self._latest.holds(records, chosen)]
        if self.most is not None:
            chosen = chosen[: self.most]
            self.most -= len(chosen)
        if not len(chosen):
            return
        names = (
            *("offset", "timestamp", "has_timestamp", "timestamp_type"),
            *("key", "key_size", "value", "value_size"),
        )
        columns = (rows[name][chosen].tolist() for name in names)
        data, lines = records.data, []
        is_terminal = self.run.host.width is not None
        has_headers = "headers" in rows.names and bool((rows.headers[chosen] > 0).any())
        for row, offset, at, has_time, timestamp_type, key, key_size, value, value_size in zip(
            chosen.tolist(), *columns, strict=True
        ):
            shown = Shown(
                *place,
                offset,
                at if has_time else -1,
                self._read(self.key, data, key, key_size, offset),
                self._read(self.value, data, value, value_size, offset),
                key_size,
                value_size,
                headers_of(records, row) if has_headers else [],
                timestamp_type,
            )
            lines.append(self.write(visible(shown) if is_terminal else shown))
        self.run.sink.flush()
        self.run.host.write(b"".join(lines))

    def _read(
        self, format_: tuple[str, Read] | None, data: bytes, start: int, size: int, offset: int
    ) -> bytes | None:
        """A key or value to write, decoded if possible, otherwise as stored."""
        if size < 0:
            return None
        stored = data[start : start + size]
        if format_ is None:
            return stored
        name, read = format_
        try:
            return text_of(read(stored)).encode()
        except ValueError as error:
            self._n_notes += 1
            if self._n_notes <= MOST_NOTES:
                self.run.sink.note(
                    f"offset {offset}: cannot be decoded as {name}: {safe(str(error))}\n"
                )
            return stored
