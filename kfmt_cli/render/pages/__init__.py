"""How a broker works, told with the numbers of real files: a page a mechanism.

To add one, write a function from `Facts` to the parts of a page and add a line to `PAGES`.
"""

from __future__ import annotations

from kfmt_cli.render.pages.page import Listed

_HERE = "kfmt_cli.render.pages"
PAGES: dict[str, Listed] = {
    it.name: it
    for it in (
        Listed("record-batch", "What a batch of records looks like", f"{_HERE}.batches:batch"),
        Listed("attributes", "The attribute bits of a batch", f"{_HERE}.batches:attributes"),
        Listed("varint", "Numbers in as few bytes as they need", f"{_HERE}.batches:varint"),
        Listed("lz4", "Compression, and Kafka's framing of LZ4", f"{_HERE}.batches:lz4"),
        Listed("control-records", "Records of the broker's own", f"{_HERE}.batches:control"),
        Listed("transactions", "Transactions in a partition", f"{_HERE}.batches:transactions"),
        Listed("request-header", "What stands before a request", f"{_HERE}.batches:request"),
        Listed("offset-index", "From an offset to a byte", f"{_HERE}.segments:offset_index"),
        Listed("time-index", "From a time to an offset", f"{_HERE}.segments:time_index"),
        Listed("look-up", "How a broker finds an offset", f"{_HERE}.segments:finding_an_offset"),
        Listed("rolling", "When a new segment begins", f"{_HERE}.segments:rolling"),
        Listed("retention", "When a segment is deleted", f"{_HERE}.segments:retention"),
        Listed("compaction", "How the latest of each key stays", f"{_HERE}.segments:compaction"),
        Listed("leader-epochs", "Who led when", f"{_HERE}.segments:leader_epochs"),
        Listed("recovery", "What a start after a crash does", f"{_HERE}.segments:recovery"),
        Listed("page-cache", "Where the bytes are", f"{_HERE}.system:page_cache"),
        Listed("zero-copy", "How bytes get to a consumer", f"{_HERE}.system:zero_copy"),
        Listed("timing-wheel", "How a broker keeps its timers", f"{_HERE}.wheel:timing_wheel"),
    )
}
