"""PoolCollector gives a policy what TorchRL's transforms would give it, without their calls."""

import warnings

import pytest
import torch
from cases import cases
from collecting import (
    FRAMES,
    N,
    T,
    assert_equal_batches,
    categorical_actor,
    collect,
    normal_actor,
    random_actions,
    tilt_policy,
)
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Composite, Unbounded
from torchrl.envs import InitTracker, TensorDictPrimer, TransformedEnv
from torchrl.modules import GRUModule, LSTMModule, OneHotCategorical, ProbabilisticActor
from torchrl.modules.utils import get_env_transforms_from_module

from torchrl_pool import PoolCollector, PoolEnv

STATES = {"lstm": ("hidden", "cell"), "gru": ("hidden",)}
CELLS = pytest.mark.parametrize("cell", STATES)


def recurrent_actor(cell, env):
    make, states = {"lstm": LSTMModule, "gru": GRUModule}[cell], STATES[cell]
    memory = make(
        input_size=env.observation_spec["observation"].shape[-1],
        hidden_size=6,
        num_layers=2,
        in_keys=["observation", *states],
        out_keys=["features", *(("next", state) for state in states)],
    )
    head = TensorDictModule(nn.Linear(6, env.action_spec.shape[-1]), ["features"], ["logits"])
    actor = ProbabilisticActor(
        head, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
    )
    return TensorDictSequential(memory, actor)


def lstm_actor(env):
    return recurrent_actor("lstm", env)


class Remembering(TensorDictModuleBase):
    """Turns right once the tilts that it has seen, and what it began with, add up to something positive.

    A function of each row, to the last bit.
    """

    in_keys = ("observation", "sum", "is_init")
    out_keys = ("action", ("next", "sum"))

    def __init__(self, **primer_options):
        super().__init__()
        self.primer_options = primer_options

    def make_tensordict_primer(self):
        return TensorDictPrimer({"sum": Unbounded((1,))}, expand_specs=True, **self.primer_options)

    def forward(self, tensordict):
        total = tensordict["sum"] + tensordict["observation"][..., 2:3]
        tensordict["next", "sum"] = total
        tensordict["action"] = torch.cat([total <= 0, total > 0], -1).long()
        return tensordict


def primer(entries, **options):
    return TensorDictPrimer(Composite(entries, shape=(N,)), **options)


def with_transforms(**options):
    return {"auto_register_policy_transforms": True, **options}


# ---- nothing is lost, and nothing is said


@pytest.mark.parametrize("options", [{}, with_transforms(), with_transforms(double_buffered=True)], ids=str)
@pytest.mark.parametrize(
    "make_policy",
    cases(default=[tilt_policy, random_actions], also=[categorical_actor, normal_actor, lstm_actor]),
)
def test_no_policy_costs_writing_in_place(make_policy, options):
    env = PoolEnv(
        "HalfCheetah-v5" if make_policy is normal_actor else "CartPole-v1", N, obs_dtype=torch.float32
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collector = PoolCollector(env, make_policy(env), frames_per_batch=FRAMES, **options)
        batch = next(iter(collector))
    assert collector.writes_once
    assert batch.shape == (N, T)
    collector.shutdown()


def test_a_policy_that_reads_nothing_more_gets_nothing_more():
    env = PoolEnv("CartPole-v1", N)
    collector = PoolCollector(env, categorical_actor(env), frames_per_batch=FRAMES)
    assert collector.env is env
    assert "is_init" not in next(iter(collector))
    collector.shutdown()


def test_every_module_gets_is_init_where_that_is_asked_for():
    got, expected = (
        collect(cls, "CartPole-v1", categorical_actor, **with_transforms())
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    begins = got[0]["is_init"][:, 1:]
    assert torch.equal(begins, got[0]["next", "done"][:, :-1])
    assert begins.any()


def test_an_entry_that_the_executor_writes_needs_no_transform():
    info = {"info_keys": ("is_init",)}
    env = PoolEnv("CartPole-v1", N, **info)
    collector = PoolCollector(env, categorical_actor(env), frames_per_batch=FRAMES, **with_transforms())
    assert collector.env is env
    collector.shutdown()
    got = collect(PoolCollector, "CartPole-v1", lstm_actor, env_options=info)
    assert_equal_batches(
        got, collect(Collector, "CartPole-v1", lstm_actor, env_options=info, **with_transforms())
    )


# ---- the same batches


@CELLS
@pytest.mark.parametrize("auto_register_policy_transforms", cases([None, True]))
def test_hidden_states_as_by_collector(cell, auto_register_policy_transforms):
    def make_policy(env):
        return recurrent_actor(cell, env)

    got = collect(
        PoolCollector,
        "CartPole-v1",
        make_policy,
        auto_register_policy_transforms=auto_register_policy_transforms,
    )
    assert_equal_batches(got, collect(Collector, "CartPole-v1", make_policy, **with_transforms()))
    for batch in got:
        begins = batch["is_init"][..., 0]
        assert begins[:, 1:-1].any()
        for state in STATES[cell]:
            assert not batch[state][begins].any()
            goes_on = ~begins[:, 1:]
            assert torch.equal(batch[state][:, 1:][goes_on], batch["next", state][:, :-1][goes_on])
            assert batch["next", state].any(-1).all()


@pytest.mark.parametrize(
    "options",
    cases(
        default=[
            {"trajs_per_batch": 4},
            {"compact_obs": True, "track_policy_version": True, "use_buffers": False},
        ],
        also=[
            {"reset_at_each_iter": True},
            {"init_random_frames": FRAMES},
            {"track_policy_version": True},
            {"set_truncated": True},
            {"track_traj_ids": False},
            {"storing_device": "cpu"},
            {"policy_device": "cpu"},
            {"max_frames_per_traj": 5},
        ],
    ),
    ids=lambda options: " ".join(options),
)
@pytest.mark.filterwarnings("ignore:trajs_per_batch is set but:FutureWarning")
def test_options_of_collector(options):
    got, expected = (
        collect(cls, "CartPole-v1", lstm_actor, **with_transforms(**options))
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)


@pytest.mark.parametrize("index", cases([None, [1, 3]]))
def test_resets_between_batches(index):
    def reset(collector):
        collector.reset(index=index)

    got, expected = (
        collect(cls, "CartPole-v1", lstm_actor, change=reset, **with_transforms())
        for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)


@pytest.mark.parametrize("groups", [2, N])
@pytest.mark.parametrize(
    "options", cases(default=[{}, {"compact_obs": True}], also=[{"track_policy_version": True}]), ids=str
)
def test_groups_give_the_same_data(groups, options):
    def make_policy(env):
        return Remembering()

    alone = collect(PoolCollector, "CartPole-v1", make_policy, **options)
    in_groups = collect(PoolCollector, "CartPole-v1", make_policy, double_buffered=groups, **options)
    assert_equal_batches(in_groups, alone)
    assert alone[0]["is_init"][:, 1:].any()


@pytest.mark.parametrize(
    "primer_options",
    cases(
        default=[
            {"random": True},
            {"default_value": {"sum": -0.5}},
            {"default_value": lambda: torch.rand(N, 1)},
        ],
        also=[{"default_value": 0.25}],
    ),
    ids=["random", "number of a key", "callable", "number"],
)
def test_what_a_state_begins_with(primer_options):
    def make_policy(env):
        return Remembering(**primer_options)

    got, expected = (
        collect(cls, "CartPole-v1", make_policy, **with_transforms()) for cls in (PoolCollector, Collector)
    )
    assert_equal_batches(got, expected)
    begins = got[0]["is_init"][..., 0]
    assert got[0]["sum"][begins].any()


def in_one(env, policy):
    return TransformedEnv(env, get_env_transforms_from_module(policy))


def test_transforms_that_the_env_has_are_not_called(monkeypatch):
    batches, called = [], []
    for cls in (PoolCollector, Collector):
        torch.manual_seed(0)
        env = PoolEnv("CartPole-v1", N, max_episode_steps=11)
        policy = lstm_actor(env)
        env = in_one(env, policy)
        env.set_seed(4)
        collector = cls(env, policy, frames_per_batch=FRAMES, total_frames=2 * FRAMES, **with_transforms())
        if cls is PoolCollector:
            assert collector.writes_once
            for kind in (InitTracker, TensorDictPrimer):
                monkeypatch.setattr(kind, "_step", lambda self, *args: called.append(self))
                monkeypatch.setattr(kind, "_reset", lambda self, *args: called.append(self))
        torch.manual_seed(1)
        batches.append(list(collector))
        monkeypatch.undo()
        collector.shutdown()
    assert_equal_batches(*batches)
    assert not called
