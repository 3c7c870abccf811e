"""The contracts of a pipeline: a step (Node), a step at work (Stream), and what surrounds it (Context).

No I/O here, no threads, and no op.
"""

from feedline.graph.cardinality import INFINITE, UNKNOWN
from feedline.graph.chance import RandomNode, random_nodes
from feedline.graph.context import Context, Services
from feedline.graph.cursor import Cursor
from feedline.graph.fingerprint import Fingerprint, fingerprint, position_key, strict_fingerprint
from feedline.graph.node import Node, Peek, Site, Source, tree
from feedline.graph.stream import Indices, State, Stream

__all__ = [
    "INFINITE",
    "UNKNOWN",
    "Context",
    "Cursor",
    "Fingerprint",
    "Indices",
    "Node",
    "Peek",
    "RandomNode",
    "Services",
    "Site",
    "Source",
    "State",
    "Stream",
    "fingerprint",
    "position_key",
    "random_nodes",
    "strict_fingerprint",
    "tree",
]
