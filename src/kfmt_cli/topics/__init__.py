"""Decoders of what internal topics hold. To add one, write a class and add it here."""

from __future__ import annotations

from kfmt_cli.topics.decoder import Decoder

TOPICS: list[type[Decoder]] = []


def decoder_for(topic: str | None) -> Decoder | None:
    """The decoder of a topic, None where its records are not kfmt's to understand."""
    return next((it() for it in TOPICS if it.topic == topic), None)
