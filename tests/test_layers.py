"""The package's modules know of each other one way only, and so do its folders."""

import ast
import graphlib
from pathlib import Path

import pytest

import torchrl_pool

PACKAGE = Path(torchrl_pool.__file__).parent
COPIED = ("plugins/template", "bench/peers")  # programs of their own


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
    assert modules["torchrl_pool.env.source"] >= {
        "torchrl_pool._core",
        "torchrl_pool.env.arguments",
        "torchrl_pool.plugins.registry",  # imported from its folder, by name
    }
    assert {"torchrl_pool", "torchrl_pool.__main__", "torchrl_pool.testing"} <= set(modules)


def test_tasks_and_plugins_need_no_torch(modules):
    """Pythons that have no torch yet load them."""
    for module, file in source_files().items():
        if module.startswith("torchrl_pool.plugins"):
            named = set(imported_by(ast.parse(file.read_text()), modules))
            assert not {name.split(".")[0] for name in named} & {"torch", "torchrl", "tensordict"}, module


@pytest.mark.parametrize(
    "back",
    ["import p.a.one", "from p.a import one", "from p.a.one import x", "def f():\n    from p.a.one import x"],
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
