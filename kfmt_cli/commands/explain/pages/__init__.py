"""How a broker works, explained with numbers from real files: one page per mechanism.

To add one, write a function from `PageFacts` to the parts of a page and add a line to `_PAGES`.
"""

from __future__ import annotations

from kfmt_cli.commands.explain.pages.page import ListedPage

_PAGES = (
    ("record-batch", "Anatomy of a record batch", "batch_pages:batch"),
    ("attributes", "The attribute bits of a batch", "batch_pages:attributes"),
    ("varint", "Variable-length integers", "batch_pages:varint"),
    ("lz4", "Compression, and Kafka's framing of LZ4", "batch_pages:lz4"),
    ("control-records", "Control records", "batch_pages:control"),
    ("transactions", "Transactions in a partition", "batch_pages:transactions"),
    ("request-header", "Request headers", "batch_pages:request"),
    ("offset-index", "The offset index: from an offset to a byte", "segment_pages:offset_index"),
    ("time-index", "The time index: from a timestamp to an offset", "segment_pages:time_index"),
    ("look-up", "How a broker finds an offset", "segment_pages:finding_an_offset"),
    ("rolling", "When a new segment begins", "segment_pages:rolling"),
    ("retention", "When a segment is deleted", "segment_pages:retention"),
    ("compaction", "How compaction keeps the latest record per key", "segment_pages:compaction"),
    ("leader-epochs", "Leader epochs: who was leader when", "segment_pages:leader_epochs"),
    ("recovery", "Log recovery after a crash", "segment_pages:recovery"),
    ("page-cache", "The page cache", "system:page_cache"),
    ("zero-copy", "How bytes get to a consumer", "system:zero_copy"),
    ("timing-wheel", "How a broker keeps its timers", "wheel:timing_wheel"),
)
PAGES: dict[str, ListedPage] = {
    name: ListedPage(name, title, f"{__name__}.{function}") for name, title, function in _PAGES
}
