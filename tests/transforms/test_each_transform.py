"""Each transform with its options by itself: specs and numbers are TorchRL's, on envs of every kind of entry.

The envs are those of ``tests/plugins/counting.cc`` and ``spaces.cc``.
"""

from __future__ import annotations

import importlib.util
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial

import pytest
import torch
from cases import cases
from pipelines import OBS, assert_same
from tensordict import TensorDictBase
from torchrl.data import Unbounded
from torchrl.envs import Compose, EnvBase, ParallelEnv, SerialEnv, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm
from torchrl.envs.utils import check_env_specs
from ways import turns

from torchrl_pool import PoolEnv, fuse

pytestmark = pytest.mark.filterwarnings("ignore:VecNorm", "ignore:Support of VecNormV2 for containers")

N = 3
NESTED = [("some_other", "nested_key")]
AGENT_SEEN, AGENT_REWARD = ("agents", "observation"), ("agents", "reward")
PER_ENV = {
    "num_envs": N,
    "env_options": [{"end": end} for end in (3, 4, 5)],  # episodes that end at different times
}

Transforms = Callable[[], list[t.Transform]]
Cases = Mapping[str, Transforms]


def twin() -> t.Transform:
    return t.RenameTransform(OBS, ["twin"], create_copy=True)


def swap() -> t.Transform:
    return t.PermuteTransform((-1, -2), in_keys=OBS)


def primer(**options: object) -> t.Transform:
    return t.TensorDictPrimer(one=Unbounded((2, 3)), two=Unbounded((2, 3)), expand_specs=True, **options)


# By task. "left" at the end of a name: TorchRL runs it, or a part of it.
DRAWS: Cases = {  # vectors, a picture, rewards of both signs, and what the action was
    "nothing": lambda: [t.SelectTransform(*OBS, "precise", "bounded", "pixels", "received")],
    "BinarizeReward": lambda: [t.BinarizeReward()],
    "RewardClipping": lambda: [t.RewardClipping(-0.5, 0.25)],
    "RewardScaling": lambda: [t.RewardScaling(0.5, 1.5)],
    "RewardScaling standard": lambda: [t.RewardScaling(0.5, 1.5, standard_normal=True)],
    "RewardSum behind": lambda: [t.RewardScaling(loc=-1, scale=3.0), t.RewardSum()],
    "RewardSum before": lambda: [t.RewardSum(), t.RewardScaling(loc=-1, scale=3.0)],
    "RewardSum as reward left": lambda: [t.RewardSum(reward_spec=True)],
    "SignTransform": lambda: [t.SignTransform(in_keys=[*OBS, "reward"])],
    "SignTransform inverse": lambda: [t.SignTransform(in_keys=[], in_keys_inv=["action"])],
    "ClipTransform": lambda: [t.ClipTransform([*OBS, "precise", "reward"], low=-0.5, high=0.25)],
    "ClipTransform from below": lambda: [t.ClipTransform(OBS, low=-0.5)],
    "ClipTransform from above": lambda: [t.ClipTransform(["precise"], high=0.25)],
    "ClipTransform ints": lambda: [t.ClipTransform(["bounded", "reward"], low=-torch.ones(()), high=1)],
    "ClipTransform inverse": lambda: [
        t.ClipTransform(OBS, in_keys_inv=["action"], low=0.25, high=1.5)
    ],
    "StepCounter limit": lambda: [t.StepCounter(4)],
    "DoubleToFloat": lambda: [t.DoubleToFloat()],
    "DoubleToFloat named": lambda: [t.DoubleToFloat(in_keys=["precise"], out_keys=["short"])],
    "DTypeCast": lambda: [t.DTypeCastTransform(torch.float32, torch.float64, in_keys=OBS, in_keys_inv=[])],
    "DTypeCast of doubles": lambda: [
        t.DTypeCastTransform(torch.float64, torch.float32, in_keys=["precise"], in_keys_inv=[])
    ],
    "DTypeCast inverse": lambda: [
        t.DTypeCastTransform(torch.float32, torch.float64, in_keys=["reward"], in_keys_inv=["action"])
    ],
    "ObservationNorm": lambda: [
        t.ObservationNorm(torch.linspace(-1, 1, 7), torch.linspace(1, 3, 7), OBS, standard_normal=True)
    ],
    "ObservationNorm out": lambda: [t.ObservationNorm(torch.zeros(7), 1.0, OBS, NESTED)],
    "ObservationNorm bounded": lambda: [t.ObservationNorm(2.0, 3.0, ["bounded"], standard_normal=True)],
    "ObservationNorm bounds": lambda: [t.ObservationNorm(torch.ones(7), 2.0, ["bounded"])],
    "VecNorm": lambda: [VecNorm([*OBS, "reward"])],
    "VecNorm nested": lambda: [t.RenameTransform(OBS, NESTED), VecNorm([*NESTED, "reward"])],
    "VecNorm of doubles": lambda: [VecNorm([*OBS, "precise"], ["avg", ("b", "avg")], decay=0.98)],
    "VecNorm of all calls": lambda: [VecNorm([*OBS, "reward"], decay=1.0)],
    "VecNormV2": lambda: [t.VecNormV2(OBS, ["normed"])],
    "VecNormV2 of all calls": lambda: [
        t.VecNormV2(["reward", *OBS], ["reward_norm", "normed"], decay=1, reduce_batch_dims=True)
    ],
    "CatFrames": lambda: [t.CatFrames(N=3, dim=-1, in_keys=OBS)],
    "CatFrames out": lambda: [t.CatFrames(N=3, dim=-1, in_keys=OBS, out_keys=NESTED)],
    "CatFrames constant": lambda: [
        t.CatFrames(N=4, dim=-2, in_keys=["pixels"], padding="constant", padding_value=7)
    ],
    "CatFrames about": lambda: [
        t.UnsqueezeTransform(-1, in_keys=OBS), swap(), t.CatFrames(N=4, dim=-2, in_keys=OBS), swap()
    ],
    "CatTensors": lambda: [t.CatTensors([*OBS, "bounded"], "both", del_keys=False)],
    "CatTensors unsorted": lambda: [t.CatTensors([*OBS, "bounded"], NESTED[0], sort=False)],
    "Stack": lambda: [twin(), t.ObservationNorm(1.0, 1.0, ["twin"]), t.Stack([*OBS, "twin"], "stacked")],
    "Stack keeps": lambda: [twin(), t.Stack([*OBS, "twin"], "stacked", dim=-1, del_keys=False)],
    "Rename": lambda: [t.RenameTransform(OBS, ["stuff"])],
    "Rename copies": lambda: [t.RenameTransform(OBS, NESTED, create_copy=True)],
    "Rename flags left": lambda: [
        t.RenameTransform(["done", "reward"], [("nested", "over"), ("nested", "reward")])
    ],
    "Rename copies flags left": lambda: [
        t.RenameTransform(["done", "reward"], [("nested", "over"), ("nested", "r")], create_copy=True)
    ],
    "Rename action": lambda: [t.RenameTransform([], [], ["action"], [("renamed", "action")])],
    "Rename copies action": lambda: [
        t.RenameTransform([], [], ["action"], [("renamed", "action")], create_copy=True)
    ],
    "Select": lambda: [t.SelectTransform("bounded", "pixels")],
    "Select without flags left": lambda: [t.SelectTransform("bounded", keep_dones=False)],
    "Select without other flags left": lambda: [t.SelectTransform("bounded", "done", keep_dones=False)],
    "Select without rewards left": lambda: [t.SelectTransform("bounded", keep_rewards=False)],
    "Exclude": lambda: [t.ExcludeTransform("bounded", "pixels")],
    "Exclude rewards": lambda: [t.ExcludeTransform("reward")],
    "Flatten": lambda: [t.FlattenObservation(-3, -1)],
    "Flatten out": lambda: [t.FlattenObservation(-3, -1, out_keys=NESTED)],
    "Unsqueeze, Squeeze": lambda: [
        t.UnsqueezeTransform(-1, in_keys=OBS), t.SqueezeTransform(-1, in_keys=OBS, out_keys=["squeezed"])
    ],
    "Unsqueeze out": lambda: [t.UnsqueezeTransform(-2, in_keys=OBS, out_keys=["stuff"])],
    "Permute": lambda: [t.PermuteTransform((-1, -2, -3), in_keys=["pixels"])],
    "ToTensorImage": lambda: [t.ToTensorImage()],
    "ToTensorImage out": lambda: [t.ToTensorImage(from_int=True, out_keys=NESTED)],
    "ToTensorImage of numbers": lambda: [t.ToTensorImage(from_int=False, out_keys=["stuff"])],
    "GrayScale": lambda: [t.ToTensorImage(), t.GrayScale()],
    "GrayScale out": lambda: [t.ToTensorImage(), t.GrayScale(out_keys=NESTED)],
    "CenterCrop": lambda: [t.ToTensorImage(), t.CenterCrop(w=4, h=2, in_keys=["pixels"])],
    "TimeMaxPool": lambda: [t.TimeMaxPool(OBS, T=3)],
    "TimeMaxPool out": lambda: [t.TimeMaxPool(OBS, NESTED, T=3)],
    "ActionScaling left": lambda: [t.ActionScaling()],
    "ActionScaling from 0 left": lambda: [t.ActionScaling(standard_normal=False)],
    "ActionScaling given left": lambda: [t.ActionScaling(loc=1.0, scale=0.5)],
    "Primer": lambda: [primer(default_value=1.0)],
    "Primer of each": lambda: [primer(default_value={"one": 1.0, "two": 2.0})],
    "Primer of functions left": lambda: [
        primer(default_value={"one": lambda: torch.ones(N, 2, 3), "two": lambda: torch.zeros(N, 2, 3)})
    ],
    "Primer of draws left": lambda: [primer(random=True)],
}  # fmt: skip
COUNT: Cases = {  # rewards of 1, and episodes of 3, 4 and 5 steps that count
    "InitTracker": lambda: [t.InitTracker()],
    "TrajCounter": lambda: [t.TrajCounter()],
    "TrajCounter nested left": lambda: [
        t.RenameTransform(["done"], [("nested", "done")], create_copy=True),
        t.TrajCounter(("nested", "traj_count")),
    ],
    "VecNormV2 in a row": lambda: [t.VecNormV2(OBS), t.VecNormV2(["reward"])],
    "VecNorm in a row": lambda: [VecNorm(OBS), VecNorm(["reward"])],
    "CatFrames": lambda: [t.CatFrames(3, -1, OBS)],
    "CatFrames constant": lambda: [t.CatFrames(3, -1, OBS, padding="constant", padding_value=-1)],
    "RewardSum": lambda: [t.RewardSum()],
}
GIFTS: Cases = {  # two rewards, of which one is of two numbers
    "RewardSum": lambda: [t.RewardSum()],
    "RewardSum named": lambda: [
        t.RewardSum([("first", "gift"), ("second", "reward")], reset_keys=["_reset"] * 2)
    ],
}
AGENTS: Cases = {
    "BinarizeReward": lambda: [t.BinarizeReward([AGENT_REWARD])],
    "RewardSum": lambda: [t.RewardSum([AGENT_REWARD])],
    "StepCounter left": lambda: [t.StepCounter(3, step_count_key="other-key")],
    "StepCounter without a limit left": lambda: [t.StepCounter()],
    "InitTracker": lambda: [t.InitTracker("new")],
    "CatFrames": lambda: [t.CatFrames(N=5, dim=-1, in_keys=[AGENT_SEEN], reset_key="_reset")],
    "Select": lambda: [t.SelectTransform(AGENT_SEEN)],
    "Select nothing": lambda: [t.SelectTransform()],
    "Exclude": lambda: [t.ExcludeTransform(AGENT_SEEN)],
    "FrameSkip": lambda: [t.FrameSkipTransform(2)],
}
PENDULUM: Cases = {
    "StepCounter leaves done left": lambda: [t.StepCounter(4, update_done=False)],
    "StepCounter twice": lambda: [t.StepCounter(2), t.StepCounter(3, step_count_key="other")],
    "RewardSum nested": lambda: [t.RewardSum(["reward"], [("some", "nested")])],
    "CatTensors nested": lambda: [t.CatTensors(OBS, ("some", "nested"))],
    "VecNormV2 without a state left": lambda: [t.VecNormV2(OBS, ["normed"], stateful=False)],
    "InitTracker after a limit": lambda: [t.StepCounter(7), t.InitTracker()],
    "FrameSkip": lambda: [t.FrameSkipTransform(3)],
    "FrameSkip of one": lambda: [t.FrameSkipTransform(1)],
    "Unsqueeze, Squeeze of actions left": lambda: [
        t.UnsqueezeTransform(-1, in_keys_inv=["action"], out_keys_inv=["action_t"]),
        t.SqueezeTransform(-1, in_keys_inv=["action_t"], out_keys_inv=["action"]),
    ],
}
TASKS: Mapping[str, tuple[Mapping[str, object], Cases]] = {
    "Draws-v0": (PER_ENV, DRAWS),
    "Count-v0": (PER_ENV, COUNT),
    "Gifts-v0": ({"num_envs": N}, GIFTS),
    "Agents-v0": ({"num_envs": N}, AGENTS),
    "Pendulum-v1": ({"num_envs": N, "max_episode_steps": 12}, PENDULUM),
}
HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None  # which TorchRL's CenterCrop needs
CASES = [
    (task, name)
    for task, (_, names) in TASKS.items()
    for name in names
    if name != "CenterCrop" or HAS_TORCHVISION
]
each_case = pytest.mark.parametrize(("task", "name"), cases(CASES))


def transformed(task: str, transforms: list[t.Transform], **options: object) -> TransformedEnv:
    pool = PoolEnv(task, **{**TASKS[task][0], "seed": 3, **options})
    return TransformedEnv(pool, transforms[0] if len(transforms) == 1 else Compose(*transforms))


def fused(task: str, name: str, **options: object) -> TransformedEnv:
    env = fuse(transformed(task, TASKS[task][1][name](), **options))
    assert bool(env.fusion().rest) is name.endswith("left"), env.fusion().why_not
    return env


def numbers_of(transform: t.Transform) -> list[torch.Tensor]:
    return [value for value in transform.state_dict().values() if torch.is_tensor(value)]


def rollout(env: EnvBase, count: int) -> Iterator[TensorDictBase]:
    yield env.rollout(2 * count, break_when_any_done=False)


# The others have no "done", or two.
TURNS = [case for case in CASES if not re.search("flags left|TrajCounter nested", case[1])]


@pytest.mark.parametrize(
    ("way", "task", "name"),
    cases([(turns, *case) for case in TURNS], also=[(rollout, *case) for case in CASES]),
)
def test_steps_and_statistics_are_torchrls(way, task, name):
    results, kept = [], []
    for env in (fused(task, name), transformed(task, TASKS[task][1][name]())):
        torch.manual_seed(0)
        results.append(list(way(env, 12)))
        kept.append(numbers_of(env.transform))
    for ours, theirs in zip(*results, strict=True):
        assert_same(ours, theirs, exact="VecNorm" not in name, in_order=False)
    for ours, theirs in zip(*kept, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, equal_nan=True)


@each_case
def test_specs_are_torchrls(task, name):
    env, reference = fused(task, name), transformed(task, TASKS[task][1][name]())
    assert env.output_spec == reference.output_spec
    assert env.input_spec == reference.input_spec
    check_env_specs(env)


@pytest.mark.parametrize("batched", [SerialEnv, partial(ParallelEnv, mp_start_method="fork")])
@pytest.mark.parametrize("name", ["Primer", "VecNorm", "CatFrames", "Rename action"])
def test_fused_envs_are_parts_of_batched_ones(batched, name):
    env = batched(2, partial(fused, "Draws-v0", name))
    try:
        check_env_specs(env)
    finally:
        env.close(raise_if_closed=False)


def test_around_a_serial_env_nothing_is_fused():
    env = TransformedEnv(SerialEnv(2, partial(PoolEnv, "Draws-v0", 1)), t.StepCounter())
    with pytest.raises(TypeError, match="expected a PoolEnv, or a TransformedEnv around one"):
        fuse(env)


@pytest.mark.parametrize(
    ("task", "transform", "error", "words"),
    cases(
        [
            ("Draws-v0", lambda: t.CatFrames(2, -1, OBS, future=True), RuntimeError, "offline"),
            ("Draws-v0", lambda: t.ObservationNorm(in_keys=OBS), RuntimeError, "have not been initialized"),
            ("Draws-v0", lambda: t.DoubleToFloat(OBS), TypeError, "observation"),
            (
                "Gifts-v0",
                lambda: t.RewardSum(reset_keys=[("a", "reset")]),
                ValueError,
                "Could not match the env",
            ),
            (
                "Pendulum-v1",
                lambda: t.VecNormV2(OBS, stateful=False, reduce_batch_dims=True),
                RuntimeError,
                "reduce_batch_dims=True and stateful=False",
            ),
            (
                "Pendulum-v1",
                lambda: t.NoopResetEnv(9),
                ValueError,
                "parent environment batch-size is non-null",
            ),
        ]
    ),
)
def test_what_torchrl_refuses_is_refused(task, transform, error, words):
    for way in (fuse, lambda env: env):
        with pytest.raises(error, match=words):
            way(transformed(task, [transform()])).reset()


@pytest.mark.parametrize(
    ("transforms", "key"),
    cases([(list, "observation"), (list, "bounded"), (lambda: [t.ToTensorImage()], "pixels")]),
)
def test_statistics_of_a_rollout_are_torchrls(transforms, key):
    found = []
    for way in (fuse, lambda env: env):
        norm = t.ObservationNorm(in_keys=[key])
        env = way(transformed("Draws-v0", [*transforms(), norm]))
        torch.manual_seed(0)
        over = (0, 1, 3, 4) if key == "pixels" else (0, 1)
        norm.init_stats(num_iter=11, cat_dim=1, reduce_dim=over, keep_dims=over[2:] or None)
        found.append((norm.loc, norm.scale, env.rollout(5)[key]))
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", cases([VecNorm, t.VecNormV2]))
@pytest.mark.parametrize(
    "make",
    cases(
        default=[
            lambda norm: norm.frozen_copy(),
            lambda norm: pickle.loads(pickle.dumps(norm)),
            lambda norm: load(
                type(norm)([*OBS, "precise"], ["avg", ("b", "avg")]), deepcopy(norm.state_dict())
            ),
        ],
        also=[lambda norm: norm.to_observation_norm(), lambda norm: norm.clone()],
    ),
    ids=["frozen", "pickled", "loaded", "fixed", "cloned"],
)
def test_what_is_made_of_learned_statistics_goes_on_as_torchrls(kind, make):
    """In an env of its own, fused again."""
    results = []
    for way in (fuse, lambda env: env):
        norm = kind([*OBS, "precise"], ["avg", ("b", "avg")])
        learning = way(transformed("Draws-v0", [norm]))
        learning.rollout(10, break_when_any_done=False)
        learning.close()
        env = way(transformed("Draws-v0", [make(norm)], seed=5))
        torch.manual_seed(0)
        results.append(env.rollout(20, break_when_any_done=False))
    assert_same(*results, exact=False, in_order=False)


def load(transform: t.Transform, state: dict) -> t.Transform:
    if isinstance(transform, t.VecNormV2):  # which has statistics once it has an env
        transformed("Draws-v0", [transform])
        transform = transform.clone()
    transform.load_state_dict(state)
    return transform
