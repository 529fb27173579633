"""_schemas: the content of a schema registry.

Source: the registry's documentation of its topic: keys and values are JSON, and a key states the
type of its record.
"""

from __future__ import annotations

from kfmt_cli.topics.keyed_json import JsonDecoder, Said
from kfmt_cli.topics.payloads import read_plain_json

# The `keytype` of a key, and the registry's name for such records.
_NAMES = {
    "SCHEMA": "Schema",
    "CONFIG": "Config",
    "MODE": "Mode",
    "DELETE_SUBJECT": "DeleteSubject",
    "CLEAR_SUBJECT": "ClearSubject",
    "CONTEXT": "Context",
    "NOOP": "Noop",
}


def _of_key(key: bytes) -> Said | None:
    try:
        data = read_plain_json(key)
    except ValueError:
        return None
    name = _NAMES.get(str(data.get("keytype"))) if isinstance(data, dict) else None
    if name is None:
        return None
    return Said(name, {name: value for name, value in data.items() if name != "keytype"})


REGISTRY = JsonDecoder(_of_key)
