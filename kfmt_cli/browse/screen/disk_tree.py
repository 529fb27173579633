"""The tree of directories and files on the disk."""

from __future__ import annotations

from collections.abc import Callable

from rich.style import Style
from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.render.style import human, safe

MARK_STYLES = {"bad": "bold red", "warn": "yellow", "good": "green", "dim": "dim"}
FEW = 12  # partitions opened at once


class DiskTree(Tree[DiskNode]):
    """Log directories, topics, partitions and files; opening a node creates its children."""

    DEFAULT_CSS = """
    DiskTree { background: $background; padding: 0; scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1; }
    DiskTree > .tree--cursor { background: $surface-lighten-2; text-style: none; color: $text; }
    DiskTree:focus > .tree--cursor { background: $primary-muted; }
    DiskTree > .tree--guides { color: $text-disabled; }
    """
    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▾ "

    def __init__(self, top: DiskNode, mark: Callable[[DiskNode], tuple[str, str]]) -> None:
        """mark: returns the mark of a node and its style."""
        super().__init__("", top, id="tree")
        self.guide_depth = 2
        self.auto_expand = False
        self._mark = mark

    def on_mount(self) -> None:
        """Open the root and its directories."""
        self._open(self.root)
        self.root.expand()
        for child in self.root.children:
            if child.data is not None and child.data.kind is NodeKind.DIRECTORY:
                self._open(child)
                if len(self.root.children) == 1:
                    child.expand()

    def _open(self, node: TreeNode[DiskNode]) -> None:
        data = node.data
        if data is None or node.children:
            return
        for child in data.children:
            node.add("", child, allow_expand=bool(child.children))

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[DiskNode]) -> None:
        """Create the children."""
        self._open(event.node)

    def render_label(self, node: TreeNode[DiskNode], base_style: Style, style: Style) -> Text:
        """The name, the mark and the size."""
        data = node.data
        assert data is not None
        icon = ""
        if node.allow_expand:
            icon = self.ICON_NODE_EXPANDED if node.is_expanded else self.ICON_NODE
        text = Text(icon, style=style, end="")
        mark, colour = self._mark(data)
        if mark:
            text.append(f"{mark} ", style=MARK_STYLES[colour])
        text.append(safe(data.label))
        text.append(f" {human(data.size)}", style="dim")
        text.no_wrap = True
        del base_style
        return text

    def show_node(self, wanted: DiskNode, path: list[DiskNode]) -> None:
        """Put the cursor on a node. path: the nodes above it, from the top."""
        at = self.root
        for step in [*path[1:], wanted] if path else []:
            self._open(at)
            at.expand()
            at = next((child for child in at.children if child.data is step), at)
        self.call_after_refresh(self.move_cursor, at)

    def add_node(self, new: DiskNode, above: DiskNode | None) -> None:
        """Add a file that has appeared."""
        places = [self.root]
        while places:
            place = places.pop()
            if place.data is above and place.children:
                place.add("", new, allow_expand=False)
            places += place.children

    def renew(self) -> None:
        """Redraw the tree after marks or sizes have changed."""
        self._invalidate()
        self.refresh()
