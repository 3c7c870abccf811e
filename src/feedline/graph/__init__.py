"""The contracts of a pipeline: a step (Node), a step at work (Stream), and what surrounds it (Context).

No I/O here, no threads, and no op.
"""

from feedline.graph.cardinality import INFINITE, UNKNOWN
from feedline.graph.chance import DrawingNode, RandomNode, drawing_nodes, random_nodes, seeded
from feedline.graph.context import Context, Services
from feedline.graph.cursor import Cursor
from feedline.graph.fingerprint import Fingerprint, fingerprint, position_key, strict_fingerprint
from feedline.graph.node import Node, Peek, Site, Source, Wholes, tree
from feedline.graph.stream import Indices, State, Stream

__all__ = [
    "INFINITE",
    "UNKNOWN",
    "Context",
    "Cursor",
    "DrawingNode",
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
    "Wholes",
    "drawing_nodes",
    "fingerprint",
    "position_key",
    "random_nodes",
    "seeded",
    "strict_fingerprint",
    "tree",
]
