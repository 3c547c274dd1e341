"""Transforms that are changed, moved or shared after they were fused."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch
from pipelines import OBS, assert_same
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import PoolCollector, PoolEnv, fuse

N = 4


def over_pool(*transforms: t.Transform) -> TransformedEnv:
    return TransformedEnv(PoolEnv("CartPole-v1", N, seed=0), Compose(*transforms))


def play(env: TransformedEnv, steps: int = 20):
    torch.manual_seed(0)
    return env.rollout(steps, break_when_any_done=False)


def play_twice(env: TransformedEnv, change):
    """What follows a change between two rollouts."""
    play(env, 5)
    change(env.transform[0])
    return play(env)


def sent(transform: t.Transform) -> None:
    """Its tensors go into shared memory, and what was theirs is freed."""
    queue = torch.multiprocessing.SimpleQueue()
    queue.put(transform.state_dict())
    queue.get()


@pytest.mark.parametrize(
    "make",
    [
        lambda: t.VecNormV2(OBS, decay=0.9, reduce_batch_dims=True),
        lambda: VecNorm(OBS, decay=0.9),
        lambda: t.CatFrames(3, -1, in_keys=OBS),
        lambda: t.TimeMaxPool(in_keys=OBS, T=3),
        lambda: t.ObservationNorm(torch.zeros(4), torch.ones(4), in_keys=OBS),
    ],
)
@pytest.mark.parametrize("move", [sent, lambda transform: transform.share_memory()])
def test_what_a_transform_keeps_may_move(make, move):
    """What it left would be freed memory, in which others' tensors lie: these are made, and watched."""

    def change(transform):
        move(transform)
        others.extend(torch.full((size,), 7.0) for size in (4, 16, 48) for _ in range(200))

    others: list[torch.Tensor] = []
    expected = play_twice(over_pool(make()), change)
    others.clear()
    env = fuse(over_pool(make()))
    assert_same(play_twice(env, change), expected, exact=False)
    assert all((other == 7).all() for other in others)


def test_data_that_is_replaced():
    norm = t.ObservationNorm(torch.zeros(4), torch.ones(4), in_keys=OBS)

    def change(transform):
        transform.loc.data = torch.full((4,), 3.0)

    expected = play_twice(over_pool(norm.clone()), change)
    assert_same(play_twice(fuse(over_pool(norm)), change), expected)


def test_what_moves_while_a_batch_is_collected_is_refused():
    norm = t.ObservationNorm(torch.zeros(4), torch.ones(4), in_keys=OBS)

    def policy(tensordict):
        norm.loc.data = norm.loc.clone()
        action = torch.nn.functional.one_hot(torch.zeros(tensordict.shape, dtype=torch.int64), 2)
        return tensordict.set("action", action)

    collector = PoolCollector(over_pool(norm), policy, frames_per_batch=16, total_frames=16)
    with pytest.raises(RuntimeError, match="was moved while a batch was collected"):
        next(iter(collector))
    collector.shutdown()


def test_gradients_of_parameters_are_torchrls():
    loc = torch.zeros(4, requires_grad=True)
    env = fuse(over_pool(t.ObservationNorm(loc, torch.ones(4), in_keys=OBS)))
    assert env.reset()["observation"].requires_grad
    assert env.fusion().rest


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (
            lambda: t.ObservationNorm(0.5, 2.0, in_keys=OBS),
            lambda norm: norm.load_state_dict(
                t.ObservationNorm(0.5, 2.0, in_keys=OBS, standard_normal=True).state_dict()
            ),
        ),
        (lambda: t.RewardScaling(0.5, 2.0), lambda scaling: scaling.standard_normal.fill_(True)),
        (
            lambda: t.TensorDictPrimer({"h": Unbounded((3,))}, default_value=2.0, expand_specs=True),
            lambda primer: primer.default_value.update(h=5.0),
        ),
    ],
)
def test_what_is_written_to_counts(make, change):
    expected = play_twice(over_pool(make()), change)
    assert_same(play_twice(fuse(over_pool(make())), change), expected)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: t.ClipTransform(OBS, low=-0.1, high=0.1), lambda keys: keys.append("reward")),
        (lambda: t.SignTransform(OBS), lambda keys: keys.__setitem__(0, "reward")),
        (lambda: t.SignTransform([*OBS, "reward"]), lambda keys: keys.pop(0)),
    ],
)
def test_keys_that_change_in_their_list_count(make, change):
    def change_both(transform):
        for keys in (transform.in_keys, transform.out_keys):
            change(keys)

    expected = play_twice(over_pool(make()), change_both)
    assert_same(play_twice(fuse(over_pool(make())), change_both), expected)


@pytest.mark.parametrize("bounds", [{"low": nan, "high": 1.0}, {"low": -0.1, "high": nan}, {"low": -0.1}])
def test_bounds_that_are_not_numbers(bounds):
    def change(transform):
        if "high" not in bounds:
            transform.low.fill_(nan)

    expected = play_twice(over_pool(t.ClipTransform(OBS, **bounds)), change)
    observation = play_twice(fuse(over_pool(t.ClipTransform(OBS, **bounds))), change)["observation"]
    assert observation.isnan().any()
    torch.testing.assert_close(observation, expected["observation"], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5"])
@pytest.mark.parametrize("norm", [VecNorm, t.VecNormV2])
@pytest.mark.parametrize("before", [torch.float32, torch.float64])
def test_the_default_dtype_counts(task, norm, before):
    """In which TorchRL computes a part of what it normalises by."""

    def run(wrap):
        torch.set_default_dtype(before)
        try:
            env = wrap(TransformedEnv(PoolEnv(task, N, seed=0), norm(OBS, decay=0.9)))
            first = play(env, 5)
            torch.set_default_dtype(torch.float64)
            return torch.cat([first, play(env, 5)], 1)
        finally:
            torch.set_default_dtype(torch.float32)

    ours, expected = run(fuse)["observation"], run(lambda env: env)["observation"]
    assert ours.dtype is expected.dtype
    # Sums are added up in another order; what the wrong dtype gives differs by 1e-5 of float64's values.
    tolerance = 1e-5 if ours.dtype is torch.float32 else 1e-12
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


CASTS = [
    [t.StepCounter(9), t.DTypeCastTransform(torch.int64, torch.float32, in_keys=["step_count"])],
    [t.RewardSum(), t.DTypeCastTransform(torch.float32, torch.float64, in_keys=["episode_reward"])],
    [t.RewardSum(), t.CatFrames(2, -1, in_keys=["episode_reward"])],
    [t.RewardSum(), t.RenameTransform(["episode_reward"], ["er"])],
    [t.RewardSum(), t.CatTensors(["observation", "episode_reward"], out_key="both")],
]


@pytest.mark.parametrize("transforms", CASTS)
def test_what_the_next_step_goes_on_with_in_another_form(transforms):
    """The counter that a step begins with would be read as what it was cast to."""
    expected, env = over_pool(*(one.clone() for one in transforms)), fuse(over_pool(*transforms))
    roots = expected.reset(), env.reset()
    for _ in range(12):
        action = expected.rand_action(roots[0])["action"]
        (one, root), (two, other) = (
            e.step_and_maybe_reset(r.set("action", action.clone()))
            for e, r in zip((expected, env), roots, strict=True)
        )
        roots = root, other
        assert_same(two, one)


@pytest.mark.parametrize("transforms", CASTS)
def test_collectors_where_it_has_another_form(transforms):
    batches = []
    for collect in (Collector, PoolCollector):
        torch.manual_seed(0)
        env = over_pool(*(one.clone() for one in transforms))
        collector = collect(env, None, frames_per_batch=64, total_frames=64)
        batches += [batch.clone() for batch in collector]
        collector.shutdown()
    own, expected = (batch.exclude("collector") for batch in reversed(batches))
    if own.get("episode_reward", None) is None:  # it is removed: theirs is the first root's
        expected = expected.exclude("episode_reward")
    assert_same(own, expected, in_order=False)


def test_statistics_of_each_env_are_not_learned_in_groups():
    env = over_pool(t.VecNormV2(OBS))
    with pytest.raises(ValueError, match="counts the calls for all envs at once"):
        PoolCollector(env, None, frames_per_batch=16, total_frames=16, double_buffered=True)
    collector = PoolCollector(env, None, frames_per_batch=16, total_frames=16, double_buffered="auto")
    assert len(list(collector)) == 1


@pytest.mark.parametrize(
    "make", [lambda: VecNorm(OBS, out_keys=["c"], decay=1.0), lambda: t.VecNormV2(OBS, ["c"])]
)
def test_statistics_of_what_compact_batches_leave_out(make):
    """It lies in the next root, where an episode that begins would overwrite it before it is read."""
    seen = []
    for collect, compact in ((Collector, False), (PoolCollector, True), (PoolCollector, False)):
        env = over_pool(make(), t.StepCounter(3))
        torch.manual_seed(1)
        collector = collect(env, None, frames_per_batch=28, total_frames=84, compact_obs=compact)
        batches = torch.cat([batch.clone() for batch in collector], -1)
        seen.append((batches["c"], batches["observation"]))
        collector.shutdown()
    for ours in seen[1:]:
        for value, expected in zip(ours, seen[0], strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "make", [lambda: VecNorm(OBS, decay=0.9), lambda: t.VecNormV2(OBS, reduce_batch_dims=True)]
)
def test_a_reset_of_no_env_is_one_more_look(make):
    seen = []
    for env in (over_pool(make()), fuse(over_pool(make()))):
        root = env.reset()
        seen.append(env.reset(root.set("_reset", torch.zeros(N, 1, dtype=torch.bool)))["observation"])
    torch.testing.assert_close(seen[1], seen[0], rtol=1e-4, atol=1e-4)


def test_methods_of_an_instances_own_are_torchrls():
    sign = t.SignTransform(in_keys=["reward"])
    sign._apply_transform = lambda reward: reward * 7
    assert (play(fuse(over_pool(sign)))["next", "reward"] == 7).all()


def test_methods_that_an_instance_is_given_later_are_torchrls():
    def change(transform):
        transform._apply_transform = lambda reward: reward * 7

    assert (
        play_twice(fuse(over_pool(t.SignTransform(in_keys=["reward"]))), change)["next", "reward"] == 7
    ).all()


@pytest.mark.parametrize("most", [4.0, 3.5, 1e3, nan, inf])
def test_a_limit_of_steps_that_is_no_int(most):
    expected = play(over_pool(t.StepCounter(most)), 9)
    assert_same(play(fuse(over_pool(t.StepCounter(most))), 9), expected)

    def change(transform):
        transform.max_steps = most

    changed = play_twice(fuse(over_pool(t.StepCounter(100))), change)
    assert_same(changed, play_twice(over_pool(t.StepCounter(100)), change))


def test_what_is_taken_out_of_a_chain_leaves_its_specs():
    """TorchRL's own pop() leaves those that the env remembers."""
    env = fuse(over_pool(t.StepCounter(), t.RewardSum()))
    play(env, 3)
    env.transform.pop(0)
    assert "step_count" not in set(play(env, 3).keys())
    assert env.fusion().num_native == 1
    assert "step_count" not in set(env.full_observation_spec.keys())


def test_a_key_that_is_renamed_over_keeps_its_place():
    def make():
        return t.RenameTransform(OBS, ["a"], create_copy=True), t.RenameTransform(["a"], OBS)

    assert_same(play(fuse(over_pool(*make()))), play(over_pool(*make())))
