"""Small faults for the package's sources, made on the syntax tree, each on one line.

A mutant is a place in a file's tree and a node that replaces the one there. Docstrings,
annotations, `TYPE_CHECKING` blocks, assertions, formatted text, `__repr__`, decorators and tables
of words stay as they are: what changes there is not seen, or is only words.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
EXTREMES = {"min": "max", "max": "min"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
CONTAINERS = (ast.Dict, ast.List, ast.Tuple, ast.Set)
# What is never looked into, and the fields of nodes that are not.
CLOSED = (ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
UNSEEN_FUNCTIONS = ("__repr__",)
UNSEEN_FIELDS = ("annotation", "returns", "decorator_list", "type_comment", "format_spec")
UNSEEN_KEYWORDS = ("help", "short_help", "metavar", "epilog", "stacklevel")
UNSEEN_CALLS = ("cast", "TypeVar", "lru_cache")
MODULE = "<module>"


@dataclass(frozen=True)
class Mutant:
    """One fault. number: its place among all that the file's source gives; function: the outermost
    function that it is in, or MODULE."""

    file: str
    number: int
    kind: str
    line: int
    statement_line: int
    function: str
    before: str
    after: str

    @property
    def at_import(self) -> bool:
        """Whether its line runs when the module is imported, in no function."""
        return self.function == MODULE


@dataclass(frozen=True)
class Place:
    """Where a node is: a field of its parent, and the index there if that is a list."""

    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt
    function: str

    def put(self, new: ast.AST) -> None:
        """Replace the node."""
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


@dataclass(frozen=True)
class Fault:
    """A replacement that has not been made yet."""

    kind: str
    place: Place
    old: ast.AST
    new: ast.AST


def mutants(source: str, file: str) -> list[Mutant]:
    """Every mutant of a source."""
    lines = source.splitlines()
    return [
        Mutant(
            file,
            number,
            fault.kind,
            _line_of(fault.old, fault.place.statement),
            fault.place.statement.lineno,
            fault.place.function,
            *_words(fault, lines),
        )
        for number, fault in enumerate(_faults(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """The tree of a source with one of its mutants; lines are those of the source."""
    tree = ast.parse(source)
    for at, fault in enumerate(_faults(tree)):
        if at == number:
            fault.place.put(ast.copy_location(fault.new, fault.old))
            return ast.fix_missing_locations(tree)
    raise IndexError(f"the source has no mutant {number}")


def _line_of(node: ast.AST, statement: ast.stmt) -> int:
    return getattr(node, "lineno", statement.lineno)


def _words(fault: Fault, lines: list[str]) -> tuple[str, str]:
    """The line before and after; of a node of several lines, the node."""
    old, new = fault.old, _as_meant(fault.new)
    if isinstance(new, ast.Pass):
        return _short(ast.unparse(old)), "(dropped)"
    if not isinstance(old, ast.expr | ast.stmt) or old.end_lineno != old.lineno:
        return _short(ast.unparse(old)), _short(ast.unparse(new))
    text = lines[old.lineno - 1].encode()
    front, end = text[: old.col_offset].decode(), text[old.end_col_offset :].decode()
    after = f"{front}{ast.unparse(new)}{end}"
    return _short(text.decode()), _short(after)


def _kept(value: ast.expr, instead: bool | None) -> ast.IfExp:
    """A value that replaces an expression, which stays in the tree although it is never computed:
    so the function refers to the same names, and its code can be exchanged."""
    return ast.IfExp(ast.Constant(False), copy.deepcopy(value), ast.Constant(instead))


def _as_meant(new: ast.AST) -> ast.AST:
    """A replacement for people, without what stays in the tree."""
    if isinstance(new, ast.If):
        return ast.Pass()
    if isinstance(new, ast.Return) and isinstance(new.value, ast.IfExp):
        return ast.Return(new.value.orelse)
    if isinstance(new, ast.IfExp) and isinstance(new.test, ast.Constant):
        return new.orelse
    return new


def _short(text: str) -> str:
    return " ".join(text.split())


def _faults(tree: ast.Module) -> Iterator[Fault]:
    """Every fault, in an order that depends on nothing but the source."""
    for place, node in list(_places(tree, MODULE, None)):
        for kind, new in _variants(node, place):
            yield Fault(kind, place, node, new)


def _places(
    parent: ast.AST, function: str, statement: ast.stmt | None, outer: str = MODULE
) -> Iterator[tuple[Place, ast.AST]]:
    """Every node below one that may be changed, with where it is. outer: the function around the
    one that the parent is, in which defaults are computed."""
    for field, index, node in _children(parent):
        inner = node if isinstance(node, ast.stmt) else statement
        if _closed(parent, field, node, function):
            continue
        if inner is not None:
            yield Place(parent, field, index, inner, function), node
        if isinstance(node, FUNCTIONS):
            own = f"{getattr(node, 'name', '<lambda>')}:{node.lineno}"
            yield from _places(node, own if function == MODULE else function, inner, function)
        else:
            yield from _places(
                node, outer if isinstance(node, ast.arguments) else function, inner, outer
            )


def _children(parent: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(parent):
        if field in UNSEEN_FIELDS:
            continue
        if isinstance(value, list):
            for index, node in enumerate(value):
                if isinstance(node, ast.AST):
                    yield field, index, node
        elif isinstance(value, ast.AST):
            yield field, None, value


def _closed(parent: ast.AST, field: str, node: ast.AST, function: str) -> bool:
    """Whether neither a node nor what is in it may be changed."""
    if isinstance(node, CLOSED):
        return True
    if isinstance(node, FUNCTIONS):
        return getattr(node, "name", "") in UNSEEN_FUNCTIONS
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    if isinstance(node, ast.keyword):
        return node.arg in UNSEEN_KEYWORDS
    if isinstance(node, ast.Call) and _name_of(node.func) in UNSEEN_CALLS:
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or `...`
    if isinstance(parent, ast.arguments) and field in ("args", "posonlyargs", "kwonlyargs"):
        return True
    # A table of words, a type, a pattern: of what a module says outside its functions, only
    # numbers, conditions and what lambdas do may be changed.
    return (
        function == MODULE and field == "value" and isinstance(parent, ast.Assign | ast.AnnAssign)
    ) and not _says_a_number(node)


def _says_a_number(node: ast.AST) -> bool:
    """Whether a value is made of numbers and names alone, or holds a lambda."""
    each = list(ast.walk(node))
    if any(isinstance(inner, ast.Lambda) for inner in each):
        return True
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Name, ast.operator, ast.unaryop)
    return all(isinstance(inner, (*allowed, ast.expr_context)) for inner in each)


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _variants(node: ast.AST, place: Place) -> Iterable[tuple[str, ast.AST]]:
    """What a node can be replaced by."""
    yield from _conditions(node, place)
    if isinstance(node, ast.stmt):
        yield from _statements(node)
    elif isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, ast.BinOp) and not _joins(node.left, node.right):
        yield from (("arithmetic", new) for new in _other_operator(node))
    elif isinstance(node, ast.Constant):
        yield from _constants(node, place)
    elif isinstance(node, ast.BoolOp):
        new = copy.copy(node)
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node.operand
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Slice):
        yield from _bounds(node)


def _conditions(node: ast.AST, place: Place) -> Iterator[tuple[str, ast.AST]]:
    """True or False for what is asked."""
    asked = place.field == "test" or (
        place.field == "ifs" and isinstance(place.parent, ast.comprehension)
    )
    if not asked or not isinstance(node, ast.expr) or isinstance(node, ast.Constant):
        return
    for value in (True, False):
        if not (value and isinstance(place.parent, ast.While)):  # which would go on for ever
            yield "condition", _kept(node, value)


def _statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield "dropped", ast.If(ast.Constant(False), [node], [])
    elif isinstance(node, ast.Continue):
        yield "loop", ast.Break()
    elif isinstance(node, ast.Break):
        yield "loop", ast.Continue()
    elif isinstance(node, ast.AugAssign) and not _joins(node.value):
        yield from (("arithmetic", new) for new in _other_operator(node))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _returns(node.value)


def _returns(value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """None for what is returned; the other truth value for one."""
    if isinstance(value, ast.Constant):
        if isinstance(value.value, bool):
            yield "return", ast.Return(ast.Constant(not value.value))
            return
        if value.value is None:
            yield "return", ast.Return(ast.Constant(1))
            return
    yield "return", ast.Return(_kept(value, None))


def _other_operator(node: ast.BinOp | ast.AugAssign) -> Iterator[ast.AST]:
    other = OPERATORS.get(type(node.op))
    if other is not None:
        new = copy.copy(node)
        new.op = other()
        yield new


def _joins(*nodes: ast.AST) -> bool:
    """Whether an operand says that texts, bytes or lists are joined, which have one operator."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Dict):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return True
        if isinstance(node, ast.BinOp) and _joins(node.left, node.right):
            return True
    return False


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for at, op in enumerate(node.ops):
        new = copy.copy(node)
        new.ops = list(node.ops)
        new.ops[at] = COMPARISONS[type(op)]()
        yield "comparison", new


def _constants(node: ast.Constant, place: Place) -> Iterator[tuple[str, ast.AST]]:
    """Numbers that are one more or less, and other words where words are compared."""
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        if isinstance(place.parent, ast.Slice):
            return  # has a kind of its own
        yield from (("number", ast.Constant(value + step)) for step in (1, -1))
    elif isinstance(value, str | bytes) and value:
        compared = isinstance(place.parent, ast.Compare | ast.MatchValue)
        if isinstance(place.parent, CONTAINERS):
            compared = _is_compared(place)
        if compared:
            other: str | bytes = "XX" + value if isinstance(value, str) else b"XX" + value
            yield "word", ast.Constant(other)


def _is_compared(place: Place) -> bool:
    """Whether a tuple of words is one side of a comparison."""
    return any(
        isinstance(node, ast.Compare) and place.parent in node.comparators
        for node in ast.walk(place.statement)
    )


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """min for max; two arguments exchanged."""
    if isinstance(node.func, ast.Name) and node.func.id in EXTREMES:
        new = copy.copy(node)
        new.func = ast.copy_location(ast.Name(EXTREMES[node.func.id], ast.Load()), node.func)
        yield "min/max", new
        return  # their arguments have no order
    for at, (left, right) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id != right.id:
            new = copy.copy(node)
            new.args = [*node.args[:at], right, left, *node.args[at + 2 :]]
            yield "arguments", new


def _bounds(node: ast.Slice) -> Iterator[tuple[str, ast.AST]]:
    """A bound that is left out, or one further on."""
    for field in ("lower", "upper"):
        bound = getattr(node, field)
        if bound is not None:
            none, more = copy.copy(node), copy.copy(node)
            setattr(none, field, None)
            yield "slice", none
            setattr(more, field, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
            yield "slice", more
