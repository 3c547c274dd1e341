"""Kinds of pools: how each is made, and which promises are not its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium
import torch
from hopper import hopper
from pettingzoo_envs import Chase, Escape, Nim, chase, escape, nim
from python_envs import Dictionary, Sampled
from torchrl.envs import (
    ActionDiscretizer,
    CatFrames,
    Compose,
    DoubleToFloat,
    EnvBase,
    GymEnv,
    GymWrapper,
    InitTracker,
    ObservationNorm,
    RewardClipping,
    RewardSum,
    StepCounter,
    TicTacToeEnv,
    TransformedEnv,
)
from torchrl_envs import Stateless, TwoAgents

from torchrl_pool import MultiThreadedEnv, PoolEnv, fuse

INFOS = ["step_count", "episode_reward", "is_init"]
ENCODINGS = tuple({"categorical_action_encoding": choice} for choice in (False, True))
THREADS = tuple({"num_threads": count} for count in (1, 2, 4))


@dataclass(frozen=True)
class Kind:
    """Pools that ``check_pool`` makes.

    Attributes:
        without: checks that do not apply, each with the reason.
        serial: makes an env for a SerialEnv that the pools equal; None: there is none.
    """

    make: Callable[..., Any]
    encodings: Sequence[Mapping[str, Any]] = ({},)
    placements: Sequence[Mapping[str, Any]] = ({},)
    without: Mapping[str, str] = field(default_factory=dict)
    serial: Callable[[], EnvBase] | None = None


def mixed(num_envs, **options):
    tasks = ["CartPole-v0", "CartPole-v1"] * num_envs
    return PoolEnv(tasks[:num_envs], **{"info_keys": INFOS, **options})


def of_own_options(num_envs, **options):
    gravities = [{"g": 10.0 + i % 2} for i in range(num_envs)]
    return PoolEnv("Pendulum-v1", num_envs, env_options=gravities, **{"info_keys": INFOS, **options})


def multi_threaded(num_envs, **options):
    return MultiThreadedEnv(num_envs, "CartPole-v1", create_env_kwargs={"info_keys": INFOS, **options})


def fused(task, *transforms):
    """Of a pool behind which these transforms run in the executor, as far as they can."""

    def make(num_envs, **options):
        pool = PoolEnv(task, num_envs, **{"info_keys": ["is_init"], **options})
        return fuse(TransformedEnv(pool, Compose(*[transform() for transform in transforms])))

    return make


def counted():
    return TransformedEnv(GymEnv("CartPole-v1"), StepCounter(7))


def stateless_counted():
    return TransformedEnv(Stateless(), StepCounter(3))


def marked():
    return TransformedEnv(GymEnv("CartPole-v1"), InitTracker())


def discretized():
    return TransformedEnv(GymEnv("Pendulum-v1"), ActionDiscretizer(num_intervals=5))


def dictionary():
    return GymWrapper(Dictionary(), categorical_action_encoding=True)


def wrapped(make):
    return GymWrapper(make())


def drawn():
    return gymnasium.make("CartPole-v1", render_mode="rgb_array")


NEIGHBOURS = {
    "independence": "env i of the pool is not env 0 of another",
    "moved states": "a state is of its env's task and options",
}
UNDRAWN = {"pictures": "the env draws none"}
FUSED = {
    "masks": "TorchRL's: transforms see rows once more that a mask leaves out",
    "states": "a TransformedEnv has none",
    "moved states": "a TransformedEnv has none",
    "async calls": "a TransformedEnv has none",
}


def of_python(env, encodings=({},), without=UNDRAWN, serial=None, **options):
    make = partial(PoolEnv, env, **{"info_keys": INFOS, **options})
    return Kind(
        make,
        encodings,
        tuple({"num_workers": count} for count in (0, 1, 2)),
        without,
        serial or partial(wrapped, env),
    )


def of_torchrl(env, **more):
    return of_python(env, serial=env, **more)


def of_agents(env, **more):
    """Groups of which have no one reward."""
    return of_python(env, **{"info_keys": ["step_count"], **more})


def in_workers(kind):
    return replace(kind, make=partial(kind.make, num_workers=2), placements=({"num_workers": 4}, {}))


NATIVE = {
    "options of each env": Kind(of_own_options, ENCODINGS, THREADS, NEIGHBOURS),
    "a list of tasks": Kind(mixed, ENCODINGS, THREADS, NEIGHBOURS),
    "MultiThreadedEnv": Kind(multi_threaded, placements=THREADS),
    "rounded observations": Kind(
        partial(PoolEnv, "Hopper-v5", obs_dtype=torch.float32, info_keys=INFOS), placements=THREADS
    ),
    "pixels": Kind(
        partial(PoolEnv, "CartPole-v1", from_pixels=True, pixels_only=False, info_keys=INFOS),
        placements=THREADS,
    ),
    "fused": Kind(
        fused("Hopper-v5", DoubleToFloat, RewardSum, StepCounter), placements=THREADS, without=FUSED
    ),
    "fused frames": Kind(
        fused(
            "CartPole-v1",
            lambda: CatFrames(3, dim=-1, in_keys=["observation"]),
            lambda: ObservationNorm(0.5, 2.0, in_keys=["observation"]),
            lambda: RewardClipping(0, 0.5),
            lambda: InitTracker("begins"),
        ),
        ENCODINGS,
        THREADS,
        {**FUSED, "copies": "CatFrames before its first reset has buffers that nothing copies"},
    ),
    "MujocoPool": Kind(hopper, placements=THREADS, without={"infos": "it has fields"}),
}
PYTHON = {
    "Gymnasium": of_python(drawn, ENCODINGS, {}),
    "Gymnasium, an id": of_python(
        "gymnasium:Pendulum-v1",
        render_mode="rgb_array",
        without={},
        serial=partial(GymEnv, "Pendulum-v1"),
    ),
    "Gymnasium, choices": of_python(partial(gymnasium.make, "FrozenLake-v1")),
    "Gymnasium, Box": of_python(Sampled),
    "Gymnasium, Dict": of_python(Dictionary, ENCODINGS[1:], info_keys=["count", "deep/half", "sometimes"]),
    "TorchRL": of_torchrl(partial(GymEnv, "CartPole-v1")),
    "TorchRL, transformed": of_torchrl(counted, info_keys=["episode_reward"]),
    "TorchRL, is_init": of_torchrl(marked, info_keys=["step_count"]),
    "TorchRL, choices": of_torchrl(discretized),
    "TorchRL, Dict": of_torchrl(dictionary),
    "TorchRL, agents": of_agents(TwoAgents, serial=TwoAgents),
    "TorchRL, agents' flags": of_agents(partial(TwoAgents, root_flags=False)),
    "TorchRL, stateless": of_torchrl(Stateless),
    "TorchRL, stateless, transformed": of_torchrl(stateless_counted, info_keys=["episode_reward"]),
    "TorchRL, tic-tac-toe": of_agents(TicTacToeEnv, serial=TicTacToeEnv),
    "PettingZoo": of_agents(Chase, serial=chase),
    "PettingZoo, an end of one": of_agents(Escape, serial=escape),
    "PettingZoo, in turn": of_agents(Nim, serial=nim),
}
# Where the layouts of memory differ that workers write.
IN_WORKERS = ["Gymnasium, Dict", "TorchRL, agents", "TorchRL, stateless", "PettingZoo, an end of one"]
