"""Gymnasium's envs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from torchrl_pool._workers.entries import Entry, apart, joined
from torchrl_pool._workers.probe import Info, begun
from torchrl_pool._workers.spaces import Leaf, Write, check_parts, leaves_of, writer_of
from torchrl_pool._workers.wrappers import look_up, watchers_around, wrappers

Outputs: TypeAlias = "tuple[Sequence[Any], Any, Any, Any]"


class GymnasiumAdapter:
    """An :class:`~torchrl_pool._workers.adapters.Adapter` of an env of Gymnasium.

    As with TorchRL's ``GymEnv``, an observation ``"state"`` is named ``"observation"`` where there is none of
    that name, and a picture that is the whole observation ``"pixels"``; ``own_names`` has other names.
    Infos have the dtype that NumPy gives them (float64 for a float of Python), and are zero where an info
    dict lacks them.

    Args:
        env: the env.
        told: what :func:`~torchrl_pool._workers.probe.told_in_steps` knows of it.
        own_names: whether entries have names of their own: see
            :class:`~torchrl_pool._workers.worker.InfoOptions`.

    Raises:
        TypeError: a key of a space is no string, which tensordicts need.
        ValueError: a key of a space holds ``/``, likewise.
    """

    specs = None
    states = ()
    is_restored = False
    tell_info: Callable[[Info, bool], None] | None = None

    def __init__(self, env: gymnasium.Env[Any, Any], told: Sequence[Entry], own_names: bool = False) -> None:
        self.env = env
        space = env.observation_space
        actions, observations = leaves_of(env.action_space, "action"), leaves_of(space, "observation")
        infos = [Leaf(entry, _info_reader(entry)) for entry in told if entry.role == "info"]
        if not own_names:
            _check_keys(env.action_space)
            _check_keys(space)
            observations = [_renamed(leaf, space) for leaf in observations]
        spaces_entries = [leaf.entry for leaf in (*actions, *observations)]
        self.entries = [*(apart(spaces_entries) if own_names else spaces_entries), *told]
        self._read = _reader(observations, infos)
        # As everywhere in Gymnasium; TorchRL and Stable-Baselines3 get by with less, also within a wrapper.
        layers = (env, *(wrapper.env for wrapper in wrappers(env)))
        self._takes_all = all(_takes(layer, "reset", seed=None, options=None) for layer in layers)
        self._gives_ints = not own_names
        self._write = self._writer()

    def _writer(self) -> Write | None:
        """What makes an action of its leaves; a choice becomes an int, as GymEnv gives it."""
        space = self.env.action_space
        if self._gives_ints and isinstance(space, gymnasium.spaces.Discrete):
            start = int(space.start)
            return lambda leaves: int(next(leaves)) + start
        return writer_of(space)

    @property
    def has_own_state(self) -> bool:
        return _has_own(self.env, "get_state") and _has_own(self.env, "set_state", None)

    def state(self) -> tuple[Any, Any]:
        random = getattr(self.env.unwrapped, "_np_random", None)
        return self.env, random if isinstance(random, np.random.Generator) else None

    def restore(self, state: tuple[Any, Any]) -> None:
        self.env, random = state
        self._write = self._writer()
        self._set_random(random)

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

    def begin_from(self, states: Any, set_state: bool | None) -> None:
        raise TypeError("an env of Gymnasium reads no states")

    def seed(self, seed: int) -> None:
        self.env.reset(seed=seed)

    def reset(self, seed: int | None, options: Any) -> tuple[Sequence[Any], bool, bool]:
        if self._takes_all:
            returned = self.env.reset(seed=seed, options=options)
        else:
            given = {"seed": seed, "options": options}
            returned = self.env.reset(**{name: one for name, one in given.items() if one is not None})
        observation, info = begun(returned)
        if info and self.tell_info is not None:
            self.tell_info(info, True)
        outputs = (observation,) if self._read is None else self._outputs(observation, info)
        return outputs, False, False

    def step(self, actions: Sequence[Any], is_last: bool = False) -> Outputs:
        action = actions[0] if self._write is None else self._write(iter(actions))
        returned = _last_step(self.env, action) if is_last else self.env.step(action)
        observation, reward, terminated, truncated, info = returned
        if info and self.tell_info is not None:
            self.tell_info(info, False)
        outputs = (observation,) if self._read is None else self._outputs(observation, info)
        return outputs, reward, terminated, truncated

    def _outputs(self, observation: Any, info: Info) -> Sequence[Any]:
        assert self._read is not None
        try:
            return self._read(observation, info)
        except (LookupError, TypeError):
            check_parts(self.env.observation_space, observation)
            raise


class _Last(gymnasium.Wrapper[Any, Any, Any, Any]):
    """For one step: tells who is around it that the episode ends here."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = self.env.step(action)
        return observation, reward, terminated, True, info

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def _last_step(env: Any, action: Any) -> Any:
    """A step whose end those see who watch the env, and neither what they are around nor a state of it."""
    watchers = watchers_around(env)
    if not watchers:
        return env.step(action)
    within = watchers[-1].env
    watchers[-1].env = _Last(within)
    try:
        return env.step(action)
    finally:
        watchers[-1].env = within


def _has_own(env: Any, name: str, *arguments: Any) -> bool:
    """Whether it has such a method: not that of what it wraps, which knows nothing of its wrappers."""
    if isinstance(env, gymnasium.Wrapper):
        try:
            object.__getattribute__(env, name)
        except AttributeError:
            return False
    return _takes(env, name, *arguments)


def _takes(env: Any, name: str, *arguments: Any, **named: Any) -> bool:
    """Whether it has a method of this name that these arguments are enough for."""
    try:
        inspect.signature(getattr(env, name)).bind(*arguments, **named)
    except (AttributeError, TypeError):
        return False
    except ValueError:  # some of those that C code defines have no signature
        pass
    return True


def _check_keys(space: gymnasium.Space[Any]) -> None:
    """They can be those of tensordicts."""
    match space:
        case gymnasium.spaces.Dict():
            joined(list(space.spaces))
            for child in space.spaces.values():
                _check_keys(child)
        case gymnasium.spaces.Tuple():
            for child in space.spaces:
                _check_keys(child)


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


def _info_reader(entry: Entry) -> Callable[[Info], Any]:
    keys, zeros = entry.name.split("/"), np.zeros(entry.shape, entry.dtype)

    def read(info: Info) -> Any:
        value = look_up(info, keys)
        return zeros if value is None else value

    return read
