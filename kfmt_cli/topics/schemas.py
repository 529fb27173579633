"""Payloads that need a schema: Avro, Protobuf, and a registry's framing of Avro, Protobuf and JSON.

fastavro and protobuf (extra `schema`) decode them. The framing is a zero byte, the schema's id in
four bytes, then the payload; for Protobuf, the indexes of the message precede the payload.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kfmt_cli.core.layout.varint import VarintError, decode_uvarint, zigzag_decode
from kfmt_cli.core.regular_files import read_regular_file
from kfmt_cli.errors import UsageError
from kfmt_cli.topics.avro import avro_file_reader, avro_schema_reader
from kfmt_cli.topics.payload_budget import (
    MAX_DEPTH,
    MAX_NAME_CHARACTERS,
    MIN_VALUE_BUDGET,
    PayloadBudget,
)
from kfmt_cli.topics.payloads import (
    PayloadReader,
    RegisteredSchema,
    SchemaRegistry,
    SchemaSource,
    SubjectVersion,
    read_json,
)

MAX_CACHED_SCHEMAS = 4096  # values may name any number of schemas
FRAME_HEADER_BYTES = 5
AVRO_SUFFIX, PROTOBUF_SUFFIX, JSON_SUFFIX = ".avsc", ".desc", ".json"
_SCHEMA_ID_REGEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ANY_MESSAGE_NAME = "google.protobuf.Any"
_INSTALL_HINT = "pip install 'kfmt-cli[schema]'"


def create_avro_reader(schema_source: SchemaSource) -> PayloadReader:
    """A reader of Avro values by a schema file; raises UsageError."""
    if schema_source.file is None:
        raise UsageError("avro needs a schema: --value-schema FILE.avsc, or --key-schema")
    return avro_file_reader(schema_source.file)


def create_protobuf_reader(schema_source: SchemaSource) -> PayloadReader:
    """A reader of Protobuf messages by a file that protoc --descriptor_set_out writes; raises
    UsageError."""
    if schema_source.file is None or not schema_source.message_name:
        raise UsageError(
            "protobuf needs descriptors and a message: --value-schema FILE.desc:package.Message"
        )
    (find_message_class, _), message_name = (
        _load_message_descriptors(schema_source.file),
        schema_source.message_name,
    )
    try:
        message_class = find_message_class(message_name)
    except KeyError:
        raise UsageError(f"{schema_source.file}: no message named {message_name}") from None
    except ValueError as error:
        raise UsageError(f"{schema_source.file}: {error}") from None
    descriptor_bytes = schema_source.file.stat().st_size
    return lambda data: _decode_protobuf_message(message_class, data, descriptor_bytes)


def create_confluent_reader(schema_source: SchemaSource) -> PayloadReader:
    """A reader of a schema registry's framing, with schemas from a directory (ID.avsc, ID.desc,
    ID.json) or from the registry's topic; raises UsageError."""
    directory, registry = schema_source.directory, schema_source.registry
    if directory is None and registry is None:
        raise UsageError(
            "confluent needs schemas: pass --schemas DIR, or keep the _schemas topic in the same "
            "log directory"
        )

    path_by_id = {} if directory is None else _find_schema_paths(directory)

    @lru_cache(MAX_CACHED_SCHEMAS)
    def create_reader_or_error(schema_id: int) -> PayloadReader | str:
        """A reader for a schema that is there, or the reason why it cannot be used."""
        try:
            if registry is None or schema_id in path_by_id:
                return _create_file_reader(path_by_id[schema_id])
            return _create_registry_reader(registry, schema_id)
        except UsageError as error:
            return str(error)

    def read_framed_value(data: bytes) -> Any:
        if len(data) < FRAME_HEADER_BYTES or data[0]:
            raise ValueError("does not start with a zero byte and a schema id")
        schema_id = int.from_bytes(data[1:FRAME_HEADER_BYTES], "big")
        # Values that are not framed have any number of ids: they are not kept.
        if schema_id not in path_by_id and (
            registry is None or schema_id not in registry.schema_by_id
        ):
            raise ValueError(f"no schema {schema_id} in {directory or 'the topic _schemas'}")
        reader_or_error = create_reader_or_error(schema_id)
        if isinstance(reader_or_error, str):
            raise ValueError(reader_or_error)
        return reader_or_error(data[FRAME_HEADER_BYTES:])

    return read_framed_value


def _find_schema_paths(directory: Path) -> dict[int, Path]:
    """The files of schemas by id: of several, Avro before Protobuf before JSON."""
    path_by_id: dict[int, Path] = {}
    schema_files = [path for path in directory.iterdir() if _SCHEMA_ID_REGEX.fullmatch(path.stem)]
    for suffix in (JSON_SUFFIX, PROTOBUF_SUFFIX, AVRO_SUFFIX):
        path_by_id |= {int(path.stem): path for path in schema_files if path.suffix == suffix}
    return path_by_id


def _create_file_reader(path: Path) -> PayloadReader:
    """A reader for a schema from its file; raises UsageError."""
    if path.suffix == AVRO_SUFFIX:
        return avro_file_reader(path, is_framed=True)
    if path.suffix == PROTOBUF_SUFFIX:
        return _create_indexed_reader(path)
    return read_json  # a schema of JSON defines valid values, not their encoding


def _create_registry_reader(registry: SchemaRegistry, schema_id: int) -> PayloadReader:
    """A reader for a schema of a registry; raises UsageError."""
    registered_schema = registry.schema_by_id[schema_id]
    if registered_schema.type == "JSON":
        return read_json
    if registered_schema.type != "AVRO":
        raise UsageError(
            f"schema {schema_id} is {registered_schema.type}, which must be compiled first: "
            "pass --schemas "
            f"DIR with {schema_id}{PROTOBUF_SUFFIX}, made by protoc --descriptor_set_out"
        )
    reference_texts: dict[SubjectVersion, str] = {}
    _add_reference_texts(registry, registered_schema, reference_texts)
    return avro_schema_reader(
        f"schema {schema_id}",
        registered_schema.text,
        list(reference_texts.values()),
        is_framed=True,
    )


def _add_reference_texts(
    registry: SchemaRegistry, schema: RegisteredSchema, reference_texts: dict[SubjectVersion, str]
) -> None:
    """Add the texts of the schemas that a schema refers to, directly or not, each before the ones
    that refer to it; raises UsageError."""
    pending_references = [
        (referenced_version, False) for referenced_version in reversed(schema.references)
    ]
    visited: set[SubjectVersion] = set()
    while pending_references:
        subject_version, is_expanded = pending_references.pop()
        reference_schema = registry.schema_by_subject_version.get(subject_version)
        if reference_schema is None:
            raise UsageError(
                f"version {subject_version[1]} of {subject_version[0]}, which it references, "
                "is missing"
            )
        if is_expanded:
            reference_texts.setdefault(subject_version, reference_schema.text)
        elif subject_version not in visited:
            visited.add(subject_version)
            pending_references.append((subject_version, True))
            pending_references += [
                (referenced_version, False)
                for referenced_version in reversed(reference_schema.references)
            ]


def _load_message_descriptors(descriptor_path: Path) -> tuple[Any, Any]:
    """A function that returns the class of a message in a descriptor file, and the files described;
    raises UsageError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise UsageError(f"reading Protobuf needs protobuf: {_INSTALL_HINT}") from None
    from google.protobuf.message import DecodeError

    try:
        descriptor_bytes = read_regular_file(descriptor_path)
        file_descriptors = descriptor_pb2.FileDescriptorSet.FromString(descriptor_bytes).file
    except (OSError, DecodeError) as error:
        raise UsageError(f"{descriptor_path}: not a descriptor file: {error}") from error
    loaded_pool = descriptor_pool.DescriptorPool()
    try:
        for file_descriptor in file_descriptors:
            loaded_pool.Add(file_descriptor)
    except Exception as error:  # the library may raise anything
        raise UsageError(f"{descriptor_path}: its descriptors cannot be built: {error}") from error

    def find_message_class(message_name: str) -> Any:
        message_descriptor = loaded_pool.FindMessageTypeByName(message_name)
        try:
            return message_factory.GetMessageClass(message_descriptor)
        except RecursionError:
            raise ValueError(f"{message_name} has too many levels of nested messages") from None

    return find_message_class, file_descriptors


def _create_indexed_reader(descriptor_path: Path) -> PayloadReader:
    """A reader of payloads that begin with message indexes into a descriptor set's last file;
    raises UsageError."""
    find_message_class, file_descriptors = _load_message_descriptors(descriptor_path)
    if not file_descriptors:
        raise UsageError(f"{descriptor_path}: has no descriptors")
    file_descriptor, descriptor_bytes = file_descriptors[-1], descriptor_path.stat().st_size

    def read_indexed_message(data: bytes) -> Any:
        message_indexes, body_start = _read_message_indexes(data)
        message_types, message_name = file_descriptor.message_type, file_descriptor.package
        try:
            for message_index in message_indexes:
                if message_index < 0:
                    raise IndexError
                message_name = f"{message_name}.{message_types[message_index].name}".lstrip(".")
                message_types = message_types[message_index].nested_type
        except IndexError:
            raise ValueError(f"no message {message_indexes} in {descriptor_path}") from None
        return _decode_protobuf_message(
            find_message_class(message_name), data[body_start:], descriptor_bytes
        )

    return read_indexed_message


def _read_message_indexes(data: bytes) -> tuple[list[int], int]:
    try:
        encoded_count, position = decode_uvarint(data, 0, len(data), 32)
        if not 0 <= zigzag_decode(encoded_count) <= MAX_DEPTH:
            raise ValueError(f"a message cannot have {zigzag_decode(encoded_count)} indexes")
        message_indexes = []
        for _ in range(zigzag_decode(encoded_count)):
            encoded_index, position = decode_uvarint(data, position, len(data), 32)
            message_indexes.append(zigzag_decode(encoded_index))
    except VarintError as error:
        raise ValueError(str(error)) from error
    return message_indexes or [0], position


def _decode_protobuf_message(message_class: Any, data: bytes, descriptor_bytes: int) -> Any:
    """Decode a message to a dict; raises ValueError. descriptor_bytes: the size of the descriptors,
    an upper bound of the length of each name in them."""
    from google.protobuf.json_format import MessageToDict

    budget = PayloadBudget(data)
    try:
        protobuf_message = message_class.FromString(data)
        if len(data) > MIN_VALUE_BUDGET or len(data) * descriptor_bytes > MAX_NAME_CHARACTERS:
            _spend_message_budget(budget, protobuf_message, 0)
        return MessageToDict(protobuf_message, preserving_proto_field_name=True)
    except Exception as error:  # the library may raise anything
        raise ValueError(str(error)) from error


def _spend_message_budget(budget: PayloadBudget, protobuf_message: Any, depth: int) -> None:
    """Deduct a message and its content from the budget; raises ValueError.

    Before conversion to a dict, it takes far less memory.
    """
    budget.require_valid_depth(depth)
    if protobuf_message.DESCRIPTOR.full_name == _ANY_MESSAGE_NAME:
        budget.spend_values(
            len(protobuf_message.value)
        )  # the message in it may have as many values
    for field_descriptor, field_value in protobuf_message.ListFields():
        budget.spend_name(
            field_descriptor.full_name if field_descriptor.is_extension else field_descriptor.name
        )
        is_repeated = isinstance(field_descriptor.default_value, list)
        n_values = len(field_value) if is_repeated else 1
        budget.spend_values(n_values)
        is_map = is_repeated and hasattr(field_value, "items")
        value_field = (
            field_descriptor.message_type.fields_by_name["value"] if is_map else field_descriptor
        )
        if value_field.message_type is not None:
            for nested_message in (
                field_value.values() if is_map else field_value if is_repeated else (field_value,)
            ):
                _spend_message_budget(budget, nested_message, depth + 1)
        elif value_field.enum_type is not None:
            budget.spend_name(_longest_enum_symbol(value_field.enum_type), n_values)


@cache
def _longest_enum_symbol(enum_descriptor: Any) -> str:
    symbol: str = max(enum_descriptor.values_by_name, key=len)
    return symbol
