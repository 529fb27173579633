"""Small faults in the package's sources, created in the syntax tree, each on one line.

A mutant is the location of a node in a file's tree, and a node that replaces it. Docstrings,
annotations, `TYPE_CHECKING` blocks, assertions, the words of messages, `__repr__`, decorators and
tables of text are not changed: changes there have no visible effect, or affect only text.
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
# Nodes that are never changed, and fields of nodes that are not.
CLOSED = (ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
UNSEEN_FUNCTIONS = ("__repr__",)
UNSEEN_FIELDS = ("annotation", "returns", "decorator_list", "type_comment", "format_spec")
UNSEEN_KEYWORDS = ("help", "short_help", "metavar", "epilog", "stacklevel", "strict")
UNSEEN_CALLS = ("cast", "TypeVar", "lru_cache")
MODULE = "<module>"


@dataclass(frozen=True)
class Mutant:
    """One fault. number: its index among all faults of the source; function: the outermost function
    around it, or MODULE."""

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
        """Whether its line is outside functions and runs at import."""
        return self.function == MODULE


@dataclass(frozen=True)
class NodeLocation:
    """The location of a node: a field of its parent, and the index if that is a list. fstring: the
    formatted text around it; before Python 3.12, nodes in it have no usable line and column."""

    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt
    function: str
    fstring: ast.JoinedStr | None

    def replace(self, new: ast.AST) -> None:
        """Replace the node."""
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


@dataclass(frozen=True)
class Fault:
    """A replacement that has not been applied yet."""

    kind: str
    location: NodeLocation
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
            _line(fault),
            fault.location.statement.lineno,
            fault.location.function,
            *_describe(fault, lines),
        )
        for number, fault in enumerate(_faults(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """The tree of a source with one of its mutants; line numbers are those of the source."""
    tree = ast.parse(source)
    for index, fault in enumerate(_faults(tree)):
        if index == number:
            fault.location.replace(ast.copy_location(fault.new, fault.old))
            return ast.fix_missing_locations(tree)
    raise IndexError(f"the source has no mutant {number}")


def _line(fault: Fault) -> int:
    location = fault.location
    return getattr(location.fstring or fault.old, "lineno", location.statement.lineno)


def _describe(fault: Fault, lines: list[str]) -> tuple[str, str]:
    """The line before and after; for a node of several lines, the node."""
    old, new = fault.old, _for_display(fault.new)
    if isinstance(new, ast.Pass):
        return _short(ast.unparse(old)), "(dropped)"
    if fault.location.fstring is not None:
        return f"{{{_short(ast.unparse(old))}}}", f"{{{_short(ast.unparse(new))}}}"
    if not isinstance(old, ast.expr | ast.stmt) or old.end_lineno != old.lineno:
        return _short(ast.unparse(old)), _short(ast.unparse(new))
    line = lines[old.lineno - 1].encode()
    prefix, suffix = line[: old.col_offset].decode(), line[old.end_col_offset :].decode()
    changed_line = f"{prefix}{ast.unparse(new)}{suffix}"
    return _short(line.decode()), _short(changed_line)


def _replacement(value: ast.expr, replacement: ast.expr | bool | None) -> ast.IfExp:
    """An expression or a constant that replaces an expression. The old one stays in the tree
    without being evaluated, so the function refers to the same names and its code can be
    exchanged."""
    if not isinstance(replacement, ast.expr):
        replacement = ast.Constant(replacement)
    return ast.IfExp(ast.Constant(False), copy.deepcopy(value), replacement)


def _for_display(new: ast.AST) -> ast.AST:
    """A replacement without the parts that only stay in the tree."""
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
    """Every fault, in an order that depends only on the source."""
    for location, node in list(_locations(tree, MODULE, None)):
        for kind, new in _variants(node, location):
            yield Fault(kind, location, node, new)


def _locations(
    parent: ast.AST,
    function: str,
    statement: ast.stmt | None,
    outer: str = MODULE,
    fstring: ast.JoinedStr | None = None,
) -> Iterator[tuple[NodeLocation, ast.AST]]:
    """Every node below `parent` that may be changed, with its location. outer: the function around
    `function`, in which defaults are evaluated."""
    if isinstance(parent, ast.JoinedStr):
        fstring = fstring or parent
    for field, index, node in _children(parent):
        inner = node if isinstance(node, ast.stmt) else statement
        if _closed(parent, field, node, function):
            continue
        if inner is not None:
            yield NodeLocation(parent, field, index, inner, function, fstring), node
        if isinstance(node, FUNCTIONS):
            name = f"{getattr(node, 'name', '<lambda>')}:{node.lineno}"
            name = name if function == MODULE else function
            yield from _locations(node, name, inner, function, fstring)
        else:
            name = outer if isinstance(node, ast.arguments) else function
            yield from _locations(node, name, inner, outer, fstring)


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
    """Whether a node and its children must not be changed."""
    if isinstance(node, CLOSED):
        return True
    if isinstance(node, FUNCTIONS):
        return getattr(node, "name", "") in UNSEEN_FUNCTIONS
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    if isinstance(node, ast.keyword):
        return node.arg in UNSEEN_KEYWORDS
    if isinstance(node, ast.Call) and _called_name(node.func) in UNSEEN_CALLS:
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or `...`
    if isinstance(parent, ast.JoinedStr) and isinstance(node, ast.Constant):
        return True
    if isinstance(parent, ast.arguments) and field in ("args", "posonlyargs", "kwonlyargs"):
        return True
    # A table of text, a type, a pattern: outside functions, only numbers, conditions and lambdas
    # may be changed.
    return (
        function == MODULE and field == "value" and isinstance(parent, ast.Assign | ast.AnnAssign)
    ) and not _is_numeric(node)


def _is_numeric(node: ast.AST) -> bool:
    """Whether a value contains only numbers and names, or a lambda."""
    nodes = list(ast.walk(node))
    if any(isinstance(inner, ast.Lambda) for inner in nodes):
        return True
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Name, ast.operator, ast.unaryop)
    return all(isinstance(inner, (*allowed, ast.expr_context)) for inner in nodes)


def _called_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _variants(node: ast.AST, location: NodeLocation) -> Iterable[tuple[str, ast.AST]]:
    """Replacements of a node, with their kinds."""
    yield from _conditions(node, location)
    if isinstance(node, ast.stmt):
        yield from _statements(node, location)
    elif isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, ast.BinOp) and not _joins(node.left, node.right):
        yield from (("arithmetic", new) for new in _other_operator(node))
    elif isinstance(node, ast.Constant):
        yield from _constants(node, location)
    elif isinstance(node, ast.BoolOp):
        yield from _booleans(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", node.operand
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Slice):
        yield from _bounds(node)
    elif isinstance(node, ast.FormattedValue):
        yield "formatted", ast.Constant("")


def _conditions(node: ast.AST, location: NodeLocation) -> Iterator[tuple[str, ast.AST]]:
    """True or False in place of a condition."""
    is_condition = location.field == "test" or (
        location.field == "ifs" and isinstance(location.parent, ast.comprehension)
    )
    if not is_condition or not isinstance(node, ast.expr) or isinstance(node, ast.Constant):
        return
    for value in (True, False):
        if not (value and isinstance(location.parent, ast.While)):  # an endless loop
            yield "condition", _replacement(node, value)


def _booleans(node: ast.BoolOp) -> Iterator[tuple[str, ast.AST]]:
    """`or` in place of `and` and vice versa; an operand less."""
    new = copy.copy(node)
    new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "boolean", new
    for index in range(len(node.values)):
        others = node.values[:index] + node.values[index + 1 :]
        reduced = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
        yield "operand", _replacement(node, reduced)


def _statements(node: ast.stmt, location: NodeLocation) -> Iterator[tuple[str, ast.AST]]:
    dropped = ast.If(ast.Constant(False), [node], [])
    if isinstance(node, ast.Raise) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield "dropped", dropped
    elif isinstance(node, ast.Continue):
        yield "loop", ast.Break()
    elif isinstance(node, ast.Break):
        yield "loop", ast.Continue()
    elif isinstance(node, ast.AugAssign):
        yield "dropped", dropped
        if not _joins(node.value):
            yield from (("arithmetic", new) for new in _other_operator(node))
    elif isinstance(node, ast.Return):
        if not isinstance(location.parent, FUNCTIONS):
            yield "early return", dropped
        if node.value is not None:
            yield from _returns(node.value)


def _returns(value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """None in place of a returned value; the other truth value for True and False."""
    if isinstance(value, ast.Constant):
        if isinstance(value.value, bool):
            yield "return", ast.Return(ast.Constant(not value.value))
            return
        if value.value is None:
            yield "return", ast.Return(ast.Constant(1))
            return
    yield "return", ast.Return(_replacement(value, None))


def _other_operator(node: ast.BinOp | ast.AugAssign) -> Iterator[ast.AST]:
    other = OPERATORS.get(type(node.op))
    if other is not None:
        new = copy.copy(node)
        new.op = other()
        yield new


def _joins(*nodes: ast.AST) -> bool:
    """Whether an operand shows that text, bytes or lists are concatenated."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Dict):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return True
        if isinstance(node, ast.BinOp) and _joins(node.left, node.right):
            return True
    return False


def _comparisons(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    """Another operator; a chain of comparisons without its first or its last one."""
    for index, op in enumerate(node.ops):
        new = copy.copy(node)
        new.ops = list(node.ops)
        new.ops[index] = COMPARISONS[type(op)]()
        yield "comparison", new
    if len(node.ops) > 1:
        first, *others = node.comparators
        yield "chain", _replacement(node, ast.Compare(first, node.ops[1:], others))
        yield (
            "chain",
            _replacement(node, ast.Compare(node.left, node.ops[:-1], node.comparators[:-1])),
        )


def _constants(node: ast.Constant, location: NodeLocation) -> Iterator[tuple[str, ast.AST]]:
    """Numbers plus or minus one, the other value of flags, other text if it is compared."""
    value = node.value
    if isinstance(value, bool):
        if isinstance(location.parent, ast.arguments | ast.keyword | ast.AnnAssign):
            yield "flag", ast.Constant(not value)
    elif isinstance(value, int):
        if isinstance(location.parent, ast.Slice):
            return  # see _bounds
        yield from (("number", ast.Constant(value + step)) for step in (1, -1))
    elif isinstance(value, str | bytes) and value:
        is_compared = isinstance(location.parent, ast.Compare | ast.MatchValue)
        if isinstance(location.parent, CONTAINERS):
            is_compared = _is_compared(location)
        if is_compared:
            changed: str | bytes = "XX" + value if isinstance(value, str) else b"XX" + value
            yield "word", ast.Constant(changed)


def _is_compared(location: NodeLocation) -> bool:
    """Whether a tuple of text is one side of a comparison."""
    return any(
        isinstance(node, ast.Compare) and location.parent in node.comparators
        for node in ast.walk(location.statement)
    )


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """min in place of max and vice versa; the argument in place of a call; two arguments
    exchanged."""
    if isinstance(node.func, ast.Name) and node.func.id in EXTREMES:
        new = copy.copy(node)
        new.func = ast.copy_location(ast.Name(EXTREMES[node.func.id], ast.Load()), node.func)
        yield "min/max", new
        return  # their arguments have no order
    if len(node.args) == 1 and not node.keywords and isinstance(node.func, ast.Name):
        argument = node.args[0]
        if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            yield "call", _replacement(node, argument)
    for index, (left, right) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id != right.id:
            new = copy.copy(node)
            new.args = [*node.args[:index], right, left, *node.args[index + 2 :]]
            yield "arguments", new


def _bounds(node: ast.Slice) -> Iterator[tuple[str, ast.AST]]:
    """A missing bound, or one that is one more or less."""
    for field in ("lower", "upper"):
        bound = getattr(node, field)
        if bound is not None:
            for changed_bound in (
                None,
                ast.BinOp(bound, ast.Add(), ast.Constant(1)),
                ast.BinOp(bound, ast.Sub(), ast.Constant(1)),
            ):
                new = copy.copy(node)
                setattr(new, field, changed_bound)
                yield "slice", new
