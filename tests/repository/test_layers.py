"""Modules know of each other one way only, and so do folders: the package's, and the executor's."""

import ast
import graphlib
import re
from pathlib import Path

import pytest
from cases import cases

import torchrl_pool

pytestmark = pytest.mark.repo

PACKAGE = Path(torchrl_pool.__file__).parent
COPIED = ("_plugins/template",)  # programs of their own


def source_files():
    return {
        name_of(file): file
        for file in [*PACKAGE.rglob("*.py"), PACKAGE / "_core.pyi"]
        if not file.relative_to(PACKAGE).as_posix().startswith(COPIED)
    }


def name_of(file):
    """The module's name: that of its folder for the folder's door."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(tree, modules):
    """The modules that a program names in its imports: inside functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import that starts with a dot"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def import_graph(sources):
    return {
        module: {name for name in imported_by(ast.parse(text), sources) if name in sources} - {module}
        for module, text in sources.items()
    }


def folder_graph(graph):
    """The same for folders; a module that lies in none stands for itself."""
    folders = {module: ".".join(module.split(".")[:2]) for module in graph}
    known = {folder: set() for folder in folders.values()}
    for module, names in graph.items():
        known[folders[module]] |= {folders[name] for name in names} - {folders[module]}
    return known


def cycle_in(graph):
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


@pytest.fixture(scope="module")
def modules():
    return import_graph({name: file.read_text() for name, file in source_files().items()})


def test_no_module_imports_itself_through_others(modules):
    assert cycle_in(modules) is None


def test_no_folder_imports_itself_through_others(modules):
    assert cycle_in(folder_graph(modules)) is None


def test_the_graph_holds_what_it_is_looked_through_for(modules):
    assert modules["torchrl_pool._env.source"] >= {
        "torchrl_pool._core",
        "torchrl_pool._env.arguments",
        "torchrl_pool._plugins.registry",  # imported from its folder, by name
    }
    assert {"torchrl_pool", "torchrl_pool.__main__", "torchrl_pool.testing"} <= set(modules)


def test_tasks_and_plugins_need_no_torch(modules):
    """Pythons that have no torch yet load them."""
    for module, file in source_files().items():
        if module.startswith("torchrl_pool._plugins"):
            named = set(imported_by(ast.parse(file.read_text()), modules))
            assert not {name.split(".")[0] for name in named} & {"torch", "torchrl", "tensordict"}, module


@pytest.mark.parametrize(
    "back",
    cases(
        default=["import p.a.one", "from p.a import one", "from p.a.one import x"],
        also=["def f():\n    from p.a.one import x"],
    ),
)
def test_a_cycle_is_found(back):
    graph = import_graph({"p": "", "p.a": "", "p.a.one": "from p.b.two import y", "p.b": "", "p.b.two": back})
    assert cycle_in(graph) is not None
    assert cycle_in(folder_graph(graph)) is not None


def test_a_cycle_of_folders_alone_is_found():
    graph = import_graph(
        {"p.a.one": "import p.b.two", "p.b.two": "", "p.b.three": "import p.a.four", "p.a.four": ""}
    )
    assert cycle_in(graph) is None
    assert cycle_in(folder_graph(graph)) is not None


# ---- the executor

CORE = Path(__file__).parents[2] / "cpp" / "core"


def include_graph(sources):
    """From part to parts; a header and its source are one."""
    names = {name.rsplit(".", 1)[0] for name in sources}
    graph = {name: set() for name in names}
    for file, text in sources.items():
        name = file.rsplit(".", 1)[0]
        found = re.findall(r'^#include "([\w/]+)\.h"', text, re.MULTILINE)
        graph[name] |= {one for one in found if one in names} - {name}
    return graph


@pytest.fixture(scope="module")
def parts():
    files = [*CORE.rglob("*.h"), *CORE.rglob("*.cc")]
    return include_graph({file.relative_to(CORE).as_posix(): file.read_text() for file in files})


def test_no_part_of_the_executor_includes_itself_through_others(parts):
    assert cycle_in(parts) is None
    assert len(parts) > 40


@pytest.mark.parametrize(("executor", "other"), cases([("threads", "workers"), ("workers", "threads")]))
def test_only_the_pool_knows_which_executor_it_has(parts, executor, other):
    inside = {part for part in parts if part.startswith(f"{executor}/")}
    assert len(inside) > 3
    knows = {part for part in parts.keys() - inside if parts[part] & inside}
    assert knows == {"pool"}
    assert not any(part.startswith(f"{other}/") for one in inside for part in parts[one])


def test_a_cycle_of_includes_is_found():
    sources = {"a.h": "", "a.cc": '#include "x/b.h"\n', "x/b.h": '#include "a.h"\n'}
    assert cycle_in(include_graph(sources)) is not None
