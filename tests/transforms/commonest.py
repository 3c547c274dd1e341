"""Pipelines as programs write them: the ten commonest of TorchRL's own programs, and further ones."""

import warnings

import torch
from torchrl.data import Unbounded
from torchrl.envs import (
    ActionScaling,
    BinarizeReward,
    CatFrames,
    CatTensors,
    ClipTransform,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    ExcludeTransform,
    ExpandAs,
    FlattenObservation,
    FrameSkipTransform,
    GrayScale,
    GymEnv,
    InitTracker,
    ObservationNorm,
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
    Transform,
    TransformedEnv,
    UnsqueezeTransform,
    VecNorm,
    VecNormV2,
)
from torchrl.envs.transforms._base import _apply_to_composite

from torchrl_pool import PoolEnv

SEEN = ["observation"]
PIXELS = ["pixels"]


class Doubled(Transform):
    """A transform of the user's own."""

    def _apply_transform(self, obs):
        return obs * 2

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return observation_spec.clone()


class Resized(Transform):
    """Stands for Resize, which needs torchvision."""

    def __init__(self, height, width):
        super().__init__(PIXELS, PIXELS)
        self.size = (height, width)

    def _apply_transform(self, obs):
        flat = obs.reshape(-1, *obs.shape[-3:])
        small = torch.nn.functional.interpolate(flat, self.size, mode="bilinear", antialias=True)
        return small.reshape(*obs.shape[:-2], *self.size)

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return Unbounded((*observation_spec.shape[:-2], *self.size))


# Of vectors; {"observation", "reward", "action"} is what a task has.
VECTORS = {
    "sac": lambda: [InitTracker(), StepCounter(9), DoubleToFloat(), RewardSum()],
    "td3": lambda: [StepCounter(max_steps=7), InitTracker(), DoubleToFloat(), RewardSum()],
    "returns alone": lambda: [RewardSum(in_keys=["reward"], out_keys=[("agents", "episode_reward")])],
    "coding ppo": lambda: [ObservationNorm(0.3, 2.5, SEEN), DoubleToFloat(), StepCounter()],
    "hydra": lambda: [StepCounter(11), DoubleToFloat(), RewardSum()],
    "ppo": lambda: [
        VecNorm(SEEN, decay=0.99999, eps=1e-2),
        ClipTransform(SEEN, low=-10, high=10),
        RewardSum(),
        StepCounter(12),
        DoubleToFloat(),
    ],
    "a2c": lambda: [
        RewardSum(),
        StepCounter(12),
        VecNorm(SEEN, decay=0.9999, eps=1e-4),
        ClipTransform(SEEN, low=-10, high=10),
        DoubleToFloat(),
    ],
    "async ppo": lambda: [
        ObservationNorm(0.1, 1.5, SEEN, standard_normal=True),
        ClipTransform(SEEN, low=-10, high=10),
        RewardSum(),
        StepCounter(),
    ],
    "reinforce": lambda: [StepCounter(13), RewardSum(in_keys=["reward"], out_keys=["reward_sum"])],
    "dqn": lambda: [StepCounter(), RewardSum()],
    "pilco": lambda: [RewardSum(), StepCounter()],
    "control": lambda: [
        CatTensors(SEEN, "observation_vector", del_keys=False),
        InitTracker(),
        StepCounter(9),
        DoubleToFloat(),
        RewardSum(),
    ],
    "recurrent": lambda: [
        InitTracker(),
        TensorDictPrimer(hidden=Unbounded((1, 4)), default_value=0.5, expand_specs=True),
    ],
    "V2": lambda: [
        VecNormV2(SEEN, ["normed"], decay=0.99, reduce_batch_dims=True),
        StepCounter(10),
        RewardSum(),
    ],
    "V2 by row": lambda: [VecNormV2([*SEEN, "reward"], decay=0.95), RewardSum()],
    "clipped reward": lambda: [RewardScaling(0.2, 0.5), RewardSum(), RewardClipping(-0.3, 0.6)],
    "signs": lambda: [RewardSum(), SignTransform(["reward"]), RewardSum(["reward"], ["signs"])],
    "binary": lambda: [BinarizeReward(), TrajCounter(), StepCounter(8)],
    "frames": lambda: [CatFrames(N=4, dim=-1, in_keys=SEEN), RewardSum()],
    "frames beside": lambda: [
        CatFrames(N=3, dim=-1, in_keys=SEEN, out_keys=["frames"], padding="constant", padding_value=-1.0),
        InitTracker(),
    ],
    "maxima": lambda: [TimeMaxPool(in_keys=SEEN, out_keys=["peak"], T=3), StepCounter(9)],
    "names": lambda: [
        RenameTransform(SEEN, [("agent", "obs")]),
        CatFrames(N=2, dim=-1, in_keys=[("agent", "obs")]),
        RewardSum(),
    ],
    "left out": lambda: [
        RewardSum(),
        StepCounter(),
        CatTensors(SEEN, "vector", del_keys=False),
        ExcludeTransform("observation"),
    ],
    "chosen": lambda: [RewardSum(), SelectTransform(*SEEN, "episode_reward")],
    "shapes": lambda: [
        UnsqueezeTransform(-2, in_keys=SEEN, out_keys=["tall"]),
        PermuteTransform((-1, -2), in_keys=["tall"], out_keys=["wide"]),
        FlattenObservation(-2, -1, in_keys=["wide"], out_keys=["flat"]),
        SqueezeTransform(-2, in_keys=["tall"], out_keys=["again"]),
        Stack(["flat", "again"], "both"),
    ],
    "a stranger": lambda: [
        RewardSum(),
        StepCounter(9),
        Doubled(SEEN, ["doubled"]),
        RewardSum(["reward"], ["more"]),
    ],
    "double": lambda: [DTypeCastTransform(torch.float32, torch.float64, in_keys=["reward"]), RewardSum()],
}
CONTINUOUS = {  # what needs bounded real actions, or episodes of even length
    "skipping": lambda: [FrameSkipTransform(2), RewardSum(), StepCounter(6)],
    "scaled actions": lambda: [ActionScaling(), RewardSum()],
    "double actions": lambda: [
        DTypeCastTransform(torch.float32, torch.float64, in_keys=["reward"], in_keys_inv=["action"]),
        StepCounter(8),
    ],
}
PICTURES = {
    "atari dqn": lambda: [
        SignTransform(["reward"]),
        ToTensorImage(),
        GrayScale(),
        Resized(84, 84),
        CatFrames(N=4, dim=-3),
        RewardSum(),
        StepCounter(10),
        DoubleToFloat(),
        VecNorm(PIXELS),
    ],
    "atari ppo": lambda: [
        RenameTransform(PIXELS, ["pixels_int"]),
        ToTensorImage(in_keys=["pixels_int"], out_keys=PIXELS),
        GrayScale(),
        Resized(84, 84),
        CatFrames(N=4, dim=-3),
        RewardSum(),
        StepCounter(10),
        SignTransform(["reward"]),
        DoubleToFloat(),
        VecNorm(PIXELS),
    ],
    "coding dqn": lambda: [
        StepCounter(),
        ToTensorImage(),
        RewardScaling(0.0, 0.1),
        GrayScale(),
        Resized(64, 64),
        CatFrames(4, -3, PIXELS),
        ObservationNorm(0.4, 0.3, PIXELS),
    ],
    "recurrent dqn": lambda: [
        ToTensorImage(),
        GrayScale(),
        Resized(84, 84),
        StepCounter(),
        InitTracker(),
        RewardScaling(0.0, 0.1),
        ObservationNorm(0.4, 0.3, PIXELS, standard_normal=True),
        TensorDictPrimer(hidden=Unbounded((2, 3)), expand_specs=True),
    ],
    "grey": lambda: [ToTensorImage(), GrayScale(), CatFrames(N=2, dim=-3), RewardSum()],
    "grey bytes": lambda: [
        PermuteTransform((-1, -3, -2), in_keys=PIXELS),
        GrayScale(),
        CatFrames(N=3, dim=-3, padding="constant"),
        SignTransform(["reward"]),
    ],
    "flat": lambda: [ToTensorImage(from_int=False), FlattenObservation(-3, -1)],
    "peaks": lambda: [ToTensorImage(), TimeMaxPool(in_keys=PIXELS, T=2), StepCounter(8), RewardSum()],
}

AGENT_SEEN, AGENT_REWARD = ("agents", "observation"), ("agents", "reward")
AGENTS = {
    "mappo": lambda: [RewardSum([AGENT_REWARD], [("agents", "episode_reward")])],
    "mappo trainer": lambda: [
        RewardSum([AGENT_REWARD], [("agents", "episode_reward")]),
        ExpandAs(in_key="terminated", ref_key=AGENT_REWARD, out_key=("agents", "all_terminated")),
    ],
    "agents' counters": lambda: [InitTracker(), StepCounter(3), RewardSum([AGENT_REWARD])],
    "agents' norm": lambda: [VecNorm([AGENT_SEEN]), ClipTransform([AGENT_SEEN], low=-2.0, high=2.0)],
    "agents' frames": lambda: [
        CatFrames(N=2, dim=-1, in_keys=[AGENT_SEEN], reset_key="_reset"),
        RewardScaling(0, 0.1, [AGENT_REWARD]),
    ],
    "agents' signs": lambda: [
        SignTransform([AGENT_REWARD]),
        RewardSum([AGENT_REWARD]),
        DoubleToFloat(["state"]),
        RenameTransform([AGENT_SEEN], [("agents", "seen")]),
    ],
    "chosen of agents": lambda: [StepCounter(), SelectTransform(AGENT_SEEN, "step_count")],
}
COUNTERS = {name: VECTORS[name] for name in ("td3", "hydra", "reinforce", "dqn", "pilco", "returns alone")}

# By family: the task, the options of the pool, and the pipelines.
FAMILIES = {
    "classic": ("CartPole-v1", {}, VECTORS),
    "mujoco": ("HalfCheetah-v5", {"max_episode_steps": 16}, {**VECTORS, **CONTINUOUS}),
    "atari": ("ALE/Pong-v5", {"from_pixels": True}, {**PICTURES, **COUNTERS}),
    "agents": ("Agents-v0", {}, AGENTS),  # of tests/plugins/spaces.cc
}


CASES = [(family, name) for family, (_, _, pipelines) in FAMILIES.items() for name in pipelines]


def _is_new(family, name):
    others = {"mujoco": VECTORS, "atari": COUNTERS}.get(family, {})
    return name not in others or (family, name) == ("mujoco", "ppo")


# Each pipeline with one family; a second one adds little.
FEW = [case for case in CASES if _is_new(*case)]


def transforms_of(case):
    family, name = case
    _, _, pipelines = FAMILIES[family]
    return pipelines[name]()


def adds_up_the_batch(case):
    return any(isinstance(transform, VecNorm | VecNormV2) for transform in transforms_of(case))


def over_pool(case, num_envs, **options):
    task, own, _ = FAMILIES[case[0]]
    return transformed(PoolEnv(task, num_envs, **own, **options), case)


def over_gym_envs(case, num_envs):
    task, own, _ = FAMILIES[case[0]]
    return transformed(SerialEnv(num_envs, lambda: GymEnv(task, **own)), case)


def transformed(base, case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # VecNorm's, of what becomes of its name
        return TransformedEnv(base, Compose(*transforms_of(case)))
