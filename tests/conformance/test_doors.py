"""PoolEnv, PoolVectorEnv and PoolVecEnv are doors to the same envs, bit for bit."""

from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from comparing import assert_same
from python_envs import Sampled

from torchrl_pool import PoolEnv
from torchrl_pool.gymnasium import PoolVectorEnv
from torchrl_pool.stable_baselines3 import PoolVecEnv

N, STEPS = 3, 40
TASKS = {
    "choices": ("CartPole-v1", {}),
    "numbers": ("Pendulum-v1", {"max_episode_steps": 9}),
    "pictures": ("ALE/Pong-v5", {"max_episode_steps": 9}),
    "a number": ("FrozenLake-v1", {}),
    "float64": ("Hopper-v5", {"max_episode_steps": 20}),
    "of Python": (partial(gymnasium.make, "CartPole-v1"), {}),
    "of Python, in workers": (Sampled, {"num_workers": 2}),
}


@pytest.mark.parametrize("name", cases(TASKS))
def test_all_doors_give_the_same(name):
    task, options = TASKS[name]
    encoding = {"categorical_action_encoding": True, "info_keys": ["exact_reward"]}
    with (
        closing(PoolEnv(task, N, **encoding, **options)) as pool,
        closing(PoolVectorEnv(task, N, autoreset_mode="SameStep", info_keys=(), **options)) as envs,
        closing(PoolVecEnv(task, N, info_keys=(), **options)) as others,
    ):
        others.seed(5)
        root, (shown, _), also = pool.reset(seed=5), envs.reset(seed=5), others.reset()
        envs.action_space.seed(0)
        ends = 0
        for t in range(STEPS):
            assert_same(shown, root["observation"], f"PoolVectorEnv before step {t}")
            assert_same(also, root["observation"], f"PoolVecEnv before step {t}")
            actions = envs.action_space.sample()
            data, root = pool.step_and_maybe_reset(root.set("action", torch.as_tensor(actions)))
            shown, rewards, terminations, truncations, infos = envs.step(actions)
            also, paid, over, told = others.step(actions)
            after = data["next"]
            flags = {"terminated": terminations, "truncated": truncations, "done": over}
            assert_same(flags, {key: after[key].squeeze(-1) for key in flags}, f"flags of step {t}")
            assert_same(rewards, after["exact_reward"].squeeze(-1), f"rewards of step {t}")
            assert_same(paid, rewards.astype(paid.dtype), f"PoolVecEnv's rewards of step {t}")
            for env in np.flatnonzero(over):
                last = after["observation"][env]
                assert_same(infos["final_obs"][env], last, f"PoolVectorEnv's last observation of env {env}")
                assert_same(told[env]["terminal_observation"], last, f"PoolVecEnv's of env {env}")
                ends += 1
        assert ends >= N
