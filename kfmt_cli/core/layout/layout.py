"""Layouts: a structure of the disk format written down once, as a table of fields.

The table yields the slow reader, which reports where everything is and why it fails, the bulk
kernel's program, the writer, the NumPy dtype, and the names in outputs and docs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kfmt_cli.core.layout.field import Field
from kfmt_cli.core.layout.fields import Fields
from kfmt_cli.core.layout.place import DecodeError, Origin, Place
from kfmt_cli.core.layout.tagged import TaggedFields
from kfmt_cli.core.layout.wire import (
    Array,
    Buffer,
    Bytes,
    Integer,
    KernelType,
    Length,
    Value,
    Varint,
    WireError,
    WireType,
    left_words,
)
from kfmt_cli.core.native import encode, kernel

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
_NONE, _NO_SPANS = np.empty(0, np.int64), np.empty((0, 0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows that the kernel decoded from n regions, one int64 column per field."""

    names: Mapping[str, int]
    """Each field's column in `rows`. A bytes field has two, start and (`name_size`) length; so has
    an array, count and (`name_first`) its first row in `children`."""
    rows: IntArray
    """(columns, rows)."""
    children: IntArray
    regions: IntArray
    """(5, n): start, end, exclusive end of the region's rows, one of `kernel.STATUSES`, byte after
    the last complete row."""

    def __getitem__(self, name: str) -> IntArray:
        column: IntArray = self.rows[self.names[name]]
        return column

    def __getattr__(self, name: str) -> IntArray:
        """A field's column."""
        return self[name]


@dataclass(frozen=True)
class Layout:
    """A structure: its fields in order."""

    name: str
    doc: str
    source: str
    """Where Kafka defines it."""
    fields: tuple[Field, ...]
    bulk: bool = False
    """Whether the kernel runs it; raises TypeError for a field that it cannot run. versions: of a
    message, the first and the last."""
    versions: tuple[int, int] | None = None
    flexible_since: int | None = None
    """The first version with compact lengths and tagged fields. `versions.py` makes the Layout of a
    version; a flexible one has `tagged`."""
    tagged: TaggedFields | None = None
    text: bool = False
    """Names and values of a text file, without positions and sizes."""

    def __post_init__(self) -> None:
        if self.bulk:
            check_bulk(self)

    @cached_property
    def size(self) -> int | None:
        """Bytes per row, None if it varies."""
        sizes = [field.type.size for field in self.fields]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @cached_property
    def min_size(self) -> int:
        """The fewest bytes of a row."""
        return sum(_min_size(field.type) for field in self.fields)

    def offset_of(self, name: str) -> int:
        """Where a field begins in the row; the fields before it must have fixed sizes."""
        at = 0
        for field in self.fields:
            if field.name == name:
                return at
            assert field.type.size is not None, f"{field.name} has no fixed size"
            at += field.type.size
        raise KeyError(name)

    def number(self, name: str) -> Callable[[bytes], int]:
        """A function that reads a fixed-size field, preceded by fixed-size fields only, from a
        row's bytes; it raises `struct.error` if they end too early."""
        type_ = self.field(name).type
        assert isinstance(type_, Integer)
        code = {1: "b", 2: "h", 4: "i", 8: "q"}[type_.size]
        read = struct.Struct(f">{code if type_.signed else code.upper()}").unpack_from
        at = self.offset_of(name)

        def number(data: bytes) -> int:
            return int(read(data, at)[0])

        return number

    def before(self, name: str) -> Layout:
        """The fields before `name` as a Layout of their own, which frames nothing."""
        names = [field.name for field in self.fields]
        front = self.fields[: names.index(name)]
        fields = tuple(replace(field, frames=False) for field in front)
        return Layout(f"{self.name} up to {name}", self.doc, self.source, fields)

    def field(self, name: str) -> Field:
        """The field of that name."""
        return next(field for field in self.fields if field.name == name)

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The row as a NumPy dtype; every field must be an integer of fixed size."""
        types = ((field.name, field.type) for field in self.fields)
        return np.dtype([(name, of.dtype) for name, of in types if isinstance(of, Integer)])

    # The slow reader.

    def read(
        self, data: Buffer, at: int, end: int, origin: Origin, path: tuple[str, ...] = ()
    ) -> tuple[Fields, int]:
        """Read the row at byte `at` of a buffer, up to `end` at most: its values by field name, and
        the byte after it. Raises DecodeError."""
        try:
            return self.read_values(data, at, end)
        except WireError as error:
            place = Place(origin, error.at, (*path, *error.path))
            raise DecodeError(str(error), place, error.status) from None

    def read_values(self, data: Buffer, at: int, end: int) -> tuple[Fields, int]:
        """`read` without names for the place of an error; raises WireError."""
        values = Fields()
        frame: tuple[Field, int, int] | None = None
        for field in self.fields:
            try:
                value, after = field.type.read(data, at, end)
                if field.frames:
                    assert isinstance(value, int)
                    _check_frame(value, at, end - after)
                    end = after + value
                    frame = field, at, value
            except WireError as error:
                raise error.below(field.name) from None
            values[field.name] = value
            at = after
        if self.tagged is not None:
            more, at = self.tagged.read(data, at, end)
            values.update(more)
        if frame and at != end:
            field, start, value = frame
            raise WireError(
                f"{value} bytes declared, {value - (end - at)} used",
                start,
                "FRAME_NOT_FILLED",
            ).below(field.name)
        return values, at

    # The writer.

    def write(self, values: Mapping[str, Value]) -> bytes:
        """The exact inverse of `read`; a framing field's value is computed, not taken."""
        done = b"" if self.tagged is None else self.tagged.write(values)
        for field in reversed(self.fields):
            value = len(done) if field.frames else values[field.name]
            done = field.type.write(value) + done
        return done

    # The bulk reader.

    @cached_property
    def names(self) -> dict[str, int]:
        """Field name → column of `Columns.rows`; column 0, `at`, is where the row starts."""
        return {"at": 0} | _name_columns(self.fields, 1)

    @cached_property
    def width(self) -> int:
        """How many columns `Columns.rows` has."""
        return 1 + sum(_kernel_type(field).columns for field in self.fields)

    @cached_property
    def child(self) -> Layout | None:
        """The array field's Layout, or None."""
        for field in self.fields:
            if isinstance(field.type, Array):
                return field.type.of
        return None

    @cached_property
    def child_names(self) -> dict[str, int]:
        """Field name → column of `Columns.children`."""
        return {} if self.child is None else _name_columns(self.child.fields, 0)

    @cached_property
    def program(self) -> IntArray:
        """The kernel's instructions: operation, column, argument each."""
        instructions: list[int] = []
        for field in self.fields:
            operation, argument = _kernel_type(field).instruction
            if field.frames:
                varying = isinstance(field.type, Varint)
                operation = kernel.OPS["ZIGZAG_FRAME" if varying else "FRAME"]
            instructions += operation, self.names[field.name], argument
            if isinstance(field.type, Array):
                for inner in field.type.of.fields:
                    operation, argument = _kernel_type(inner).instruction
                    instructions += operation, self.child_names[inner.name], argument
        return np.array(instructions, np.int64)

    def columns(
        self,
        data: Buffer,
        starts: IntArray,
        ends: IntArray,
        expected: int,
        spare: int = 0,
        most_rows: int = 1 << 40,
    ) -> Columns:
        """Decode rows from each region until its end or first fault; about `expected` rows in all.

        Nothing is trusted: memory is allocated for as many rows as the bytes can contain, not for a
        stored count, and for at most `most_rows` rows and as many array elements. Regions left
        unfinished get the status FULL. spare: columns after the fields', which the caller fills.
        """
        regions = _regions(starts, ends)
        most = min(int((ends - starts).sum()) // self.min_size + len(starts), most_rows)
        rows, children = self._decode(data, regions, (min(expected, most), most), most_rows, spare)
        return Columns(self.names, rows, children, regions)

    def spans(
        self, data: Buffer, starts: IntArray, ends: IntArray, names: Sequence[str], most: int
    ) -> tuple[IntArray, IntArray]:
        """The spans of some fields in each region, (fields, `kernel.SPAN`, n), and the regions of
        `Columns`: what `columns` decodes, without keeping it. most: array elements of a row."""
        regions = _regions(starts, ends)
        spans = np.zeros((len(names), len(kernel.SPAN), len(starts)), np.int64)
        spanned = np.array([self.names[name] for name in names])
        self._decode(data, regions, (1, 1), most, spanned=spanned, spans=spans)
        return spans, regions

    def _decode(
        self,
        data: Buffer,
        regions: IntArray,
        room: tuple[int, int],
        most_children: int,
        spare: int = 0,
        spanned: IntArray = _NONE,
        spans: IntArray = _NO_SPANS,
    ) -> tuple[IntArray, IntArray]:
        """Run the kernel; returns the rows and array elements. room: for how many rows to begin
        with, and at most."""
        capacity, most = room
        most_children = 1 if self.child is None else min(len(data) + 1, most_children)
        child_capacity = min(1024, most_children)
        while True:
            rows = np.empty((self.width + spare, capacity), np.int64)
            children = np.empty((max(len(self.child_names), 1), child_capacity), np.int64)
            n = kernel.decode(data, regions, self.program, rows, children, spanned, spans)
            if n < 0 and capacity == most and child_capacity == most_children:
                n = int(regions[2, -1])
            if n >= 0:
                return np.ascontiguousarray(rows[:, :n]), children
            capacity = min(max(2 * capacity, 64), most)
            child_capacity = min(child_capacity * 4, most_children)


def encoded(
    program: IntArray,
    data: bytes,
    rows: IntArray,
    children: IntArray,
    room: int = 0,
    gaps: IntArray | int = 0,
) -> tuple[bytearray, IntArray]:
    """Rows one after another, the inverse of `Layout.columns`; also returns where each ends, not
    counting the gaps. data: what the rows' bytes are in. gaps: how much later each row begins;
    room: bytes for all gaps."""
    bodies, sizes = np.empty((2, rows.shape[1]), np.int64)
    encode.measure(program, rows, children, bodies, sizes)
    ends = np.cumsum(sizes)
    out = bytearray((int(ends[-1]) if len(ends) else 0) + room)
    encode.encode(data, program, rows, children, bodies, ends - sizes + gaps, out)
    return out, ends


def _regions(starts: IntArray, ends: IntArray) -> IntArray:
    """Regions that the kernel is to fill."""
    regions = np.empty((5, len(starts)), np.int64)
    regions[0] = starts
    regions[1] = ends
    return regions


def _min_size(wire: WireType | Length) -> int:
    if wire.size is not None:
        return wire.size
    if isinstance(wire, Bytes):
        return _min_size(wire.length)
    return 1


def _kernel_type(field: Field) -> KernelType:
    """The type of a field that the kernel runs; raises TypeError."""
    if not isinstance(field.type, KernelType):
        raise TypeError(f"{type(field.type).__name__} is not a type that the bulk kernel runs")
    return field.type


def check_bulk(layout: Layout) -> None:
    """Raise TypeError if a Layout has a field that the kernel cannot run."""
    arrays = 0
    for each_field in layout.fields:
        try:
            _kernel_type(each_field).instruction  # noqa: B018 (raises)
        except TypeError as error:
            raise TypeError(f"{layout.name}.{each_field.name}: {error}") from None
        if isinstance(each_field.type, Array):
            arrays += 1
            inner = [field.type for field in each_field.type.of.fields]
            if not all(isinstance(of, Bytes) and isinstance(of.length, Varint) for of in inner):
                raise TypeError(
                    f"{layout.name}.{each_field.name}: the kernel runs arrays of bytes only"
                )
    if arrays > 1:
        raise TypeError(f"{layout.name}: the kernel runs one array a row")


def _check_frame(length: int, at: int, available: int) -> None:
    if length < 0:
        raise WireError(f"negative length {length}", at, "LENGTH_NEGATIVE")
    if length > available:
        raise WireError(f"length {length}, but {left_words(available)}", at, "LENGTH_TOO_BIG")


def _name_columns(fields: tuple[Field, ...], first: int) -> dict[str, int]:
    names: dict[str, int] = {}
    for field in fields:
        names[field.name] = first
        if isinstance(field.type, Bytes):
            names[f"{field.name}_size"] = first + 1
        elif isinstance(field.type, Array):
            names[f"{field.name}_first"] = first + 1
        first += _kernel_type(field).columns
    return names
