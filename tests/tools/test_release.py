"""The data of a Kafka release: made from what its classes say, and compared with the last one."""

from __future__ import annotations

import json
from typing import Any

from tools import kafka
from tools.definitions import format_by_line, merged_messages, reference_messages
from tools.release import (
    FORMATS,
    MESSAGES,
    REFERENCE,
    data_file,
    message_changes,
    missing_words,
)

PACKAGE_FILE, REFERENCE_FILE = data_file(FORMATS, MESSAGES), data_file(REFERENCE, MESSAGES)
KNOWN: dict[str, Any] = json.loads(PACKAGE_FILE.read_text())
BY_VERSION: dict[str, Any] = json.loads(REFERENCE_FILE.read_text())


def nullable_structs(name: str) -> list[str]:
    """The structures that may be null, which the fields by version do not say."""
    fields = KNOWN.get(name, {"fields": []})["fields"]
    return [
        field["name"]
        for field in fields
        if "fields" in field and "list" not in field and "nullable_since" in field
    ]


def test_the_packages_data_is_made_from_the_fields_of_each_version() -> None:
    messages = {name: {"nullable_structs": nullable_structs(name)} for name in BY_VERSION}
    assert format_by_line(merged_messages(messages, BY_VERSION)) == PACKAGE_FILE.read_text()
    assert format_by_line(BY_VERSION) == REFERENCE_FILE.read_text()


def test_messages_are_in_the_order_of_their_places_and_ids() -> None:
    message = {"id": 1, "versions": {}}
    share = message | {"package": "org.apache.kafka.coordinator.share.generated"}
    metadata = message | {"package": "org.apache.kafka.common.metadata"}
    listed = {
        "ShareB": share,
        "TopicB": metadata | {"id": 2},
        "TopicA": metadata,
        "ProduceRequest": message | {"package": "org.apache.kafka.common.message"},
        "EndTxnMarker": message | {"package": "org.apache.kafka.common.message"},
    }
    reference = reference_messages(listed)
    assert list(reference) == ["TopicA", "TopicB", "ShareB", "EndTxnMarker"]
    assert reference["EndTxnMarker"] == {"where": "control records", "id": None, "versions": {}}


def test_a_release_is_compared_field_by_field() -> None:
    assert not list(message_changes(KNOWN, KNOWN))
    older = json.loads(json.dumps(KNOWN))
    del older["UnregisterControllerRecord"]
    registration = older["RegisterBrokerRecord"]
    registration["versions"] = [0, 3]
    registration["fields"] = [
        field for field in registration["fields"] if field["name"] != "cordoned_log_dirs"
    ]
    changes = list(message_changes(older, KNOWN))
    assert changes[0] == "RegisterBrokerRecord: versions [0, 3] → [0, 4]"
    assert changes[1].startswith("RegisterBrokerRecord.cordoned_log_dirs: new → {")
    assert changes[2:] == ["UnregisterControllerRecord: new, __cluster_metadata 29"]
    assert list(message_changes(KNOWN, older))[-1] == "UnregisterControllerRecord: gone"


def test_messages_and_fields_without_words_are_listed() -> None:
    assert not list(missing_words(KNOWN))
    unknown = {"SomeRecord": {"fields": [{"name": "broker_id"}, {"name": "something_new"}]}}
    assert list(missing_words(unknown)) == ["SomeRecord", "SomeRecord.something_new"]


def test_imports_follow_classes_to_other_packages() -> None:
    source = (
        "import java.util.List;\n"
        "import org.apache.kafka.common.record.Records;\n"
        "import static org.apache.kafka.common.utils.Utils.join;\n"
        "import org.apache.kafka.common.Uuid;\n"
        "import org.apache.kafka.common.Twice;\n"
    )
    packages = {
        "Records": ["org.apache.kafka.common.record.internal"],
        "Utils": ["org.apache.kafka.common.utils.internals"],
        "Uuid": ["org.apache.kafka.common"],
        "Twice": ["org.apache.kafka.one", "org.apache.kafka.two"],
    }
    assert kafka.with_imports_of(source, packages) == (
        "import java.util.List;\n"
        "import org.apache.kafka.common.record.internal.Records;\n"
        "import static org.apache.kafka.common.utils.internals.Utils.join;\n"
        "import org.apache.kafka.common.Uuid;\n"
        "import org.apache.kafka.common.Twice;\n"
    )
