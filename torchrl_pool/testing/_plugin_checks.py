"""The contract of a task: that of all pools, and what its plugin declares and writes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._plugins.registry import task_info
from torchrl_pool.testing._conformance import check_pool, run_checks
from torchrl_pool.testing._unwritten_bytes import all_info_keys, check_bytes


@dataclass(frozen=True)
class _Task:
    id: str
    steps: int
    options: Mapping[str, Any]


def _declarations(task: _Task) -> bool:
    """The task's options can be given, and may have the values that they have by default."""
    info = task_info(task.id)
    of_pools = set(inspect.signature(PoolEnv.__init__).parameters)
    for kind in (info.options, info.reset_options):
        names = [option.name for option in kind]
        for option in kind:
            if names.count(option.name) > 1:
                raise AssertionError(f"{option.name!r} is the name of two options")
            if kind is info.options and option.name in of_pools:
                raise AssertionError(
                    f"the option {option.name!r} cannot be given: PoolEnv has an argument of that name"
                )
            try:
                option.check(option.default)
            except (TypeError, ValueError) as error:
                raise AssertionError(f"a default: {error}") from None
    return True


def _written(task: _Task) -> bool:
    return check_bytes(task.id, task.steps, task.options)


def _bounds(task: _Task) -> bool:
    """Finite numbers outside of their bounds are actions, too: see abi.h."""
    return check_bytes(task.id, task.steps, task.options, leaves_bounds=True)


_CHECKS: dict[str, Callable[[_Task], bool]] = {
    "declarations": _declarations,
    "written bytes": _written,
    "actions outside of their bounds": _bounds,
}


def check_plugin(task: str, *, num_envs: int = 4, steps: int = 50, **options: Any) -> list[str]:
    """Checks that a task keeps the contract of plugins.

    Looks at its options; looks for bytes that the task leaves unwritten or writes outside its row, and for
    values that its specs do not admit; sends numbers outside of the bounds of actions, which a task has to
    take; then runs :func:`check_pool` with all infos. A plugin that was built with
    ``build_plugin(..., checked=True)`` is also watched while it writes: a mistake then fails an env with
    words, where otherwise the process may end.

    Args:
        task: the id of a task.

    Keyword Args:
        num_envs: envs in the pools that are compared.
        steps: steps to compare; enough of them for some episodes to end by themselves is best.
        **options: the task's own options, and :class:`~torchrl_pool.PoolEnv`'s ``max_episode_steps``.

    Returns:
        The names of the checks, without those that the task has nothing for (no saved states, say).

    Raises:
        AssertionError: the task breaks the contract; the message names the check and the entry.

    Examples:
        >>> from torchrl_pool.testing import check_plugin
        >>> "async calls" in check_plugin("CartPole-v1", num_envs=2, steps=10)
        True
    """
    subject = _Task(task, steps, options)
    done = run_checks({name: partial(check, subject) for name, check in _CHECKS.items()}, f"{task}: ")
    # With all infos, which show more of an env than its observations do.
    make = partial(PoolEnv, task, **{"device": "cpu", "info_keys": all_info_keys(task, options), **options})
    try:
        return done + check_pool(
            make,
            num_envs=num_envs,
            steps=steps,
            encodings=[{"categorical_action_encoding": choice} for choice in (False, True)],
            placements=[{"num_threads": count} for count in dict.fromkeys((1, 2, num_envs))],
        )
    except AssertionError as error:
        raise AssertionError(f"{task}: {error}") from error
