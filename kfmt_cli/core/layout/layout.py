"""Layouts: each structure of the disk format, defined once as a table of fields.

The table yields the slow reader, which reports where and why reading fails, the bulk kernel's
program, the writer, the NumPy dtype, and the names in outputs and docs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.field_dict import FieldDict
from kfmt_cli.core.layout.location import BufferOrigin, ByteLocation, DecodeError
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.wire_types import (
    ArrayWireType,
    Buffer,
    BytesWireType,
    IntegerWireType,
    KernelType,
    LengthType,
    Value,
    VarintWireType,
    WireError,
    WireType,
    format_remaining_bytes,
)
from kfmt_cli.core.native import encode, kernel

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
_NO_COLUMNS, _NO_STATISTICS = np.empty(0, np.int64), np.empty((0, 0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """Rows that the kernel decoded from n regions, one int64 column per field."""

    index_by_name: Mapping[str, int]
    """Each field's column in `rows`. A bytes field has two columns: its start, and its length under
    `<name>_size`. An array has two: its count, and its first row in `children` under
    `<name>_first`."""
    rows: IntArray
    """(columns, rows)."""
    children: IntArray
    """(columns, array elements): the elements of all rows' arrays."""
    regions: IntArray
    """(5, n): start, end, end of the region's rows (exclusive), one of `kernel.STATUSES`, byte
    after the last complete row."""

    def __getitem__(self, name: str) -> IntArray:
        column: IntArray = self.rows[self.index_by_name[name]]
        return column

    def __getattr__(self, name: str) -> IntArray:
        """A field's column."""
        return self[name]


@dataclass(frozen=True)
class Layout:
    """A structure: its fields, in order."""

    name: str
    doc: str
    source: str
    """The Kafka class or package that defines it."""
    fields: tuple[Field, ...]
    bulk: bool = False
    """Whether the kernel decodes it; `__post_init__` raises TypeError for a field that it cannot
    decode."""
    versions: tuple[int, int] | None = None
    """The first and the last version of a message."""
    flexible_since: int | None = None
    """The first version with compact lengths and tagged fields."""
    tagged_fields: TaggedFields | None = None
    """The tagged fields, in the Layout of a flexible version, which `versions.py` creates."""
    is_text: bool = False
    """Whether it is a text file of names and values, without positions and sizes."""

    def __post_init__(self) -> None:
        if self.bulk:
            require_bulk_support(self)

    @cached_property
    def size(self) -> int | None:
        """Bytes per row; None if they vary."""
        sizes = [field.type.size for field in self.fields]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @cached_property
    def min_size(self) -> int:
        """The minimum of bytes per row."""
        return sum(_min_size(field.type) for field in self.fields)

    def field_start(self, field_name: str) -> int:
        """The position of a field in the row; all fields before it must have a fixed size."""
        position = 0
        for field in self.fields:
            if field.name == field_name:
                return position
            assert field.type.size is not None, f"{field.name} has no fixed size"
            position += field.type.size
        raise KeyError(field_name)

    def number_reader(self, field_name: str) -> Callable[[bytes], int]:
        """A function that reads a fixed-size field from a row's bytes; it raises `struct.error` if
        they end too early. All fields before it must have a fixed size."""
        wire_type = self.field(field_name).type
        assert isinstance(wire_type, IntegerWireType)
        struct_code = {1: "b", 2: "h", 4: "i", 8: "q"}[wire_type.size]
        unpack_from = struct.Struct(
            f">{struct_code if wire_type.signed else struct_code.upper()}"
        ).unpack_from
        field_position = self.field_start(field_name)

        def read_number(row_bytes: bytes) -> int:
            return int(unpack_from(row_bytes, field_position)[0])

        return read_number

    def layout_before_field(self, field_name: str) -> Layout:
        """A Layout of the fields before `field_name`, none of which is a frame size."""
        field_names = [field.name for field in self.fields]
        leading_fields = self.fields[: field_names.index(field_name)]
        fields = tuple(replace(field, is_frame_size=False) for field in leading_fields)
        return Layout(f"{self.name} up to {field_name}", self.doc, self.source, fields)

    def field(self, field_name: str) -> Field:
        """The field with this name; raises StopIteration."""
        return next(field for field in self.fields if field.name == field_name)

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The row as a NumPy dtype; every field must be an integer of fixed size."""
        names_and_types = ((field.name, field.type) for field in self.fields)
        return np.dtype(
            [
                (field_name, wire_type.dtype)
                for field_name, wire_type in names_and_types
                if isinstance(wire_type, IntegerWireType)
            ]
        )

    # The slow reader.

    def read_row(
        self,
        data: Buffer,
        position: int,
        end: int,
        origin: BufferOrigin,
        structure_names: tuple[str, ...] = (),
    ) -> tuple[FieldDict, int]:
        """Read the row at byte `position` of a buffer, up to byte `end` at most.

        Returns its values by field name and the position after it; raises DecodeError. origin: the
        source of the buffer, for the error. structure_names: the names of the enclosing structures.
        """
        try:
            return self.read_values(data, position, end)
        except WireError as error:
            location = ByteLocation(origin, error.position, (*structure_names, *error.field_path))
            raise DecodeError(str(error), location, error.status) from None

    def read_values(self, data: Buffer, position: int, end: int) -> tuple[FieldDict, int]:
        """As `read_row`, but raises WireError, which does not name the file."""
        value_by_name = FieldDict()
        frame_field_and_size: tuple[Field, int, int] | None = None
        for field in self.fields:
            try:
                field_value, next_position = field.type.read(data, position, end)
                if field.is_frame_size:
                    assert isinstance(field_value, int)
                    _require_frame_bytes(field_value, position, end - next_position)
                    end = next_position + field_value
                    frame_field_and_size = field, position, field_value
            except WireError as error:
                raise error.prepend_field(field.name) from None
            value_by_name[field.name] = field_value
            position = next_position
        if self.tagged_fields is not None:
            tagged_values, position = self.tagged_fields.read(data, position, end)
            value_by_name.update(tagged_values)
        if frame_field_and_size and position != end:
            field, frame_start, field_value = frame_field_and_size
            raise WireError(
                f"{field_value} bytes declared, {field_value - (end - position)} used",
                frame_start,
                "FRAME_NOT_FILLED",
            ).prepend_field(field.name)
        return value_by_name, position

    # The writer.

    def encode_row(self, value_by_name: Mapping[str, Value]) -> bytes:
        """The exact inverse of `read_row`, except that the value of a frame size is computed."""
        encoded = (
            b"" if self.tagged_fields is None else self.tagged_fields.encode_fields(value_by_name)
        )
        for field in reversed(self.fields):
            field_value = len(encoded) if field.is_frame_size else value_by_name[field.name]
            encoded = field.type.encode(field_value) + encoded
        return encoded

    # The bulk reader.

    @cached_property
    def index_by_name(self) -> dict[str, int]:
        """The column in `DecodedColumns.rows` of each field; column 0, `at`, is the row's start."""
        return {"at": 0} | _column_index_by_name(self.fields, 1)

    @cached_property
    def n_columns(self) -> int:
        """The number of columns in `DecodedColumns.rows`."""
        return 1 + sum(_require_kernel_type(field).n_columns for field in self.fields)

    @cached_property
    def child_layout(self) -> Layout | None:
        """The Layout of the array field's elements; None without an array."""
        for field in self.fields:
            if isinstance(field.type, ArrayWireType):
                return field.type.row_layout
        return None

    @cached_property
    def child_index_by_name(self) -> dict[str, int]:
        """The column in `DecodedColumns.children` of each field of `child_layout`."""
        return (
            {} if self.child_layout is None else _column_index_by_name(self.child_layout.fields, 0)
        )

    @cached_property
    def program(self) -> IntArray:
        """The kernel's instructions, flat: operation, column and argument of each."""
        instructions: list[int] = []
        for field in self.fields:
            operation, operation_argument = _require_kernel_type(field).instruction
            if field.is_frame_size:
                is_varint = isinstance(field.type, VarintWireType)
                operation = kernel.OPS["ZIGZAG_FRAME" if is_varint else "FRAME"]
            instructions += operation, self.index_by_name[field.name], operation_argument
            if isinstance(field.type, ArrayWireType):
                for child_field in field.type.row_layout.fields:
                    operation, operation_argument = _require_kernel_type(child_field).instruction
                    instructions += (
                        operation,
                        self.child_index_by_name[child_field.name],
                        operation_argument,
                    )
        return np.array(instructions, np.int64)

    def decode_columns(
        self,
        data: Buffer,
        starts: IntArray,
        ends: IntArray,
        expected_rows: int,
        n_extra_columns: int = 0,
        max_rows: int = 1 << 40,
    ) -> DecodedColumns:
        """Decode rows from each region, up to its end or its first error.

        Stored counts are not trusted: memory is allocated for at most as many rows as the bytes can
        contain, and at most `max_rows` rows and as many array elements. Unfinished regions get the
        status FULL. expected_rows: about how many rows all regions have. n_extra_columns: columns
        after those of the fields, which the caller fills.
        """
        regions = _create_regions(starts, ends)
        max_row_capacity = min(int((ends - starts).sum()) // self.min_size + len(starts), max_rows)
        rows, children = self._run_kernel(
            data,
            regions,
            (min(expected_rows, max_row_capacity), max_row_capacity),
            max_rows,
            n_extra_columns,
        )
        return DecodedColumns(self.index_by_name, rows, children, regions)

    def compute_statistics(
        self,
        data: Buffer,
        starts: IntArray,
        ends: IntArray,
        column_names: Sequence[str],
        max_array_elements: int,
    ) -> tuple[IntArray, IntArray]:
        """Decode rows as `decode_columns` does, but return only statistics of some fields.

        Returns an array (columns, `kernel.STATISTICS`, n) and `DecodedColumns.regions`.
        max_array_elements: the maximum of array elements per row.
        """
        regions = _create_regions(starts, ends)
        statistics = np.zeros((len(column_names), len(kernel.STATISTICS), len(starts)), np.int64)
        column_indexes = np.array([self.index_by_name[name] for name in column_names])
        self._run_kernel(
            data,
            regions,
            (1, 1),
            max_array_elements,
            statistic_columns=column_indexes,
            statistics=statistics,
        )
        return statistics, regions

    def _run_kernel(
        self,
        data: Buffer,
        regions: IntArray,
        initial_and_max_rows: tuple[int, int],
        max_array_elements: int,
        n_extra_columns: int = 0,
        statistic_columns: IntArray = _NO_COLUMNS,
        statistics: IntArray = _NO_STATISTICS,
    ) -> tuple[IntArray, IntArray]:
        """Run the kernel; returns the rows and array elements. initial_and_max_rows: the initial
        and the maximum number of rows to allocate."""
        row_capacity, max_row_capacity = initial_and_max_rows
        max_array_elements = (
            1 if self.child_layout is None else min(len(data) + 1, max_array_elements)
        )
        element_capacity = min(1024, max_array_elements)
        while True:
            rows = np.empty((self.n_columns + n_extra_columns, row_capacity), np.int64)
            children = np.empty((max(len(self.child_index_by_name), 1), element_capacity), np.int64)
            n_rows = kernel.decode(
                data, regions, self.program, rows, children, statistic_columns, statistics
            )
            if (
                n_rows < 0
                and row_capacity == max_row_capacity
                and element_capacity == max_array_elements
            ):
                n_rows = int(regions[2, -1])
            if n_rows >= 0:
                return np.ascontiguousarray(rows[:, :n_rows]), children
            row_capacity = min(max(2 * row_capacity, 64), max_row_capacity)
            element_capacity = min(element_capacity * 4, max_array_elements)


def encode_rows(
    program: IntArray,
    data: bytes,
    rows: IntArray,
    children: IntArray,
    gap_bytes: int = 0,
    gap_bytes_before_row: IntArray | int = 0,
) -> tuple[bytearray, IntArray]:
    """Encode consecutive rows, the inverse of `Layout.decode_columns`.

    Returns the bytes, and where each row ends, not counting the gaps. data: the buffer that bytes
    columns refer to. gap_bytes_before_row: the bytes of all gaps before each row. gap_bytes: the
    bytes of all gaps.
    """
    body_sizes, row_sizes = np.empty((2, rows.shape[1]), np.int64)
    encode.measure_rows(program, rows, children, body_sizes, row_sizes)
    row_ends = np.cumsum(row_sizes)
    encoded = bytearray((int(row_ends[-1]) if len(row_ends) else 0) + gap_bytes)
    encode.encode(
        data,
        program,
        rows,
        children,
        body_sizes,
        row_ends - row_sizes + gap_bytes_before_row,
        encoded,
    )
    return encoded, row_ends


def _create_regions(starts: IntArray, ends: IntArray) -> IntArray:
    """`DecodedColumns.regions` for the kernel to fill, with starts and ends."""
    regions = np.empty((5, len(starts)), np.int64)
    regions[0] = starts
    regions[1] = ends
    return regions


def _min_size(wire_type: WireType | LengthType) -> int:
    if wire_type.size is not None:
        return wire_type.size
    if isinstance(wire_type, BytesWireType):
        return _min_size(wire_type.length_type)
    return 1


def _require_kernel_type(field: Field) -> KernelType:
    """A field's type, which the kernel must support; raises TypeError."""
    if not isinstance(field.type, KernelType):
        raise TypeError(f"{type(field.type).__name__} is not a type that the bulk kernel supports")
    return field.type


def require_bulk_support(layout: Layout) -> None:
    """Raise TypeError if a Layout has a field that the kernel does not support."""
    n_arrays = 0
    for field in layout.fields:
        try:
            _require_kernel_type(field).instruction  # noqa: B018 (raises)
        except TypeError as error:
            raise TypeError(f"{layout.name}.{field.name}: {error}") from None
        if isinstance(field.type, ArrayWireType):
            n_arrays += 1
            element_types = [row_field.type for row_field in field.type.row_layout.fields]
            if not all(
                isinstance(element_type, BytesWireType)
                and isinstance(element_type.length_type, VarintWireType)
                for element_type in element_types
            ):
                raise TypeError(
                    f"{layout.name}.{field.name}: the kernel supports only arrays of bytes"
                )
    if n_arrays > 1:
        raise TypeError(f"{layout.name}: the kernel supports one array per row")


def _require_frame_bytes(frame_length: int, position: int, available_bytes: int) -> None:
    if frame_length < 0:
        raise WireError(f"negative length {frame_length}", position, "LENGTH_NEGATIVE")
    if frame_length > available_bytes:
        raise WireError(
            f"length {frame_length}, but {format_remaining_bytes(available_bytes)}",
            position,
            "LENGTH_TOO_BIG",
        )


def _column_index_by_name(fields: tuple[Field, ...], next_index: int) -> dict[str, int]:
    index_by_name: dict[str, int] = {}
    for field in fields:
        index_by_name[field.name] = next_index
        if isinstance(field.type, BytesWireType):
            index_by_name[f"{field.name}_size"] = next_index + 1
        elif isinstance(field.type, ArrayWireType):
            index_by_name[f"{field.name}_first"] = next_index + 1
        next_index += _require_kernel_type(field).n_columns
    return index_by_name
