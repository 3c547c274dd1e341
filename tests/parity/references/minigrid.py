"""MiniGrid and BabyAI, with players that often reach a reward."""

import contextlib
import io
import warnings
from typing import ClassVar

import gymnasium
import numpy as np
from minigrid_planner import Planner

from references.reference import Reference
from torchrl_pool import PoolEnv
from torchrl_pool.testing import assert_same_trajectories

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import minigrid  # noqa: F401


class AsArrays(gymnasium.ObservationWrapper):
    """A mission as the pool gives it, and BabyAI's prints kept away."""

    def __init__(self, env, chars=None):
        super().__init__(env)
        self._chars = chars

    def reset(self, **kwargs):
        with contextlib.redirect_stdout(io.StringIO()):
            return super().reset(**kwargs)

    def observation(self, observation):
        if not isinstance(observation, dict):
            return observation
        arrays = {"image": observation["image"], "direction": np.int64(observation["direction"])}
        if self._chars is not None:
            mission = observation["mission"]
            if isinstance(mission, str):
                mission = np.frombuffer(mission.encode().ljust(self._chars, b"\0"), np.uint8)
            arrays["mission"] = np.asarray(mission)
        return arrays


class Twins:
    """Envs of minigrid's, and actions for them that often bring a reward."""

    def __init__(self, task, wrap=lambda env: env, chars=None, **kwargs):
        self._make = lambda: AsArrays(wrap(gymnasium.make(task, disable_env_checker=True, **kwargs)), chars)
        self._envs, self._planners, self._random = [], [], np.random.default_rng(7)

    def make(self):
        env = self._make()
        self._envs.append(env)
        self._planners.append(Planner(env))
        return env

    def policy(self, pool, root):
        actions = pool.rand_action()["action"]
        for i, (env, planner) in enumerate(zip(self._envs, self._planners, strict=True)):
            if i == 2:  # the third acts at random
                continue
            if env.unwrapped.step_count == 0:
                planner.begin()
            planned = planner.next_action()
            if (
                planned is not None
                and planned < pool.full_action_spec["action"].n
                and self._random.random() > 0.05 * i
            ):
                actions[i] = planned
            planner.done(planned, int(actions[i]))
        return actions


def observation_spec(task, **options):
    env = PoolEnv(task, 1, device="cpu", **options)
    env.close()
    return env.observation_spec


class MiniGrid(Reference):
    family = "minigrid"
    default: ClassVar = [
        "BabyAI-FindObjS7-v0",
        "BabyAI-KeyInBox-v0",
        "BabyAI-PutNextLocalS6N4-v0",
        "MiniGrid-Dynamic-Obstacles-Random-6x6-v0",
        "MiniGrid-RedBlueDoors-8x8-v0",
    ]

    def steps(self, task):
        slow = task.startswith("BabyAI") and not any(word in task for word in ("Local", "Dist", "OneRoom"))
        return 60 if slow else 150

    def ends(self, task):
        return False  # everywhere

    def ids(self):
        return {
            id for id in gymnasium.registry if id.startswith(("MiniGrid-", "BabyAI-")) and "WFC" not in id
        }

    def compare(self, task, steps, *, seeds=(0,), wrap=lambda env: env, twin=None, **options):
        """As of others; ``wrap``: what the pool's observation is with minigrid's wrappers."""
        chars = None if options.get("mission") == "none" else observation_spec(task)["mission"].shape[-1]
        twins = Twins(task, wrap, chars, **(twin or {}))
        return assert_same_trajectories(
            task, twins.make, steps=steps, seeds=seeds, policy=twins.policy, **options
        )
