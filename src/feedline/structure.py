"""The structure of an element: what is left of a tree when its leaves are taken away.

Tuples (named ones stay what they are), dicts (with str or with int keys) and None are structure. Everything
else is a leaf, lists too. Leaves are counted as tf.nest counts them: depth first, dicts by sorted key; a dict
is rebuilt in the order that it had. Two structures are equal when the same leaves fit both, so the order in
which a dict was filled does not count.

A structure has a JSON form, which goes into frames: reading it runs no code and imports nothing.
"""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from feedline.errors import UsageError, WrongKind

MAX_DEPTH = 32
"""Levels of tuples and dicts in an element: more than anybody needs, less than what exhausts a stack."""


class _Node(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One level of a structure. As JSON or msgpack: ["dict", ["a", "b"], [["leaf"], ["leaf"]]]."""


class Leaf(_Node, frozen=True, tag="leaf"):
    pass


class Nothing(_Node, frozen=True, tag="none"):
    """None: structure without leaves."""


class Tuple(_Node, frozen=True, tag="tuple"):
    children: tuple[Node, ...]


class Named(_Node, frozen=True, tag="named"):
    """A namedtuple. Its class is "module:qualname", looked up among what is loaded, never imported."""

    name: str
    fields: tuple[str, ...]
    children: tuple[Node, ...]


class Dict(_Node, frozen=True, tag="dict"):
    """Keys and children in the order in which the dict was filled."""

    keys: tuple[str | int, ...]
    children: tuple[Node, ...]


Node: TypeAlias = Leaf | Nothing | Tuple | Named | Dict

_LEAF = Leaf()


class Structure:
    """The shape of a tree, without its leaves.

    >>> leaves, structure = flatten({"b": (1, 2), "a": None})
    >>> leaves, structure
    ([1, 2], Structure({'b': (*, *), 'a': None}))
    >>> structure.unflatten(["x", "y"])
    {'b': ('x', 'y'), 'a': None}
    >>> Structure.from_json(structure.to_json()) == structure
    True
    """

    __slots__ = ("_build", "_key", "_match", "leaf_count", "root")

    root: Node
    leaf_count: int

    def __init__(self, root: Node) -> None:
        _check(root, 0)
        self.root = root
        self.leaf_count = sum(1 for _ in _paths(root, ""))
        self._key = _canonical(root)
        self._build = _builder(root)
        self._match = _matcher(root)

    @classmethod
    def from_json(cls, value: object) -> Structure:
        try:
            return cls(msgspec.convert(value, Node))
        except (msgspec.ValidationError, RecursionError) as error:
            raise UsageError(f"this is not the JSON form of a structure: {error}.") from None

    def to_json(self) -> Any:
        """Lists and strings only: for headers and fingerprints. `from_json` takes it back."""
        return msgspec.to_builtins(self.root)

    @property
    def has_none(self) -> bool:
        """Is there a None in it?"""
        return _has_none(self.root)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves, in the order of `flatten`."""
        if len(leaves) != self.leaf_count:
            raise UsageError(f"{self!r} has {self.leaf_count} leaves, not {len(leaves)}.")
        return self._build(iter(leaves))

    def unflatten_rows(self, columns: Sequence[Iterable[Any]]) -> Iterator[Any]:
        """A tree for each row of `columns`, of which each holds one leaf of all trees. There must be one."""
        if isinstance(self.root, Leaf):
            return iter(columns[0])
        if isinstance(self.root, Dict) and all(isinstance(child, Leaf) for child in self.root.children):
            keys = self.root.keys
            by_key = dict(zip(sorted(keys), columns, strict=True))
            rows = zip(*(by_key[key] for key in keys), strict=True)
            return (dict(zip(keys, row, strict=True)) for row in rows)
        rows = zip(*columns, strict=True)
        if isinstance(self.root, Tuple) and all(isinstance(child, Leaf) for child in self.root.children):
            return rows
        return map(self._build, map(iter, rows))

    def split(self, trees: Sequence[Any]) -> list[Sequence[Any]] | None:
        """The leaves of many trees, leaf by leaf, as far as that can be told quickly; else None.

        Of a structure that is one leaf, what is no leaf is not found out.
        """
        if isinstance(self.root, Leaf):
            return [trees]
        if not isinstance(self.root, Tuple | Dict) or not self.leaf_count:
            return None
        if not all(isinstance(child, Leaf) for child in self.root.children):
            return None
        plain = tuple if isinstance(self.root, Tuple) else dict
        if set(map(type, trees)) != {plain} or set(map(len, trees)) != {self.leaf_count}:
            return None
        if isinstance(self.root, Tuple):
            return list(zip(*trees, strict=True))
        try:
            return [[tree[key] for tree in trees] for key in sorted(self.root.keys)]
        except KeyError:
            return None

    @property
    def is_tuple(self) -> bool:
        """Is the tree a tuple, and no named one?"""
        return isinstance(self.root, Tuple)

    def leaves_of(self, tree: Any) -> list[Any]:
        """The leaves of a tree that must have this structure; quicker than `flatten` and a comparison."""
        leaves: list[Any] = []
        if self._match(tree, leaves):
            return leaves
        other = flatten(tree)[1]
        hint = ""
        if isinstance(self.root, Tuple) and isinstance(other.root, Tuple):
            # Lists of changing length that a function returns, tokens say, arrive here as tuples.
            hint = (
                "\n  A list that a function returns is a tuple, as in tf.data. For an array:  np.array(...)"
            )
        raise WrongKind(
            f"{_differ(self.root, other.root, 'element')}: this element has another structure than those "
            f"before it, {_text(other.root)} instead of {_text(self.root)} (* is a leaf).\n"
            "  Every element of a dataset must have the same tuples, dict keys and Nones."
            f"{hint}"
        )

    def paths(self) -> list[str]:
        """How a user writes each leaf: `element["image"][0]`. For error messages."""
        return list(_paths(self.root, "element"))

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Structure) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Structure({_text(self.root)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Structure, (self.root,)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree as they are, and its structure.

    >>> flatten([1, 2])  # a list is a leaf
    ([[1, 2]], Structure(*))
    """
    leaves: list[Any] = []
    return leaves, Structure(_scan(tree, "element", leaves, 0))


def _scan(tree: Any, path: str, leaves: list[Any], depth: int) -> Node:
    if isinstance(tree, tuple | dict) and depth == MAX_DEPTH:
        raise UsageError(f"{path}: tuples and dicts are nested more than {MAX_DEPTH} deep; flatten some.")
    if isinstance(tree, tuple):
        fields = _fields(type(tree))
        if fields is None:
            return Tuple(tuple(_scan(tree[i], _item(path, i), leaves, depth + 1) for i in range(len(tree))))
        name = _remember(type(tree), fields)
        pairs = zip(fields, tree, strict=True)
        return Named(name, fields, tuple(_scan(v, f"{path}.{f}", leaves, depth + 1) for f, v in pairs))
    if isinstance(tree, dict):
        nodes = {
            key: _scan(tree[key], _item(path, key), leaves, depth + 1) for key in _sorted_keys(tree, path)
        }
        return Dict(tuple(tree), tuple(nodes[key] for key in tree))
    if tree is None:
        return Nothing()
    leaves.append(tree)
    return _LEAF


def _sorted_keys(keys: Any, path: str) -> list[Any]:
    kinds = {type(key) for key in keys}
    if kinds == {str} or not kinds:
        return sorted(keys)
    if kinds == {int} and all(-(2**63) <= key < 2**63 for key in keys):
        return sorted(keys)
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise UsageError(f"{path}: the keys of a dict must be all str or all 64-bit int, not {found}.")


def _differ(one: Node, other: Node, path: str) -> str:
    """The path of the first place where they differ."""
    if isinstance(one, Dict) and isinstance(other, Dict) and set(one.keys) == set(other.keys):
        theirs = dict(zip(other.keys, other.children, strict=True))
        pairs = [(one.children[i], theirs[one.keys[i]], _item(path, one.keys[i])) for i in _ordered(one)]
    elif isinstance(one, Named) and isinstance(other, Named) and one.fields == other.fields:
        pairs = [
            (a, b, f"{path}.{f}") for a, b, f in zip(one.children, other.children, one.fields, strict=True)
        ]
    elif isinstance(one, Tuple) and isinstance(other, Tuple) and len(one.children) == len(other.children):
        numbered = enumerate(zip(one.children, other.children, strict=True))
        pairs = [(a, b, _item(path, i)) for i, (a, b) in numbered]
    else:
        return path
    return next((_differ(a, b, inner) for a, b, inner in pairs if _canonical(a) != _canonical(b)), path)


def _item(path: str, key: str | int) -> str:
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _ordered(node: Dict) -> list[int]:
    """Where the dict's children are in the order of the leaves."""
    return sorted(range(len(node.keys)), key=node.keys.__getitem__)


def _check(node: Node, depth: int) -> None:
    """Refuse what `flatten` could not have made: the node may come from a file."""
    if isinstance(node, Leaf | Nothing):
        return
    if depth == MAX_DEPTH:
        raise UsageError(f"a structure more than {MAX_DEPTH} levels deep.")
    if isinstance(node, Dict):
        _sorted_keys(node.keys, "structure")
        if len(set(node.keys)) != len(node.keys) or len(node.keys) != len(node.children):
            raise UsageError(f"a dict of {len(node.children)} children whose keys are {list(node.keys)}.")
    if isinstance(node, Named):
        if len(node.fields) != len(node.children):
            raise UsageError(f"{node.name} with {len(node.fields)} fields and {len(node.children)} children.")
        _class_of(node.name, node.fields)
    for child in node.children:
        _check(child, depth + 1)


def _canonical(node: Node) -> Node:
    if isinstance(node, Dict):
        order = _ordered(node)
        children = tuple(_canonical(node.children[i]) for i in order)
        return Dict(tuple(node.keys[i] for i in order), children)
    if isinstance(node, Tuple):
        return Tuple(tuple(map(_canonical, node.children)))
    if isinstance(node, Named):
        return Named(node.name, node.fields, tuple(map(_canonical, node.children)))
    return node


def _paths(node: Node, path: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield path
    elif isinstance(node, Dict):
        for i in _ordered(node):
            yield from _paths(node.children[i], _item(path, node.keys[i]))
    elif isinstance(node, Named):
        for field, child in zip(node.fields, node.children, strict=True):
            yield from _paths(child, f"{path}.{field}")
    elif isinstance(node, Tuple):
        for i, child in enumerate(node.children):
            yield from _paths(child, _item(path, i))


def _builder(node: Node) -> Callable[[Iterator[Any]], Any]:
    """A function that takes the leaves it needs and gives the tree. Made once for very many rows."""
    if isinstance(node, Leaf):
        return next
    if isinstance(node, Nothing):
        return lambda leaves: None
    if isinstance(node, Dict):
        order = _ordered(node)
        items = [(node.keys[i], _builder(node.children[i])) for i in order]
        if order == sorted(order):
            return lambda leaves: {key: build(leaves) for key, build in items}

        def in_its_order(leaves: Iterator[Any]) -> dict[Any, Any]:
            values = {key: build(leaves) for key, build in items}
            return {key: values[key] for key in node.keys}

        return in_its_order
    builders = [_builder(child) for child in node.children]
    if isinstance(node, Tuple):
        return lambda leaves: tuple([build(leaves) for build in builders])
    kind = _class_of(node.name, node.fields)
    # Not kind(...): a class may have its own __new__ with other arguments.
    return lambda leaves: tuple.__new__(kind, [build(leaves) for build in builders])


def _matcher(node: Node) -> Callable[[Any, list[Any]], bool]:
    """A function that adds the leaves of a tree to a list, or says False when the tree is another one.

    It is called for every element; so it has loops where all(...) would take twice the time.
    """
    if isinstance(node, Leaf):

        def match_leaf(tree: Any, leaves: list[Any]) -> bool:
            leaves.append(tree)
            return tree is not None and not isinstance(tree, (tuple, dict))

        return match_leaf
    if isinstance(node, Nothing):
        return lambda tree, leaves: tree is None
    matchers = [_matcher(child) for child in node.children]
    if isinstance(node, Dict):
        items = [(node.keys[i], matchers[i]) for i in _ordered(node)]

        def match_dict(tree: Any, leaves: list[Any]) -> bool:
            if not isinstance(tree, dict) or len(tree) != len(items):
                return False
            for key, match in items:  # noqa: SIM110
                if key not in tree or not match(tree[key], leaves):
                    return False
            return True

        return match_dict
    fields = node.fields if isinstance(node, Named) else None

    def match_tuple(tree: Any, leaves: list[Any]) -> bool:
        if not isinstance(tree, tuple) or len(tree) != len(matchers) or _fields(type(tree)) != fields:
            return False
        for match, child in zip(matchers, tree, strict=True):  # noqa: SIM110
            if not match(child, leaves):
                return False
        return True

    return match_tuple


def _has_none(node: Node) -> bool:
    return isinstance(node, Nothing) or (
        not isinstance(node, Leaf) and any(_has_none(child) for child in node.children)
    )


def _text(node: Node) -> str:
    if isinstance(node, Leaf):
        return "*"
    if isinstance(node, Nothing):
        return "None"
    inner = [_text(child) for child in node.children]
    if isinstance(node, Dict):
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(node.keys, inner, strict=True)) + "}"
    if isinstance(node, Named):
        named = ", ".join(f"{f}={v}" for f, v in zip(node.fields, inner, strict=True))
        return f"{node.name.rpartition(':')[2].rpartition('.')[2]}({named})"
    return "(" + ", ".join(inner) + (",)" if len(inner) == 1 else ")")


# Classes of namedtuples that were seen in this process, also those that no module holds by their name.
_seen: WeakValueDictionary[tuple[str, tuple[str, ...]], type] = WeakValueDictionary()


def _fields(kind: type) -> tuple[str, ...] | None:
    if kind is tuple:
        return None
    fields = getattr(kind, "_fields", None)
    return fields if isinstance(fields, tuple) and all(isinstance(name, str) for name in fields) else None


def _remember(kind: type, fields: tuple[str, ...]) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    _seen[name, fields] = kind
    return name


def _class_of(name: str, fields: tuple[str, ...]) -> type:
    """The namedtuple of that name: one seen before, or one that a loaded module holds, or a new one like it.

    Nothing is imported and no attribute is computed: the name may come from a file.
    """
    seen = _seen.get((name, fields))
    if seen is not None:
        return seen
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if isinstance(found, type) and issubclass(found, tuple) and _fields(found) == fields:
        return found
    return _made(module, qualname, fields)


@lru_cache(maxsize=256)
def _made(module: str, qualname: str, fields: tuple[str, ...]) -> type:
    try:
        # Renaming lets pass the names that an earlier renaming gave; the comparison refuses all others.
        made = namedtuple(qualname.rpartition(".")[2], fields, rename=True)  # type: ignore[misc]
    except ValueError as error:
        raise UsageError(f"{module}:{qualname} is not a namedtuple: {error}.") from None
    if made._fields != fields:
        raise UsageError(f"{module}:{qualname} is not a namedtuple: its fields are {fields}.")
    made.__module__, made.__qualname__ = module, qualname
    return made
