"""Pages about bytes: batches, attributes, varints, codecs, control records, requests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kfmt_cli.broker.transactions.transactions import TransactionTracker
from kfmt_cli.commands.explain.pages.page import PageFacts, PageSection
from kfmt_cli.core.codecs.compress import compress
from kfmt_cli.core.layout.varint import encode_uvarint, seven_bit_groups, zigzag_encode
from kfmt_cli.formats.batch import ATTRIBUTES, CODECS, RECORD_BATCH
from kfmt_cli.formats.control import CONTROL_TYPES
from kfmt_cli.log.block import BATCH_HEADER_BYTES

_MAX_SHOWN_BYTES = 12  # bytes drawn per field
_NO_V2_BATCH = (
    "{} has no batch of magic 2: its messages have an older format, with other fields. "
    "kfmt format record-batch shows the fields of magic 2."
)


def record_batch_page(facts: PageFacts) -> Iterator[PageSection]:
    """The header of a real batch, field by field."""
    yield (
        "A log is a sequence of record batches and nothing else. A producer collects the records "
        "it has for a partition into a batch; the broker writes the batch to disk as received, "
        "except for the base offset and the leader epoch, and consumers get the same bytes. One "
        "header, one checksum and one compression pass thus serve many records."
    )
    block = facts.first_v2_run
    if block is None:
        yield _NO_V2_BATCH.format(facts.source_label)
        return
    batches = block.batches
    batch_start, batch_size = int(batches.start[0]), int(batches.size[0])
    n_records = int(batches.records_count[0])
    yield f"The first batch of {facts.source_label}: {batch_size} bytes, {n_records} records."
    lines = ["byte  field                    value", "────  ───────────────────────  ─────"]
    for field in RECORD_BATCH.fields:
        field_position = RECORD_BATCH.field_start(field.name)
        if field_position >= BATCH_HEADER_BYTES or field.name not in batches.index_by_name:
            continue
        field_value = int(batches[field.name][0])
        lines.append(f"{field_position:>4}  {field.name:<23}  {field_value}")
    yield lines
    yield (
        f"After these {BATCH_HEADER_BYTES} bytes come the records, compressed together if a "
        "codec is set. "
        "The checksum covers everything from the attributes onward, but not the fields before "
        "them, which the broker changes. Records store only deltas: an offset delta to the "
        "batch's base offset, and a timestamp delta to its base timestamp."
    )
    first_bytes = block.data[batch_start : batch_start + 3 * 16]
    yield [
        f"{i * 16:>4}  {first_bytes[i * 16 : i * 16 + 16].hex(' ')}"
        for i in range(3)
        if first_bytes[i * 16 :]
    ]
    yield "Kafka: org.apache.kafka.common.record.DefaultRecordBatch. kfmt hex shows every byte."


def attributes_page(facts: PageFacts) -> Iterator[PageSection]:
    """The attribute bits, with their values in real batches."""
    yield (
        "Two bytes of the batch header are bit flags. The checksum covers them, so a broker "
        "cannot change them without recomputing it."
    )
    block = facts.first_v2_run
    if block is None:
        yield _NO_V2_BATCH.format(facts.source_label)
        return
    batches = block.batches
    lines = ["bits  name            of the first batches"]
    n_shown_batches = min(len(batches), 6)
    for bit_field in ATTRIBUTES:
        last_bit = bit_field.shift + bit_field.width - 1
        bit_range = (
            str(bit_field.shift) if bit_field.width == 1 else f"{bit_field.shift}–{last_bit}"
        )
        bit_values = (
            (batches.attributes[:n_shown_batches] >> bit_field.shift) & ((1 << bit_field.width) - 1)
        ).tolist()
        lines.append(f"{bit_range:>4}  {bit_field.name:<15} {'  '.join(map(str, bit_values))}")
    yield lines
    yield f"The codecs: {', '.join(f'{i} {codec_name}' for i, codec_name in enumerate(CODECS))}."
    yield (
        "timestamp_type 0 means the producer's time, 1 the broker's; with 1, every record has the "
        "batch's max timestamp. Transactional batches are pending until a marker follows; control "
        "batches are such markers. With delete_horizon, the base timestamp is the time after "
        "which tombstones can be removed."
    )
    yield "Kafka: DefaultRecordBatch.attributes. kfmt dump --bits draws them."


def varint_page(facts: PageFacts) -> Iterator[PageSection]:
    """The number 300 converted to its bytes."""
    del facts
    yield (
        "Record lengths and deltas are usually small, so they are written in groups of seven "
        "bits, lowest first; the eighth bit of each byte says whether another byte follows. "
        "Negative numbers would need the maximum length, so ZigZag encoding first maps 0, -1, 1, "
        "-2 to 0, 1, 2, 3."
    )
    lines = ["value     zigzag  groups of 7 bits   bytes"]
    for number in (0, 1, -1, 63, 64, 300, -300):
        zigzag_value = zigzag_encode(number, 32)
        groups = " ".join(f"{group:07b}" for group in reversed(seven_bit_groups(zigzag_value)))
        lines.append(
            f"{number:>5}  {zigzag_value:>9}  {groups:<17}  {encode_uvarint(zigzag_value).hex(' ')}"
        )
    yield lines
    yield (
        "A 32-bit number takes at most 5 bytes, a 64-bit one 10. An int32 would always take 4: a "
        "record of 100 bytes with three small deltas saves about 9 of its 12 bytes."
    )
    yield "Kafka: org.apache.kafka.common.utils.ByteUtils. kfmt encode-varint shows each step."


def compression_page(facts: PageFacts) -> Iterator[PageSection]:
    """A real batch compressed by each codec, and Kafka's frame around LZ4."""
    block = facts.first_v2_run
    yield (
        "The records of a batch are compressed together, which exploits what they have in common. "
        "The header stays uncompressed, so a broker can assign offsets without recompressing the "
        "records, and serve the batch without decompressing it."
    )
    record_bytes = b'{"user":"u-1","action":"click"}' * 40
    if block is not None and not block.batches.compression.all():
        batch_index = int(np.argmin(block.batches.compression))
        batch_start, batch_end = (
            int(block.batches.start[batch_index]),
            int(block.batches.end[batch_index]),
        )
        record_bytes = block.data[batch_start + BATCH_HEADER_BYTES : batch_end]
        yield f"{len(record_bytes)} bytes of records of {facts.source_label}, by each codec:"
    lines = [
        f"{codec_name:<7} {len(compress(codec_name, record_bytes)):>7} bytes"
        for codec_name in CODECS
    ]
    yield lines
    lz4_frame = compress("lz4", record_bytes)
    yield (
        "LZ4 replaces repeated data with a distance and a length. Kafka writes its own kind of "
        "frame: independent blocks of 64 KiB, no checksums and, in magic 0, a header checksum "
        "computed over four bytes too many (KAFKA-3160)."
    )
    yield [
        f"magic      {lz4_frame[:4].hex(' ')}",
        f"descriptor {lz4_frame[4:6].hex(' ')}   version 1, independent blocks; blocks of 64 KiB",
        f"checksum   {lz4_frame[6:7].hex()}",
        (
            f"block size {lz4_frame[7:11].hex(' ')}   little-endian: "
            f"{int.from_bytes(lz4_frame[7:11], 'little')}"
        ),
        f"block      {lz4_frame[11 : 11 + _MAX_SHOWN_BYTES].hex(' ')} …",
        f"end        {lz4_frame[-4:].hex(' ')}",
    ]
    yield "Kafka: org.apache.kafka.common.compress.Lz4BlockOutputStream. kfmt stat --what-if."


def control_records_page(facts: PageFacts) -> Iterator[PageSection]:
    """Transaction markers and other control records, and how many a partition has."""
    yield (
        "Some batches are written by the broker itself. Such a control batch has bit 5 set and a "
        "single record (several in the first batch of a KRaft snapshot), whose key identifies it: "
        "a version and a type, two bytes each. Consumers never see control records, but each takes "
        "an offset, so a partition with transactions has offsets without a visible record."
    )
    yield [
        f"{control_type_id}  {control_type}"
        for control_type_id, control_type in enumerate(CONTROL_TYPES)
    ]
    n_control_batches = 0
    for block in facts.iter_blocks():
        n_control_batches += int((block.batches.control[block.batches.is_v2 == 1] == 1).sum())
    yield f"{facts.source_label} has {n_control_batches} control batches."
    yield (
        "ABORT and COMMIT end a transaction; their value has the epoch of the coordinator that "
        "wrote them. The others belong to KRaft's metadata log."
    )
    yield "Kafka: org.apache.kafka.common.record.ControlRecordType. kfmt dump --records."


def transactions_page(facts: PageFacts) -> Iterator[PageSection]:
    """A drawing of the first transactions of a partition."""
    transaction_tracker = TransactionTracker()
    ended_transactions = [*transaction_tracker.track(facts.iter_blocks())]
    yield (
        "A producer writes transactional records like any others, with bit 4 set and its producer "
        "id. They are in the log immediately, and read_uncommitted consumers see them. When the "
        "transaction ends, its coordinator has a marker written to each partition: COMMIT or "
        "ABORT."
    )
    n_committed = sum(transaction.outcome == "committed" for transaction in ended_transactions)
    yield (
        f"{facts.source_label}: {len(ended_transactions)} transactions have ended, "
        f"{n_committed} by COMMIT and "
        f"{len(ended_transactions) - n_committed} by ABORT; "
        f"{_format_open_count(len(transaction_tracker.open_transaction_by_producer))}."
    )
    lines = ["producer  records      marker  outcome"]
    for transaction in ended_transactions[:6]:
        offsets_text = (
            "–"
            if transaction.first_offset is None
            else f"{transaction.first_offset}–{transaction.last_offset}"
        )
        lines.append(
            f"{transaction.producer_id:>8}  {offsets_text:<11}  "
            f"{transaction.marker_offset or 0:>6}  "
            f"{transaction.outcome}"
        )
    yield lines
    yield (
        "The last stable offset is the first offset of the oldest open transaction: "
        "read_committed consumers stop there. The .txnindex next to a segment lists aborted "
        "transactions, so that read_committed consumers know which records to skip. A hanging "
        "transaction stops all of them, and the log cleaner."
    )
    yield (
        f"Here it is {transaction_tracker.last_stable_offset}; the log end offset is "
        f"{transaction_tracker.log_end_offset}."
    )
    yield "Kafka: ProducerStateManager, TransactionIndex. kfmt txn lists all of them."


def request_header_page(facts: PageFacts) -> Iterator[PageSection]:
    """A request's header, byte by byte."""
    del facts
    yield (
        "A client sends the length of a request in four bytes, then a header, then the request "
        "body. The header contains the API key, its version and a correlation id, which the "
        "response repeats so that the client can match them."
    )
    header = bytes.fromhex("0012 0003 0000002a 0007 6d792d617070 73 00")
    yield [
        f"{header[:2].hex(' ')}                       api_key 18: ApiVersions",
        f"{header[2:4].hex(' ')}                       api_version 3",
        f"{header[4:8].hex(' ')}                 correlation_id 42",
        f"{header[8:10].hex(' ')}                       client_id: 7 bytes",
        f"{header[10:17].hex(' ')}        'my-apps'",
        f"{header[17:].hex(' ')}                          no tagged fields (flexible versions)",
    ]
    yield (
        "A response header has only the correlation_id; for flexible versions of the request, "
        "tagged fields follow, except for ApiVersions, which a client must be able to read before "
        "it knows any version."
    )
    yield "Kafka: org.apache.kafka.common.requests.RequestHeader. kfmt request-header reads yours."


def _format_open_count(n_open: int) -> str:
    return "1 is open" if n_open == 1 else f"{n_open} are open"
