"""Settings in the metadata log: only values that are known to be harmless are shown."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from kfmt_cli.formats.settings import is_known_harmless, is_password
from tests.support.rebuild import batch_of, record
from tests.support.samples import ORDERS, kfmt

SECRET = "S3CRET"  # noqa: S105
BROKER, TOPIC = 4, 2
PASSWORDS = [
    *("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "sasl.jaas.config"),
    *("listener.name.x.ssl.keystore.key", "ssl.truststore.password", "password.encoder.secret"),
    *("ssl.truststore.certificates", "zookeeper.ssl.keystore.password"),
]
UNKNOWN = [
    "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
    *("rsm.config.storage.s3.secret.access.key", "rsm.config.storage.aws.secret.access.key"),
    *("rsm.config.storage.azure.account.key", "rsm.config.storage.gcs.credentials.json"),
    *("rsm.config.storage.s3.endpoint.url", "rsm.config.storage.azure.connection.string"),
    *("rsm.config.encryption.private.key.file", "ldap.java.naming.security.credentials"),
    *("sasl.login.callback.token", "metric.reporters.basic.auth", "confluent.telemetry.api.secret"),
    *("my.plugin.apikey", "client.quota.callback.url", "some.pin", "connection.uri", "secretless"),
]
URLS = ["sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url"]
HARMLESS = {
    (BROKER, "log.retention.ms"): "3600000",
    (BROKER, "listener.name.x.ssl.client.auth"): "none",
    (TOPIC, "retention.ms"): "7200000",
    (TOPIC, "remote.storage.enable"): "false",
}


def text(value: str) -> bytes:
    """A compact string."""
    encoded = value.encode()
    return bytes([len(encoded) + 1]) + encoded


def config_record(offset: int, resource_type: int, name: str, value: str) -> bytes:
    resource = "1" if resource_type == BROKER else "orders"
    body = struct.pack("b", resource_type) + text(resource) + text(name) + text(value) + b"\0"
    return record(None, bytes([1, 4, 0]) + body, offset)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log directory whose metadata log has secrets."""
    settings = dict(HARMLESS)
    settings |= {(BROKER, name): f"{SECRET}-{name}" for name in (*PASSWORDS, *UNKNOWN)}
    settings |= {(TOPIC, name): f"{SECRET}-topic" for name in ("plugin.x", "ssl.client.auth")}
    settings |= {(BROKER, name): f"https://user:{SECRET}@host/token" for name in URLS}
    records = [
        config_record(offset, *resource_and_name, value)
        for offset, (resource_and_name, value) in enumerate(settings.items())
    ]
    keys = b"".join(text(SECRET) for _ in range(3))
    scram = bytes([1, 11, 0]) + text("alice") + b"\1" + keys + struct.pack(">i", 4096) + b"\0"
    records.append(record(None, scram, len(records)))
    directory = tmp_path / "disk"
    (directory / "__cluster_metadata-0").mkdir(parents=True)
    log = directory / "__cluster_metadata-0" / ORDERS.name
    log.write_bytes(batch_of(b"".join(records), 0, len(records)))
    identity = "version=1\nnode.id=1\ncluster.id=aaaaaaaaaaaaaaaaaaaaaa\n"
    (directory / "meta.properties").write_text(identity)
    shutil.copytree(ORDERS.parent, directory / "orders-0")
    return directory


@pytest.mark.parametrize(
    "command",
    [
        *("state", "state --wide", "state --json", "state --format csv", "state --since-offset 0"),
        *("check", "check --json", "retention", "retention --json", "replicas", "replicas --json"),
        *("compaction", "report --to {dst}.html --data {dst}.json"),
    ],
)
def test_no_secret_is_shown(
    command: str, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfmt_cli.commands.report.command.vega_script", lambda: "")
    name, *options = command.format(dst=tmp_path / "page").split()
    path = disk / "__cluster_metadata-0" if "--since-offset" in options else disk
    result = kfmt(name, path, *options)
    written = "".join(page.read_text() for page in tmp_path.glob("page.*"))
    assert result.code in {0, 1, 2, 3}
    assert len(result.out + written) > 100, result.err
    assert SECRET not in result.out + result.err + written


def test_what_is_known_to_be_harmless_is_shown(disk: Path) -> None:
    rows = kfmt("state", disk, "--json").of("config")
    value_by_name = {row["name"]: row["value"] for row in rows}
    for (_, name), value in HARMLESS.items():
        assert value_by_name[name] == value
    for name in URLS:
        assert value_by_name[name] == "https://host/token"
    hidden = {row["name"] for row in rows if row.get("hidden")}
    assert hidden == {*PASSWORDS, *UNKNOWN, "plugin.x", "ssl.client.auth"}


def test_unknown_settings_are_shown_on_request_but_no_passwords(disk: Path) -> None:
    result = kfmt("state", disk, "--json", "--show-values")
    value_by_name = {row["name"]: row["value"] for row in result.of("config")}
    assert all(value_by_name[name] is None for name in PASSWORDS)
    assert all(value_by_name[name] == f"{SECRET}-{name}" for name in UNKNOWN)


def test_a_name_is_known_for_its_kind_of_resource() -> None:
    assert is_known_harmless("TOPIC", "retention.ms")
    assert not is_known_harmless("BROKER", "retention.ms")
    assert is_known_harmless("GROUP", "consumer.session.timeout.ms")
    assert is_known_harmless("CLIENT_METRICS", "interval.ms")
    assert is_known_harmless("BROKER", "zookeeper.connect")  # of 3.9
    assert is_known_harmless("BROKER", "cordoned.log.dirs")  # of 4.3
    assert not is_known_harmless("UNKNOWN", "retention.ms")
    assert is_password("listener.name.a.ssl.key.password")


def test_the_file_of_a_release_keeps_what_older_ones_define() -> None:
    from tools.release import format_settings

    known = {"broker": ["old.setting", "becomes.secret"], "passwords": ["old.secret"]}
    defined = {
        "broker": {"new.setting": {"type": "INT"}, "becomes.secret": {"type": "PASSWORD"}},
        "group": {"g": {"type": "LIST"}},
    }
    assert json.loads(format_settings(known, defined)) == {
        "broker": ["new.setting", "old.setting"],
        "group": ["g"],
        "passwords": ["becomes.secret", "old.secret"],
    }
