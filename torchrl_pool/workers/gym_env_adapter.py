"""TorchRL's ``GymEnv``, by the env of Gymnasium within it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from torchrl.data import Bounded, Categorical, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase, GymEnv, GymWrapper

from torchrl_pool.workers.gymnasium_adapter import renamed
from torchrl_pool.workers.short_step import short_step
from torchrl_pool.workers.spaces import Leaf, Read, leaves_of
from torchrl_pool.workers.torchrl_adapter import TorchRLAdapter

# What users may replace in an instance, after which nobody knows what a step is.
_METHODS = {"_step", "_reset", "step", "reset", "read_action", "read_obs", "read_reward", "read_done"}


class GymEnvAdapter(TorchRLAdapter):
    """A ``GymEnv`` or ``GymWrapper`` as it comes, with its entries, specs, names and seeds.

    Its steps take ten times as long as those of the env within, for tensors and tensordicts of which the pool
    needs nothing but the numbers. Here these go to that env and come from it as arrays.

    Args:
        env: one that :meth:`takes` takes.
    """

    def __init__(self, env: GymWrapper) -> None:
        super().__init__(env)
        self._is_choice = isinstance(env.action_spec, Categorical)
        self._is_one_hot = isinstance(env.action_spec, OneHot)
        readers = _readers(env)
        assert readers is not None
        self._readers = readers
        self._step, self._is_short = short_step(env._env)

    def restore(self, state: Any) -> None:
        super().restore(state)
        self._step, self._is_short = short_step(self.env._env)

    @staticmethod
    def takes(env: EnvBase) -> bool:
        """Whether a step is no more than one of Gymnasium's env within, and its values are known."""
        return (
            type(env) in (GymEnv, GymWrapper)
            and isinstance(env._env, gymnasium.Env)
            and env.wrapper_frame_skip == 1
            and not env.info_dict_reader
            and env._convert_actions_to_numpy
            and (env.device is None or env.device.type == "cpu")
            and _METHODS.isdisjoint(vars(env))
            and (_is_array(env.action_spec) or type(env.action_spec) is OneHot)
            and not env.full_state_spec.keys(True, True)
            and _readers(env) is not None
        )

    def reset(self, seed: int | None, options: Any) -> Sequence[Any]:
        if seed is not None:
            self.env.set_seed(seed)
        if not self._is_short:
            self._step, self._is_short = short_step(self.env._env)
        observation, _ = self.env._env.reset(**({} if options is None else {"options": options}))
        return [read(observation) for read in self._readers]

    def step(self, actions: Sequence[Any]) -> tuple[Sequence[Any], Any, bool, bool]:
        (action,) = actions
        if self._is_one_hot:
            hot = action.tolist()
            action = hot.index(max(hot))
        elif self._is_choice:
            action = int(action)
        observation, reward, terminated, truncated, _ = self._step(action)
        outputs = [read(observation) for read in self._readers]
        return outputs, 0.0 if reward is None else reward, terminated, truncated  # as GymEnv takes no reward


def _readers(env: GymWrapper) -> list[Read] | None:
    """What takes GymEnv's entries out of an observation, in their order; None: it does more than that."""
    space = env._env.observation_space
    try:
        leaves = {
            leaf.entry.name: leaf for leaf in (renamed(one, space) for one in leaves_of(space, "observation"))
        }
    except TypeError:
        return None
    specs: Mapping[Any, TensorSpec] = dict(env.full_observation_spec.items(True, True))
    names = {key: key if isinstance(key, str) else "/".join(key) for key in specs}
    if set(names.values()) != set(leaves):
        return None
    readers = [_reader(leaves[name], specs[key]) for key, name in names.items()]
    return None if None in readers else [read for read in readers if read is not None]


def _reader(leaf: Leaf, spec: TensorSpec) -> Read | None:
    entry = leaf.entry
    if str(spec.dtype) != f"torch.{entry.dtype}":
        return None
    if _is_array(spec) and tuple(spec.shape) == entry.shape:
        return leaf.read or _itself
    (count,) = entry.categories if len(entry.categories) == 1 else (0,)
    if type(spec) is OneHot and leaf.read is None and not entry.shape and tuple(spec.shape) == (count,):
        rows = np.eye(count, dtype=entry.dtype)
        return rows.__getitem__
    return None


def _is_array(spec: TensorSpec) -> bool:
    """Whether its values are those of Gymnasium's space."""
    return isinstance(spec, (Bounded, Unbounded)) or type(spec) is Categorical  # not of a kind of that


def _itself(value: Any) -> Any:
    return value
