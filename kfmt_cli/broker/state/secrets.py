"""Settings whose values are hidden because they may be secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Settings whose values Kafka treats as passwords.
_SECRET = re.compile(
    r"(password|\.secret|secret\.key|sasl\.jaas\.config|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates)$"
)
HIDDEN = "hidden"
"""In place of the value of a connector's setting."""
# Settings that Kafka Connect and MirrorMaker define, none of which is a secret. What the settings
# of others hold is known to those alone: URLs with passwords, keys as JSON, headers.
_HARMLESS = re.compile(
    r"name|connector\.class|task\.class|tasks\.max(\.enforce)?|topics(\.regex)?"
    r"|config\.action\.reload|(key|value|header)\.converter(\.schemas\.enable)?"
    r"|transforms(\.[^.]+\.type)?|predicates(\.[^.]+\.type)?"
    r"|errors\.(tolerance|retry\.(timeout|delay\.max\.ms)|log\.(enable|include\.messages))"
    r"|errors\.deadletterqueue\.(topic\.(name|replication\.factor)|context\.headers\.enable)"
    r"|exactly\.once\.support|transaction\.boundary(\.interval\.ms)?|offsets\.storage\.topic"
    r"|(source|target)\.cluster\.(alias|bootstrap\.servers)|([a-z.-]+\.)?replication\.factor"
    r"|(sync|emit|refresh)\.[a-z.]+"
)


def is_secret(name: str) -> bool:
    """Whether the value of a Kafka setting may be a secret."""
    return _SECRET.search(name) is not None


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A connector's configuration, with the values of all settings hidden that are not known to be
    harmless."""
    return {
        name: setting if _HARMLESS.fullmatch(name) and isinstance(setting, str) else HIDDEN
        for name, setting in config.items()
    }
