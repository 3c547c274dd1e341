"""A fused env gives what TorchRL's TransformedEnv gives, through every way of stepping it.

In the long form over a thousand steps each, a hundred of Atari's.
"""

from __future__ import annotations

import pytest
import torch
from cases import LONG, cases
from pipelines import (
    CASES,
    LEFT,
    Case,
    adds_up_the_batch,
    assert_same,
    fused_env,
    looks_at_rows,
    over_gym_envs,
    pool_of,
    torchrl_env,
)
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, TransformedEnv
from torchrl.envs.utils import check_env_specs
from ways import Way, resets_by_a_mask_alone, rollouts, steps, turns

from torchrl_pool import PoolCollector

N = 4
# All of them are kept until they are compared: of pictures that are gigabytes.
MOST = {"atari": 100 if LONG else 12, "agents": 1000 if LONG else 16}
VECTOR_STEPS = 1000 if LONG else 24

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*VecNorm"),
    pytest.mark.filterwarnings("ignore:This class is to be deprecated"),
]


# By default one chain of each kind: counters, floats, statistics, what looks at other rows, agents.
FEW = ("counters", "scaled_again", "init_tracker", "vec_norm_each", "normal_then_maxima", "mappo")


def parametrized(chains: list[Case]) -> pytest.MarkDecorator:
    few = [case for case in chains if case[0] in ("classic", "agents") and case[1] in FEW]
    return pytest.mark.parametrize("case", cases(few, also=chains), ids=" ".join)


pipelines = parametrized(CASES)
# Of Atari games a pool's pictures are not those of GymEnv, with or without transforms.
on_cartpole = [case for case in CASES if case[0] == "classic"]
gymnasiums = [case for case in CASES if case[0] in ("classic", "mujoco", "box2d")]
gymnasiums = [case for case in gymnasiums if not adds_up_the_batch(case)]


def pair(case: Case, **options: object) -> tuple[TransformedEnv, TransformedEnv]:
    """The fused env, and TorchRL's over a pool of the same seed."""
    pools = [pool_of(case, N, seed=3, num_threads=2, **options) for _ in range(2)]
    return fused_env(pools[0], case), torchrl_env(pools[1], case)


def assert_equals_torchrl(way: Way, case: Case, *, in_order: bool = False) -> None:
    """Both envs give the same in a way of stepping them so many times."""
    results = []
    for env in pair(case):
        torch.manual_seed(0)
        results.append(list(way(env, MOST.get(case[0], VECTOR_STEPS))))
    for ours, theirs in zip(*results, strict=True):
        assert_same(ours, theirs, exact=not adds_up_the_batch(case), in_order=in_order)


@pipelines
@pytest.mark.parametrize("way", [turns, rollouts])
def test_every_pipeline(case, way):
    assert_equals_torchrl(way, case)


@pipelines
@pytest.mark.parametrize("way", [steps, resets_by_a_mask_alone])
def test_further_ways(case, way):
    # Agents' entries come after all that transforms have added to the root's own.
    assert_equals_torchrl(way, case, in_order=way is steps and case[0] != "agents")


@parametrized(gymnasiums)
def test_rollouts_over_gymnasiums_envs(case):
    fused, reference = fused_env(pool_of(case, N), case), over_gym_envs(case, N)
    assert fused.set_seed(5) == reference.set_seed(5)
    data = []
    for env in (fused, reference):
        torch.manual_seed(0)
        data.append(env.rollout(VECTOR_STEPS, break_when_any_done=False))
    assert_same(*data, in_order=False)


# ---- specs


@pipelines
def test_specs(case):
    fused, reference = pair(case)
    assert fused.output_spec == reference.output_spec
    assert fused.input_spec == reference.input_spec
    assert fits_its_specs(fused) is fits_its_specs(reference)


def fits_its_specs(env: EnvBase) -> bool:
    """RewardSum takes the bounds of one signed reward for those of their sum."""
    try:
        check_env_specs(env)
    except AssertionError:
        return False
    return True


# ---- collectors


def batches(kind: type[Collector], env: EnvBase, policy: object = None, **options: object) -> list:
    torch.manual_seed(0)
    frames = env.batch_size.numel() * 12
    collector = kind(env, policy, frames_per_batch=frames, total_frames=3 * frames, **options)
    collected = [batch.clone() for batch in collector]
    assert kind is Collector or collector.writes_once is not bool(collector.env.fusion().rest)
    collector.shutdown()
    return collected


@pipelines
def test_torchrls_collector(case):
    fused, reference = pair(case)
    expected = batches(Collector, reference)
    for ours, theirs in zip(batches(Collector, fused), expected, strict=True):
        assert_same(ours, theirs, exact=not adds_up_the_batch(case), in_order=False)


@pipelines
def test_a_pool_collector_fuses_by_itself(case):
    expected = batches(Collector, pair(case)[1])
    for ours, theirs in zip(batches(PoolCollector, pair(case)[1]), expected, strict=True):
        assert_same(ours, theirs, exact=not adds_up_the_batch(case), in_order=False)


@parametrized([case for case in on_cartpole if looks_at_rows(case) and case[1] not in LEFT])
def test_double_buffered_collectors_yield_the_same_transitions(case):
    def act(root):  # to the left, until the pole falls
        (key,) = action_keys
        return root.set(key, torch.tensor([1, 0]).expand(*root.batch_size, 2).clone())

    collected = []
    for groups in (1, 2):
        env = fused_env(pool_of(case, N, seed=3, num_threads=2), case)
        action_keys = env.action_keys
        collected.append(batches(PoolCollector, env, act, double_buffered=groups, trust_policy=True))
    for batch, expected in zip(*collected, strict=True):
        assert_same(batch.exclude("collector"), expected.exclude("collector"), in_order=False)


# ---- async calls, threads


@parametrized([case for case in CASES if case[1] not in ("double_actions", "actions_renamed")])
def test_async_calls(case):
    """They are the pool's own, with its actions, and no transform sees them, as with any TransformedEnv."""
    results = []
    for env in pair(case):
        root = env.reset()
        torch.manual_seed(0)
        env.rand_action(root)
        env.async_step_and_maybe_reset_send(root[:1], [0])
        env.async_step_and_maybe_reset_send(root[1:], [1, 2, 3])
        results.append(env.async_step_and_maybe_reset_recv(min_get=N))
    for fused, reference in zip(*results, strict=True):
        assert_same(fused, reference, exact=not adds_up_the_batch(case), in_order=False)


@parametrized([case for case in on_cartpole if not looks_at_rows(case)])
def test_statistics_do_not_depend_on_the_number_of_threads(case):
    data = []
    for num_threads in (1, 2, 4):
        env = fused_env(pool_of(case, 64, seed=0, num_threads=num_threads), case)
        torch.manual_seed(0)
        data.append(env.rollout(60, break_when_any_done=False))
    assert_same(data[1], data[0])
    assert_same(data[2], data[0])


@parametrized([case for case in on_cartpole if not looks_at_rows(case) and case[1] != "v2_by_row"])
def test_statistics_do_not_depend_on_which_group_is_done_first(case):
    """Groups of a double-buffered collector learn in the order in which they are stepped."""
    data = []
    for num_threads in (1, 2, 4):
        env = fused_env(pool_of(case, 64, seed=0, num_threads=num_threads), case)
        data.append(batches(PoolCollector, env, double_buffered=3))
    for batch, *others in zip(*data, strict=True):
        for other in others:
            assert_same(other, batch)
