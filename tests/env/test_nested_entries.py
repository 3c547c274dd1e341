"""Entries in tensordicts of their own take the fast road, and come out as on TorchRL's."""

from functools import partial

import pytest
import torch
from building import build_plugin
from cases import cases
from collecting import FRAMES, N, assert_equal_batches, categorical_actor, collect, random_actions
from comparing import assert_same
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torchrl.collectors import Collector
from torchrl.data import Composite, Unbounded
from torchrl.envs import (
    CatTensors,
    Compose,
    ExcludeTransform,
    InitTracker,
    RenameTransform,
    RewardSum,
    SelectTransform,
    StepCounter,
    Transform,
    TransformedEnv,
    VecNormV2,
)
from torchrl.envs.utils import RandomPolicy

from torchrl_pool import PoolCollector, PoolEnv, fuse, load_plugin
from torchrl_pool._collecting.direct_policy import parts_of

TASKS = ["Dict-v0", "Mixed-v0", "Agents-v0"]


@pytest.fixture(scope="module", autouse=True)
def plugin():
    load_plugin(build_plugin("spaces"))


def plain(env):
    return env


def renamed(env):
    names = {"Dict-v0": ["position"], "Mixed-v0": ["observation"], "Agents-v0": ["state"]}[env.task]
    outs = [("seen", "by", name) for name in names]
    return TransformedEnv(env, Compose(RenameTransform(names, outs), InitTracker()))


def leaf_by_leaf(root):
    """What users keep beside what an env writes: in tensordicts that it has a part of, and in others."""
    for prefix in ("sensors", "gear", "agents", "mine"):
        below = root.get(prefix, None)
        if prefix == "mine" or below is not None:
            size = root.batch_size if below is None else below.batch_size
            root[prefix, "memory"] = torch.rand(*size, 2)
            root[prefix, "deep", "count"] = torch.ones(size, dtype=torch.int64)
    return root.set("flag", torch.ones(*root.batch_size, 1, dtype=torch.bool))


def pair(task, wrap):
    fast, slow = (wrap(PoolEnv(task, N, max_episode_steps=9, seed=3)) for _ in range(2))
    return (fuse(fast) if wrap is renamed else fast), slow


def slow_road(env, root):
    return super(type(env), env).step_and_maybe_reset(root)


@pytest.mark.parametrize("wrap", [plain, renamed])
@pytest.mark.parametrize("task", cases(default=["Dict-v0", "Agents-v0"], also=TASKS))
def test_step_and_maybe_reset(task, wrap, monkeypatch):
    fast, slow = pair(task, wrap)
    if wrap is plain:
        monkeypatch.setattr(fast, "_step_then_reset", None)  # not called
    a, b = leaf_by_leaf(fast.reset()), leaf_by_leaf(slow.reset())
    b.update(a.clone())
    for t in range(40):
        if t in (3, 17):  # from here on they end at different times
            mask = torch.tensor([[i % 2 == 0] for i in range(N)])
            a, b = fast.reset(a.set("_reset", mask)), slow.reset(b.set("_reset", mask))
        slow.rand_action(b)
        a.update(b.select(*slow.action_keys).clone())
        (a, a_root), (b, b_root) = fast.step_and_maybe_reset(a), slow_road(slow, b)
        assert_same(a, b)
        # EnvBase zeroes the old actions where an episode begins.
        assert_same(a_root.exclude(*fast.action_keys), b_root.exclude(*slow.action_keys))
        for prefix in ("sensors", "gear", "agents", "mine"):
            if b_root.get(prefix, None) is not None:
                assert a_root[prefix].batch_size == b_root[prefix].batch_size
        a, b = a_root, b_root


def test_what_a_root_holds_is_not_written_to():
    env = PoolEnv("Dict-v0", N)
    root = leaf_by_leaf(env.reset())
    before, below = root.clone(), root["sensors"]
    env.rand_action(root)
    root, following = env.step_and_maybe_reset(root)
    assert_same(root.exclude("action", "next"), before)
    assert root["sensors"] is below
    assert following["sensors"] is not below
    assert following["sensors"] is not root["next", "sensors"]


def test_tensordicts_of_other_sizes_take_the_other_road():
    env, twin = (PoolEnv("Agents-v0", N, seed=0) for _ in range(2))
    roots = []
    for one in (env, twin):
        root = one.reset()
        root["agents"] = TensorDict(dict(root["agents"].items()), [N])
        roots.append(root)
    twin.rand_action(roots[1])
    roots[0].update(roots[1].select(*env.action_keys))
    (a, a_root), (b, b_root) = env.step_and_maybe_reset(roots[0]), slow_road(twin, roots[1])
    assert_same(a, b)
    assert a_root["agents"].batch_size == b_root["agents"].batch_size


class Chooser(TensorDictModuleBase):
    """Draws what the action specs allow, and keeps something beside."""

    def __init__(self, env):
        super().__init__()
        self.spec = env.full_action_spec
        key = list(self.spec.keys(True, True))[-1]
        self.noted = (key[0], "noted") if isinstance(key, tuple) else ("noted", "below")
        self.in_keys, self.out_keys = [], [*self.spec.keys(True, True), self.noted]

    def forward(self, tensordict):
        for key, spec in self.spec.items(True, True):
            tensordict[key] = spec.rand()
        below = self.spec.get(self.noted[0], None)
        size = below.shape if isinstance(below, Composite) else [N]
        return tensordict.set(self.noted, torch.full((*size, 1), 2.0))


@pytest.mark.parametrize("options", [{}, {"compact_obs": True}, {"reset_at_each_iter": True}], ids=str)
@pytest.mark.parametrize("wrap", [plain, renamed])
@pytest.mark.parametrize("task", cases(default=["Dict-v0", "Agents-v0"], also=TASKS))
def test_collectors(task, wrap, options):
    got, expected = (
        # Of tensordicts that compact_obs empties, TorchRL leaves the shells.
        [batch.flatten_keys() for batch in collect(cls, task, Chooser, wrap=wrap, **options)]
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)


@pytest.mark.parametrize("task", cases(default=["Dict-v0", "Mixed-v0"], also=TASKS))
def test_random_actions(task):
    got, expected = (collect(cls, task, random_actions) for cls in (PoolCollector, Collector))
    assert_equal_batches(got, expected)
    env = PoolEnv(task, N)
    assert all(part.step for part in parts_of(RandomPolicy(env.full_action_spec)))


def test_they_are_written_once():
    for task in TASKS:
        collector = PoolCollector(PoolEnv(task, N), frames_per_batch=FRAMES)
        assert collector.writes_once
        collector.shutdown()


@pytest.mark.parametrize("task", cases(default=["Dict-v0", "Mixed-v0"], also=TASKS))
def test_groups(task):
    def policy(env):
        keys = list(env.action_keys)
        values = [env.full_action_spec[key].rand()[0] for key in keys]

        def act(done):
            return tuple(value.expand(done.shape[0], *value.shape).clone() for value in values)

        return TensorDictModule(act, ["done"], keys)

    got, expected = (collect(PoolCollector, task, policy, double_buffered=groups) for groups in (2, False))
    assert_equal_batches(got, expected)


# ---- run_type_checks


@pytest.mark.parametrize(
    "wrap", cases([plain, lambda env: TransformedEnv(env, Compose(StepCounter(), RewardSum()))])
)
def test_changed_specs_are_found(wrap):
    def wrong(cls):
        env = PoolEnv("CartPole-v1", N, run_type_checks=True)
        env.set_spec_lock_(False)
        env.full_observation_spec["observation"] = Unbounded((N, 4), dtype=torch.float64)
        return cls(wrap(env), frames_per_batch=FRAMES)

    for cls in (PoolCollector, Collector):
        with pytest.raises(TypeError, match="float"):
            next(iter(wrong(cls)))


def test_checks_change_nothing():
    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, env_options={"run_type_checks": True})
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)


class Watching(Transform):
    """TorchRL runs it, and does nothing with it."""

    def _reset(self, tensordict, tensordict_reset):
        return tensordict_reset


EMPTYING = {
    "CatTensors": lambda keys: CatTensors(keys, "all"),
    "RenameTransform": lambda keys: RenameTransform(keys, [f"own_{i}" for i in range(len(keys))]),
    "ExcludeTransform": lambda keys: ExcludeTransform(*keys),
}


@pytest.mark.parametrize("make", cases(EMPTYING.values()), ids=EMPTYING)
def test_tensordicts_without_entries_are_on_no_road(make):
    """TorchRL's code leaves them behind, the executor has none."""
    env = PoolEnv("Dict-v0", N, max_episode_steps=4, seed=0)
    keys = [key for key in env.observation_spec.keys(True, True) if key[0] == "sensors"]
    floats = [key for key in keys if env.observation_spec[key].dtype == torch.float32]
    norm = VecNormV2(["position"], reduce_batch_dims=True)
    assert floats
    for transforms in ([make(keys), norm, Watching()], [make(keys), StepCounter()]):
        if transforms[0].out_keys == ["all"]:
            transforms[0] = make(floats)
            transforms.insert(1, ExcludeTransform(*(set(keys) - set(floats))))
        fused = fuse(TransformedEnv(PoolEnv("Dict-v0", N, max_episode_steps=4, seed=0), Compose(*transforms)))
        rollout = fused.rollout(9, break_when_any_done=False)
        assert type(rollout) is TensorDict
        assert "sensors" not in set(rollout["next"].keys())
        root = fused.rand_action(fused.reset())
        some = fused.step(root.clone().set("_step", torch.arange(N) < 2))["next"]
        assert set(some.keys()) == set(rollout["next"].keys())


@pytest.mark.parametrize("wrap", cases([plain, fuse]))
def test_a_tensordict_is_selected_as_a_whole(wrap):
    make = partial(PoolEnv, "Dict-v0", N, seed=0)
    env = wrap(TransformedEnv(make(), Compose(SelectTransform("sensors"), StepCounter())))
    expected = {key for key in make().observation_spec.keys(True, True) if key[0] == "sensors"}
    assert {key for key in env.reset().keys(True, True) if key[0] == "sensors"} == expected
    assert {key for key in env.rollout(2)["next"].keys(True, True) if key[0] == "sensors"} == expected
