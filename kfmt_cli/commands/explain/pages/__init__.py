"""How a broker works, explained with numbers from real files: one page per mechanism.

To add one, write a function from `PageFacts` to the sections of a page and add a line to
`_PAGE_TARGETS`.
"""

from __future__ import annotations

from kfmt_cli.commands.explain.pages.page import PageSpec

_PAGE_TARGETS = (
    ("record-batch", "Anatomy of a record batch", "batch_pages:record_batch_page"),
    ("attributes", "The attribute bits of a batch", "batch_pages:attributes_page"),
    ("varint", "Variable-length integers", "batch_pages:varint_page"),
    ("lz4", "Compression, and Kafka's framing of LZ4", "batch_pages:compression_page"),
    ("control-records", "Control records", "batch_pages:control_records_page"),
    ("transactions", "Transactions in a partition", "batch_pages:transactions_page"),
    ("request-header", "Request headers", "batch_pages:request_header_page"),
    (
        "offset-index",
        "The offset index: from an offset to a byte",
        "segment_pages:offset_index_page",
    ),
    (
        "time-index",
        "The time index: from a timestamp to an offset",
        "segment_pages:time_index_page",
    ),
    ("look-up", "How a broker finds an offset", "segment_pages:lookup_page"),
    ("rolling", "When a new segment begins", "segment_pages:rolling_page"),
    ("retention", "When a segment is deleted", "segment_pages:retention_page"),
    (
        "compaction",
        "How compaction keeps the latest record per key",
        "segment_pages:compaction_page",
    ),
    ("leader-epochs", "Leader epochs: who was leader when", "segment_pages:leader_epochs_page"),
    ("recovery", "Log recovery after a crash", "segment_pages:recovery_page"),
    ("page-cache", "The page cache", "system:page_cache_page"),
    ("zero-copy", "How bytes get to a consumer", "system:zero_copy_page"),
    ("timing-wheel", "How a broker keeps its timers", "wheel:timing_wheel_page"),
)
EXPLAIN_PAGES: dict[str, PageSpec] = {
    name: PageSpec(name, title, f"{__name__}.{function}") for name, title, function in _PAGE_TARGETS
}
