"""What the default run of the tests leaves to their long form: it is marked ``slow``.

The default run looks at every behaviour once. It leaves out

- what is marked ``slow`` where it is defined, because it takes long for what it adds;
- of a test that goes through many tasks of a family, all but one task of each kind (``kind_of``);
- of a test whose parameters are multiplied, the combinations whose values others have (``covering``), unless
  it is marked ``every_combination``.

``TORCHRL_POOL_LONG_TESTS=1`` runs all of it, over more steps and from more seeds (``LONG``); ``-m slow`` runs
what the default run leaves out, and nothing else.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pytest

LONG = bool(os.environ.get("TORCHRL_POOL_LONG_TESTS"))
GAMES = ("ALE/Breakout-v5", "ALE/MsPacman-v5", "ALE/Pong-v5")
FEW_TASKS, FEW_COMBINATIONS = 4, 9  # so many all run


def few_of(values: Iterable[object], few: Iterable[object]) -> list[object]:
    """All values, for ``parametrize``, of which by default but these few run."""
    few = list(few)
    return [value if value in few else pytest.param(value, marks=pytest.mark.slow) for value in values]


def mark_slow(items: Sequence[pytest.Item]) -> None:
    """Marks what the default run leaves out."""
    functions: dict[Hashable, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            functions[item.parent.nodeid, item.originalname].append(item)
    for same in functions.values():
        kept = representatives(same)
        if not same[0].get_closest_marker("every_combination"):
            kept = [kept[i] for i in covering([values_of(item) for item in kept])]
        for item in set(same) - set(kept):
            item.add_marker("slow")


def representatives(items: list[pytest.Function]) -> list[pytest.Function]:
    """Those whose tasks stand for all: of each kind the last, which has the highest number."""
    from torchrl_pool import list_tasks, task_info  # not before the warnings of its imports are filtered

    known = set(list_tasks())
    tasks_of = [
        known & {value for value in item.callspec.params.values() if isinstance(value, str)} for item in items
    ]
    families: dict[str, dict[Hashable, set[str]]] = defaultdict(lambda: defaultdict(set))
    for task in set().union(*tasks_of):
        families[task_info(task).family][kind_of(task)].add(task)
    left_out = set()
    for kinds in families.values():
        if sum(map(len, kinds.values())) > FEW_TASKS:
            left_out |= {task for kind in kinds.values() for task in kind - {max(kind)}}
    return [item for item, tasks in zip(items, tasks_of, strict=True) if not tasks & left_out]


def values_of(item: pytest.Function) -> dict[str, int]:
    """What tells the values of its parameters apart, which need not be comparable."""
    return {name: id(value) for name, value in item.callspec.params.items()}


def kind_of(task: str) -> Hashable:
    """What a task shares with those that differ from it in numbers alone."""
    from torchrl_pool import task_info

    info = task_info(task)
    match info.family:
        case "minigrid":  # sizes, and how many objects
            return task.split("-")[0], info.description
        case "mujoco":  # revisions
            return task.rpartition("-v")[0]
        case "dm_control":  # goals of the same body
            return task.split("-")[0]
        case "robotics":  # rewards and mazes
            return task.replace("Dense", "").split("_")[0]
        case "atari" if task not in GAMES:  # one program with many cartridges
            return "a game"
        case _:
            return task


def covering(cases: Sequence[Mapping[str, int]]) -> list[int]:
    """Positions of cases that together have each value of each parameter, or of all where they are few."""
    if len(cases) <= FEW_COMBINATIONS:
        return list(range(len(cases)))
    unseen = {pair for case in cases for pair in case.items()}
    chosen = []
    while unseen:
        best = max(range(len(cases)), key=lambda i: (len(unseen & cases[i].items()), -i))
        chosen.append(best)
        unseen -= cases[best].items()
    return chosen
