"""For tests that ask how often something was computed."""

from __future__ import annotations


class Counted:
    """A function that counts its calls."""

    def __init__(self, function=lambda x: x):
        self.calls = 0
        self._function = function

    def __call__(self, *element):
        self.calls += 1
        return self._function(*element)
