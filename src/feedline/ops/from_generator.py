"""from_generator: the elements that a Python generator yields.

The state is how many they were, and a digest of them. A restored stream runs the generator again and drops as
many; by the digest it notices when they are not the same.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Ragged, take
from feedline.errors import NotRepeatable, UsageError
from feedline.graph import UNKNOWN, Context, Node, Peek, State, Stream
from feedline.graph.calls import Collector
from feedline.joining import alone
from feedline.row_digest import RowDigest
from feedline.spec import (
    ARRAYS,
    STRING,
    ArraySpec,
    ObjectSpec,
    RaggedSpec,
    Shape,
    Spec,
    as_leaf,
    dtype_name,
    merge_specs,
)
from feedline.structure import Structure, flatten

_END = object()
_LARGE = 1 << 15
_SAMPLE = 4096  # bytes of each array that the digest is of
_DROPPED = 256  # elements at a time that a restored stream passes over
_REPEATABLE = "Make the generator repeatable: seed its random numbers, and sort what it lists."


@dataclass(frozen=True)
class Shard:
    """Which part of the elements a generator is to yield: `index` of `count`, counted from 0."""

    index: int
    count: int


@dataclass(frozen=True, eq=False)
class FromGenerator(Node):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    signature: Any  # a tree of specs, or None
    shard: Shard | None = None  # for the function, which then gives a part of the elements

    runs_python = True
    lends_rows = True

    @classmethod
    def of(cls, function: Any, args: Any, output_signature: Any, **site: Any) -> FromGenerator:
        if not callable(function):
            raise UsageError(
                f"from_generator: give a function that returns an iterable, not {type(function).__name__}.\n"
                "  It is called anew for each iteration: give the generator function itself, without ()."
            )
        if args is not None and not isinstance(args, tuple | list):
            raise UsageError(f"from_generator(args={args!r}): give a tuple, for one argument (x,).")
        signature = None
        if output_signature is not None:
            leaves, structure = flatten(output_signature)
            if not leaves:
                raise UsageError(
                    f"from_generator(output_signature={output_signature!r}): give a spec for each array; "
                    "without a signature, it is inferred."
                )
            paths = [path.replace("element", "output_signature", 1) for path in structure.paths()]
            specs = [_spec(leaf, path) for leaf, path in zip(leaves, paths, strict=True)]
            signature = structure.unflatten(specs)
        return cls(function, tuple(args or ()), signature, **site)

    def check_takes_shard(self) -> None:
        try:
            inspect.signature(self.function).bind(*self.args, shard=Shard(0, 1))
        except TypeError as error:
            raise UsageError(
                f"from_generator(workers=...): the function cannot be called with args and shard=: {error}.\n"
                "  Each worker calls it with shard=feedline.Shard(index, count), to yield that part only."
            ) from None
        except ValueError:
            pass  # it does not tell what it takes

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        if self.signature is not None:
            return self.signature
        return peek(self) if peek else None

    def open(self, context: Context, state: State) -> Stream:
        return _GeneratorStream(self, context, state)


@dataclass(frozen=True)
class Shards:
    """The function that gives the dataset of each shard of a generator."""

    generator: FromGenerator
    count: int
    dataset: Callable[[Node], Any]

    @property
    def function(self) -> Callable[..., Any]:
        return self.generator.function

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, index: int) -> Any:
        return self.dataset(replace(self.generator, shard=Shard(int(index), self.count)))


def _spec(leaf: Any, path: str) -> Spec:
    """The spec that a leaf of the user's signature means: one of feedline's, TensorFlow's, jax's ..."""
    if isinstance(leaf, ObjectSpec):
        return leaf
    is_spec = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    if not is_spec or isinstance(leaf, type | np.ndarray | np.generic):
        raise UsageError(
            f"from_generator: {path} must be a spec, with a shape and a dtype, not {type(leaf).__name__}.\n"
            "  A list is no structure: give tuples and dicts of specs."
        )
    dtype = np.dtype(getattr(leaf.dtype, "as_numpy_dtype", leaf.dtype))
    dtype = STRING if dtype.kind in "SUT" else dtype.newbyteorder("=")
    try:
        dtype_name(dtype)
    except UsageError as error:
        raise UsageError(f"from_generator: {path}: {error}") from None
    shape = _shape(leaf.shape)
    rank = getattr(leaf, "ragged_rank", 0)
    if rank and shape is not None:
        return RaggedSpec(shape, dtype, rank)
    return ArraySpec(shape, dtype)


def _shape(shape: Any) -> Shape | None:
    # A TensorShape of unknown rank cannot be iterated.
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    return tuple(None if size is None else int(size) for size in shape)


class _GeneratorStream(Stream):
    def __init__(self, node: FromGenerator, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._passed: int  # elements that were given or raised
        self._wanted: str | None  # the digest of those that were given; older states have none
        self._passed, self._wanted = state if isinstance(state, list) else (state or 0, None)
        self._digest = RowDigest(sample=_SAMPLE)
        self._number = 0  # of the generator's next element
        self._elements: Iterator[Any] | None = None
        self._ended = False
        self._results = _Own(node) if node.signature is None else _Signed(node, node.signature)
        self._error: Exception | None = None  # of the next element, after those in front of it

    def next(self, limit: int) -> Block | None:
        if self._error is None:
            self._drop()
            self._fill(min(limit, self._context.block_rows))
            if len(self._results):
                self._passed += len(self._results)
                block = self._results.lend() if self._context.blocks_are_copied else self._results.block()
                self._digest.add(block)
                return block
        if self._error is not None:
            error, self._error = self._error, None
            self._passed += 1
            raise error
        return None

    def _fill(self, rows: int) -> None:
        late = self._context.services.deadline()
        results = self._results
        while len(results) < rows:
            try:
                element = self._advance()
                if element is _END:
                    return
                results.add(element)
            except Exception as error:
                number = self._passed + len(results)
                error.add_note(f"  in {self._node}, at element {number:,} of the generator (counted from 0)")
                self._error = error
                return
            if results.is_borrowed or late():
                return

    def _advance(self) -> Any:
        """The next element, or _END."""
        if self._ended:
            return _END
        try:
            if self._elements is None:
                self._elements = self._start()
            element = next(self._elements, _END)
        except Exception:
            self._number += 1
            raise
        if element is _END:
            self.close()
        else:
            self._number += 1
        return element

    def _start(self) -> Iterator[Any]:
        self._ended = True  # unless it starts
        node = self._node
        made = node.function(*node.args, **({} if node.shard is None else {"shard": node.shard}))
        if not isinstance(made, Iterable):
            raise UsageError(
                f"{self._node}: the function must return an iterable, such as a generator, not {made!r}."
            )
        self._ended = False
        return iter(made)

    def _drop(self) -> None:
        """Go to where the state was taken."""
        if self._number == self._passed:
            return
        while self._number < self._passed:
            try:
                element = self._advance()
                if element is not _END:
                    self._results.add(element)  # what it is binds those that follow
            except Exception:
                continue  # it was raised before
            if element is _END:
                return self._refuse(
                    f"the generator ended after {self._number:,} elements; when it was left, it had given "
                    f"{self._passed:,}"
                )
            if self._results.is_borrowed or len(self._results) == _DROPPED:
                self._digest.add(self._results.block())
        if len(self._results):
            self._digest.add(self._results.block())
        if self._wanted not in (None, self._digest.digest().hex()):
            self._refuse(f"the generator does not repeat the first {self._passed:,} elements")

    def _refuse(self, what: str) -> None:
        """A warning where only this run is concerned; an error where others rely on what was given before."""
        if not self._context.must_repeat and not self._ended:
            told = f"{self._node}: {what}. From here on, elements may be lost or repeated."
            return warnings.warn(f"{told}\n  {_REPEATABLE}", RuntimeWarning, stacklevel=2)
        self.close()
        raise NotRepeatable(f"{self._node}: {what}, so it cannot go on from there.\n  {_REPEATABLE}")

    def state(self) -> State:
        return [self._passed, self._digest.digest().hex() if self._digest.is_comparable else None]

    def close(self) -> None:
        self._ended = True
        elements, self._elements = self._elements, None
        close = getattr(elements, "close", None)
        if close is not None:
            close()


class _Own(Collector):
    """Copies arrays when they come: many a generator fills the same one again for its next element.

    A large one is not: copied into a block at once, before the generator goes on, it is copied only once.
    """

    is_borrowed = False  # is there an array that is the generator's?

    @property
    def is_set(self) -> bool:
        return self._structure is not None

    def _as_leaves(self, leaves: list[Any], structure: Structure) -> list[Any]:
        return list(map(self._own, super()._as_leaves(leaves, structure)))

    def _own(self, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            if leaf.nbytes < _LARGE:
                return leaf.copy()
            self.is_borrowed = True
        return take(leaf, np.arange(len(leaf))) if isinstance(leaf, Ragged) else leaf

    def block(self) -> Block:
        self.is_borrowed = False
        return super().block()

    def lend(self) -> Block:
        """The same, as the generator's own arrays where that is possible."""
        if len(self) > 1 or not self.is_borrowed:
            return self.block()
        assert self._structure is not None
        columns = [alone(leaves[0]) for leaves in self._leaves]
        self.is_borrowed = False
        self.clear()
        return Block._trusted(self._structure, columns, 1)


class _Signed(_Own):
    """Converts elements to what the signature says, as NumPy and tf.data do: 1.7 becomes 1 as an int."""

    def __init__(self, node: Node, signature: Any) -> None:
        super().__init__(node)
        self._signature = signature
        self._specs, self._structure = flatten(signature)
        self._paths = self._structure.paths()
        self._leaves = [[] for _ in self._specs]

    def add(self, value: Any) -> None:
        leaves: list[Any] = []
        self._flatten(self._signature, value, "element", leaves)
        converted = list(map(self._converted, leaves, self._specs, self._paths))
        for column, leaf in zip(self._leaves, converted, strict=True):
            column.append(leaf)
        self._count += 1

    def _flatten(self, signature: Any, value: Any, path: str, leaves: list[Any]) -> None:
        """The parts of the value that belong to the leaves of the signature, whatever they are.

        So a tuple may stand for an array, where the signature has one.
        """
        if isinstance(signature, tuple):
            if isinstance(value, type(signature)) and len(value) == len(signature):
                for at, (one, part) in enumerate(zip(signature, value, strict=True)):
                    self._flatten(one, part, f"{path}[{at}]", leaves)
                return
        elif isinstance(signature, dict):
            if isinstance(value, dict) and value.keys() == signature.keys():
                for key in sorted(signature):
                    self._flatten(signature[key], value[key], f"{path}[{key!r}]", leaves)
                return
        elif signature is not None:
            leaves.append(value)
            return
        elif value is None:
            return
        raise UsageError(
            f"{self._step}: {path} is {_short(value)}, and output_signature has {signature} there.\n"
            "  Yield the tuples and dicts that the signature has."
        )

    def _converted(self, value: Any, spec: Spec, path: str) -> Any:
        if isinstance(spec, ArraySpec):
            leaf = self._array(value, spec.dtype, path)
            shape = () if isinstance(leaf, bytes) else leaf.shape
            if spec.shape is not None and not _fits(shape, spec.shape):
                raise UsageError(
                    f"{self._step}: {path} has shape {shape}, and output_signature says {spec.shape}.\n"
                    "  In a signature, None stands for a size that changes."
                )
            return leaf
        if isinstance(spec, RaggedSpec) and not (
            isinstance(value, Ragged) and merge_specs(value.spec, spec) == spec
        ):
            raise UsageError(f"{self._step}: {path} is {_short(value)}, and output_signature says {spec}.")
        return self._own(as_leaf(value, path))

    def _array(self, value: Any, dtype: np.dtype[Any], path: str) -> Any:
        if isinstance(value, ARRAYS) and value.dtype == dtype and dtype != STRING:
            return self._own(value)
        try:
            if dtype == STRING:
                return as_leaf(value if isinstance(value, bytes | str) else np.array(value, STRING), path)
            if np.issubdtype(dtype, np.number):
                return np.asarray(value, order="C").astype(dtype)[()]  # what is too large wraps around
            return np.array(value, dtype, order="C")[()]
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(
                f"{self._step}: {path} is {_short(value)}, which cannot be made {dtype_name(dtype)}, as "
                f"output_signature says: {error}"
            ) from error


def _fits(shape: tuple[int, ...], wanted: Shape) -> bool:
    return len(shape) == len(wanted) and all(b is None or a == b for a, b in zip(shape, wanted, strict=True))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:70]} ... of {type(value).__name__}"
