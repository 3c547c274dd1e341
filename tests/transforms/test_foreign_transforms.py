"""Transforms that only TorchRL runs, around a pool that writes into a PoolCollector's batches."""

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
)
from foreign_transforms import (
    AddsAnEntry,
    ChangesInPlace,
    EndsEpisodes,
    HandsParametersOn,
    Keeps,
    LearnsFromAll,
    Remembers,
    Replaces,
    TakesAway,
    TurnsActions,
)
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import (
    ClipTransform,
    Compose,
    ConditionalSkip,
    DoubleToFloat,
    GymEnv,
    MultiAction,
    RewardSum,
    SerialEnv,
    StepCounter,
    Transform,
    TransformedEnv,
    VecNorm,
)
from torchrl.modules import LSTMModule, OneHotCategorical, ProbabilisticActor

from torchrl_pool import PoolCollector, PoolEnv, fuse

pytestmark = pytest.mark.filterwarnings("ignore:.*VecNorm")


class Leaning(nn.Module):
    """Draws at each step, and shows what it has drawn."""

    def forward(self, tensordict):
        seen = tensordict.get("observation", tensordict.get("seen", None))
        drawn = torch.rand(len(tensordict)) - seen[..., 2].float()
        tensordict["drawn"] = drawn
        return tensordict.set("action", torch.stack([drawn < 0.5, drawn >= 0.5], -1).long())


def leaning(env):
    return Leaning()


def lstm_actor(env):
    memory = LSTMModule(
        input_size=4,
        hidden_size=6,
        in_keys=["observation", "hidden", "cell"],
        out_keys=["features", ("next", "hidden"), ("next", "cell")],
    )
    head = TensorDictModule(nn.Linear(6, 2), ["features"], ["logits"])
    return TensorDictSequential(
        memory, ProbabilisticActor(head, in_keys=["logits"], distribution_class=OneHotCategorical)
    )


NATIVE = {
    "the pool": list,
    "counters": lambda: [StepCounter(9), RewardSum()],
    "floats": lambda: [DoubleToFloat(), StepCounter()],
    "statistics": lambda: [VecNorm(in_keys=["observation"]), RewardSum()],
}
FOREIGN = {
    "adds an entry": lambda: [AddsAnEntry()],
    "changes one in place": lambda: [ChangesInPlace()],
    "replaces entries": lambda: [Replaces()],
    "takes an entry away": lambda: [TakesAway()],
    "turns actions": lambda: [TurnsActions()],
    "remembers": lambda: [Remembers()],
    "ends episodes": lambda: [EndsEpisodes()],
    "learns from all": lambda: [LearnsFromAll()],
    "several, and native kinds behind": lambda: [
        Remembers(), AddsAnEntry(), StepCounter(7, step_count_key="steps"), RewardSum(["reward"], ["sum"]),
        TurnsActions(), ChangesInPlace(),
    ],
}  # fmt: skip


class Skips(Transform):
    """Has only some of the envs stepped."""

    calls = 0

    def _inv_call(self, tensordict):
        self.calls += 1
        return tensordict.set("_step", (torch.arange(len(tensordict)) + self.calls) % 3 > 0)


MASKING = {
    "a transform of one's own": Skips,
    "ConditionalSkip": lambda: ConditionalSkip(lambda root: root["observation"][:, 2] > 0),
    "no env at all": lambda: ConditionalSkip(lambda root: torch.ones(root.shape, dtype=torch.bool)),
    "MultiAction": lambda: MultiAction(stack_rewards=False),
}


def leans(tensordict):
    """The way that the pole leans; the action may be a chunk of three."""
    lean = (tensordict["observation"][:, 2] > 0).long()
    return tensordict.set("action", lean)


def leans_for_three(tensordict):
    return tensordict.set("action", leans(tensordict)["action"][:, None].expand(-1, 3).contiguous())


@pytest.mark.parametrize(
    "masking", cases(default=["a transform of one's own", "no env at all", "MultiAction"], also=MASKING)
)
@pytest.mark.parametrize("native", ["the pool", "counters", "floats"])
def test_masks_that_transforms_write(native, masking):
    """The envs that are left out stay where they are, and MultiAction goes past no episode's end."""
    wrap = around(NATIVE[native], lambda: [MASKING[masking]()])
    policy = leans_for_three if masking == "MultiAction" else leans

    def makes(cls):
        return lambda: cls("CartPole-v1", N, seed=0, categorical_action_encoding=True)

    serial = SerialEnv(N, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True))
    serial.set_seed(0)
    expected = wrap(serial).rollout(40, policy, break_when_any_done=False)
    fused = fuse(wrap(makes(PoolEnv)()))
    got = fused.rollout(40, policy, break_when_any_done=False)
    assert_equal_batches([got], [expected])
    assert got["next", "done"].any() == (masking in ("a transform of one's own", "MultiAction"))
    collected = [
        next(iter(cls(wrap(makes(PoolEnv)()), policy, frames_per_batch=N * 40)))
        for cls in (PoolCollector, Collector)
    ]
    assert_equal_batches(collected[:1], collected[1:])


def around(*kinds):
    """Wraps an env in these transforms."""
    return lambda env: TransformedEnv(env, Compose(*(one for kind in kinds for one in kind())))


def pair(make_policy, wrap, task="CartPole-v1", **options):
    return [collect(cls, task, make_policy, wrap=wrap, **options) for cls in (PoolCollector, Collector)]


@pytest.mark.parametrize("foreign", cases(default=["adds an entry", "turns actions"], also=FOREIGN))
@pytest.mark.parametrize("native", NATIVE)
def test_batches_are_collectors(native, foreign):
    wrap = around(NATIVE[native], FOREIGN[foreign])
    got, expected = pair(leaning, wrap, num_batches=4)
    for batches in (
        got,
        collect(Collector, "CartPole-v1", leaning, wrap=lambda env: fuse(wrap(env)), num_batches=4),
    ):
        if native == "statistics":  # which add up the rows of a batch
            for one, other in zip(batches, expected, strict=True):
                torch.testing.assert_close(one.to_dict(), other.to_dict(), rtol=1e-4, atol=1e-5)
        else:
            assert_equal_batches(batches, expected)
    assert got[0]["next", "done"].any()
    assert got[0].is_contiguous()


@pytest.mark.parametrize(
    "options",
    cases(
        default=[{"compact_obs": True}, {"use_buffers": False}],
        also=[
            {"init_random_frames": FRAMES},
            {"init_random_frames": FRAMES, "use_buffers": False},
            {"reset_at_each_iter": True},
            {"set_truncated": True},
            {"track_policy_version": True},
            {"split_trajs": True},
        ],
    ),
    ids=str,
)
def test_options(options):
    wrap = around(NATIVE["counters"], FOREIGN["adds an entry"], FOREIGN["changes one in place"])
    got, expected = pair(categorical_actor, wrap, **options)
    assert_equal_batches(got, expected)


def test_trajectories_that_the_collector_ends():
    got, expected = pair(categorical_actor, around(FOREIGN["remembers"]), max_frames_per_traj=6)
    assert_equal_batches(got, expected)


def test_random_frames_where_all_is_native():
    got, expected = pair(categorical_actor, around(NATIVE["counters"]), init_random_frames=FRAMES)
    assert_equal_batches(got, expected)


@pytest.mark.parametrize("task", cases(["HalfCheetah-v5", "ALE/Pong-v5"]))
def test_families(task):
    policy, foreign = (random_actions, "remembers") if "Pong" in task else (normal_actor, "adds an entry")
    got, expected = pair(policy, around(NATIVE["counters"], FOREIGN[foreign]), task)
    assert_equal_batches(got, expected)


def test_recurrent_policies():
    wrap = around(NATIVE["counters"], FOREIGN["remembers"])
    options = {"auto_register_policy_transforms": True, "env_options": {"obs_dtype": torch.float32}}
    got, expected = pair(lstm_actor, wrap, **options)
    assert_equal_batches(got, expected)
    assert {"hidden", "cell", "is_init"} <= set(got[0].keys())


def test_nobody_writes_to_what_transforms_were_given():
    keeping = Keeps()
    env = TransformedEnv(PoolEnv("CartPole-v1", N, seed=0), Compose(StepCounter(), keeping))
    collector = PoolCollector(env, None, frames_per_batch=FRAMES, total_frames=3 * FRAMES)
    batches = [(batch, batch.clone()) for batch in collector]
    collector.shutdown()
    assert len(keeping.kept) > 3 * T
    assert all(torch.equal(given, copy) for given, copy in keeping.kept)
    assert_equal_batches([batch for batch, _ in batches], [copy for _, copy in batches])


def test_replay_buffers_and_groups():
    wrap = around(NATIVE["counters"], FOREIGN["adds an entry"])
    stored = []
    for cls in (PoolCollector, Collector):
        buffer = ReplayBuffer(storage=LazyTensorStorage(3 * FRAMES, ndim=2))
        options = {"replay_buffer": buffer, "extend_buffer": True}
        assert collect(cls, "CartPole-v1", categorical_actor, wrap=wrap, **options) == [None] * 3
        stored.append(buffer[:])
    assert_equal_batches([stored[0]], [stored[1]])
    collector = PoolCollector(
        wrap(PoolEnv("CartPole-v1", N)), None, frames_per_batch=FRAMES, double_buffered="auto"
    )
    assert collector.num_groups == 1
    collector.shutdown()


def test_a_chain_that_changes_is_followed():
    """What was native is not any more, and the other way round."""

    def change(collector):
        first = collector.env.transform[0]
        first.in_keys = ["observation"] if first.in_keys == ["seen"] else ["seen"]

    def wrap(env):
        clip = ClipTransform(in_keys=["observation"], out_keys=["seen"], low=-0.1, high=0.1)
        return TransformedEnv(env, Compose(clip, Remembers()))

    got, expected = pair(random_actions, wrap, num_batches=4, use_buffers=False)
    assert_equal_batches(got, expected)


def test_a_step_that_goes_torchrls_way_is_in_the_batch():
    """Where the executor would have to read what only TorchRL has: then it writes nothing in place."""
    got, expected = pair(leaning, around(NATIVE["counters"], lambda: [HandsParametersOn()]))
    assert_equal_batches(got, expected)
