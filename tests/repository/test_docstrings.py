"""Docstrings of what is public: summaries, parameters, errors, shapes and examples.

Run as a program it counts what is missing.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cases import cases

from torchrl_pool import PoolCollector, PoolEnv

pytestmark = pytest.mark.docs

MODULES = [
    "torchrl_pool",
    "torchrl_pool.examples",
    "torchrl_pool.gymnasium",
    "torchrl_pool.stable_baselines3",
    "torchrl_pool.testing",
    "torchrl_pool.training",
]
SECTION = re.compile(r"^(Args|Keyword Args|Attributes|Examples|Raises|Returns|Yields):$", re.MULTILINE)
SHAPE = re.compile(r"\[[\w ·*/+,.…-]*\]")
ARRAYS = ("Tensor", "NDArray", "ndarray", "Array")
ELSEWHERE = re.compile(r"\b[Aa]s :(?:meth|class|func):|\b[Aa]s that of\b|\bOtherwise as :meth:")
"""A docstring that takes its parameters, shapes and errors from another one, which it names."""


def public() -> Iterator[tuple[str, Any]]:
    """Public names, and the methods and properties of public classes that the package defines."""
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            thing = getattr(importlib.import_module(module), name)
            if not callable(thing):  # a constant: its docstring is in the source alone
                continue
            yield f"{module}.{name}", thing
            if inspect.isclass(thing):
                for method, function in methods(thing):
                    yield f"{module}.{name}.{method}", function


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__:
        if not base.__module__.startswith("torchrl_pool"):
            continue
        for name, member in vars(base).items():
            function = member.fget if isinstance(member, property) else inspect.unwrap(member)
            is_public = name == "__call__" or not name.startswith("_")
            if is_public and inspect.isfunction(function) and inspect.getattr_static(cls, name) is member:
                yield name, function


PUBLIC = list(dict(public()).items())


def missing(thing: Any) -> list[str]:
    """What the docstring of a class or a function lacks."""
    text = inspect.cleandoc(thing.__doc__ or "")
    if not text or text.startswith(f"{thing.__name__}("):  # dataclasses write that themselves
        return ["docstring"]
    is_method = not inspect.isclass(thing) and "." in thing.__qualname__
    lacks = [] if re.match(r".+[.:?!]$", text.splitlines()[0]) else ["summary line"]
    if not is_method and ">>> " not in text:
        lacks.append("Examples")
    if ELSEWHERE.search(text):
        return lacks
    function = called(thing)
    if function is None:
        return lacks
    documented = parts(text, "Args") + parts(text, "Keyword Args") + parts(text, "Attributes")
    # Ray, once it is imported by TorchRL, adds parameters of its own, such as _ray_trace_ctx.
    parameters = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.name not in ("self", "cls") and not p.name.startswith("_")
    ]
    lacks += [f"Args: {p.name}" for p in parameters if p.name not in documented]
    raised = {error for error in raises(function) if not re.search(rf"\b{error}\b", section(text, "Raises"))}
    lacks += [f"Raises: {error}" for error in sorted(raised)]
    types = [*function.__annotations__.values()]
    if any(kind in str(one) for one in types for kind in ARRAYS) and not SHAPE.search(text):
        lacks.append("shapes")
    return lacks


def called(thing: Any) -> Callable[..., Any] | None:
    """The function whose parameters a docstring tells: the constructor of a class, if it is the package's."""
    if not inspect.isclass(thing):
        return inspect.unwrap(thing)
    function = inspect.unwrap(thing.__init__)
    is_own = getattr(function, "__module__", "").startswith("torchrl_pool")
    return function if is_own and inspect.isfunction(function) else None


def section(text: str, name: str) -> str:
    """The lines of one section."""
    found = re.search(rf"^{name}:\n((?:[ ]+.*\n?|\n)*)", text, re.MULTILINE)
    return found[1] if found else ""


def parts(text: str, name: str) -> list[str]:
    """The names that a section explains."""
    heads = re.findall(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", section(text, name), re.MULTILINE)
    return [one.strip("*") for head in heads for one in head.split(", ")]


def raises(function: Callable[..., Any]) -> set[str]:
    """The exceptions that a function's own code raises, but for what it only passes on."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):  # of a dataclass
        return set()
    return {
        node.exc.func.attr if isinstance(node.exc.func, ast.Attribute) else node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Attribute | ast.Name)
    } - {"env_failure", "unknown_option"}


def test_a_docstring_says_all_that_is_needed():
    assert {name: lacks for name, thing in PUBLIC if (lacks := missing(thing))} == {}


@pytest.mark.parametrize("cls", cases([PoolEnv, PoolCollector]))
def test_entries_are_listed_with_their_shapes_and_dtypes(cls):
    env = PoolEnv("CartPole-v1", 2, categorical_action_encoding=True)
    table = "\n".join(line for line in cls.__doc__.splitlines() if line.lstrip().startswith("|"))
    options = {"frames_per_batch": 6, "total_frames": 6}
    data = env.rollout(3) if cls is PoolEnv else next(iter(PoolCollector(env, None, **options)))
    where = {"observation": "observations"} if cls is PoolCollector else {}
    entries = data if cls is PoolCollector else data.exclude("next").update(data["next"])
    for key in entries.keys(True, True):
        if key[0] == "next":
            continue  # PoolCollector names PoolEnv for these
        name = where.get(key, key if isinstance(key, str) else key[-1])
        (row,) = (line for line in table.splitlines() if re.search(rf'"{name}"|env\'s {name}', line))
        assert SHAPE.search(row)


def test_what_is_missing_is_found():
    def lacking(rows: int, action: Any, **more: Any) -> Any:
        """A summary without an end

        Args:
            rows: how many.
        """
        raise ValueError("always")

    lacking.__annotations__["return"] = "torch.Tensor"
    lacking.__qualname__ = "lacking"
    assert missing(lacking) == [
        "summary line", "Examples", "Args: action", "Args: more", "Raises: ValueError", "shapes"
    ]  # fmt: skip


if __name__ == "__main__":
    found = {name: lacks for name, thing in PUBLIC if (lacks := missing(thing))}
    for name, lacks in found.items():
        print(name, *lacks, sep="\n    ")
    print(sum(map(len, found.values())), "missing parts in", len(found), "of", len(PUBLIC), "docstrings")
