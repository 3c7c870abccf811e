"""What `import feedline` costs, and how its modules may import each other."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import feedline

SOURCES = sorted(Path(feedline.__file__).parent.rglob("*.py"))


def modules_after(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter that has run `statement`."""
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_import_feedline_says_in_one_sentence_that_it_needs_linux(platform):
    script = f"import sys; sys.platform = {platform!r}; import feedline"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: feedline runs on Linux only, and this is {platform!r}. "
        "Use a Linux machine, a container, or WSL 2."
    )


def test_import_feedline_imports_no_framework():
    frameworks = {"tensorflow", "keras", "torch", "jax", "ray", "redis"}
    assert not frameworks & modules_after("import feedline")


# Counting what is imported, not seconds: a time limit would fail on a busy machine and pass on a fast one.
def test_import_feedline_imports_little_beyond_numpy():
    beyond_numpy = modules_after("import feedline") - modules_after("import numpy")
    assert not {"typer", "rich", "ml_dtypes", "asyncio", "multiprocessing", "unittest"} & beyond_numpy
    third_party = {name for name in beyond_numpy - sys.stdlib_module_names if not name.startswith("_")}
    assert third_party <= {
        "feedline",
        "msgspec",
        "typing_extensions",
    }  # msgspec takes the last if it is there


# import-linter takes `from feedline import _native` for an import of the whole package, because it does not
# see compiled modules, and is told to ignore that. So what it would then miss is looked for here.
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_module_imports_the_public_face(source):
    package = Path(feedline.__file__).parent
    if source.parent == package and source.name == "__init__.py":
        return
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "feedline":
            for name in (alias.name for alias in node.names):
                is_module = (package / name).is_dir() or (package / f"{name}.py").is_file()
                assert is_module or name == "_native", f"{source}: from feedline import {name}"
        elif isinstance(node, ast.Import):
            assert "feedline" not in [alias.name for alias in node.names], f"{source}: import feedline"
