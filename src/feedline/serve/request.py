"""What a client asks the service for: a pipeline at a state, and which host should run it."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, replace
from typing import Any

from feedline.errors import UsageError
from feedline.graph import Context, Node, RandomNode, State, drawing_nodes, fingerprint, tree
from feedline.graph.fingerprint.steps import users_functions
from feedline.graph.memory import Budget
from feedline.run.interpreter import place
from feedline.serve.made_datasets import makes_drawing
from feedline.serve.positions import Place
from feedline.serve.protocol import PYTHON, VERSION, Hello, Open, OpenSplit

_MOST_OUTLINE = 200  # characters


@dataclass(frozen=True)
class Request:
    hello: Hello
    key: str
    outline: str
    opening: bytes
    is_fragile: bool

    def at(self, state: State) -> Open:
        return Open(self.key, self.outline, json.dumps(state), self.opening, self.is_fragile)


class SplitRequest:
    """Of one pass of a job, the same at every position."""

    def __init__(
        self, job: str, hello: Hello, pipeline: str, outline: str, seeds: tuple[int, ...], opening: bytes
    ) -> None:
        self.job = job
        self.hello = hello
        self._pipeline = pipeline
        self._outline = outline
        self._seeds = seeds
        self._opening = opening

    def opening(
        self, ack: str, place: Place, process: str, at: tuple[int, int] | None, saved: tuple[int, int] | None
    ) -> OpenSplit:
        return OpenSplit(
            self.job,
            ack,
            self._pipeline,
            self._outline,
            place.epoch,
            self._seeds,
            place.client,
            process,
            place.generation or None,
            at,
            saved,
            self._opening,
        )


def split_request(step: str, node: Node, context: Context, job: str | None) -> SplitRequest:
    """All clients of a job come to the same host. Without a name, a job is known by its pipeline."""
    found = fingerprint(node)
    if job is None:
        if found.problems or found.arguments or found.missing:
            raise UsageError(
                f'{step}(mode="split"): it cannot be told which clients have the same pipeline.\n'
                "  Give all of them the same job:  distribute(..., job=NAME)"
            )
        job = str(found)
    seeds = tuple(one.seed_in(context) for one in drawing_nodes(node))
    here = place()
    hello = Hello(VERSION, PYTHON, _digest(["split", job]), here.directory, here.paths)
    return SplitRequest(
        job, hello, str(found), found.outline[:_MOST_OUTLINE], seeds, _pickled(step, node, context)
    )


def request_for(step: str, node: Node, context: Context, *, is_fragile: bool = False) -> Request:
    """The same `key` is the same blocks. The same host is the same functions, found in the same places.

    If it `is_fragile`, blocks have one row, and are made when they are asked for.
    """
    found = fingerprint(node)
    seeds = [(one, one.seed_in(context)) for one in drawing_nodes(node)]
    if is_fragile:
        context = replace(context, block_rows=1)
    functions = _functions(node)
    opening = _pickled(step, node, context)
    # What does not tell what it is might be something else in another client.
    is_known = not (found.problems or found.arguments or found.missing)
    mark = str(found) if is_known else secrets.token_hex(16)
    here = place()
    drawn = [seed for one, seed in seeds if isinstance(one, RandomNode) or makes_drawing(one)]
    at = [context.epoch, drawn, context.must_repeat, context.block_rows, context.block_bytes, is_fragile]
    code = [part for part in found.parts.items() if _is_of_code(part[0])] if is_known else mark
    host = _digest([code, here.directory, here.paths] if functions else "no functions")
    hello = Hello(VERSION, PYTHON, host, here.directory, here.paths)
    return Request(hello, _digest([mark, at]), found.outline[:_MOST_OUTLINE], opening, is_fragile)


def _functions(node: Node) -> list[Any]:
    return [function for one in tree(node) for function in users_functions(one)]


def _pickled(step: str, node: Node, context: Context) -> bytes:
    """The pipeline and its context, as a host opens them."""
    from feedline.run.pickling import dumps

    # Seeds of steps after this one are not the service's business, nor are those steps.
    seeds: dict[Node, int] = {one: one.seed_in(context) for one in drawing_nodes(node)}
    # Nor are the limits of this process.
    context = replace(context, seeds=seeds, blocks_are_copied=True, open_files=(), budget=Budget())
    try:
        return dumps((node, context), *_functions(node))
    except Exception as error:
        raise UsageError(
            f"{step}: the pipeline cannot be sent to the reader service: {type(error).__name__}: {error}\n"
            "  Make what cannot be pickled within the function."
        ) from error


def _is_of_code(part: str) -> bool:
    """Does a part of a fingerprint tell of functions: what they are, what they reach, or their name?"""
    is_function = ": function " in part or ": class " in part or part.startswith(("library ", "python"))
    return is_function or (": " not in part and "(" in part)


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()
