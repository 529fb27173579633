"""Decoders of what internal topics hold. To add one, write its messages and add a line here."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kfmt_cli.core.lazy import load

if TYPE_CHECKING:
    from kfmt_cli.topics.decoder import Decoder
    from kfmt_cli.topics.message import Message

CLUSTER_METADATA = "__cluster_metadata"
# Each topic: where its messages are.
TOPICS: dict[str, str] = {
    "__consumer_offsets": "kfmt_cli.topics.consumer_offsets:MESSAGES",
    "__transaction_state": "kfmt_cli.topics.transaction_state:MESSAGES",
    "__share_group_state": "kfmt_cli.topics.share_group_state:MESSAGES",
    CLUSTER_METADATA: "kfmt_cli.topics.cluster_metadata:MESSAGES",
    "__remote_log_metadata": "kfmt_cli.topics.remote_log_metadata:MESSAGES",
}


def messages_of(topic: str) -> tuple[Message, ...]:
    """The kinds of records of a topic of `TOPICS`."""
    messages: tuple[Message, ...] = load(TOPICS[topic])
    return messages


@cache
def _decoder(place: str) -> Decoder:
    messages: tuple[Message, ...] = load(place)
    if any(it.key is not None for it in messages):
        from kfmt_cli.topics.keyed import KeyedDecoder

        return KeyedDecoder(messages)
    from kfmt_cli.topics.enveloped import EnvelopedDecoder

    return EnvelopedDecoder(messages)


def decoder_for(topic: str | None) -> Decoder | None:
    """The decoder of a topic, None where its records are not kfmt's to understand."""
    place = TOPICS.get(topic or "")
    return None if place is None else _decoder(place)
