"""What Keras hears when it is given a Dataset itself: to pass `ds.to_keras()`.

Keras chooses an adapter by the class of the data. It has no registry to add a class to, and to subclass its
DataAdapter, `import feedline` would have to import Keras. So Keras refuses a Dataset. But first it looks for
`__array__`, to see whether the data can be made an array, and that is where it gets the advice.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from feedline.errors import UsageError


class NoArray:
    """An `__array__` that is missing, with a word of advice if Keras is who looks for it."""

    def __get__(self, instance: object, owner: type) -> NoReturn:
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        if instance is not None and asking.startswith("keras."):
            raise UsageError(
                "Keras does not take a feedline Dataset itself. Pass what to_keras() makes of it:\n"
                "  model.fit(train.to_keras(), validation_data=validation.to_keras())\n"
                "  Likewise for model.evaluate(...) and model.predict(...)."
            )
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute '__array__'", name="__array__", obj=instance
        )
