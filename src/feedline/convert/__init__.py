"""Files of other formats -> TFRecords. A new format is a module `from_...` and its name in `formats`."""

from feedline.convert.converting import Conversion, convert
from feedline.convert.formats import INFER_FROM, files_of, sources_of

__all__ = ["INFER_FROM", "Conversion", "convert", "files_of", "sources_of"]
