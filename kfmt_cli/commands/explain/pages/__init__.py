"""How a broker works, explained with numbers from real files: one page per mechanism.

To add one, write a function from `PageFacts` to the parts of a page and add a line to `PAGES`.
"""

from __future__ import annotations

from kfmt_cli.commands.explain.pages.page import ListedPage

_HERE = "kfmt_cli.commands.explain.pages"
PAGES: dict[str, ListedPage] = {
    listed_page.name: listed_page
    for listed_page in (
        ListedPage("record-batch", "Anatomy of a record batch", f"{_HERE}.batch_pages:batch"),
        ListedPage(
            "attributes", "The attribute bits of a batch", f"{_HERE}.batch_pages:attributes"
        ),
        ListedPage("varint", "Variable-length integers", f"{_HERE}.batch_pages:varint"),
        ListedPage("lz4", "Compression, and Kafka's framing of LZ4", f"{_HERE}.batch_pages:lz4"),
        ListedPage("control-records", "Control records", f"{_HERE}.batch_pages:control"),
        ListedPage(
            "transactions", "Transactions in a partition", f"{_HERE}.batch_pages:transactions"
        ),
        ListedPage("request-header", "Request headers", f"{_HERE}.batch_pages:request"),
        ListedPage(
            "offset-index",
            "The offset index: from an offset to a byte",
            f"{_HERE}.segment_pages:offset_index",
        ),
        ListedPage(
            "time-index",
            "The time index: from a timestamp to an offset",
            f"{_HERE}.segment_pages:time_index",
        ),
        ListedPage(
            "look-up", "How a broker finds an offset", f"{_HERE}.segment_pages:finding_an_offset"
        ),
        ListedPage("rolling", "When a new segment begins", f"{_HERE}.segment_pages:rolling"),
        ListedPage("retention", "When a segment is deleted", f"{_HERE}.segment_pages:retention"),
        ListedPage(
            "compaction",
            "How compaction keeps the latest record per key",
            f"{_HERE}.segment_pages:compaction",
        ),
        ListedPage(
            "leader-epochs",
            "Leader epochs: who was leader when",
            f"{_HERE}.segment_pages:leader_epochs",
        ),
        ListedPage("recovery", "Log recovery after a crash", f"{_HERE}.segment_pages:recovery"),
        ListedPage("page-cache", "The page cache", f"{_HERE}.system:page_cache"),
        ListedPage("zero-copy", "How bytes get to a consumer", f"{_HERE}.system:zero_copy"),
        ListedPage("timing-wheel", "How a broker keeps its timers", f"{_HERE}.wheel:timing_wheel"),
    )
}
