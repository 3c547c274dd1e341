"""TorchRL's ``GymEnv``, by the env of Gymnasium within it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase, GymEnv, GymWrapper

from torchrl_pool._workers.probe import begun
from torchrl_pool._workers.spaces import check_parts
from torchrl_pool._workers.torchrl_adapter import TorchRLAdapter

# From a value to what GymEnv makes of it, as an array; None: that takes GymEnv itself.
Read: TypeAlias = Callable[[Any], Any]

# What users may replace in an instance, after which nobody knows what a step is.
_METHODS = {"_step", "_reset", "step", "reset", "read_action", "read_obs", "read_reward", "read_done"}
_NUMBERS = (float, np.float64, np.float32, int)
_INTEGERS = (int, np.int64, np.int32)


class GymEnvAdapter(TorchRLAdapter):
    """A ``GymEnv`` or ``GymWrapper`` as it comes, with its entries, specs, names and seeds.

    Its steps take ten times as long as those of the env within, for tensors and tensordicts of which the pool
    needs nothing but the numbers. Here actions go to that env, and arrays that are as their specs have them
    come from it. All else is read as GymEnv reads it.

    Args:
        env: one that :meth:`takes` takes.
    """

    def __init__(self, env: GymWrapper) -> None:
        super().__init__(env)
        spec = env.action_spec
        self._is_one_hot = type(spec) is OneHot
        self._is_choice = type(spec) is Categorical and math.prod(spec.shape) == 1
        space = env._env.observation_space
        self._readers = [
            (_path(key, space), _reader(spec)) for key, spec in env.full_observation_spec.items(True, True)
        ]
        self._is_plain = True

    def restore(self, state: tuple[Any, Any]) -> None:
        super().restore(state)
        self._is_plain = self.takes(self.env)
        if not self._is_plain and self._root is None:  # it may be in the midst of an episode
            self._root = TensorDict()

    @staticmethod
    def takes(env: EnvBase) -> bool:
        """Whether a step is no more than one of Gymnasium's env within."""
        return (
            type(env) in (GymEnv, GymWrapper)
            and isinstance(env._env, gymnasium.Env)
            and env.wrapper_frame_skip == 1
            and not env.info_dict_reader
            and env._convert_actions_to_numpy
            and (env.device is None or env.device.type == "cpu")
            and _METHODS.isdisjoint(vars(env))
            and (
                _is_array(env.action_spec) or (type(env.action_spec) is OneHot and env.action_spec.ndim == 1)
            )
            and tuple(env.reward_spec.shape) == (1,)
            and not env.full_state_spec.keys(True, True)
        )

    def reset(self, seed: int | None, options: Any) -> tuple[Sequence[Any], bool, bool]:
        if not self._is_plain:
            return super().reset(seed, options)
        if seed is not None:
            self.env.set_seed(seed)
        observation, _ = begun(self.env._env.reset(**({} if options is None else {"options": options})))
        return self._read(observation), False, False

    def step(self, actions: Sequence[Any], is_last: bool = False) -> tuple[Sequence[Any], Any, bool, bool]:
        if not self._is_plain:
            return super().step(actions)
        (action,) = actions
        if self._is_one_hot:
            hot = action.tolist()
            action = hot.index(max(hot))
        elif self._is_choice:
            action = action.item()
        observation, reward, terminated, truncated, _ = self.env._env.step(action)
        if type(reward) not in _NUMBERS:
            reward = self.env.read_reward(0 if reward is None else 0 + reward).detach().numpy()
        return self._read(observation), reward, terminated, truncated

    def _read(self, observation: Any) -> Sequence[Any]:
        values = []
        for path, read in self._readers:
            value = observation
            for key in path:
                value = value.get(key) if isinstance(value, Mapping) else None
            value = read(value)
            if value is None:
                try:
                    entries = TensorDict(self.env.read_obs(observation), [])
                    return [entries.get(key).detach().numpy() for key in self._observations]
                except (KeyError, AttributeError):
                    check_parts(self.env._env.observation_space, observation)
                    raise
            values.append(value)
        return values


def _path(key: str | tuple[str, ...], space: gymnasium.Space[Any]) -> tuple[str, ...]:
    """Where an entry lies in the observations of a space."""
    if not isinstance(space, gymnasium.spaces.Dict):
        return ()
    root, *below = (key,) if isinstance(key, str) else key
    is_renamed = root == "observation" and root not in space.spaces and "state" in space.spaces
    return ("state" if is_renamed else root, *below)


def _reader(spec: TensorSpec) -> Read:
    dtype, shape = torch.empty((), dtype=spec.dtype).numpy().dtype, tuple(spec.shape)
    if type(spec) is OneHot and len(shape) == 1:
        rows = np.eye(shape[0], dtype=dtype)
        return lambda value: rows[value] if type(value) in _INTEGERS and 0 <= value < len(rows) else None
    if type(spec) is Categorical and not shape:
        return lambda value: value if type(value) in _INTEGERS else None
    if not _is_array(spec):
        return lambda value: None
    return lambda value: (
        value if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape else None
    )


def _is_array(spec: TensorSpec) -> bool:
    """Whether its values are those of Gymnasium's space."""
    return isinstance(spec, (Bounded, Unbounded)) or type(spec) is Categorical  # not of a kind of that
