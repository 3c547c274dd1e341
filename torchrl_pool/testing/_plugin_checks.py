"""Checks of the contract of tasks, each on pools of its own.

A check returns whether it applies to the task, and raises AssertionError where the task fails it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs

from torchrl_pool._env.errors import EnvFailure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._plugins.registry import task_info
from torchrl_pool.testing._unwritten_bytes import all_info_keys, check_bytes

Options = Mapping[str, Any]


def _pool(task: str, num_envs: int, options: Options, **more: Any) -> PoolEnv:
    """With all infos, which show more of an env than its observations do."""
    infos = all_info_keys(task, options)
    return PoolEnv(task, num_envs, device="cpu", **{"info_keys": infos, **options, **more})


def _require_equal(a: TensorDictBase, b: TensorDictBase, what: str) -> None:
    for key in a.keys(True, True):
        mine, other = a[key], b.get(key, None)
        # Bytes, so that a NaN equals itself.
        if other is None or not torch.equal(_bytes(mine), _bytes(other)):
            raise AssertionError(f"{what}: {key!r} is {mine} in one and {other} in the other")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _declarations(task: str, num_envs: int, steps: int, options: Options) -> bool:
    """The task's options can be given, and may have the values that they have by default."""
    info = task_info(task)
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


def _specs(task: str, num_envs: int, steps: int, options: Options) -> bool:
    # With a limit of 2, so that its three steps see an episode end.
    for limit in ({}, {"max_episode_steps": 2}):
        for categorical in (False, True):
            env = _pool(task, num_envs, options, categorical_action_encoding=categorical, **limit)
            check_env_specs(env)
            env.close()
    return True


def _play(
    env: PoolEnv, root: TensorDictBase, steps: int, actions: list[TensorDictBase] | None = None
) -> list[TensorDictBase]:
    """Steps with random actions, or with those given; the tensordicts, the last root included."""
    history = []
    for t in range(steps):
        root = env.rand_action(root) if actions is None else root.update(actions[t])
        root, following = env.step_and_maybe_reset(root)
        history.append(root)
        root = following
    return [*history, root.exclude(*env.action_keys)]  # which are the policy's to write


def _actions_of(env: PoolEnv, history: list[TensorDictBase]) -> list[TensorDictBase]:
    return [td.select(*env.action_keys).clone() for td in history[:-1]]


def _require_same_history(a: list[TensorDictBase], b: list[TensorDictBase], what: str) -> None:
    for t, (x, y) in enumerate(zip(a, b, strict=True)):
        _require_equal(x, y, f"{what}, step {t}")


def _seeds(task: str, num_envs: int, steps: int, options: Options) -> bool:
    first, second = _pool(task, num_envs, options), _pool(task, num_envs, options)
    history = _play(first, first.reset(seed=3), steps)
    actions = _actions_of(first, history)
    again = _play(second, second.reset(seed=3), steps, actions)
    _require_same_history(history, again, "two pools with one seed")
    again = _play(second, second.reset(seed=3), steps, actions)
    _require_same_history(history, again, "one pool that is seeded again")
    first.set_seed(5)
    second.set_seed(5)
    _require_equal(first.reset(), second.reset(), "two pools after set_seed")
    first.close()
    second.close()
    return True


def _places(task: str, num_envs: int, steps: int, options: Options) -> bool:
    """An env depends on its seed and its actions only, not on its index or on its neighbours."""
    together = _pool(task, num_envs, options)
    history = _play(together, together.reset(seed=7), steps)
    together.close()
    for i in range(num_envs):
        alone = _pool(task, 1, options)
        mine = [td[i : i + 1] for td in history]
        again = _play(alone, alone.reset(seed=7 + i), steps, _actions_of(alone, mine))
        _require_same_history(mine, again, f"env {i} among others and alone")
        alone.close()
    return True


def _threads(task: str, num_envs: int, steps: int, options: Options) -> bool:
    one = _pool(task, num_envs, options, num_threads=1)
    history = _play(one, one.reset(seed=1), steps)
    for num_threads in {2, num_envs}:
        several = _pool(task, num_envs, options, num_threads=num_threads)
        again = _play(several, several.reset(seed=1), steps, _actions_of(one, history))
        _require_same_history(history, again, f"1 thread and {num_threads}")
        several.close()
    one.close()
    return True


def _infos(task: str, num_envs: int, steps: int, options: Options) -> bool:
    """Who asks for infos changes nothing else: without, a task gets null pointers for them."""
    if not all_info_keys(task, options):
        return False
    asked, plain = _pool(task, num_envs, options), _pool(task, num_envs, options, info_keys=())
    history = _play(asked, asked.reset(seed=9), steps)
    again = _play(plain, plain.reset(seed=9), steps, _actions_of(asked, history))
    _require_same_history(again, history, "envs without infos and with them")
    asked.close()
    plain.close()
    return True


def _roads(task: str, num_envs: int, steps: int, options: Options) -> bool:
    """One visit per step, and a step followed by a reset."""
    one, other = _pool(task, num_envs, options), _pool(task, num_envs, options)
    a, b = one.reset(seed=2), other.reset(seed=2)
    for t in range(steps):
        a = one.rand_action(a)
        b.update(a.select(*one.action_keys).clone())
        a, following = one.step_and_maybe_reset(a)
        b, plain = EnvBase.step_and_maybe_reset(other, b)
        _require_equal(a, b, f"step_and_maybe_reset and step, step {t}")
        _require_equal(following, plain, f"the root after step {t}")
        a, b = following, plain
    one.close()
    other.close()
    return True


def _masks(task: str, num_envs: int, steps: int, options: Options) -> bool:
    """What a mask leaves out does not move."""
    masked, whole = _pool(task, num_envs, options), _pool(task, num_envs, options)
    mask = torch.arange(num_envs) % 2 == 0
    left = masked.rand_action(masked.reset(seed=4))
    right = whole.reset(seed=4).update(left.select(*masked.action_keys).clone())
    partly = masked.step(left.set("_step", mask))["next"]
    fully = whole.step(right)["next"]
    _require_equal(partly[mask], fully[mask], "stepped envs beside others that wait")
    # The envs that waited take the step now.
    keys = [*masked.action_keys, *masked.done_keys]
    rest = left.select(*keys).clone().set("_step", ~mask)
    caught_up = masked.step(rest)["next"]
    _require_equal(caught_up[~mask], fully[~mask], "envs that waited for a step")
    # A reset of some leaves the others where they are.
    start = masked.reset(fully.select(*masked.done_keys).set("_reset", mask))
    again = whole.reset(fully.select(*whole.done_keys).set("_reset", mask))
    _require_equal(start[mask], again[mask], "envs that are reset")
    action = masked.rand_action()
    after = [
        env.step(root.exclude(*env.action_keys).update(action.clone()))["next"]
        for env, root in ((masked, start), (whole, again))
    ]
    _require_equal(after[0], after[1], "a step after a reset of some")
    masked.close()
    whole.close()
    return True


def _states(task: str, num_envs: int, steps: int, options: Options) -> bool:
    if not task_info(task).can_save:
        return False
    env, other = _pool(task, num_envs, options), _pool(task, num_envs, options)
    root = _play(env, env.reset(seed=6), steps // 2)[-1]
    states = env.get_state()
    history = _play(env, root.clone(), steps)
    actions = _actions_of(env, history)
    env.set_state(states)
    again = _play(env, root.clone(), steps, actions)
    _require_same_history(history, again, "an env whose state is restored")
    other.reset(seed=99)
    other.set_state(states)
    again = _play(other, root.clone(), steps, actions)
    _require_same_history(history, again, "a pool that takes over another's states")
    env.close()
    other.close()
    return True


def _ownership(task: str, num_envs: int, steps: int, options: Options) -> bool:
    env = _pool(task, num_envs, options)
    history = _play(env, env.reset(seed=8), steps)
    copies = [td.apply(torch.clone) for td in history]  # TensorDict.clone may turn -0 into 0
    _play(env, history[-1].clone(), steps)
    env.close()
    for t, (returned, copy) in enumerate(zip(history, copies, strict=True)):
        _require_equal(returned, copy, f"what step {t} returned, and the same later")
    return True


def _written(task: str, num_envs: int, steps: int, options: Options) -> bool:
    return check_bytes(task, steps, options)


def _bounds(task: str, num_envs: int, steps: int, options: Options) -> bool:
    """Finite numbers outside of their bounds are actions, too: see abi.h."""
    return check_bytes(task, steps, options, leaves_bounds=True)


CHECKS: dict[str, Callable[[str, int, int, Options], bool]] = {
    "declarations": _declarations,
    "written bytes": _written,  # before the rest, which assume it
    "actions outside of their bounds": _bounds,
    "specs": _specs,
    "seeds": _seeds,
    "independence": _places,
    "threads": _threads,
    "infos": _infos,
    "step and reset in one visit": _roads,
    "masks": _masks,
    "states": _states,
    "ownership": _ownership,
}


def check_plugin(task: str, *, num_envs: int = 4, steps: int = 50, **options: Any) -> list[str]:
    """Checks that a task keeps the contract of plugins.

    Looks at its options and runs TorchRL's ``check_env_specs``; compares runs with equal seeds, with other
    numbers of threads, with the same envs at other places in the batch, by ``step_and_maybe_reset`` and by
    ``step`` and ``reset``; resets and steps some envs only; saves and restores states; looks for returned
    tensors that change later, for bytes that the task leaves unwritten or writes outside its row, and for
    values that its specs do not admit; sends numbers outside of the bounds of actions, which a task has to
    take. All infos are compared too, and the same envs without them. A plugin
    that was built with ``build_plugin(..., checked=True)`` is also watched while it writes: what it does
    wrong then fails an env with words, where otherwise the process may end.

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
        >>> "threads" in check_plugin("CartPole-v1", num_envs=2, steps=10)
        True
    """
    done = []
    for name, check in CHECKS.items():
        try:
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(0)
                applies = check(task, num_envs, steps, options)
        except (AssertionError, EnvFailure) as error:
            raise AssertionError(f"{task}: {name}: {error}") from error
        if applies:
            done.append(name)
    return done
