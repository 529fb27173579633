"""Functions that read single numbers from a batch header, for code that needs one batch. Each
raises `struct.error` if the bytes end before the number does.

Up to the magic, batches and messages are the same.
"""

from __future__ import annotations

from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGES

base_offset = RECORD_BATCH.number("base_offset")
batch_length = RECORD_BATCH.number("batch_length")
partition_leader_epoch = RECORD_BATCH.number("partition_leader_epoch")
magic = RECORD_BATCH.number("magic")
attributes = RECORD_BATCH.number("attributes")
last_offset_delta = RECORD_BATCH.number("last_offset_delta")
base_timestamp = RECORD_BATCH.number("base_timestamp")
max_timestamp = RECORD_BATCH.number("max_timestamp")
producer_id = RECORD_BATCH.number("producer_id")
producer_epoch = RECORD_BATCH.number("producer_epoch")
base_sequence = RECORD_BATCH.number("base_sequence")
records_count = RECORD_BATCH.number("records_count")

message_crc = MESSAGES[0].number("crc")
message_attributes = MESSAGES[0].number("attributes")
message_timestamp = MESSAGES[1].number("timestamp")
