"""Random actions and random steps: of all envs, or of those that were received."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._env.arguments import env_indices
from torchrl_pool._env.in_flight import rows_of
from torchrl_pool._env.some_envs import step_some


class hidden_from_class:
    """Decorates a ``rand_action`` that instances have and the class does not show.

    TransformedEnv looks whether a class overrides it, and then refuses random actions wherever a transform
    changes their spec.
    """

    def __init__(self, function: Callable[..., TensorDictBase]) -> None:
        self._function = function

    def __get__(self, env: Any, owner: type) -> Callable[..., TensorDictBase]:
        if env is None:
            return EnvBase.rand_action  # type: ignore[no-any-return]
        return MethodType(self._function, env)


def rand_action(env: EnvBase, tensordict: TensorDictBase | None) -> TensorDictBase:
    """As :meth:`PoolEnv.rand_action`."""
    if tensordict is None or is_for_all(env, tensordict):
        return EnvBase.rand_action(env, tensordict)
    _, indices = rows_of(env, tensordict)
    actions = env.full_action_spec.rand()[indices]
    return tensordict.update(actions if tensordict.batch_dims else actions[0])


def rand_step(env: Any, tensordict: TensorDictBase | None) -> TensorDictBase:
    """As :meth:`PoolEnv.rand_step`."""
    tensordict = env.rand_action(tensordict)
    if is_for_all(env, tensordict):
        stepped: TensorDictBase = env.step(tensordict)
        return stepped
    rows, indices = rows_of(env, tensordict)
    steps = step_some(env, rows, indices)
    return tensordict.set("next", steps if tensordict.batch_dims else steps[0])


def is_for_all(env: EnvBase, tensordict: TensorDictBase) -> bool:
    """Whether row i is env i's, and none is missing."""
    if tensordict.batch_size != env.batch_size:
        return False
    env_index = tensordict.get("env_index", None)
    return env_index is None or env_indices(env_index, env.num_envs) == list(range(env.num_envs))
