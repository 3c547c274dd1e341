"""The executor's own step_count, episode_reward and is_init against the transforms that they stand for."""

import itertools

import pytest
import torch
from cases import cases
from comparing import assert_same
from tensordict import TensorDict
from torchrl.envs import Compose, InitTracker, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.utils import check_env_specs

from torchrl_pool import PoolEnv, list_tasks

TASKS = [*list_tasks("classic"), "InvertedPendulum-v5", "Pusher-v5"]
KEYS = ("step_count", "episode_reward", "is_init")
TRANSFORMS = {"step_count": StepCounter, "episode_reward": RewardSum, "is_init": InitTracker}
N = 5


def pair(task="CartPole-v1", keys=KEYS, seed=0, **kwargs):
    native = PoolEnv(task, N, info_keys=keys, **kwargs)
    transforms = [TRANSFORMS[key]() for key in keys]
    transformed = TransformedEnv(PoolEnv(task, N, **kwargs), Compose(*transforms))
    assert native.set_seed(seed) == transformed.set_seed(seed)
    return native, transformed


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "Pendulum-v1"], also=TASKS))
def test_specs(task, categorical):
    native, transformed = pair(task, categorical_action_encoding=categorical, device="cpu")
    assert native.observation_spec == transformed.observation_spec
    assert native.reward_spec == transformed.reward_spec
    assert native.done_spec == transformed.done_spec
    assert native.action_spec == transformed.action_spec
    check_env_specs(native, break_when_any_done="both")


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("task", cases(default=["MountainCar-v0"], also=TASKS))
def test_step_and_maybe_reset(task, device):
    native, transformed = pair(task, device=device, max_episode_steps=25)
    a, b = native.reset(), transformed.reset()
    assert_same(a, b)
    assert a["is_init"].all()
    for _ in range(300):
        action = native.rand_action()["action"]
        a, a_root = native.step_and_maybe_reset(a.set("action", action))
        b, b_root = transformed.step_and_maybe_reset(b.set("action", action))
        assert_same(a, b)
        # EnvBase zeroes the old action where an episode begins.
        assert_same(a_root.exclude("action"), b_root.exclude("action"))
        a, b = a_root, b_root


def test_values_over_an_episode():
    """Without transforms to compare with, so that both cannot be wrong alike."""
    env = PoolEnv("Pendulum-v1", N, info_keys=KEYS, max_episode_steps=4, seed=0)
    root = env.reset()
    total = torch.zeros(N, 1)
    for step in range(12):
        begins = step % 4 == 0
        if begins:
            total.zero_()
        assert (root["is_init"] == begins).all()
        assert (root["step_count"] == step % 4).all()
        assert torch.equal(root["episode_reward"], total)
        td, root = env.step_and_maybe_reset(env.rand_action(root))
        total += td["next", "reward"]
        assert not td["next", "is_init"].any()
        assert (td["next", "step_count"] == step % 4 + 1).all()
        assert torch.equal(td["next", "episode_reward"], total)
    assert (total < 0).all()


@pytest.mark.parametrize(
    "keys", [keys for count in (1, 2) for keys in itertools.permutations(KEYS, count)], ids="-".join
)
def test_any_choice_of_keys(keys):
    native, transformed = pair(keys=keys)
    torch.manual_seed(0)
    a = native.rollout(60, break_when_any_done=False)
    torch.manual_seed(0)
    b = transformed.rollout(60, break_when_any_done=False)
    assert a["next", "done"].any()
    assert_same(a, b)


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_partial_resets(shape):
    native, transformed = pair()
    a, b = native.reset(), transformed.reset()
    generator = torch.Generator().manual_seed(0)
    for i in range(200):
        action = native.rand_action()["action"]
        a = native.step_mdp(native.step(a.set("action", action)))
        b = transformed.step_mdp(transformed.step(b.set("action", action)))
        assert_same(a, b)
        mask = a["done"].squeeze(-1) | (torch.rand(N, generator=generator) < 0.1)
        if i % 3 == 0 or a["done"].any():  # now and then with none set
            a = native.reset(a.exclude("action").set("_reset", mask.view(shape)))
            b = transformed.reset(b.exclude("action").set("_reset", mask.view(N, 1)))  # StepCounter's shape
            assert_same(a, b)
            assert torch.equal(a["is_init"].squeeze(-1), mask)
            assert (a["step_count"].squeeze(-1)[mask] == 0).all()


def test_skipped_envs_keep_their_values():
    env = PoolEnv("CartPole-v1", N, info_keys=KEYS, seed=0)
    root = env.reset()
    for _ in range(3):
        root = env.step_mdp(env.step(env.rand_action(root)))
    mask = torch.arange(N) < 2
    after = env.step(env.rand_action(root.set("_step", mask)))["next"]
    assert torch.equal(after["step_count"].squeeze(-1), 3 + mask.long())
    assert torch.equal(after["episode_reward"].squeeze(-1), 3 + mask.float())
    # And the counters are the executor's own: what the tensordict says does not matter.
    action = env.rand_action()["action"]
    after = env.step(TensorDict({"action": action, "step_count": torch.full((N, 1), 99)}, [N]))["next"]
    assert torch.equal(after["step_count"].squeeze(-1), 4 + mask.long())


def test_time_limit_follows_the_count():
    env = PoolEnv("Pendulum-v1", N, info_keys=KEYS, max_episode_steps=6)
    data = env.rollout(40, break_when_any_done=False)
    assert torch.equal(data["next", "truncated"], data["next", "step_count"] == 6)


@pytest.mark.parametrize("task", cases(default=["Pendulum-v1", "CartPole-v1"], also=["Hopper-v5"]))
def test_the_exact_reward_is_rounded_to_the_reward(task, make_pool):
    pool = make_pool(task, N, info_keys=["exact_reward"], max_episode_steps=7, seed=0)
    root = pool.reset()
    assert root["exact_reward"].dtype is torch.float64
    for _ in range(20):
        root["action"] = pool.rand_action()["action"]
        data, root = pool.step_and_maybe_reset(root)
        after = data["next"]
        assert torch.equal(after["exact_reward"].float(), after["reward"])
        assert (root["exact_reward"][after["done"]] == 0).all()
    exact = torch.equal(after["exact_reward"], after["reward"].double())
    assert exact == (task == "CartPole-v1")


def test_the_exact_reward_of_envs_of_python(make_pool):
    keys = ["exact_reward"]
    python = make_pool("gymnasium:Pendulum-v1", 2, info_keys=keys, num_workers=1, seed=0)
    pool = make_pool("Pendulum-v1", 2, info_keys=keys, seed=0)
    root, other = python.reset(), pool.reset()
    for _ in range(5):
        other["action"] = root["action"] = pool.rand_action()["action"]
        after, due = python.step(root)["next"], pool.step(other)["next"]
        assert torch.equal(after["exact_reward"], due["exact_reward"])
        root, other = after.clone(), due.clone()
