"""What is used though it is private to TorchRL, tensordict and torch is there, and told of in one place."""

import ast
import importlib
import inspect
import re

from private_names import PRIVATE
from test_layers import source_files

# Of Python itself, Gymnasium and Stable-Baselines3.
OTHERS = {
    *("_args_from_interpreter_flags", "_bootstrap", "_clear", "_exit", "_extra_reducers", "_fd"),
    *("_flush_std_streams", "_identity", "_log_to_stderr", "_logger", "_lru_cache_wrapper", "_parent_pid"),
    *("_process_counter", "_registered_with_atexit", "_registry", "_resource_tracker", "_run_exitfuncs"),
    *("_run_finalizers", "_shutdown", "_slotnames", "_add_info", "_np_random"),
    *("_reset_options", "_reset_seeds", "_at_fork_reinit", "_is_owned"),
}
LIBRARIES = ("torch", "torchrl", "tensordict")
ROWS = [(row.place, name) for row in PRIVATE for name in row.names.split()]


def found_at(place):
    module, _, name = place.partition(":")
    owner = importlib.import_module(module)
    return getattr(owner, name) if name else owner


def is_there(owner, name):
    """Whether it has that attribute, or its instances may: its code or that of a base names it."""
    if hasattr(owner, name):
        return True
    for base in getattr(owner, "__mro__", ()):
        try:
            code = inspect.getsource(base)
        except (TypeError, OSError):  # not in Python
            continue
        if re.search(rf"\b{name}\b", code):
            return True
    return False


def test_what_is_used_is_there():
    gone = [f"{place}.{name}" for place, name in ROWS if not is_there(found_at(place), name)]
    assert gone == []


def private_names_in(tree):
    """Names that begin with an underscore: those that a program uses, and those that it defines itself."""
    used, defined = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            (defined if of_self and isinstance(node.ctx, ast.Store) else used).add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node.slice, ast.Constant):  # vars(self)["_name"] = …
                defined.add(node.slice.value)
        elif isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in LIBRARIES:
            private_module = any(part.startswith("_") for part in node.module.split("."))
            used |= {alias.name for alias in node.names if private_module or alias.name.startswith("_")}
    return used, defined


def test_what_is_private_is_told_of():
    used, defined = set(), set()
    for file in source_files().values():
        if file.suffix == ".py":
            in_file = private_names_in(ast.parse(file.read_text()))
            used |= in_file[0]
            defined |= in_file[1]
    used = {name for name in used if not name.startswith("__") and name != "_C"}
    private = {name for name in used if name.startswith("_")} - defined
    assert private - OTHERS - {name for _, name in ROWS} == set(), (
        "tests/repository/private_names.py lacks them"
    )
    assert {name for _, name in ROWS} - used - defined == set(), "nothing uses them any more"
    assert OTHERS - used - defined == set()
