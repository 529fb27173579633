"""The commands and options that people guess, and what does what they want."""

from __future__ import annotations

_STATE = "kfmt state DIR shows groups, committed offsets, lag, topics and brokers"
_STAT = "kfmt stat DIR shows sizes and counts; kfmt browse DIR to look around"
_DUMP = "kfmt dump FILE shows every batch; --records, --limit N"
_TAIL = "kfmt cat PATH --last 10 shows the last records; --follow waits for more"
_CHECK = "kfmt check DIR finds damage and predicts the next start"
_REPAIR = (
    "kfmt salvage DIR DST copies what is undamaged; kfmt rebuild-index mends indexes; "
    "kfmt check DIR says which"
)
_FIND = "kfmt find DIR --key K, --offset N or --timestamp T"
_WRITE = "kfmt build JSONL DST writes a log; kfmt replay PATH sends records to a cluster"
_EXPLAIN = "kfmt explain NAME explains a finding or mechanism; kfmt format NAME a format"
_REPLICAS = "kfmt replicas DIR… compares the disks of several brokers"

FIRST_GUESSES = {
    **dict.fromkeys(
        ("lag", "groups", "group", "consumer-groups", "offsets", "topics", "topic", "brokers"),
        _STATE,
    ),
    **dict.fromkeys(("consumers", "metadata", "acl", "acls", "configs", "quorum"), _STATE),
    **dict.fromkeys(("ls", "list", "info", "du", "size", "sizes", "partitions", "count"), _STAT),
    **dict.fromkeys(("describe", "summary", "tree", "log-dirs"), _STAT),
    **dict.fromkeys(("tail", "follow", "consume", "kcat", "kafkacat"), _TAIL),
    **dict.fromkeys(("head", "show", "print", "read", "view", "inspect", "open"), _DUMP),
    **dict.fromkeys(("dump-log", "kafka-dump-log", "records", "batches", "decode"), _DUMP),
    **dict.fromkeys(("repair", "fix", "recover", "rescue", "restore", "mend"), _REPAIR),
    **dict.fromkeys(("fsck", "verify", "validate", "lint", "scan", "doctor", "test"), _CHECK),
    **dict.fromkeys(("grep", "search", "get", "seek", "lookup", "key"), _FIND),
    **dict.fromkeys(("produce", "load", "import", "write", "create"), _WRITE),
    **dict.fromkeys(("crc", "checksum", "crc32"), "kfmt verify-crc PATH checks every checksum"),
    **dict.fromkeys(
        ("index", "indexes", "reindex"), "kfmt index-check PATH; kfmt rebuild-index PATH"
    ),
    **dict.fromkeys(("convert", "upgrade", "migrate"), "kfmt convert-v0-to-v2 SRC DST"),
    **dict.fromkeys(("varint", "zigzag"), "kfmt encode-varint N; kfmt decode-varint HEX"),
    **dict.fromkeys(("transactions", "transaction", "producers"), "kfmt txn PATH"),
    **dict.fromkeys(("hexdump", "xxd", "bytes"), "kfmt hex FILE shows bytes next to their fields"),
    **dict.fromkeys(
        ("parquet", "csv", "arrow", "spark"), "kfmt export PATH --to DIR; kfmt pipeline"
    ),
    **dict.fromkeys(("json",), "add --json to any command, such as kfmt dump FILE --json"),
    **dict.fromkeys(("query", "select", "duckdb"), "kfmt sql PATH QUERY"),
    **dict.fromkeys(("ui", "tui", "top"), "kfmt browse DIR"),
    **dict.fromkeys(("html", "page"), "kfmt report DIR"),
    **dict.fromkeys(("compact", "clean", "cleaner", "tombstones"), "kfmt compaction PATH"),
    **dict.fromkeys(("retain", "expire", "delete", "retention-ms"), "kfmt retention PATH"),
    **dict.fromkeys(
        ("compare", "cmp"), "kfmt diff A B compares two replicas; kfmt replicas several"
    ),
    **dict.fromkeys(("cluster", "election", "isr", "replica"), _REPLICAS),
    **dict.fromkeys(("codes", "errors", "findings", "docs", "man", "why"), _EXPLAIN),
    "schema": "kfmt format --json-schema prints the schema of all output",
    "version": "kfmt --version",
    "partition": "kfmt partition-of KEY shows the partition of a key",
    "deleted": "kfmt salvage DIR DST --deleted brings back deleted data",
    "timestamp": _FIND,
}
OPTION_GUESSES = {
    "--files": "name the path without an option",  # of kafka-dump-log
    **dict.fromkeys(("--print-data-log", "--deep-iteration"), "kfmt dump FILE --records"),
    "--csv": "--format csv",
    **dict.fromkeys(
        ("--partition", "--partitions"), "name the partition's directory: DIR/TOPIC-PARTITION"
    ),
}


def path_hint(path: str, is_directory: bool) -> str:
    """What to do with a path in the place of a command."""
    if is_directory:
        return f"kfmt check {path}, or kfmt stat {path}"
    return f"kfmt dump {path}"
