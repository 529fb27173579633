"""Settings whose values are hidden because they may be secrets."""

from __future__ import annotations

import re

# Settings whose values Kafka treats as passwords.
_SECRET = re.compile(
    r"(password|\.secret|secret\.key|sasl\.jaas\.config|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates)$"
)
# Names that third-party connectors use; a false match costs little.
_OF_CONNECTORS = re.compile(r"pass|secret|token|credential|api[._-]?key|private[._-]?key", re.I)


def is_secret(name: str) -> bool:
    """Whether the value of a Kafka setting may be a secret."""
    return _SECRET.search(name) is not None


def is_connector_secret(name: str) -> bool:
    """Whether the value of a connector setting may be a secret."""
    return is_secret(name) or _OF_CONNECTORS.search(name) is not None
