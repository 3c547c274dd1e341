"""Gymnasium's envs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from torchrl_pool.workers.entries import Entry
from torchrl_pool.workers.short_step import ShortStep
from torchrl_pool.workers.spaces import Leaf, leaves_of, writer_of

Outputs: TypeAlias = "tuple[Sequence[Any], Any, Any, Any]"
Info: TypeAlias = Mapping[str, Any]


class GymnasiumAdapter:
    """An :class:`~torchrl_pool.workers.adapters.Adapter` of an env of Gymnasium.

    As with TorchRL's ``GymEnv``, an observation ``"state"`` is named ``"observation"`` where there is none of
    that name, and a picture that is the whole observation ``"pixels"``. Infos have the dtype that NumPy gives
    them (float64 for a float of Python), and are zero where an info dict lacks them.
    """

    specs = None

    def __init__(self, env: gymnasium.Env[Any, Any], info_keys: Sequence[str] = ()) -> None:
        self.env = env
        space = env.observation_space
        actions = leaves_of(env.action_space, "action")
        observations = [_renamed(leaf, space) for leaf in leaves_of(space, "observation")]
        infos = _find_infos(env, info_keys) if info_keys else []
        self.entries = [
            *(leaf.entry for leaf in actions),
            *(leaf.entry for leaf in observations),
            _reward_of(env),
            *(leaf.entry for leaf in infos),
        ]
        self._read = _reader(observations, infos)
        self._find_step()

    @property
    def has_own_state(self) -> bool:
        return _takes(self.env, "get_state", 0) and _takes(self.env, "set_state", 1)

    def state(self) -> tuple[Any, Any]:
        random = getattr(self.env.unwrapped, "_np_random", None)
        return self.env, random if isinstance(random, np.random.Generator) else None

    def restore(self, state: tuple[Any, Any]) -> None:
        self.env, random = state
        self._set_random(random)
        self._find_step()

    def _set_random(self, random: Any) -> None:
        """The env's generator, which states that envs have of their own seldom hold."""
        env: Any = self.env.unwrapped
        own: Any = getattr(env, "_np_random", None)
        if random is None or own is random:
            return
        if type(own) is type(random) and type(own.bit_generator) is type(random.bit_generator):
            own.bit_generator.state = random.bit_generator.state  # others may hold it, too
        else:
            env._np_random = random

    def seed(self, seed: int) -> None:
        self.env.reset(seed=seed)

    def reset(self, seed: int | None, options: Any) -> Sequence[Any]:
        if not self._short.holds(self.env):
            self._find_step()
        observation, info = self.env.reset(seed=seed, options=options)
        return (observation,) if self._read is None else self._read(observation, info)

    def step(self, actions: Sequence[Any]) -> Outputs:
        action = actions[0] if self._write is None else self._write(iter(actions))
        observation, reward, terminated, truncated, info = self._short.step(action)
        outputs = (observation,) if self._read is None else self._read(observation, info)
        return outputs, reward, terminated, truncated

    def _find_step(self) -> None:
        """The shortest way from actions to outputs that this env allows."""
        self._short, self._write = ShortStep(self.env), writer_of(self.env.action_space)
        is_plain = self._read is None and self._write is None
        self.plain_step = (self._short.within, self._short.limit) if is_plain else None


def _reward_of(env: gymnasium.Env[Any, Any]) -> Entry:
    """One number, or the vector of an env that says so in its ``reward_space``, as MO-Gymnasium's do."""
    space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    if len(shape) == 1 and shape != (1,):  # a wrapper may have made one number of them
        env.reset()
        reward: Any = env.step(env.action_space.sample())[1]
        shape = np.shape(reward)
    return Entry("reward", "reward", "float32", shape if len(shape) == 1 else (1,))


def _takes(env: Any, name: str, count: int) -> bool:
    """Whether it has a method of this name that so many arguments are enough for."""
    try:
        inspect.signature(getattr(env, name)).bind(*range(count))
    except (AttributeError, TypeError):
        return False
    except ValueError:  # some of those that C code defines have no signature
        pass
    return True


def _renamed(leaf: Leaf, space: gymnasium.Space[Any]) -> Leaf:
    root, *below = leaf.entry.name.split("/")
    if isinstance(space, gymnasium.spaces.Dict) and root == "state" and "observation" not in space.spaces:
        return replace(leaf, entry=replace(leaf.entry, name="/".join(["observation", *below])))
    if isinstance(space, gymnasium.spaces.Box) and _is_picture(space):
        return replace(leaf, entry=replace(leaf.entry, name="pixels"))
    return leaf


def _is_picture(space: gymnasium.spaces.Box) -> bool:
    """Of whatever dtype, as for TorchRL."""
    is_coloured = len(space.shape) == 3 and space.shape[-1] == 3
    return is_coloured and bool((space.low == 0).all() and (space.high == 255).all())


def _reader(
    observations: Sequence[Leaf], infos: Sequence[Leaf]
) -> Callable[[Any, Info], Sequence[Any]] | None:
    """What takes outputs out of an observation and an info dict; None: the observation is the only one."""
    direct = [leaf.read is None for leaf in observations]
    if direct == [True] and not infos:
        return None
    of_observation = [leaf.read or (lambda observation: observation) for leaf in observations]
    of_info = [leaf.read for leaf in infos if leaf.read is not None]
    if not of_info:
        return lambda observation, info: [read(observation) for read in of_observation]
    return lambda observation, info: [
        *(read(observation) for read in of_observation),
        *(read(info) for read in of_info),
    ]


def _find_infos(env: gymnasium.Env[Any, Any], names: Sequence[str]) -> list[Leaf]:
    """Entries for these infos, as they are found in the info dicts of a reset and a step."""
    at_reset = env.reset()[1]
    at_step = env.step(env.action_space.sample())[4]
    leaves = []
    for name in names:
        keys = name.split("/")
        value = _look_up(at_step, keys)
        if value is None and (value := _look_up(at_reset, keys)) is None:
            there = ", ".join(map(repr, sorted(_paths({**at_reset, **at_step})))) or "nothing"
            raise ValueError(
                f"info key {name!r}: neither reset nor step returned it, or it was None; there is {there}"
            )
        if isinstance(value, Mapping):
            below = ", ".join(repr(f"{name}/{path}") for path in sorted(_paths(value))) or "nothing"
            raise TypeError(f"info key {name!r}: a dict; in it there is {below}")
        array = np.asarray(value)
        entry = Entry(name, "info", str(array.dtype), array.shape)
        leaves.append(Leaf(entry, _info_reader(keys, np.zeros_like(array))))
    return leaves


def _paths(info: Info) -> list[str]:
    """The keys of a dict and of those in it, but for what is None."""
    paths = []
    for key, value in info.items():
        below = _paths(value) if isinstance(value, Mapping) else []
        paths += [f"{key}/{path}" for path in below] or ([] if value is None else [str(key)])
    return paths


def _info_reader(keys: Sequence[str], zeros: Any) -> Callable[[Info], Any]:
    def read(info: Info) -> Any:
        value = _look_up(info, keys)
        return zeros if value is None else value

    return read


def _look_up(info: Any, keys: Sequence[str]) -> Any:
    """None where it is missing."""
    for key in keys:
        if not isinstance(info, Mapping) or key not in info:
            return None
        info = info[key]
    return info
