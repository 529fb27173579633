"""Selects the topics under a run's paths that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase

from kfmt_cli.errors import NotFoundError, unknown_name_question

TOPIC_PATTERNS: ContextVar[Sequence[str]] = ContextVar("topic_patterns", default=())
"""Names of topics, with * and ? for any characters; empty for all topics."""


def matches_topic(topic: str | None, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches a topic; True without patterns."""
    return not patterns or (
        topic is not None and any(fnmatchcase(topic, pattern) for pattern in patterns)
    )


def missing_topic_error(patterns: Sequence[str], topics: Iterable[str | None]) -> NotFoundError:
    """The error for patterns that match none of the topics under the given paths."""
    names = sorted({topic for topic in topics if topic is not None})
    shown_names = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    names_text = f"; topics: {shown_names}" if names else "; no directory is named after a topic"
    question = unknown_name_question(patterns[0], names, names_text)
    return NotFoundError(
        f"no topic {' or '.join(map(repr, patterns))} in the given paths{question}"
    )


def select_topics(
    patterns: Sequence[str], topics: Iterable[str | None], is_required: bool = True
) -> frozenset[str]:
    """The topics that the patterns match; raises NotFoundError if `is_required` and there is
    none."""
    existing_topics = list(topics)
    selected = frozenset(
        topic for topic in existing_topics if topic is not None and matches_topic(topic, patterns)
    )
    if is_required and patterns and not selected:
        raise missing_topic_error(patterns, existing_topics)
    return selected
