"""TorchRL's cases of what counts and sums along an episode."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from torchrl.collectors import MultiSyncCollector
from torchrl.envs import (
    EnvCreator,
    InitTracker,
    RenameTransform,
    RewardScaling,
    RewardSum,
    SerialEnv,
    StepCounter,
    TrajCounter,
)
from ways import as_it_is, counted, transformed

import torchrl_pool


def whole_rollout(env, steps, policy=None):
    return env.rollout(steps, policy, break_when_any_done=False)


# ---- StepCounter


@pytest.mark.parametrize("update_done", [False, True])
@pytest.mark.parametrize("max_steps", [4, None])
def test_step_counter_truncates_and_may_leave_done(way, update_done, max_steps):
    env = transformed(way, "Pendulum-v1", StepCounter(max_steps, update_done=update_done))
    after = whole_rollout(env, 14)["next"]
    assert (after["done"] >= after["truncated"]).all() == (update_done or max_steps is None)
    if max_steps is None:
        assert not after["truncated"].any()
    elif update_done:
        assert after["truncated"].flatten().nonzero().flatten().tolist() == [3, 7, 11]
    else:
        assert after["truncated"].flatten().nonzero().flatten().tolist() == list(range(3, 14))


def test_of_two_step_counters_the_shorter_one_decides(way):
    env = transformed(way, "Pendulum-v1", StepCounter(2), StepCounter(3))
    truncated = whole_rollout(env, 10)["next", "truncated"]
    assert truncated.flatten().nonzero().flatten().tolist() == [1, 3, 5, 7, 9]


def test_step_counts_of_roots_and_of_what_follows(way):
    data = whole_rollout(transformed(way, "Pendulum-v1", StepCounter(10)), 30)
    assert data["step_count"].flatten().tolist() == [*range(10)] * 3
    assert data["next", "step_count"].flatten().tolist() == [*range(1, 11)] * 3


@pytest.mark.parametrize("key", ["step_count", "other-key"])
@pytest.mark.parametrize("max_steps", [None, 3])
def test_step_counter_of_agents(way, key, max_steps):
    """The env's own done is above the agents', so that there is one count, but their flags follow it."""
    env = transformed(way, "Agents-v0", StepCounter(max_steps, step_count_key=key), num_envs=4)
    assert env.transform.step_count_keys == [key]
    assert set(env.transform.all_truncated_keys) == {"truncated", ("agents", "truncated")}
    data = whole_rollout(env, 7)
    length = max_steps or 4  # of three agents the last one leaves then
    assert data[key][0].flatten().tolist() == [t % length for t in range(7)]
    if max_steps:
        assert data["next", "truncated"][:, 2::3].all()
        assert data["next", "agents", "truncated"][:, 2::3].all()
        assert data["next", "agents", "done"][:, 2::3].all()
        assert not data["next", "truncated"][:, 0].any()


@pytest.mark.parametrize("max_steps", [None, 10])
def test_partial_reset_keeps_the_counts_of_the_others(way, max_steps):
    env = transformed(way, "Agents-v0", StepCounter(max_steps), num_envs=8)
    count = whole_rollout(env, 3)["step_count"][:, -1]
    mask = torch.rand(8, 1) < 0.5
    root = env.reset(TensorDict({"_reset": mask, "step_count": count}, [8]))
    assert (root["step_count"][mask] == 0).all()
    assert (root["step_count"][~mask] == count[~mask]).all()


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("make", [partial(StepCounter, 10), RewardSum, InitTracker])
def test_a_batch_counts_as_its_envs_do_alone(way, make, stops):
    def rollout(env):
        torch.manual_seed(0)
        env.set_seed(0)
        return env.rollout(30, break_when_any_done=stops)

    together = rollout(transformed(way, "CartPole-v1", make(), num_envs=2, seed=None))
    alone = rollout(SerialEnv(2, lambda: transformed(as_it_is, "CartPole-v1", make(), seed=None)))
    alone = alone.squeeze(1)
    assert set(together.keys(True, True)) == set(alone.keys(True, True))
    for key in together.keys(True, True):
        assert torch.equal(together[key], alone[key]), key


# ---- InitTracker


def test_init_tracker_marks_each_episodes_first_root(way):
    options = [{"end": 4}, {"end": 5}]
    env = transformed(way, "Count-v0", InitTracker(), num_envs=2, env_options=options)
    data = whole_rollout(env, 100, counted)
    assert data["is_init"].sum((1, 2)).tolist() == [25, 20]
    assert not data["next", "is_init"].any()


@pytest.mark.parametrize("key", ["is_init", "loool"])
def test_init_tracker_of_agents(way, key):
    env = transformed(way, "Agents-v0", InitTracker(key), num_envs=5)
    assert env.transform.init_keys == [key]
    marks = whole_rollout(env, 9)[key]
    assert marks[0].flatten().int().tolist() == [1, 0, 0, 0, 1, 0, 0, 0, 1]
    mask = torch.tensor([True, False, True, False, False]).unsqueeze(-1)
    assert torch.equal(env.reset(TensorDict({"_reset": mask}, [5]))[key], mask)


def test_init_tracker_after_a_limit(way):
    env = transformed(way, "Pendulum-v1", StepCounter(max_steps=30), InitTracker())
    assert whole_rollout(env, 100)["is_init"].flatten().nonzero().flatten().tolist() == [0, 30, 60, 90]


# ---- TrajCounter


def test_traj_counter_numbers_episodes(way):
    data = whole_rollout(transformed(way, "Count-v0", TrajCounter(), end=5), 100, counted)
    assert data["traj_count"].max() == 19
    assert torch.equal(data["traj_count"].flatten(), torch.arange(100) // 5)


def test_traj_counter_under_a_nested_name(way):
    rename = RenameTransform(["done"], [("nested", "done")], create_copy=True)
    env = transformed(way, "Count-v0", rename, TrajCounter(("nested", "traj_count")))
    assert whole_rollout(env, 100, counted)["nested", "traj_count"].max() == 19


def test_traj_counter_gives_every_episode_of_a_batch_its_number(way):
    options = [{"end": 5}, {"end": 6}]
    env = transformed(way, "Count-v0", TrajCounter(), num_envs=2, env_options=options)
    data = whole_rollout(env, 100, counted)
    one, other = (set(row.flatten().tolist()) for row in data["traj_count"])
    assert len(one) == 20
    assert len(other) == 17
    assert one | other == set(range(37))
    assert not one & other


def make_limited_env(end):
    return transformed(torchrl_pool.fuse, "Pendulum-v1", TrajCounter(), max_episode_steps=end)


def test_traj_counter_of_several_envs_in_turn(way):
    counter = TrajCounter()
    makers = [partial(transformed, way, "Count-v0", counter.clone(), end=end) for end in (4, 5)]
    env = SerialEnv(2, [EnvCreator(maker) for maker in makers])
    one, other = (set(row.flatten().tolist()) for row in whole_rollout(env, 40)["traj_count"])
    assert not one & other


@pytest.mark.slow  # each of its processes imports torch
def test_traj_counter_agrees_with_a_collectors_numbers():
    collector = MultiSyncCollector(
        [EnvCreator(partial(make_limited_env, end)) for end in (5, 4)],
        total_frames=32,
        frames_per_batch=8,
    )
    try:
        of_collector, of_env = set(), set()
        for batch in collector:
            of_collector |= set(batch["collector", "traj_ids"].flatten().tolist())
            of_env |= set(batch["next", "traj_count"].flatten().tolist())
        assert of_env
        assert len(of_env) <= len(of_collector)  # two processes number theirs by themselves
    finally:
        collector.shutdown()


# ---- RewardSum


def test_reward_sum_sums_what_stands_before_it(way):
    data = transformed(way, "Count-v0", RewardScaling(loc=-1, scale=3.0), RewardSum()).rollout(4)
    assert data["next", "reward"].flatten().tolist() == [2, 2, 2, 2]
    assert data["next", "episode_reward"].flatten().tolist() == [2, 4, 6, 8]
    data = transformed(way, "Count-v0", RewardSum(), RewardScaling(loc=-1, scale=3.0)).rollout(4)
    assert data["next", "reward"].flatten().tolist() == [2, 2, 2, 2]
    assert data["next", "episode_reward"].flatten().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("reset_keys", [[("some", "nested", "reset")], ["_reset"] * 2, None])
def test_reward_sum_of_several_rewards(way, named, reset_keys):
    rewards = [("first", "gift"), ("second", "reward")]
    transform = RewardSum(**({"in_keys": rewards} if named else {}), reset_keys=reset_keys)
    if reset_keys == [("some", "nested", "reset")]:
        with pytest.raises(ValueError, match="Could not match the env reset_keys"):
            transformed(way, "Gifts-v0", transform, num_envs=3).reset()
        return
    after = transformed(way, "Gifts-v0", transform, num_envs=3).rollout(5)["next"]
    assert (after["first", "episode_gift"][:, -1] == 5).all()
    assert (after["second", "episode_reward"][:, -1].squeeze(-1) == torch.tensor([10.0, -15.0])).all()


@pytest.mark.parametrize("key", ["reward_sum", ("some", "nested")])
@pytest.mark.parametrize("as_reward", [False, True])
def test_reward_sum_as_an_observation_or_as_a_reward(way, key, as_reward):
    sums = RewardSum(in_keys=["reward"], out_keys=[key], reward_spec=as_reward)
    env = transformed(way, "Pendulum-v1", sums)
    assert (key in env.reward_keys) is as_reward
    assert (key in env.observation_spec.keys(True)) is not as_reward
    torch.manual_seed(0)
    data = env.rollout(3)
    torch.manual_seed(0)
    rewards = transformed(as_it_is, "Pendulum-v1", RewardSum()).base_env.rollout(3)["next", "reward"]
    assert torch.equal(data["next", "reward"], rewards)
    torch.testing.assert_close(data["next", key][:, -1], rewards.sum(1))


@pytest.mark.parametrize("in_keys", [["reward"], ["reward_1", "reward_2"]])
@pytest.mark.parametrize("out_keys", [["episode_reward"], ["episode_reward_1", "episode_reward_2"]])
def test_reward_sum_of_other_numbers_of_keys(in_keys, out_keys):
    if len(in_keys) == len(out_keys):
        assert RewardSum(in_keys, out_keys).out_keys == out_keys
        return
    with pytest.raises(ValueError, match="same number of input and output keys"):
        RewardSum(in_keys, out_keys)


def test_reward_sum_begins_anew(way):
    env = transformed(way, "Count-v0", RewardSum(), end=3)
    data = whole_rollout(env, 7, counted)
    assert data["next", "episode_reward"].flatten().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert data["episode_reward"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
