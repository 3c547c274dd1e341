"""Resets and steps of some of the envs: the masks "_reset" and "_step"."""

import pytest
import torch
from small_envs import N, cartpole, fall_right
from tensordict import TensorDict
from torchrl.envs import ConditionalSkip, GymEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv, fuse


def stepped(env, steps=5, seed=0):
    root = env.reset(seed=seed)
    for _ in range(steps):
        root = env.step_mdp(env.step(fall_right(root)))
    return root


def test_a_reward_of_the_root_stays_where_a_mask_leaves_its_row_out():
    """As in SerialEnv, which TorchRL's MultiAction relies on."""
    env, serial = PoolEnv("CartPole-v1", 3), SerialEnv(3, lambda: GymEnv("CartPole-v1"))
    rewards = []
    for one in (env, serial):
        root = one.rand_action(one.reset()).set("reward", torch.full((3, 1), 5.0))
        rewards.append(one.step(root.set("_step", torch.tensor([True, False, True])))["next", "reward"])
    assert torch.equal(*rewards)
    assert rewards[0].flatten().tolist() == [1, 5, 1]


def test_partial_reset_with_seed():
    env = cartpole()
    root = stepped(env)
    mask = torch.tensor([False, True, False, True])
    after = env.reset(root.clone().set("_reset", mask), seed=100)
    expected = cartpole().reset(seed=100)
    assert torch.equal(after["observation"][mask], expected["observation"][mask])
    assert torch.equal(after["observation"][~mask], root["observation"][~mask])


def test_partial_reset_of_done_envs_keeps_the_others_flags():
    env = cartpole(max_episode_steps=3)
    root = env.reset(seed=0)
    for _ in range(3):
        root = env.step(fall_right(root))["next"].exclude("reward")
    assert root["truncated"].all()
    mask = torch.tensor([True, False, True, False])
    after = env.reset(root.set("_reset", mask))
    for key in ("done", "truncated"):
        assert torch.equal(after[key].squeeze(-1), ~mask)
    assert not after["terminated"].any()


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: fuse(TransformedEnv(env, RewardSum()))])
def test_no_reset_of_some_agents(wrap):
    env = wrap(PoolEnv("mpe2/simple_spread_v3", N))
    root = env.reset()
    mask = torch.ones(N, 3, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"\('agent', '_reset'\): expected '_reset', a mask of envs"):
        env.reset(root.clone().set(("agent", "_reset"), mask))
    with pytest.raises(TypeError, match=r"'_reset': expected a mask .*, got TensorDict"):
        env.reset(root.clone().set("_reset", TensorDict({"agent": mask}, [N])))
    both = root.set(("agent", "_reset"), mask).set("_reset", torch.arange(N)[:, None] < 1)
    after = env.reset(both.clone())["agent", "observation"]
    same = (after == both["agent", "observation"]).flatten(1).all(1)
    assert same.tolist() == [False, *[True] * (N - 1)]


def test_skipped_envs_keep_their_done_flags():
    env = cartpole(max_episode_steps=3)
    root = env.reset(seed=0)
    for _ in range(3):
        root = env.step(fall_right(root))["next"].exclude("reward")
    mask = torch.tensor([False, True, True, False])
    after = env.step(fall_right(root).set("_step", mask))["next"]
    assert after["truncated"].all()
    assert after["done"].all()
    assert torch.equal(after["reward"].squeeze(-1) != 0, mask)


def test_conditional_skip_equals_that_of_serial_env():
    def make(base):
        env = TransformedEnv(base, StepCounter())
        return env.append_transform(ConditionalSkip(lambda td: td["observation"][..., :1] > 0))

    ours = make(PoolEnv("CartPole-v1", 3))
    reference = make(SerialEnv(3, lambda: GymEnv("CartPole-v1")))
    for env in (ours, reference):
        env.set_seed(0)
    a, b = ours.reset(), reference.reset()
    skipped = 0
    for _ in range(40):
        a, b = fall_right(a), fall_right(b)
        a, a_root = ours.step_and_maybe_reset(a)
        b, b_root = reference.step_and_maybe_reset(b)
        for key in ("observation", "reward", "done", "step_count"):
            assert torch.equal(a["next", key], b["next", key])
        skipped += int((a["next", "reward"] == 0).sum())
        a, b = a_root.exclude("_step"), b_root.exclude("_step")
    assert skipped
