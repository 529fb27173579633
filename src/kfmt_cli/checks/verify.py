"""verify-crc: structure and checksum of every batch of a log, and what is inside when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kfmt_cli.checks.extent import Extent
from kfmt_cli.checks.neighbours import Neighbours
from kfmt_cli.checks.records import check_records
from kfmt_cli.core.compression import Limit
from kfmt_cli.core.finding import Finding, Tally
from kfmt_cli.core.parallel import map_ordered
from kfmt_cli.files.block import Block
from kfmt_cli.files.control import read_control
from kfmt_cli.files.discover import Input
from kfmt_cli.files.open_log import open_log
from kfmt_cli.files.records import inflate_ahead, is_heavy, is_legacy, read_records, runs


@dataclass(slots=True)
class FileResult(Tally):
    """What was found in a file."""

    file: str
    kind: str
    bytes: int = 0
    batches: int = 0
    records: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0


@dataclass(slots=True)
class _Part:
    """What was found in a block, without those before it."""

    records: int = 0
    findings: list[Finding] = field(default_factory=list)
    neighbours: Neighbours = field(default_factory=Neighbours)
    extent: Extent = field(default_factory=Extent)


@dataclass(frozen=True, slots=True)
class Verifier:
    """How to verify. deep: decompress and decode every record. workers: threads for one file."""

    deep: bool
    limit: Limit
    workers: int

    def verify(
        self,
        file: Input,
        report: Callable[[Finding], None],
        advance: Callable[[int], None],
    ) -> tuple[FileResult, Extent]:
        """Verify one file, reporting findings in its order; raises InputError.

        advance: is told how many bytes more were read.
        """
        result = FileResult(file.name, file.kind.value)
        neighbours, extent = Neighbours(), Extent()
        with open_log(file, read_ahead=not self.deep) as log:
            result.kind = "log" if file.kind.value == "unknown" else file.kind.value
            blocks = self._ahead(log.blocks, advance)
            workers = self.workers if self.deep and log.is_large else 0
            for part in map_ordered(self._look_inside, blocks, workers, is_heavy):
                result.records += part.records
                findings = _in_order([*neighbours.join(part.neighbours), *part.findings])
                extent.join(part.extent)
                result.count(findings)
                for finding in findings:
                    report(finding)
            result.bytes = log.reader.bytes_read
            result.batches = log.reader.n_batches
        return result, extent

    def _ahead(self, blocks: Iterable[Block], advance: Callable[[int], None]) -> Iterator[Block]:
        for block in blocks:
            advance(len(block.data))
            if self.deep:
                yield from inflate_ahead(block, self.limit)
            else:
                yield block

    def _look_inside(self, block: Block) -> _Part:
        """What is in a block; findings in the file's order."""
        part = _Part()
        findings: list[Finding] = []
        for run in runs(block):
            findings += run.findings
            records = None
            if self.deep or is_legacy(run):
                # The checksums of messages inside wrappers take decompression in any case.
                records = read_records(run, self.limit)
                part.records += len(records.rows)
                findings += records.findings
                if self.deep:
                    part.findings += part.neighbours.take(run, records)
                    findings += check_records(run, records)
                    findings += read_control(run, records)
            else:
                declared = run.batches["records_count"]
                room = run.batches["last_offset_delta"] + 1
                part.records += int(declared[(declared >= 0) & (declared <= room)].sum())
            part.extent.take(run, records)
        # What a batch says of the one before it comes first, as it does where blocks meet.
        part.findings = _in_order(part.findings + findings)
        return part


def _in_order(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.position or 0)
