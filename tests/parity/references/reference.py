"""A family's envs as others made them, and what comparisons have to know of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import gymnasium
import pytest
from torchrl.envs import GymEnv

from torchrl_pool import list_tasks, task_info
from torchrl_pool._plugins.registry import open_config
from torchrl_pool.testing import assert_same_trajectories

N = 3  # envs that are compared at a time


def gymnasium_env(task, **kwargs):
    if task_info(task).family == "box2d":
        pytest.importorskip(
            "Box2D", reason="there are wheels of box2d for CPython 3.11 to 3.13 on x86-64 alone"
        )
    return gymnasium.make(task, disable_env_checker=True, **kwargs)


def gymnasium_tasks(family=None):
    """Those of our tasks that Gymnasium has too, but for those that other packages register."""
    known = [task for task in list_tasks(family) if task in gymnasium.registry]
    return [task for task in known if task_info(task).family not in ("atari", "minigrid")]


def specs_of(task, role):
    """The executor's specs of a task's entries."""
    return [spec for spec in open_config(task, {}).specs if spec.role == role]


def info_keys(task):
    """All that the task's own info dicts have."""
    return [spec.name for spec in specs_of(task, "info")]


class Reference:
    """A family's reference.

    Attributes:
        family: its name here.
        entry_point: how the entry points of its ids begin in Gymnasium's registry.
        renamed: our names of arguments that it registers; None: no option.
        default: the tasks that are compared by default.
        default_options, more_options: tasks with options, which both sides take by these names.
    """

    family: ClassVar[str]
    entry_point: ClassVar[str]
    renamed: ClassVar[Mapping[str, str | None]] = {}
    default: ClassVar[list[str]]
    default_options: ClassVar[list[tuple[str, dict[str, Any]]]] = []
    more_options: ClassVar[list[tuple[str, dict[str, Any]]]] = []

    @property
    def tasks(self) -> list[str]:
        return list_tasks(self.family)

    def ids(self) -> set[str]:
        """What the reference has of the family."""
        return {
            id
            for id, spec in gymnasium.registry.items()
            if str(spec.entry_point).startswith(self.entry_point)
        }

    def make(self, task, **options):
        """A twin for these options."""
        return gymnasium_env(task, **options)

    def torchrl(self, task, **options):
        """The env of TorchRL that stands for it in a SerialEnv."""
        return GymEnv(task, **options)

    def infos(self, task) -> Iterable[str]:
        """The info keys that are compared."""
        return info_keys(task)

    seeds: ClassVar[tuple[int, ...]] = (0,)

    def steps(self, task) -> int:
        """So many that episodes end where ``ends`` says so."""
        return 150

    def ends(self, task) -> bool:
        return True

    def policy(self, pool, root):
        """Actions that bring episodes to ends of each kind."""
        return pool.rand_action()["action"]

    def compare(self, task, steps, *, num_envs=N, seeds=(0,), policy=None, make=None, twin=None, **options):
        """The pool's rollouts, equal to the twin's: made with ``options``, or with those of ``twin``."""
        return assert_same_trajectories(
            task,
            make or (lambda: self.make(task, **(options if twin is None else twin))),
            num_envs=num_envs,
            steps=steps,
            seeds=seeds,
            info_keys=[*self.infos(task), "exact_reward"],
            policy=policy or self.policy,
            **options,
        )
