"""Show a decoded value as a tree with a limited number of nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.translation import gettext as _

__all__ = ["Tree", "TreeNode", "tree_of"]

_MOST_DEPTH: Final = 40
_MOST_TEXT: Final = 4096


@dataclass(slots=True, kw_only=True)
class TreeNode:
    """One value. The parts of an object or array are in `inner`."""

    name: str
    kind: str
    text: str = ""
    inner: list[TreeNode] = field(default_factory=list)
    size: int = 0  # Number of parts, shown or not

    @property
    def left_out(self) -> int:
        """The number of parts that are not shown."""
        return self.size - len(self.inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The tree of a value."""

    top: TreeNode
    is_cut: bool


def tree_of(value: object, most_nodes: int) -> Tree:
    """Return the tree of a decoded value."""
    top = _leaf("", value)
    waiting = [(top, value, 0)]
    left, is_cut = most_nodes, False
    at = 0
    while at < len(waiting):  # Go level by level, so that a large array does not hide later values
        node, inside, depth = waiting[at]
        at += 1
        parts = _parts(inside)
        node.size = len(parts)
        if depth >= _MOST_DEPTH:
            is_cut = is_cut or bool(parts)
            continue
        for name, part in parts[:left]:
            inner = _leaf(name, part)
            node.inner.append(inner)
            waiting.append((inner, part, depth + 1))
        is_cut = is_cut or len(parts) > left
        left = max(left - len(parts), 0)
    return Tree(top=top, is_cut=is_cut)


def _parts(value: object) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(name if isinstance(name, str) else repr(name), part) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return [(str(number), part) for number, part in enumerate(value)]
    return []


def _leaf(name: str, value: object) -> TreeNode:
    match value:
        case Mapping():
            return TreeNode(name=name, kind="object")
        case list() | tuple():
            return TreeNode(name=name, kind="array")
        case None:
            return TreeNode(name=name, kind="null", text="null")
        case bool():
            return TreeNode(name=name, kind="boolean", text="true" if value else "false")
        case int() | float():
            return TreeNode(name=name, kind="number", text=_number(value))
        case str():
            return TreeNode(name=name, kind="text", text=_cut(json.dumps(value, ensure_ascii=False)))
        case bytes() | bytearray():
            return TreeNode(name=name, kind="bytes", text=_cut(value.hex(" ")))
    return TreeNode(name=name, kind="other", text=_cut(str(value)))


def _number(value: float) -> str:
    try:
        return _cut(repr(value))
    except ValueError:  # Python does not convert very long integers to text
        return _("a number of more than 4,300 digits")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
