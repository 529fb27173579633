"""The topic `_schemas`: the content of a schema registry.

Source: the registry's documentation of this topic. Keys and values are JSON, and a key contains the
type of its record.
"""

from __future__ import annotations

from kfmt_cli.topics.keyed_json import JsonDecoder, KeyContent
from kfmt_cli.topics.payloads import read_encodable_json

# By the `keytype` of a key.
_RECORD_TYPE_BY_KEYTYPE = {
    "SCHEMA": "Schema",
    "CONFIG": "Config",
    "MODE": "Mode",
    "DELETE_SUBJECT": "DeleteSubject",
    "CLEAR_SUBJECT": "ClearSubject",
    "CONTEXT": "Context",
    "NOOP": "Noop",
}


def _parse_registry_key(key: bytes) -> KeyContent | None:
    try:
        key_members = read_encodable_json(key)
    except ValueError:
        return None
    record_type = (
        _RECORD_TYPE_BY_KEYTYPE.get(str(key_members.get("keytype")))
        if isinstance(key_members, dict)
        else None
    )
    if record_type is None:
        return None
    return KeyContent(
        record_type,
        {
            member_name: member
            for member_name, member in key_members.items()
            if member_name != "keytype"
        },
    )


REGISTRY_DECODER = JsonDecoder(_parse_registry_key)
