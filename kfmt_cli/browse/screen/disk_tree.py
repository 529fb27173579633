"""The tree of directories and files on the disk."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from kfmt_cli.browse.disk_nodes import DiskNode, NodeKind
from kfmt_cli.browse.session import BrowserSession
from kfmt_cli.render.style import escape_unprintable, format_bytes

RICH_STYLE_BY_MARK_STYLE = {"bad": "bold red", "warn": "yellow", "good": "green", "dim": "dim"}


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

    def __init__(self, session: BrowserSession) -> None:
        super().__init__("", session.root, id="tree")
        self.guide_depth = 2
        self.auto_expand = False
        self._session = session

    def on_mount(self) -> None:
        """Open the root and its directories."""
        self._create_children(self.root)
        self.root.expand()
        for child in self.root.children:
            if child.data is not None and child.data.kind is NodeKind.DIRECTORY:
                self._create_children(child)
                if len(self.root.children) == 1:
                    child.expand()

    def _create_children(self, tree_node: TreeNode[DiskNode]) -> None:
        disk_node = tree_node.data
        if disk_node is None or tree_node.children:
            return
        for child in disk_node.children:
            tree_node.add("", child, allow_expand=bool(child.children))

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[DiskNode]) -> None:
        """Create the children."""
        self._create_children(event.node)

    def render_label(self, node: TreeNode[DiskNode], base_style: Style, style: Style) -> Text:
        """The name, the mark and the size."""
        disk_node = node.data
        assert disk_node is not None
        icon = ""
        if node.allow_expand:
            icon = self.ICON_NODE_EXPANDED if node.is_expanded else self.ICON_NODE
        label_text = Text(icon, style=style, end="")
        mark, mark_style = self._session.node_mark(disk_node)
        if mark:
            label_text.append(f"{mark} ", style=RICH_STYLE_BY_MARK_STYLE[mark_style])
        label_text.append(escape_unprintable(disk_node.label))
        label_text.append(f" {format_bytes(disk_node.total_bytes)}", style="dim")
        label_text.no_wrap = True
        del base_style
        return label_text

    def show_node(self, target_node: DiskNode, ancestors: list[DiskNode]) -> None:
        """Put the cursor on a node. ancestors: the ancestors of the node, the root first."""
        tree_node = self.root
        for disk_node in [*ancestors[1:], target_node] if ancestors else []:
            self._create_children(tree_node)
            tree_node.expand()
            tree_node = next(
                (child for child in tree_node.children if child.data is disk_node), tree_node
            )
        self.call_after_refresh(self.move_cursor, tree_node)

    def add_node(self, disk_node: DiskNode, parent_node: DiskNode | None) -> None:
        """Add a file that has appeared, where the model has it."""
        unvisited_nodes = [self.root]
        while unvisited_nodes:
            tree_node = unvisited_nodes.pop()
            if parent_node is not None and tree_node.data is parent_node and tree_node.children:
                child_index = next(
                    (i for i, node in enumerate(parent_node.children) if node is disk_node), None
                )
                is_last = child_index is None or child_index >= len(tree_node.children)
                insert_index = None if is_last else child_index
                tree_node.add("", disk_node, before=insert_index, allow_expand=False)
            unvisited_nodes += tree_node.children

    def redraw_marks(self) -> None:
        """Redraw the visible lines after marks have changed."""
        self.root.refresh()  # the cached lines of a node depend on its ancestors
        self.refresh()

    def redraw(self) -> None:
        """Measure and redraw all lines after marks or sizes have changed."""
        self._invalidate()
        self.refresh()
