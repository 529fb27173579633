"""The settings that Kafka defines, and which of their values may be shown.

`kafka_settings_4.4.json` has the names that a release since 3.9.1 defines for each kind of
resource, without passwords, and the passwords; `tools/release.py` adds those of the next. A setting
that Kafka does not define belongs to a plug-in, and may be a password. Source:
`org.apache.kafka.metadata.KafkaConfigSchema`, `kafka.server.KafkaConfig.maybeSensitive`,
`org.apache.kafka.server.config.QuotaConfig`, `org.apache.kafka.common.config.ConfigDef`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pkgutil import get_data

PASSWORDS = "passwords"
# A listener's own setting: listener.name.LISTENER.SETTING
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.")


@cache
def _names_by_kind() -> dict[str, frozenset[str]]:
    """The names of settings without passwords by kind of resource, and PASSWORDS."""
    names_by_kind: dict[str, list[str]] = json.loads(
        get_data("kfmt_cli.formats", "kafka_settings_4.4.json") or b""
    )
    return {kind: frozenset(names) for kind, names in names_by_kind.items()}


def is_known_harmless(resource_type: str, setting_name: str) -> bool:
    """Whether Kafka defines a setting for a type of resource, such as `BROKER`, and not as a
    password."""
    setting_name = _LISTENER_PREFIX.sub("", setting_name, count=1)
    return setting_name in _names_by_kind().get(resource_type.lower(), ())


def is_password(setting_name: str) -> bool:
    """Whether Kafka defines a setting as a password."""
    return _LISTENER_PREFIX.sub("", setting_name, count=1) in _names_by_kind()[PASSWORDS]
