"""Payloads that need a schema: Avro, Protobuf, and a registry's framing of both and of JSON.

fastavro and protobuf (extra `schema`) read them. The framing is a zero byte, the schema's id in
four bytes, then the payload; for Protobuf, the indexes of the message precede the payload.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from kfmt_cli.core.layout.varint import VarintError, decode, unzigzag
from kfmt_cli.errors import UsageError
from kfmt_cli.topics.avro import avro_reader, reader_of
from kfmt_cli.topics.budget import FREE_VALUES, MOST_DEPTH, MOST_NAMES, PayloadBudget
from kfmt_cli.topics.payloads import Read, Registered, Schema, SchemaRegistry, Version, read_json

FRAME = 5
AVRO, PROTOBUF, JSON = ".avsc", ".desc", ".json"
_ANY = "google.protobuf.Any"
_EXTRA = "pip install 'kfmt-cli[schema]'"


def avro(schema: Schema) -> Read:
    """A reader of Avro by a schema file; raises UsageError."""
    if schema.file is None:
        raise UsageError("avro needs a schema: --value-schema FILE.avsc, or --key-schema")
    return avro_reader(schema.file)


def protobuf(schema: Schema) -> Read:
    """A reader of Protobuf by a file that protoc --descriptor_set_out writes; raises UsageError."""
    if schema.file is None or not schema.message:
        raise UsageError(
            "protobuf needs descriptors and a message: --value-schema FILE.desc:package.Message"
        )
    (make, _), message = _pool(schema.file), schema.message
    try:
        found = make(message)
    except KeyError:
        raise UsageError(f"{schema.file}: no message named {message}") from None
    except ValueError as error:
        raise UsageError(f"{schema.file}: {error}") from None
    size = schema.file.stat().st_size
    return lambda data: _message(found, data, size)


def confluent(schema: Schema) -> Read:
    """A reader of a schema registry's framing, with schemas from a folder (ID.avsc, ID.desc,
    ID.json) or from the registry's topic; raises UsageError."""
    folder, registry = schema.folder, schema.registry
    if folder is None and registry is None:
        raise UsageError(
            "confluent needs schemas: pass --schemas DIR, or keep the _schemas topic in the same "
            "log directory"
        )

    @cache
    def of_id(number: int) -> Read | str:
        """A reader for a schema, or the reason why there is none."""
        try:
            found = None
            if folder is not None:
                found = _of_folder(folder, number)
            if found is None and registry is not None:
                found = _of_registry(registry, number)
        except UsageError as error:
            return str(error)
        return found or f"no schema {number} in {folder or 'the topic _schemas'}"

    def read(data: bytes) -> Any:
        if len(data) < FRAME or data[0]:
            raise ValueError("does not start with a zero byte and a schema id")
        found = of_id(int.from_bytes(data[1:FRAME], "big"))
        if isinstance(found, str):
            raise ValueError(found)
        return found(data[FRAME:])

    return read


def _of_folder(folder: Path, number: int) -> Read | None:
    """A reader for a schema from its file, None without one; raises UsageError."""
    path = folder / f"{number}{AVRO}"
    if path.exists():
        return avro_reader(path, is_framed=True)
    path = path.with_suffix(PROTOBUF)
    if path.exists():
        return _indexed(path)
    # A schema of JSON defines valid values, not their encoding.
    return read_json if path.with_suffix(JSON).exists() else None


def _of_registry(registry: SchemaRegistry, number: int) -> Read | None:
    """A reader for a schema of a registry, None without it; raises UsageError."""
    found = registry.by_id.get(number)
    if found is None:
        return None
    if found.type == "JSON":
        return read_json
    if found.type != "AVRO":
        raise UsageError(
            f"schema {number} is {found.type}, which must be compiled first: pass --schemas DIR "
            f"with {number}{PROTOBUF}, made by protoc --descriptor_set_out"
        )
    needed: dict[Version, str] = {}
    _collect(registry, found, needed)
    return reader_of(f"schema {number}", found.text, list(needed.values()), is_framed=True)


def _collect(registry: SchemaRegistry, schema: Registered, needed: dict[Version, str]) -> None:
    """Collect the texts a schema refers to, each before those referring to it; raises
    UsageError."""
    waiting = [(reference, False) for reference in reversed(schema.references)]
    seen: set[Version] = set()
    while waiting:
        version, is_done = waiting.pop()
        of = registry.by_version.get(version)
        if of is None:
            raise UsageError(
                f"version {version[1]} of {version[0]}, which it references, is missing"
            )
        if is_done:
            needed.setdefault(version, of.text)
        elif version not in seen:
            seen.add(version)
            waiting.append((version, True))
            waiting += [(reference, False) for reference in reversed(of.references)]


def _pool(path: Path) -> tuple[Any, Any]:
    """A function that makes the class of a message in a descriptor file, and the files described;
    raises UsageError."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise UsageError(f"reading Protobuf needs protobuf: {_EXTRA}") from None
    from google.protobuf.message import DecodeError

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
    except (OSError, DecodeError) as error:
        raise UsageError(f"{path}: not a descriptor file: {error}") from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
    except Exception as error:  # the library may raise anything
        raise UsageError(f"{path}: its descriptors cannot be built: {error}") from error

    def make(name: str) -> Any:
        found = pool.FindMessageTypeByName(name)
        try:
            return message_factory.GetMessageClass(found)
        except RecursionError:
            raise ValueError(f"{name} has too many levels of nested messages") from None

    return make, files


def _indexed(path: Path) -> Read:
    """A reader of messages by indexes into a descriptor set's last file; raises UsageError."""
    make, files = _pool(path)
    if not files:
        raise UsageError(f"{path}: has no descriptors")
    file, size = files[-1], path.stat().st_size

    def read(data: bytes) -> Any:
        indexes, at = _indexes(data)
        types, name = file.message_type, file.package
        try:
            for index in indexes:
                if index < 0:
                    raise IndexError
                name = f"{name}.{types[index].name}".lstrip(".")
                types = types[index].nested_type
        except IndexError:
            raise ValueError(f"no message {indexes} in {path}") from None
        return _message(make(name), data[at:], size)

    return read


def _indexes(data: bytes) -> tuple[list[int], int]:
    try:
        count, at = decode(data, 0, len(data), 32)
        if not 0 <= unzigzag(count) <= MOST_DEPTH:
            raise ValueError(f"a message cannot have {unzigzag(count)} indexes")
        found = []
        for _ in range(unzigzag(count)):
            raw, at = decode(data, at, len(data), 32)
            found.append(unzigzag(raw))
    except VarintError as error:
        raise ValueError(str(error)) from error
    return found or [0], at


def _message(made: Any, data: bytes, size: int) -> Any:
    """A message as a dict; raises ValueError. size: of its descriptors in bytes."""
    from google.protobuf.json_format import MessageToDict

    budget = PayloadBudget(data)
    try:
        message = made.FromString(data)
        if len(data) > FREE_VALUES or len(data) * size > MOST_NAMES:
            _spend(budget, message, 0)
        return MessageToDict(message, preserving_proto_field_name=True)
    except Exception as error:  # the library may raise anything
        raise ValueError(str(error)) from error


def _spend(budget: PayloadBudget, message: Any, depth: int) -> None:
    """Count a message and what it contains, which takes far less memory before it is a dict; raises
    ValueError."""
    budget.check_depth(depth)
    if message.DESCRIPTOR.full_name == _ANY:
        budget.spend(len(message.value))  # the message in it may be made of as many values
    for field, value in message.ListFields():
        budget.repeat(field.full_name if field.is_extension else field.name)
        is_repeated = isinstance(field.default_value, list)
        count = len(value) if is_repeated else 1
        budget.spend(count)
        is_map = is_repeated and hasattr(value, "items")
        of = field.message_type.fields_by_name["value"] if is_map else field
        if of.message_type is not None:
            for item in value.values() if is_map else value if is_repeated else (value,):
                _spend(budget, item, depth + 1)
        elif of.enum_type is not None:
            budget.repeat(_longest_symbol(of.enum_type), count)


@cache
def _longest_symbol(enum: Any) -> str:
    found: str = max(enum.values_by_name, key=len)
    return found
