"""The fingerprint of a pipeline: what it gives, as 32 digits that are the same wherever the same is given.

`code` tells what a function does, `reached` what it reaches, `origin` whose it is, `objects` what an object
holds, `texts` what any value is; `remembered` knows large arrays. `steps` puts together what a pipeline is,
and `result` is what comes of it. `position` is a smaller one. What counts,
and why, is in docs/decisions/0010.
"""

from feedline.graph.fingerprint.position import position_key
from feedline.graph.fingerprint.result import Fingerprint
from feedline.graph.fingerprint.steps import fingerprint, strict_fingerprint

__all__ = ["Fingerprint", "fingerprint", "position_key", "strict_fingerprint"]
