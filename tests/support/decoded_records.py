"""The messages in internal topics as kafka-dump-log decodes them, and kfmt's in the same terms.

kafka-dump-log prints names in camelCase, without the words for numbers that kfmt adds as
`…_name`, and the protocols of classic consumers as bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.support.dump_log import parse
from tests.support.samples import Row

DECODER_BY_TOPIC = {
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
Message = tuple[int, Any]
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_PROTOCOLS = ("subscription", "assignment")
# From 4.3 on, kafka-dump-log prints the name of this number.
_TRANSACTION_STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    *("Dead", "PrepareEpochFence"),
)
_DECODER = json.JSONDecoder()


def tool_messages(text: str) -> dict[int, list[Message]]:
    """The number and content of each decoded key and value in kafka-dump-log's text, by offset."""
    return {
        row["offset"]: list(_parse_messages(row["rest"]))
        for row in parse(text)
        if row["kind"] == "record" and "{" in (row["rest"] or "")
    }


def _parse_messages(rest: str) -> Iterator[Message]:
    for label in (" key: ", " payload: "):
        _, found, after = rest.partition(f"{label}{{")
        if found:
            content, _ = _DECODER.raw_decode(f"{{{after}")
            yield (
                int(content["version"] if "version" in content else content["type"]),
                _plain(content["data"]),
            )


def kfmt_messages(row: Row) -> list[Message]:
    """The number and content of each decoded key and value of a record; none of a tombstone."""
    messages = [row.get("decoded_key"), row.get("decoded_value")]
    return [
        (message["version"] if "version" in message else message["type"], _plain(message["data"]))
        for message in messages
        if message is not None and message["data"] is not None
    ]


def _plain(content: Any) -> Any:
    """Content with names in snake_case, and without what only one of the two prints."""
    if isinstance(content, list):
        return list(map(_plain, content))
    if not isinstance(content, dict):
        return content
    members = {_CAPITAL.sub(r"_\1", name).lower(): value for name, value in content.items()}
    return {
        name: _TRANSACTION_STATES.index(value) if value in _TRANSACTION_STATES else _plain(value)
        for name, value in members.items()
        if not (name.endswith("_name") and name.removesuffix("_name") in members)
        and not (name in _PROTOCOLS and "member_id" in members)
    }
