"""Functions that read single fields from the header of one batch or legacy message.

Each raises `struct.error` if the bytes end before the field does. Up to the magic, batches and
messages have the same fields.
"""

from __future__ import annotations

from kfmt_cli.formats.batch import RECORD_BATCH
from kfmt_cli.formats.legacy import MESSAGE_LAYOUTS

base_offset = RECORD_BATCH.number_reader("base_offset")
batch_length = RECORD_BATCH.number_reader("batch_length")
partition_leader_epoch = RECORD_BATCH.number_reader("partition_leader_epoch")
magic = RECORD_BATCH.number_reader("magic")
attributes = RECORD_BATCH.number_reader("attributes")
last_offset_delta = RECORD_BATCH.number_reader("last_offset_delta")
base_timestamp = RECORD_BATCH.number_reader("base_timestamp")
max_timestamp = RECORD_BATCH.number_reader("max_timestamp")
producer_id = RECORD_BATCH.number_reader("producer_id")
producer_epoch = RECORD_BATCH.number_reader("producer_epoch")
base_sequence = RECORD_BATCH.number_reader("base_sequence")
records_count = RECORD_BATCH.number_reader("records_count")

message_crc = MESSAGE_LAYOUTS[0].number_reader("crc")
message_attributes = MESSAGE_LAYOUTS[0].number_reader("attributes")
message_timestamp = MESSAGE_LAYOUTS[1].number_reader("timestamp")
