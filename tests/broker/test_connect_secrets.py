"""Values of a connector's settings that may be secret are hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.samples import kfmt

PLANTED = "hunter2"
SETTINGS = {
    "connection.uri": f"mongodb://user:{PLANTED}@host/db",
    "connection.url": f"jdbc:postgresql://host/db?password={PLANTED}",
    "value.converter.basic.auth.user.info": f"user:{PLANTED}",
    "azblob.account.key": PLANTED,
    "azure.eventhubs.sas.key": PLANTED,
    "connect.cosmos.master.key": PLANTED,
    "keyfile": json.dumps({"private_key": PLANTED}),
    "http.headers.authorization": f"Bearer {PLANTED}",
    "headers": f"Authorization: {PLANTED}",
    "redis.uri": f"redis://:{PLANTED}@host",
    "neo4j.authentication.pw": PLANTED,
    "transforms.a.type.of": PLANTED,
    "names": PLANTED,
}
HARMLESS = {
    "name": "c",
    "connector.class": "org.example.Sink",
    "tasks.max": "1",
    "topics": "orders",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "transforms": "a",
    "transforms.a.type": "org.example.Smt",
    "errors.deadletterqueue.topic.name": "dead",
}


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    config = {"properties": {**HARMLESS, **SETTINGS, "tasks.max.enforce": {"a": PLANTED}}}
    pairs = [
        ("connector-c", config),
        ("task-c-0", config),
        ("commit-c", {"tasks": 1}),
    ]
    rows = [
        {"type": "record", "offset": i, "timestamp": i, "key": key, "value": json.dumps(value)}
        for i, (key, value) in enumerate(pairs)
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    directory = tmp_path / "connect-configs-0"
    assert kfmt("build", "-", directory, stdin=lines.encode()).code == 0
    return directory


def test_only_what_is_known_to_be_harmless_is_shown(topic: Path) -> None:
    result = kfmt("state", topic, "--json")
    for row in (*result.of("connector"), *result.of("connector_task")):
        visible = {name: value for name, value in row["config"].items() if value != "hidden"}
        assert visible == HARMLESS
        assert row["config"].keys() >= SETTINGS.keys()
    for options in ([], ["--wide"], ["--format", "csv"], ["--json"], ["--since-offset", "0"]):
        result = kfmt("state", topic, *options)
        assert result.out
        assert PLANTED not in result.out + result.err


def test_all_values_are_shown_when_asked_for(topic: Path) -> None:
    result = kfmt("state", topic, "--json", "--show-values")
    (row,) = result.of("connector")
    assert row["config"].items() >= SETTINGS.items()
