"""Functions that were typed into a notebook run in workers."""

from __future__ import annotations

import nbformat
from nbclient import NotebookClient

CELLS = [
    "import os\nimport numpy as np\nimport feedline as fl\nSCALE = 3",
    "class Scaler:\n    def __call__(self, x):\n        return x * SCALE, os.getpid()",
    "ds = fl.Dataset.range(40).map(Scaler(), num_parallel_calls=2)\n"
    "found = list(ds)\n"
    "print([int(x) for x, _ in found] == [3 * i for i in range(40)])\n"
    "print(os.getpid() in {int(pid) for _, pid in found})",
    "SCALE = 5",  # a cell that is run again changes what comes next
    "print(int(max(x for x, _ in ds)))",
    "def numbers(shard):\n    yield from range(shard.index, 6, shard.count)\n"
    "print([int(x) for x in fl.Dataset.from_generator(numbers, workers=2)])",
]


def test_cells_of_a_notebook_use_workers():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    printed = ["".join(part["text"] for part in cell.outputs).split("\n")[:-1] for cell in notebook.cells]
    assert printed == [[], [], ["True", "False"], [], ["195"], ["[0, 1, 2, 3, 4, 5]"]]
