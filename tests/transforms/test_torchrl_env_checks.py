"""TorchRL's checks of envs, with each transform: alone, for a batch, and as a part of batched envs.

After the classes of TorchRL's own ``test/transforms``, whose mocks have counterparts in
``tests/plugins/counting.cc``.
"""

from functools import partial

import pytest
import torch
from torchrl.data import Unbounded
from torchrl.envs import (
    ActionScaling,
    BinarizeReward,
    CatFrames,
    CatTensors,
    CenterCrop,
    ClipTransform,
    DoubleToFloat,
    DTypeCastTransform,
    ExcludeTransform,
    FlattenObservation,
    FrameSkipTransform,
    GrayScale,
    InitTracker,
    ObservationNorm,
    ParallelEnv,
    PermuteTransform,
    RenameTransform,
    RewardClipping,
    RewardScaling,
    RewardSum,
    SelectTransform,
    SerialEnv,
    SignTransform,
    SqueezeTransform,
    Stack,
    StepCounter,
    TensorDictPrimer,
    TimeMaxPool,
    ToTensorImage,
    TrajCounter,
    TransformedEnv,
    UnsqueezeTransform,
    VecNorm,
    VecNormV2,
)
from torchrl.envs.utils import check_env_specs
from ways import transformed

import torchrl_pool
from torchrl_pool import PoolEnv

SEEN = "observation"


def twin():
    return RenameTransform([SEEN], ["twin"], create_copy=True)


# By name: the task, and what makes the transforms.
CASES = {
    "BinarizeReward": ("Draws-v0", lambda: [BinarizeReward()]),
    "RewardClipping": ("Draws-v0", lambda: [RewardClipping(-0.1, 0.1)]),
    "RewardScaling": ("Draws-v0", lambda: [RewardScaling(0.5, 1.5)]),
    "RewardScaling standard": ("Draws-v0", lambda: [RewardScaling(0.5, 1.5, standard_normal=True)]),
    "RewardSum": ("Draws-v0", lambda: [RewardScaling(loc=-1, scale=1), RewardSum()]),
    "RewardSum named": ("Pendulum-v1", lambda: [RewardSum(["reward"], [("some", "nested")])]),
    "RewardSum as reward": ("Draws-v0", lambda: [RewardSum(reward_spec=True)]),
    "RewardSum of agents": ("Agents-v0", lambda: [RewardSum(in_keys=[("agents", "reward")])]),
    "RewardSum of several": ("Gifts-v0", lambda: [RewardSum()]),
    "SignTransform": ("Draws-v0", lambda: [SignTransform(in_keys=[SEEN, "reward"])]),
    "SignTransform inverse": ("Draws-v0", lambda: [SignTransform(in_keys=[], in_keys_inv=["action"])]),
    "ClipTransform": ("Draws-v0", lambda: [ClipTransform(in_keys=[SEEN, "reward"], low=-0.1, high=0.1)]),
    "ClipTransform inverse": (
        "Draws-v0",
        lambda: [ClipTransform(in_keys=[SEEN], in_keys_inv=["action"], low=-0.1, high=0.1)],
    ),
    "ClipTransform from below": ("Draws-v0", lambda: [ClipTransform(in_keys=[SEEN], low=1.0)]),
    "ClipTransform from above": ("Draws-v0", lambda: [ClipTransform(in_keys=["precise"], high=1.0)]),
    "ClipTransform ints": ("Draws-v0", lambda: [ClipTransform(in_keys=["bounded"], low=-1, high=1)]),
    "StepCounter": ("Draws-v0", lambda: [StepCounter()]),
    "StepCounter limit": ("Draws-v0", lambda: [StepCounter(4)]),
    "StepCounter leaves done": ("Pendulum-v1", lambda: [StepCounter(4, update_done=False)]),
    "StepCounter twice": ("Pendulum-v1", lambda: [StepCounter(2), StepCounter(3, step_count_key="other")]),
    "StepCounter of agents": ("Agents-v0", lambda: [StepCounter(3)]),
    "InitTracker": ("Count-v0", lambda: [InitTracker()]),
    "InitTracker named": ("Agents-v0", lambda: [InitTracker("new")]),
    "TrajCounter": ("Count-v0", lambda: [TrajCounter()]),
    "FrameSkipTransform": ("Pendulum-v1", lambda: [FrameSkipTransform(2)]),
    "DoubleToFloat": ("Draws-v0", lambda: [DoubleToFloat()]),
    "DoubleToFloat named": ("Draws-v0", lambda: [DoubleToFloat(in_keys=["precise"])]),
    "DTypeCastTransform": (
        "Draws-v0",
        lambda: [DTypeCastTransform(torch.float32, torch.float64, in_keys=[SEEN], in_keys_inv=[])],
    ),
    "DTypeCastTransform inverse": (
        "Draws-v0",
        lambda: [DTypeCastTransform(torch.float64, torch.float32, in_keys=["precise"], in_keys_inv=[])],
    ),
    "ObservationNorm": ("Draws-v0", lambda: [ObservationNorm(torch.zeros(7), 1.0, in_keys=[SEEN])]),
    "ObservationNorm out": (
        "Draws-v0",
        lambda: [ObservationNorm(torch.zeros(7), 1.0, in_keys=[SEEN], out_keys=[("some_other", "key")])],
    ),
    "ObservationNorm bounded": (
        "Draws-v0",
        lambda: [ObservationNorm(2.0, 3.0, in_keys=["bounded"], standard_normal=True)],
    ),
    "VecNorm": ("Draws-v0", lambda: [VecNorm(in_keys=[SEEN, "reward"])]),
    "VecNorm nested": (
        "Draws-v0",
        lambda: [RenameTransform([SEEN], [("some", "obs")]), VecNorm(in_keys=[("some", "obs"), "reward"])],
    ),
    "VecNormV2": ("Draws-v0", lambda: [VecNormV2(in_keys=[SEEN], out_keys=["normed"])]),
    "VecNormV2 reduced": ("Draws-v0", lambda: [VecNormV2(in_keys=[SEEN], reduce_batch_dims=True)]),
    "VecNormV2 in a row": ("Count-v0", lambda: [VecNormV2([SEEN]), VecNormV2(["reward"])]),
    "CatFrames": ("Draws-v0", lambda: [CatFrames(N=3, dim=-1, in_keys=[SEEN])]),
    "CatFrames out": ("Draws-v0", lambda: [CatFrames(N=3, dim=-1, in_keys=[SEEN], out_keys=["stacked"])]),
    "CatFrames nested": (
        "Agents-v0",
        lambda: [CatFrames(N=5, dim=-1, in_keys=[("agents", "observation")], reset_key="_reset")],
    ),
    "CatFrames constant": (
        "Draws-v0",
        lambda: [CatFrames(N=2, dim=-2, in_keys=["pixels"], padding="constant", padding_value=7)],
    ),
    "CatTensors": ("Draws-v0", lambda: [CatTensors(["bounded", SEEN], "both", del_keys=False)]),
    "CatTensors nested": ("Pendulum-v1", lambda: [CatTensors([SEEN], ("some", "nested"))]),
    "Stack": ("Draws-v0", lambda: [twin(), Stack([SEEN, "twin"], "stacked", dim=-1, del_keys=False)]),
    "Stack deletes": ("Draws-v0", lambda: [twin(), Stack([SEEN, "twin"], "stacked")]),
    "RenameTransform": ("Draws-v0", lambda: [RenameTransform([SEEN], ["stuff"])]),
    "RenameTransform copies": ("Draws-v0", lambda: [RenameTransform([SEEN], ["stuff"], create_copy=True)]),
    "RenameTransform done": ("Draws-v0", lambda: [RenameTransform(["done"], [("nested", "done")])]),
    "RenameTransform done copies": (
        "Draws-v0",
        lambda: [RenameTransform(["done"], [("nested", "done")], create_copy=True)],
    ),
    "RenameTransform reward": ("Draws-v0", lambda: [RenameTransform(["reward"], [("nested", "reward")])]),
    "RenameTransform action": (
        "Draws-v0",
        lambda: [RenameTransform([], [], ["action"], [("renamed", "action")])],
    ),
    "SelectTransform": ("Draws-v0", lambda: [SelectTransform(SEEN)]),
    "SelectTransform nested": ("Agents-v0", lambda: [SelectTransform(("agents", "observation"))]),
    "ExcludeTransform": ("Draws-v0", lambda: [ExcludeTransform("bounded", "pixels")]),
    "ExcludeTransform nested": ("Agents-v0", lambda: [ExcludeTransform(("agents", "observation"))]),
    "FlattenObservation": ("Draws-v0", lambda: [FlattenObservation(-3, -1)]),
    "FlattenObservation out": ("Draws-v0", lambda: [FlattenObservation(-3, -1, out_keys=[("a", "stuff")])]),
    "UnsqueezeTransform": ("Draws-v0", lambda: [UnsqueezeTransform(-1, in_keys=[SEEN])]),
    "UnsqueezeTransform out": (
        "Draws-v0",
        lambda: [UnsqueezeTransform(-2, in_keys=[SEEN], out_keys=["stuff"])],
    ),
    "SqueezeTransform": (
        "Draws-v0",
        lambda: [
            UnsqueezeTransform(-1, in_keys=[SEEN], out_keys=["longer"]),
            SqueezeTransform(-1, in_keys=["longer"], out_keys=["squeezed"]),
        ],
    ),
    "SqueezeTransform inverse": (
        "HalfCheetah-v5",
        lambda: [
            UnsqueezeTransform(-1, in_keys_inv=["action"], out_keys_inv=["action_t"]),
            SqueezeTransform(-1, in_keys_inv=["action_t"], out_keys_inv=["action"]),
        ],
    ),
    "PermuteTransform": ("Draws-v0", lambda: [PermuteTransform((-1, -2, -3), in_keys=["pixels"])]),
    "ToTensorImage": ("Draws-v0", lambda: [ToTensorImage()]),
    "ToTensorImage out": ("Draws-v0", lambda: [ToTensorImage(in_keys=["pixels"], out_keys=["stuff"])]),
    "GrayScale": ("Draws-v0", lambda: [ToTensorImage(), GrayScale()]),
    "GrayScale out": ("Draws-v0", lambda: [ToTensorImage(), GrayScale(out_keys=[("some_other", "key")])]),
    "CenterCrop": ("Draws-v0", lambda: [ToTensorImage(), CenterCrop(w=4, h=4, in_keys=["pixels"])]),
    "TimeMaxPool": ("Draws-v0", lambda: [TimeMaxPool(in_keys=[SEEN], T=3)]),
    "TimeMaxPool out": ("Draws-v0", lambda: [TimeMaxPool(in_keys=[SEEN], out_keys=[("some", "k")], T=3)]),
    "ActionScaling": ("Draws-v0", lambda: [ActionScaling()]),
    "ActionScaling from 0": ("Draws-v0", lambda: [ActionScaling(standard_normal=False)]),
    "TensorDictPrimer": (
        "Draws-v0",
        lambda: [TensorDictPrimer(hidden=Unbounded((2, 3)), default_value=1.0, expand_specs=True)],
    ),
}


def make(task, make_transforms, num_envs=1):
    return transformed(torchrl_pool.fuse, task, *make_transforms(), num_envs=num_envs)


def check(env):
    try:
        check_env_specs(env)
    finally:
        env.close(raise_if_closed=False)


@pytest.fixture(params=CASES)
def case(request):
    if request.param == "CenterCrop":
        pytest.importorskip("torchvision", reason="TorchRL's CenterCrop needs torchvision")
    return CASES[request.param]


@pytest.fixture
def case_in_a_batch(case):
    if case is CASES["RewardSum as reward"]:
        pytest.skip("TorchRL stacks no roots that hold an entry of the reward spec")
    return case


@pytest.mark.parametrize("num_envs", [1, 3])
def test_pool(case, num_envs):
    check(make(*case, num_envs))


@pytest.mark.filterwarnings("ignore:VecNorm")
def test_in_a_serial_env(case_in_a_batch):
    check(SerialEnv(2, partial(make, *case_in_a_batch)))


@pytest.mark.parametrize("case", CASES, indirect=True)
@pytest.mark.filterwarnings("ignore:VecNorm")
def test_in_a_parallel_env(case_in_a_batch):
    check(ParallelEnv(2, partial(make, *case_in_a_batch), mp_start_method="fork"))


def test_around_a_serial_env_nothing_is_fused():
    env = TransformedEnv(SerialEnv(2, partial(PoolEnv, "Draws-v0", 1)), StepCounter())
    with pytest.raises(TypeError, match="expected a PoolEnv, or a TransformedEnv around one"):
        torchrl_pool.fuse(env)
