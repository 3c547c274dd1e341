"""Transforms stay their users' after they were fused: what is changed, moved or saved is as with TorchRL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from math import inf, nan

import pytest
import torch
from cases import cases
from pipelines import OBS, assert_same
from playing import play
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import Compose, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import FusedEnv, PoolCollector, PoolEnv, explain, fuse

N = 4
FRAMES = "_cat_buffers_observation"
SOME = torch.tensor([[False], [True], [False], [True]])

Change = Callable[[t.Transform], object]


def over_pool(*transforms: t.Transform) -> TransformedEnv:
    return TransformedEnv(PoolEnv("CartPole-v1", N, seed=0), Compose(*transforms))


def fused(*transforms: t.Transform) -> FusedEnv:
    env = fuse(over_pool(*transforms))
    assert not env.fusion().rest, env.fusion().why_not
    return env


def play_and_change(env: TransformedEnv, change: Change) -> list[TensorDict]:
    """A change between a step and a reset of some envs, and what follows it."""
    torch.manual_seed(0)
    root, seen = env.reset(), []
    for number in range(24):
        step, root = env.step_and_maybe_reset(env.rand_action(root))
        seen.append(step.clone())
        if number in (2, 4):
            change(env.transform[0])
            root = env.reset(root.set("_reset", SOME))
            seen.append(root.exclude("_reset").clone())
    return seen


def learning(norm: t.Transform) -> list[t.Transform]:
    return [norm, VecNorm(OBS, ["more"], decay=0.9), t.VecNormV2(OBS, ["most"], reduce_batch_dims=True)]


def norm() -> t.Transform:
    return t.ObservationNorm(torch.zeros(4), torch.ones(4), in_keys=OBS)


def each_key(change: Callable[[list], object]) -> Change:
    return lambda transform: [change(keys) for keys in (transform.in_keys, transform.out_keys)]


def set_to(name: str, value: object) -> Change:
    return lambda transform: setattr(transform, name, value)


# What makes a chain, and what is done to its first transform.
CHANGES: Mapping[str, tuple[Callable[[], list[t.Transform]], Change]] = {
    "nothing": (lambda: learning(norm()), lambda norm: None),
    "a parameter": (lambda: [norm()], lambda norm: norm.loc.fill_(5.0)),
    "another": (lambda: [norm()], lambda norm: norm.scale.mul_(3.0)),
    "data": (lambda: [norm()], lambda norm: setattr(norm.loc, "data", torch.full((4,), 3.0))),
    "a state dict": (
        lambda: [norm()],
        lambda norm: norm.load_state_dict({**norm.state_dict(), "loc": torch.ones(4)}),
    ),
    "a flag by a state dict": (
        lambda: [t.ObservationNorm(0.5, 2.0, in_keys=OBS)],
        lambda norm: norm.load_state_dict(
            t.ObservationNorm(0.5, 2.0, in_keys=OBS, standard_normal=True).state_dict()
        ),
    ),
    "a flag": (lambda: [t.RewardScaling(0.5, 2.0)], lambda scaling: scaling.standard_normal.fill_(True)),
    "a bound": (lambda: [t.ClipTransform(OBS, low=-9.0, high=9.0)], lambda c: c.high.fill_(0.01)),
    "a primer's value": (
        lambda: [t.TensorDictPrimer({"h": Unbounded((3,))}, default_value=2.0, expand_specs=True)],
        lambda primer: primer.default_value.update(h=5.0),
    ),
    "frames in place": (lambda: [t.CatFrames(3, -1, OBS)], lambda frames: getattr(frames, FRAMES).fill_(7.0)),
    "frames replaced": (
        lambda: [t.CatFrames(2, -1, OBS)],
        lambda frames: setattr(frames, FRAMES, torch.full((N, 8), 3.0)),
    ),
    "a count of episodes": (
        lambda: [t.TrajCounter()],
        lambda counter: counter.load_state_dict({"traj_count": 100}),
    ),
    "a key more": (
        lambda: [t.ClipTransform(OBS, low=-0.1, high=0.1)],
        each_key(lambda keys: keys.append("reward") if "reward" not in keys else None),
    ),
    "another key": (lambda: [t.SignTransform(OBS)], each_key(lambda keys: keys.__setitem__(0, "reward"))),
    "a key less": (lambda: [t.SignTransform([*OBS, "reward"])], each_key(lambda keys: keys.remove(keys[0]))),
    "a method": (
        lambda: [t.SignTransform(["reward"])],
        set_to("_apply_transform", lambda reward: reward * 7),
    ),
    **{
        f"a limit of {most}": (lambda: [t.StepCounter(100)], set_to("max_steps", most))
        for most in (1, 4.0, 3.5, 1e3, nan, inf)
    },
}  # fmt: skip


@pytest.mark.parametrize(("make", "change"), cases(CHANGES.values()), ids=CHANGES)
def test_what_is_changed_counts(make, change):
    env, reference = fuse(over_pool(*make())), over_pool(*make())
    pairs = zip(play_and_change(env, change), play_and_change(reference, change), strict=True)
    for ours, theirs in pairs:
        assert_same(ours, theirs, exact=len(make()) == 1, in_order=False)
    numbers = [
        {key: value for key, value in one.state_dict().items() if torch.is_tensor(value)}
        for one in (env.transform, reference.transform)
    ]
    assert_same(*map(TensorDict, numbers), exact=False)


@pytest.mark.parametrize("most", [inf, 4.0, 3.5, nan])
def test_a_limit_of_steps_that_is_no_int(most):
    assert_same(play(fuse(over_pool(t.StepCounter(most))), 9), play(over_pool(t.StepCounter(most)), 9))


@pytest.mark.parametrize(
    "bounds", cases(default=[{"low": nan, "high": 1.0}, {"low": -0.1}], also=[{"low": -0.1, "high": nan}])
)
def test_bounds_that_are_not_numbers(bounds):
    seen = []
    for way in (fuse, lambda env: env):
        env = way(over_pool(t.ClipTransform(OBS, **bounds)))
        play(env, 5)
        if "high" not in bounds:
            env.transform[0].low.fill_(nan)
        seen.append(play(env)["observation"])
    assert seen[0].isnan().any()
    torch.testing.assert_close(*seen, rtol=0, atol=0, equal_nan=True)


def test_a_method_that_an_instance_has_when_it_is_fused():
    sign = t.SignTransform(in_keys=["reward"])
    sign._apply_transform = lambda reward: reward * 7
    assert (play(fuse(over_pool(sign)))["next", "reward"] == 7).all()


def sent(transform: t.Transform) -> None:
    """Its tensors go into shared memory, and what was theirs is freed."""
    queue = torch.multiprocessing.SimpleQueue()
    queue.put(transform.state_dict())
    queue.get()


@pytest.mark.parametrize(
    "make",
    cases(
        default=[
            lambda: t.VecNormV2(OBS, decay=0.9, reduce_batch_dims=True),
            lambda: t.TimeMaxPool(in_keys=OBS, T=3),
        ],
        also=[lambda: VecNorm(OBS, decay=0.9), lambda: t.CatFrames(3, -1, in_keys=OBS), norm],
    ),
)
@pytest.mark.parametrize("move", [sent, lambda transform: transform.share_memory()])
def test_what_a_transform_keeps_may_move(make, move):
    """What it left would be freed memory, in which others' tensors lie: these are made, and watched."""

    def change(transform):
        move(transform)
        others.extend(torch.full((size,), 7.0) for size in (4, 16, 48) for _ in range(200))

    others: list[torch.Tensor] = []
    expected = play_and_change(over_pool(make()), change)
    others.clear()
    for ours, theirs in zip(play_and_change(fuse(over_pool(make())), change), expected, strict=True):
        assert_same(ours, theirs, exact=False)
    assert all((other == 7).all() for other in others)


def test_what_moves_while_a_batch_is_collected_is_refused():
    moving = norm()

    def policy(tensordict):
        moving.loc.data = moving.loc.clone()
        action = torch.nn.functional.one_hot(torch.zeros(tensordict.shape, dtype=torch.int64), 2)
        return tensordict.set("action", action)

    collector = PoolCollector(over_pool(moving), policy, frames_per_batch=16, total_frames=16)
    with pytest.raises(RuntimeError, match="was moved while a batch was collected"):
        next(iter(collector))
    collector.shutdown()


def test_gradients_of_parameters_are_torchrls():
    loc = torch.zeros(4, requires_grad=True)
    env = fuse(over_pool(t.ObservationNorm(loc, torch.ones(4), in_keys=OBS)))
    assert env.reset()["observation"].requires_grad
    assert env.fusion().rest


@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5"])
@pytest.mark.parametrize("norm", [VecNorm, t.VecNormV2])
@pytest.mark.parametrize("before", cases([torch.float32, torch.float64]))
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


CASTS = {
    "count": lambda: [t.StepCounter(9), t.DTypeCastTransform(torch.int64, torch.float32, ["step_count"])],
    "sum": lambda: [t.RewardSum(), t.DTypeCastTransform(torch.float32, torch.float64, ["episode_reward"])],
    "frames": lambda: [t.RewardSum(), t.CatFrames(2, -1, in_keys=["episode_reward"])],
    "name": lambda: [t.RewardSum(), t.RenameTransform(["episode_reward"], ["er"])],
    "joined": lambda: [t.RewardSum(), t.CatTensors(["observation", "episode_reward"], out_key="both")],
}


@pytest.mark.parametrize("make", cases(CASTS.values()), ids=CASTS)
def test_what_the_next_step_goes_on_with_in_another_form(make):
    """The counter that a step begins with would be read as what it was cast to."""
    expected, env = over_pool(*make()), fuse(over_pool(*make()))
    roots = expected.reset(), env.reset()
    for _ in range(12):
        action = expected.rand_action(roots[0])["action"]
        (one, root), (two, other) = (
            e.step_and_maybe_reset(r.set("action", action.clone()))
            for e, r in zip((expected, env), roots, strict=True)
        )
        roots = root, other
        assert_same(two, one)


@pytest.mark.parametrize("make", cases(CASTS.values()), ids=CASTS)
def test_collectors_where_it_has_another_form(make):
    batches = []
    for collect in (Collector, PoolCollector):
        torch.manual_seed(0)
        collector = collect(over_pool(*make()), None, frames_per_batch=64, total_frames=64)
        batches += [batch.clone() for batch in collector]
        collector.shutdown()
    own, expected = (batch.exclude("collector") for batch in reversed(batches))
    if own.get("episode_reward", None) is None:  # it is removed: theirs is the first root's
        expected = expected.exclude("episode_reward")
    assert_same(own, expected, in_order=False)


# ---- statistics


def test_statistics_of_each_env_are_not_learned_in_groups():
    env = over_pool(t.VecNormV2(OBS))
    with pytest.raises(ValueError, match="counts the calls for all envs at once"):
        PoolCollector(env, None, frames_per_batch=16, total_frames=16, double_buffered=True)
    collector = PoolCollector(env, None, frames_per_batch=16, total_frames=16, double_buffered="auto")
    assert len(list(collector)) == 1


@pytest.mark.parametrize(
    "make", cases([lambda: VecNorm(OBS, out_keys=["c"], decay=1.0), lambda: t.VecNormV2(OBS, ["c"])])
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


@pytest.mark.parametrize("make", cases([VecNorm, lambda keys: t.VecNormV2(keys, reduce_batch_dims=True)]))
def test_statistics_of_sums(make):
    """Pendulum's episodes end together: at a reset of some TorchRL takes zeros for the others' sums."""

    def chain():
        return TransformedEnv(
            PoolEnv("Pendulum-v1", N, seed=0), Compose(t.RewardSum(), make(["episode_reward"]))
        )

    env = fuse(chain())
    assert env.fusion().num_native == 2
    assert_same(play(env, 250), play(chain(), 250), exact=False, in_order=False)


@pytest.mark.parametrize("make", cases([VecNorm, lambda keys: t.VecNormV2(keys, reduce_batch_dims=True)]))
def test_statistics_can_be_read_frozen_saved_and_loaded(make):
    norm = make(OBS)
    env = fused(norm)
    data = play(env, 5)
    loc, saved = norm.loc["observation"].clone(), deepcopy(env.state_dict())
    assert loc.abs().sum() > 0
    assert norm.denorm(data)["observation"].shape == data["observation"].shape
    norm.freeze()
    play(env, 5)
    assert torch.equal(norm.loc["observation"], loc)
    norm.unfreeze()
    play(env, 5)
    assert not torch.equal(norm.loc["observation"], loc)
    env.load_state_dict(saved)
    assert torch.equal(norm.loc["observation"], loc)
    play(env, 5)
    assert not torch.equal(norm.loc["observation"], loc)


@pytest.mark.parametrize("keys", cases([["missing", *OBS], [*OBS, "missing"]]))
def test_normalised_entries_that_are_not_there(keys):
    assert_same(play(fuse(over_pool(VecNorm(keys)))), play(over_pool(VecNorm(keys))), exact=False)


# ---- frames, numbers of episodes


def test_frames_can_be_read_saved_and_loaded():
    frames = t.CatFrames(N=3, dim=-1, in_keys=OBS)
    env = fused(frames)
    root = env.reset()
    for _ in range(40):
        _, root = env.step_and_maybe_reset(env.rand_action(root))
        assert torch.equal(frames._buffers[FRAMES], root["observation"])
    saved, kept = deepcopy(env.state_dict()), frames._buffers[FRAMES].clone()
    play(env, 5)
    assert not torch.equal(frames._buffers[FRAMES], kept)
    env.load_state_dict(saved)
    assert torch.equal(frames._buffers[FRAMES], kept)


@pytest.mark.parametrize(
    "make",
    cases([lambda: t.CatFrames(3, -1, OBS), lambda: t.TimeMaxPool(OBS, T=3)]),
    ids=["frames", "maxima"],
)
def test_an_episode_goes_on_where_its_env_is_fused(make):
    roots = []
    for way in (fuse, lambda env: env):
        env = over_pool(make())
        root = env.reset()
        for step in range(6):
            env = way(env) if step == 3 else env
            root = env.step_mdp(env.step(root.set("action", torch.tensor([1, 0]).repeat(N, 1))))
        roots.append(root)
    assert_same(*roots, in_order=False)


def test_frames_of_another_shape_are_left_to_torchrl(capsys):
    frames = t.CatFrames(N=2, dim=-1, in_keys=OBS)
    frames._make_missing_buffer(torch.zeros(N + 1, 4), FRAMES)
    print(explain(over_pool(frames)))
    assert "expected torch.float32 [4, 8]" in capsys.readouterr().out


def test_frames_for_replay_buffers_are_left_to_torchrl():
    """Which says that there are none in an env."""
    frames = t.CatFrames(N=2, dim=-1, in_keys=OBS)
    env = fused(frames)
    frames.mask_key = "mask"
    assert env.fusion().num_native == 0
    with pytest.raises(RuntimeError, match="only available offline"):
        env.reset()


def test_episodes_are_numbered_on():
    counter = t.TrajCounter()
    env = fused(counter)
    assert env.reset()["traj_count"].reshape(-1).tolist() == [0, 1, 2, 3]
    assert counter.state_dict() == {"traj_count": 4}
    other = fuse(over_pool(counter.clone()))
    assert other.reset()["traj_count"].reshape(-1).tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("kind", [Collector, PoolCollector])
@pytest.mark.parametrize("padding", cases(["same", "constant"]))
def test_stacks_of_grey_pictures_are_torchrls(kind, padding):
    """One byte a pixel, as an Atari game's own preprocessing gives them."""
    batches = []
    for way, make in ((fuse, kind), (lambda env: env, Collector)):
        pool = PoolEnv("ALE/Pong-v5", 2, seed=0, stack_size=1, max_episode_steps=7)
        frames = t.CatFrames(N=4, dim=-3, in_keys=OBS, padding=padding, padding_value=3)
        env = way(TransformedEnv(pool, Compose(frames, t.SignTransform(["reward"]), t.RewardSum())))
        torch.manual_seed(0)
        collector = make(env, None, frames_per_batch=20, total_frames=40)
        batches.append([batch.clone() for batch in collector])
    assert batches[0][0]["observation"].shape[-3:] == (4, 84, 84)
    for ours, theirs in zip(*batches, strict=True):
        assert_same(ours, theirs, in_order=False)


# ---- other chains


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


def test_appended_and_inserted_transforms_are_fused_anew():
    env = fused(t.RewardSum())
    play(env, 5)
    env.append_transform(t.StepCounter())
    env.insert_transform(0, t.RewardScaling(0.0, 2.0))
    assert env.fusion().num_native == 3
    data = play(env, 5)
    assert (data["next", "episode_reward"][:, 0] == 2).all()
    assert (data["next", "step_count"][:, -1] == 5).all()


class ForeignSum(t.RewardSum):
    """One that TorchRL runs."""


class Seen(t.Transform):
    """What a reset shows to transforms."""

    def _reset(self, tensordict, tensordict_reset):
        self.rows = tensordict_reset["observation"].tolist()
        self.keys = set(tensordict.keys())
        return tensordict_reset


def test_transforms_appended_after_a_reset_see_what_they_keep():
    def run(wrap):
        env = wrap(over_pool(t.RewardScaling(0.0, 1.0)))
        env.reset(env.reset().set("_reset", SOME))
        for one in (ForeignSum(), VecNorm(["episode_reward"], out_keys=["normal"], decay=0.9), Seen()):
            env.append_transform(one)
        root = env.step_mdp(play(env, 5)[:, -1])
        return env.transform[-1], env.reset(root.set("_reset", SOME))

    (ours, root), (theirs, expected) = run(fuse), run(lambda env: env)
    assert_same(root, expected, exact=False)
    assert (ours.keys, ours.rows) == (theirs.keys, theirs.rows)


def appended(env: TransformedEnv) -> None:
    """The executor has another chain then, and other memory for what only it sees."""
    env.append_transform(t.RewardScaling(0.0, 2.0))


def stepped_in_part(env: TransformedEnv) -> None:
    env.step(env.rand_action(env.reset()).set("_step", SOME.squeeze(-1)))


@pytest.mark.parametrize("change", cases([appended, stepped_in_part]))
def test_a_reset_of_some_after_torchrl_has_stepped_others(change):
    """Statistics take in the others' rows as the transforms before them make them of the pool's."""
    learned = []
    for wrap in (fuse, lambda env: env):
        norm = VecNorm(OBS, decay=0.9)
        env = wrap(over_pool(t.ObservationNorm(1.0, 3.0, in_keys=OBS), norm))
        torch.manual_seed(0)
        root = env.reset()
        for _ in range(3):
            _, root = env.step_and_maybe_reset(env.rand_action(root))
        change(env)
        env.reset(TensorDict({"_reset": SOME}, [N]))
        learned.append(norm.loc["observation"].clone())
    torch.testing.assert_close(*learned, rtol=1e-6, atol=1e-6)


def test_a_step_of_some_after_a_reset_of_others():
    """The root lacks what the pool writes: TorchRL's code shows the latest, which only the executor had."""
    seen = []
    for wrap in (fuse, lambda env: env):
        env = wrap(over_pool(VecNorm(OBS, ["normed"], decay=0.9), t.ExcludeTransform(*OBS)))
        torch.manual_seed(0)
        _, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
        root = env.reset(root.set("_reset", SOME)).exclude("_reset")
        seen.append(env.step(env.rand_action(root).set("_step", SOME.squeeze(-1)))["next", "normed"])
    torch.testing.assert_close(*seen, rtol=1e-5, atol=1e-5)
