"""A release of Kafka: what changed since the one before, and kfmt's data of it.

    python -m tools.release VERSION --since LAST [--write] [--exercise]

Fetches the release's jars, asks its classes what they define (tools/Definitions.java) and prints
what differs from the data in the repository: messages, fields, requests, feature levels, settings,
which of the messages' words are missing, and which of the classes that kfmt's code cites have
other methods than in the release before. --write replaces the data. --exercise starts brokers of
the release: one under a load that writes internal records, which are compared with what its own
tools say, and one for each kept directory and damage. CONTRIBUTING.md lists the steps that follow.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kfmt_cli.broker.version import NEWEST_VERSION
from kfmt_cli.formats import message_descriptions
from kfmt_cli.formats.api_keys import APIS
from kfmt_cli.formats.settings import PASSWORDS
from tools import kafka
from tools.definitions import (
    Json,
    format_apis,
    format_by_line,
    merged_messages,
    read_definitions,
    reference_messages,
)

FORMATS, REFERENCE = kafka.ROOT / "kfmt_cli/formats", kafka.ROOT / "tests/reference"
MESSAGES, API_KEYS, SETTINGS = "kafka_messages", "kafka_api_keys", "kafka_settings"
_CITED_CLASS = re.compile(r"`(?:org\.apache\.)?kafka\.(?:[a-z]\w*\.)+([A-Z]\w*)")
_CLASS_LINE = re.compile(r"^(?:[a-z]+ )*(?:class|interface|enum) ([\w.$]+)")
# What changes with any other change: packages, numbers of constants and of instructions, spaces.
_PACKAGES = re.compile(r"(?:org[./]apache[./])?kafka[./](?:[a-z]\w*[./])*")
_NUMBERS = re.compile(r"#\d+(?:, +\d+)?|^ *\d+: |(?<=[a-z])  +\d+$|  +")


def release_name(version: str) -> str:
    """The name of a release in files: 4.4 for 4.4.0."""
    return ".".join(version.split(".")[:2])


def data_file(directory: Path, name: str) -> Path:
    """The file of this name, whatever release it is of."""
    (file,) = directory.glob(f"{name}_*.json")
    return file


def contents(version: str, definitions: Json) -> dict[Path, str]:
    """The files of a release, by their paths."""
    reference = reference_messages(definitions["messages"])
    name = release_name(version)
    merged = merged_messages(definitions["messages"], reference)
    return {
        FORMATS / f"{MESSAGES}_{name}.json": format_by_line(merged),
        REFERENCE / f"{MESSAGES}_{name}.json": format_by_line(reference),
        REFERENCE / f"{API_KEYS}_{name}.json": format_apis(definitions["apis"]),
        FORMATS / f"{SETTINGS}_{name}.json": format_settings(
            json.loads(data_file(FORMATS, SETTINGS).read_text()), definitions["settings"]
        ),
    }


def format_settings(known: Mapping[str, list[str]], settings: Json) -> str:
    """The file of settings: of a release, and those known so far, as logs outlive releases."""
    names_by_kind = {kind: set(names) for kind, names in known.items()}
    passwords = names_by_kind.setdefault(PASSWORDS, set())
    for kind, setting_by_name in settings.items():
        for name, setting in setting_by_name.items():
            is_secret = setting["type"] == "PASSWORD"
            (passwords if is_secret else names_by_kind.setdefault(kind, set())).add(name)
    content = {
        kind: sorted(names if kind == PASSWORDS else names - passwords)
        for kind, names in sorted(names_by_kind.items())
    }
    return json.dumps(content, indent=0) + "\n"


def flat_fields(fields: list[Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """The fields of a message and of the structures in it, by path."""
    for field in fields:
        path = prefix + field["name"]
        yield path, {key: value for key, value in field.items() if key not in ("name", "fields")}
        yield from flat_fields(field.get("fields", []), f"{path}.")


def message_changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    """What has changed in the messages of topics and files."""
    for name in (*old, *(name for name in new if name not in old)):
        if name not in new:
            yield f"{name}: gone"
        elif name not in old:
            yield f"{name}: new, {new[name]['where']} {new[name]['id']}"
        elif old[name] != new[name]:
            if old[name]["versions"] != new[name]["versions"]:
                yield f"{name}: versions {old[name]['versions']} → {new[name]['versions']}"
            old_fields = dict(flat_fields(old[name]["fields"]))
            new_fields = dict(flat_fields(new[name]["fields"]))
            for path in {**old_fields, **new_fields}:
                before, after = old_fields.get(path), new_fields.get(path)
                if before != after:
                    yield f"{name}.{path}: {before or 'new'} → {after or 'gone'}"


def missing_words(messages: Mapping[str, Json]) -> Iterator[str]:
    """The messages and fields without a description."""
    fields = message_descriptions.FIELD_DESCRIPTIONS
    for name, message in messages.items():
        if name not in message_descriptions.MESSAGE_DESCRIPTIONS:
            yield name
        for path, _ in flat_fields(message["fields"]):
            parts = [name, *path.split(".")]
            if not any(".".join(parts[start:]) in fields for start in range(len(parts))):
                yield f"{name}.{path}"


def api_changes(apis: list[Json]) -> Iterator[str]:
    """What `formats/api_keys.py` does not say of the requests."""
    known = {api.key: api for api in APIS}
    for api in apis:
        versions = [int(version) for version in api["headers"]]
        spec = known.get(api["key"])
        if not versions:
            if spec is not None and not spec.is_removed:
                yield f"request {api['key']} {api['name']}: removed"
        elif spec is None:
            yield f"request {api['key']} {api['name']}: new, versions {versions[0]}–{versions[-1]}"
        elif spec.last_version != versions[-1]:
            yield f"request {api['key']} {api['name']}: {spec.last_version} → {versions[-1]}"


def feature_changes(definitions: Json) -> Iterator[str]:
    """The levels of metadata.version that `broker/version.py` does not know, and all others."""
    for name, level in definitions["metadata_versions"]:
        if level > NEWEST_VERSION.last_feature_level:
            yield f"metadata.version {name} = {level}"
    for feature, levels in definitions["features"].items():
        yield f"{feature} {levels[0][1]}–{levels[-1][1]}"


def setting_changes(old: Json, new: Json) -> Iterator[str]:
    """What has changed in settings and their defaults from one release to another."""
    for scope in new:
        for name in sorted({*old[scope], *new[scope]}):
            before, after = old[scope].get(name), new[scope].get(name)
            if before != after:
                yield f"{scope} {name}: {before or 'new'} → {after or 'gone'}"


def cited_classes() -> dict[str, list[str]]:
    """Kafka's classes that kfmt's sources cite, by name without package, with the files."""
    files_by_class: dict[str, list[str]] = defaultdict(list)
    for path in sorted((kafka.ROOT / "kfmt_cli").rglob("*.py")):
        for name in sorted(set(_CITED_CLASS.findall(path.read_text()))):
            files_by_class[name].append(str(path.relative_to(kafka.ROOT)))
    return files_by_class


def disassembled(version: str, names: Iterable[str]) -> dict[str, str]:
    """The instructions of classes and of the classes in them, without numbers that any change
    moves."""
    packages = kafka.packages_by_class(version)
    outer = {name: packages[name][0] for name in names if len(packages.get(name, [])) == 1}
    classes = [
        f"{package}.{inner}"
        for name, package in outer.items()
        for inner in sorted(packages)
        if inner == name or inner.startswith(f"{name}$")
    ]
    command = ["java", "-m", "jdk.jdeps/com.sun.tools.javap.Main", "-cp", _jar_path(version)]
    output = subprocess.run(
        [*command, "-p", "-c", *classes], check=True, capture_output=True, text=True
    ).stdout
    text_by_class: dict[str, list[str]] = defaultdict(list)
    name = ""
    for line in output.splitlines():
        if line.startswith("Compiled from"):
            continue
        if match := _CLASS_LINE.match(line):
            name = match[1].rpartition(".")[2].partition("$")[0]
        text_by_class[name].append(_NUMBERS.sub(" ", _PACKAGES.sub("", line)))
    return {name: "\n".join(lines) for name, lines in text_by_class.items()}


def _jar_path(version: str) -> str:
    return ":".join(map(str, kafka.jars(version).glob("*.jar")))


def class_changes(since: str, version: str) -> Iterator[str]:
    """The cited classes whose methods differ between two releases, or that are gone."""
    files_by_class = cited_classes()
    before, after = (disassembled(release, files_by_class) for release in (since, version))
    for name, files in files_by_class.items():
        if before.get(name) != after.get(name):
            change = "changed" if name in after else "gone"
            yield f"{name}: {change if name in before else 'new'}, cited in {', '.join(files)}"


def main() -> None:
    """Print the changes; with --write, replace the data."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version", help="such as 4.4.0")
    parser.add_argument("--since", required=True, help="the release before, such as 4.2.0")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--exercise", action="store_true")
    options = parser.parse_args()
    definitions = read_definitions(options.version)
    before: dict[str, Any] = json.loads(data_file(FORMATS, MESSAGES).read_text())
    messages = merged_messages(definitions["messages"], reference_messages(definitions["messages"]))
    since = read_definitions(options.since)
    for title, lines in (
        ("messages", message_changes(before, messages)),
        ("without words (formats/message_descriptions.py)", missing_words(messages)),
        ("requests (formats/api_keys.py)", api_changes(definitions["apis"])),
        ("features (broker/version.py)", feature_changes(definitions)),
        (f"cited classes since {options.since}", class_changes(options.since, options.version)),
        (
            f"settings since {options.since}",
            setting_changes(since["settings"], definitions["settings"]),
        ),
    ):
        print(f"== {title}")
        for line in lines:
            print(line)
    if options.write:
        new_contents = contents(options.version, definitions)
        for name in (
            *(FORMATS / MESSAGES, FORMATS / SETTINGS),
            *(REFERENCE / MESSAGES, REFERENCE / API_KEYS),
        ):
            data_file(name.parent, name.name).unlink()
        for path, content in new_contents.items():
            path.write_text(content)
    if options.exercise:
        subprocess.run(
            [kafka.ROOT / ".ci/long", "-m", "brokers", "-k", options.version], check=True
        )


if __name__ == "__main__":
    main()
