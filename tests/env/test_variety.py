"""What may differ without changing the numbers, and what may differ between the envs of one pool."""

import pytest
import torch
from building import load_fault_plugin
from cases import cases
from playing import play

from torchrl_pool import PoolEnv, list_tasks


def test_thousands_of_envs_equal_a_few():
    """Chunks, home queues and sharing are at work here; env i is the same in any pool."""
    many = PoolEnv("CartPole-v1", 5000, num_threads=4)
    few = PoolEnv("CartPole-v1", 8, num_threads=1)
    picked = torch.tensor([0, 1, 624, 625, 2499, 2500, 4998, 4999])
    root, few_root = many.reset(seed=0), few.reset(seed=picked.tolist())
    torch.manual_seed(0)
    for _ in range(100):
        many.rand_action(root)
        few_root.set("action", root["action"][picked])
        data, root = many.step_and_maybe_reset(root)
        few_data, few_root = few.step_and_maybe_reset(few_root)
        assert (data[picked] == few_data).all()
        assert (root[picked] == few_root).all()


def test_one_task_per_env():
    env = PoolEnv(["CartPole-v0", "CartPole-v1", "CartPole-v0"], 3, seed=0, low=0, high=0)
    balanced = env.full_action_spec.zero()["action"]
    root, ends = env.reset(), []
    for step in range(1, 502):
        balanced.zero_()
        # Pushing against the pole's fall keeps it up long enough to meet the time limits.
        pushes = (root["observation"][:, 2] + root["observation"][:, 3] > 0).long()
        balanced.scatter_(1, pushes[:, None], 1)
        data, root = env.step_and_maybe_reset(root.set("action", balanced.clone()))
        ends += [(step, i) for i in data["next", "truncated"].flatten().nonzero().flatten().tolist()]
    assert ends == [(200, 0), (200, 2), (400, 0), (400, 2), (500, 1)]


def test_bounds_per_env_are_in_the_specs():
    load_fault_plugin()
    env = PoolEnv("Fault-v0", 2, env_options=[{"gain": 1.0}, {"gain": 3.0}])
    assert env.action_spec.space.high.tolist() == [[1, 1], [3, 3]]
    actions = torch.cat([env.rand_action()["action"] for _ in range(100)], 1).abs()
    assert actions[0].max() <= 1 < actions[1].max() <= 3


@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "MountainCar-v0"], also=list_tasks("classic")))
def test_obs_dtype_converts_observations_and_nothing_else(task):
    native = play(PoolEnv(task, 3, seed=0, info_keys=("episode_reward",)))
    double = play(PoolEnv(task, 3, seed=0, info_keys=("episode_reward",), obs_dtype=torch.float64))
    assert double["observation"].dtype is torch.float64
    assert double["next", "observation"].equal(native["next", "observation"].double())
    for key in ("reward", "done", "episode_reward"):
        assert double["next", key].equal(native["next", key])
        assert double["next", key].dtype is native["next", key].dtype
    assert PoolEnv(task, 3, obs_dtype=torch.float64).observation_spec["observation"].dtype is torch.float64


def test_info_keys_of_a_task_come_only_when_asked_for():
    load_fault_plugin()
    env = PoolEnv("Fault-v0", 2, info_keys=("steps",))
    data = play(env, steps=5)
    assert data["next", "steps"].tolist() == [[1, 2, 3, 4, 5]] * 2
    assert "steps" not in list(PoolEnv("Fault-v0", 2).rollout(2).keys())
    assert set(env.observation_spec.keys()) == {"observation", "steps"}
