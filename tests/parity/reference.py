"""Gymnasium's own envs, as what a pool is compared with."""

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG  # noqa: F401 (for tests here)

from torchrl_pool import list_tasks, task_info

N = 3  # envs that are compared at a time, unless a test says otherwise


def gymnasium_tasks(family=None):
    """Those of our tasks that Gymnasium has too, but for those that other packages register."""
    known = [task for task in list_tasks(family) if task in gymnasium.registry]
    return [task for task in known if task_info(task).family not in ("atari", "minigrid")]


def gymnasium_env(task, **kwargs):
    if task_info(task).family == "box2d":
        pytest.importorskip(
            "Box2D", reason="there are wheels of box2d for CPython 3.11 to 3.13 on x86-64 alone"
        )
    return gymnasium.make(task, disable_env_checker=True, **kwargs)


class Reference:
    """One Gymnasium env per row, each reset without a seed when its episode ends.

    Attributes:
        infos: the info dicts of the last step, or of the reset with a seed where there was none since.
    """

    def __init__(self, makers, reset_options=None, attributes=None):
        self.envs = [make() for make in makers]
        self.reset_options = reset_options
        for env in self.envs:
            for name, value in (attributes or {}).items():
                assert hasattr(env.unwrapped, name)
                setattr(env.unwrapped, name, value)

    def reset(self, seed):
        resets = [env.reset(seed=seed + i, options=self.reset_options) for i, env in enumerate(self.envs)]
        self.infos = [info for _, info in resets]
        return torch.from_numpy(np.stack([observation for observation, _ in resets]))

    def step(self, actions):
        """The entries of "next", and the observations of the next root."""
        last, first, rewards, terminated, truncated = [], [], [], [], []
        self.infos = []
        for env, action in zip(self.envs, actions, strict=True):
            action = action.numpy() if action.ndim else int(action)
            observation, reward, env_terminated, env_truncated, info = env.step(action)
            self.infos.append(info)
            # A copy: MountainCarContinuous returns the very array that holds its state.
            last.append(np.array(observation))
            rewards.append([reward])
            terminated.append([env_terminated])
            truncated.append([env_truncated])
            if env_terminated or env_truncated:
                observation = env.reset(options=self.reset_options)[0]
            first.append(np.array(observation))
        after = {
            "observation": torch.from_numpy(np.stack(last)),
            "reward": torch.tensor(np.array(rewards), dtype=torch.float32),
            "terminated": torch.tensor(terminated),
            "truncated": torch.tensor(truncated),
        }
        after["done"] = after["terminated"] | after["truncated"]
        return after, torch.from_numpy(np.stack(first))


def assert_registered_as_in_gymnasium(task, renamed=None):
    """Limits and registered arguments; ``renamed`` has our names of some of these, None: no option."""
    info, reference = task_info(task), gymnasium.spec(task)
    assert info.max_episode_steps == reference.max_episode_steps, task
    assert info.reward_threshold == reference.reward_threshold, task
    defaults = {option.name: option.default for option in info.options}
    for name, value in reference.kwargs.items():
        ours = (renamed or {}).get(name, name)
        if ours is not None:
            assert defaults[ours] == value, f"{task}: {name}"
