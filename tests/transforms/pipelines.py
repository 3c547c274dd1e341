"""Chains of transforms that programs use, made anew for each env, and envs that have them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from tensordict import TensorDictBase
from torchrl.data import Unbounded
from torchrl.envs import EnvBase, GymEnv, SerialEnv, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms._base import _apply_to_composite
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import FusedEnv, PoolEnv, fuse

Case: TypeAlias = tuple[str, str]  # a family, and one of its pipelines
Pipelines: TypeAlias = Mapping[str, Callable[[], list[t.Transform]]]

OBS = ["observation"]
PIXELS = ["pixels"]
AGENT_SEEN, AGENT_REWARD = ("agents", "observation"), ("agents", "reward")


class Doubled(t.Transform):
    """A transform of the user's own."""

    def _apply_transform(self, obs):
        return obs * 2

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    @_apply_to_composite
    def transform_observation_spec(self, observation_spec):
        return observation_spec.clone()


class Resized(t.Transform):
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


# Of vectors, for any task: what looks at one row alone, then what looks at the whole batch.
VECTORS: Pipelines = {
    "counters": lambda: [t.RewardSum(), t.StepCounter(), t.InitTracker()],
    "sac": lambda: [t.InitTracker(), t.StepCounter(13), t.DoubleToFloat(), t.RewardSum()],
    "td3": lambda: [t.StepCounter(max_steps=7), t.InitTracker(), t.DoubleToFloat(), t.RewardSum()],
    "returns_alone": lambda: [t.RewardSum(in_keys=["reward"], out_keys=[("agents", "episode_reward")])],
    "async_ppo": lambda: [
        t.ObservationNorm(0.1, 1.5, OBS, standard_normal=True),
        t.ClipTransform(OBS, low=-10, high=10),
        t.RewardSum(),
        t.StepCounter(),
    ],
    "reinforce": lambda: [t.StepCounter(13), t.RewardSum(in_keys=["reward"], out_keys=["reward_sum"])],
    "dqn": lambda: [t.StepCounter(), t.RewardSum()],
    "signs": lambda: [t.RewardSum(), t.SignTransform(["reward"]), t.RewardSum(["reward"], ["signs"])],
    "names": lambda: [
        t.RenameTransform(OBS, [("agent", "obs")]),
        t.CatFrames(N=2, dim=-1, in_keys=[("agent", "obs")]),
        t.RewardSum(),
    ],
    "left_out": lambda: [
        t.RewardSum(),
        t.StepCounter(),
        t.CatTensors(OBS, "vector", del_keys=False),
        t.ExcludeTransform("observation"),
    ],
    "shapes": lambda: [
        t.UnsqueezeTransform(-2, in_keys=OBS, out_keys=["tall"]),
        t.PermuteTransform((-1, -2), in_keys=["tall"], out_keys=["wide"]),
        t.FlattenObservation(-2, -1, in_keys=["wide"], out_keys=["flat"]),
        t.SqueezeTransform(-2, in_keys=["tall"], out_keys=["again"]),
        t.Stack(["flat", "again"], "both"),
    ],
    "a_stranger": lambda: [
        t.RewardSum(),
        t.StepCounter(9),
        Doubled(OBS, ["doubled"]),
        t.RewardSum(["reward"], ["more"]),
    ],
    "init_tracker": lambda: [t.InitTracker("first")],
    "ddpg": lambda: [t.StepCounter(max_steps=17), t.DoubleToFloat(), t.RewardSum()],
    "steps_by_name": lambda: [t.StepCounter(9, step_count_key="steps")],
    "observation_norm": lambda: [
        t.ObservationNorm(0.3, 2.0, in_keys=OBS),
        t.DoubleToFloat(),
        t.StepCounter(),
    ],
    "clip": lambda: [t.ClipTransform(OBS, low=-0.05, high=0.05), t.RewardSum()],
    "clip_low": lambda: [t.ClipTransform([*OBS, "reward"], out_keys=["clipped", "reward"], low=-0.01)],
    "sum_then_sign": lambda: [t.RewardSum(), t.SignTransform(["reward"]), t.SignTransform(OBS)],
    "scaled": lambda: [t.RewardScaling(0.5, 0.1), t.RewardSum(), t.RewardClipping(-0.2, 0.55)],
    "scaled_normal": lambda: [t.RewardScaling(0.5, 0.1, standard_normal=True), t.StepCounter(11)],
    "scaled_again": lambda: [
        t.RewardScaling(0.5, 0.1, in_keys=["reward"], out_keys=["reward"]),
        t.RewardScaling(0.0, 3.0),
    ],
    "binary": lambda: [t.RewardSum(), t.BinarizeReward()],
    "cast": lambda: [
        t.DTypeCastTransform(torch.float32, torch.float64, in_keys=["reward"]),
        t.RewardSum(),
    ],
    "dm_control": lambda: [
        t.RenameTransform(OBS, ["position"], create_copy=True),
        t.CatTensors(["position", "observation"], "observation_vector"),
        t.StepCounter(),
        t.DoubleToFloat(),
        t.RewardSum(),
    ],
    "cat_in_place": lambda: [
        t.RenameTransform(OBS, ["position"], create_copy=True),
        t.ObservationNorm(1.0, 2.0, in_keys=["position"]),
        t.CatTensors(["observation", "position"], "observation", sort=False, del_keys=False),
    ],
    "stacked": lambda: [
        t.RenameTransform(OBS, ["other"], create_copy=True),
        t.Stack(["observation", "other"], "both", dim=-1),
        t.PermuteTransform((-1, -2), in_keys=["both"]),
    ],
    "reshaped": lambda: [
        t.UnsqueezeTransform(-2, in_keys=[*OBS, "reward"]),
        t.SqueezeTransform(-2, in_keys=["reward"]),
        t.FlattenObservation(-2, -1, in_keys=OBS),
    ],
    "renamed": lambda: [
        t.RenameTransform([*OBS, "reward"], ["seen", "earned"]),
        t.RewardSum(in_keys=["earned"], out_keys=["return"]),
    ],
    "frames": lambda: [t.CatFrames(N=4, dim=-1, in_keys=OBS), t.RewardSum()],
    "frames_beside": lambda: [
        t.CatFrames(3, -1, OBS, ["frames"], padding="constant", padding_value=-1.0),
        t.UnsqueezeTransform(-2, in_keys=OBS),
        t.CatFrames(2, -2, OBS, reset_key="_reset", done_key="done"),
        t.ObservationNorm(0.3, 2.0, in_keys=["frames"]),
        t.InitTracker(),
    ],
    "one_frame": lambda: [t.CatFrames(N=1, dim=-1, in_keys=OBS, padding="constant"), t.StepCounter(7)],
    "maxima": lambda: [t.TimeMaxPool(OBS, T=3), t.StepCounter(9)],
    "maxima_beside": lambda: [t.TimeMaxPool(OBS, ["peak"], T=2), t.TimeMaxPool(OBS, T=1), t.RewardSum()],
    "chosen": lambda: [
        t.RewardSum(),
        t.StepCounter(),
        t.SelectTransform("step_count", "episode_reward", *OBS),
    ],
    "primed": lambda: [
        t.InitTracker(),
        t.TensorDictPrimer(hidden=Unbounded((2, 3)), default_value=0.5, expand_specs=True),
        t.RewardSum(),
    ],
    "primed_twice": lambda: [
        t.TensorDictPrimer(
            {"memory": Unbounded(4), "kept": Unbounded((), dtype=torch.int64)},
            default_value={"memory": -1.0, "kept": 3},
            expand_specs=True,
        ),
        t.StepCounter(9),
    ],
    "actions_renamed": lambda: [t.RenameTransform([], [], ["action"], ["move"]), t.StepCounter()],
    "ppo": lambda: [
        VecNorm(OBS, decay=0.99999, eps=1e-2),
        t.ClipTransform(OBS, low=-10, high=10),
        t.RewardSum(),
        t.StepCounter(19),
        t.DoubleToFloat(),
    ],
    "a2c": lambda: [
        t.RewardSum(),
        t.StepCounter(19),
        VecNorm(OBS, decay=0.9999, eps=1e-4),
        t.ClipTransform(OBS, low=-10, high=10),
        t.DoubleToFloat(),
    ],
    "vec_norm_rewards": lambda: [VecNorm(), t.RewardSum()],
    "vec_norm_each": lambda: [VecNorm(OBS, out_keys=["normal"]), VecNorm(["reward"], decay=0.99)],
    "v2": lambda: [t.VecNormV2([*OBS, "reward"], decay=0.999, reduce_batch_dims=True), t.StepCounter(19)],
    "v2_by_row": lambda: [
        t.VecNormV2([*OBS, "reward"], decay=0.95, eps=1e-2),
        t.ClipTransform(OBS, low=-5, high=5),
        t.RewardSum(),
    ],
    "v2_undecayed": lambda: [t.VecNormV2(OBS, decay=1.0, eps=1e-2, reduce_batch_dims=True)],
    "numbered": lambda: [t.StepCounter(11), t.TrajCounter(), t.RewardSum()],
    "numbered_then_normal": lambda: [t.TrajCounter("episode"), VecNorm(OBS), t.InitTracker()],
    "frames_then_normal": lambda: [t.CatFrames(2, -1, OBS), VecNorm(OBS), t.RewardSum()],
    "normal_then_frames": lambda: [VecNorm(OBS), t.CatFrames(3, -1, OBS), t.StepCounter(9)],
    "normal_then_maxima": lambda: [VecNorm(OBS), t.TimeMaxPool(OBS, T=2)],
    "scaled_then_normal": lambda: [t.ObservationNorm(1.0, 3.0, in_keys=OBS), VecNorm(OBS), t.InitTracker()],
    "v2_beside": lambda: [
        t.VecNormV2(OBS, ["normed"], decay=0.99, reduce_batch_dims=True),
        t.StepCounter(10),
        t.RewardSum(),
    ],
}
CONTINUOUS: Pipelines = {  # what needs bounded real actions, or episodes of even length
    "skipping": lambda: [t.FrameSkipTransform(2), t.RewardSum(), t.StepCounter(6)],
    "scaled_actions": lambda: [t.ActionScaling(), t.RewardSum()],
    "double_actions": lambda: [
        t.DTypeCastTransform(torch.float32, torch.float64, in_keys=["reward"], in_keys_inv=["action"]),
        t.StepCounter(8),
    ],
}
PICTURES: Pipelines = {
    "atari_dqn": lambda: [
        t.SignTransform(["reward"]),
        t.ToTensorImage(),
        t.GrayScale(),
        Resized(84, 84),
        t.CatFrames(N=4, dim=-3),
        t.RewardSum(),
        t.StepCounter(10),
        t.DoubleToFloat(),
        VecNorm(PIXELS),
    ],
    "atari_ppo": lambda: [
        t.RenameTransform(PIXELS, ["pixels_int"]),
        t.ToTensorImage(in_keys=["pixels_int"], out_keys=PIXELS),
        t.GrayScale(),
        Resized(84, 84),
        t.CatFrames(N=4, dim=-3),
        t.RewardSum(),
        t.StepCounter(10),
        t.SignTransform(["reward"]),
        t.DoubleToFloat(),
        VecNorm(PIXELS),
    ],
    "coding_dqn": lambda: [
        t.StepCounter(),
        t.ToTensorImage(),
        t.RewardScaling(0.0, 0.1),
        t.GrayScale(),
        Resized(64, 64),
        t.CatFrames(4, -3, PIXELS),
        t.ObservationNorm(0.4, 0.3, PIXELS),
    ],
    "recurrent_dqn": lambda: [
        t.ToTensorImage(),
        t.GrayScale(),
        Resized(84, 84),
        t.StepCounter(),
        t.InitTracker(),
        t.RewardScaling(0.0, 0.1),
        t.ObservationNorm(0.4, 0.3, PIXELS, standard_normal=True),
        t.TensorDictPrimer(hidden=Unbounded((2, 3)), expand_specs=True),
    ],
    "grey": lambda: [t.ToTensorImage(), t.GrayScale(), t.CatFrames(N=2, dim=-3), t.RewardSum()],
    "grey_bytes": lambda: [
        t.PermuteTransform((-1, -3, -2), in_keys=PIXELS),
        t.GrayScale(),
        t.CatFrames(N=3, dim=-3, padding="constant"),
        t.SignTransform(["reward"]),
    ],
    "flat": lambda: [t.ToTensorImage(from_int=False), t.FlattenObservation(-3, -1)],
    "peaks": lambda: [t.ToTensorImage(), t.TimeMaxPool(in_keys=PIXELS, T=2), t.StepCounter(8), t.RewardSum()],
}
AGENTS: Pipelines = {
    "mappo": lambda: [t.RewardSum([AGENT_REWARD], [("agents", "episode_reward")])],
    "mappo_trainer": lambda: [
        t.RewardSum([AGENT_REWARD], [("agents", "episode_reward")]),
        t.ExpandAs(in_key="terminated", ref_key=AGENT_REWARD, out_key=("agents", "all_terminated")),
    ],
    "agents_counters": lambda: [t.InitTracker(), t.StepCounter(3), t.RewardSum([AGENT_REWARD])],
    "agents_norm": lambda: [VecNorm([AGENT_SEEN]), t.ClipTransform([AGENT_SEEN], low=-2.0, high=2.0)],
    "agents_frames": lambda: [
        t.CatFrames(N=2, dim=-1, in_keys=[AGENT_SEEN], reset_key="_reset"),
        t.RewardScaling(0, 0.1, [AGENT_REWARD]),
    ],
    "agents_signs": lambda: [
        t.SignTransform([AGENT_REWARD]),
        t.RewardSum([AGENT_REWARD]),
        t.DoubleToFloat(["state"]),
        t.RenameTransform([AGENT_SEEN], [("agents", "seen")]),
    ],
    "chosen_of_agents": lambda: [t.StepCounter(), t.SelectTransform(AGENT_SEEN, "step_count")],
}

PREY: Pipelines = {
    "prey": lambda: [
        t.RewardSum([("agent", "reward"), ("adversary", "reward")]),
        VecNorm([("agent", "observation")]),
        t.CatFrames(N=2, dim=-1, in_keys=[("adversary", "observation")], reset_key="_reset"),
    ],
}


def some(*names: str) -> Pipelines:
    return {name: VECTORS[name] for name in names}


# By family: the task, the options of the pool, and the pipelines.
FAMILIES: Mapping[str, tuple[str, Mapping[str, object], Pipelines]] = {
    "classic": ("CartPole-v1", {}, VECTORS),
    "mujoco": ("HalfCheetah-v5", {"max_episode_steps": 16}, {**VECTORS, **CONTINUOUS}),
    "box2d": ("LunarLander-v3", {}, some("counters", "frames", "ppo")),
    "minigrid": ("MiniGrid-DoorKey-5x5-v0", {}, some("counters", "scaled", "numbered")),
    "atari": (
        "ALE/Pong-v5",
        {"from_pixels": True},
        {**PICTURES, **some("td3", "ddpg", "reinforce", "dqn", "counters", "returns_alone")},
    ),
    "agents": ("Agents-v0", {}, AGENTS),  # of tests/plugins/spaces.cc
    "mpe": ("mpe2/simple_tag_v3", {"max_cycles": 9}, PREY),
}
CASES = [(family, name) for family, (_, _, pipelines) in FAMILIES.items() for name in pipelines]
# What fuse leaves, in part, to TorchRL.
LEFT = {"a_stranger", "scaled_actions", "atari_dqn", "atari_ppo", "coding_dqn", "recurrent_dqn"}
LEFT |= {"mappo_trainer", "agents_counters", "chosen_of_agents"}


def transforms_of(case: Case) -> list[t.Transform]:
    family, name = case
    return FAMILIES[family][2][name]()


def adds_up_the_batch(case: Case) -> bool:
    return any(isinstance(transform, VecNorm | t.VecNormV2) for transform in transforms_of(case))


def looks_at_rows(case: Case) -> bool:
    """Whether what becomes of one env has nothing to do with the others."""
    counts = any(isinstance(transform, t.TrajCounter) for transform in transforms_of(case))
    return not counts and not adds_up_the_batch(case)


def pool_of(case: Case, num_envs: int, **options: object) -> PoolEnv:
    task, own, _ = FAMILIES[case[0]]
    return PoolEnv(task, num_envs, **{**own, **options})


def torchrl_env(base: EnvBase, case: Case) -> TransformedEnv:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # VecNorm's, of what becomes of its name
        return TransformedEnv(base, t.Compose(*transforms_of(case)))


def fused_env(base: EnvBase, case: Case) -> FusedEnv:
    env = fuse(torchrl_env(base, case))
    assert bool(env.fusion().rest) is (case[1] in LEFT), env.fusion().why_not
    return env


def over_gym_envs(case: Case, num_envs: int) -> TransformedEnv:
    task, own, _ = FAMILIES[case[0]]
    return torchrl_env(SerialEnv(num_envs, lambda: GymEnv(task, **own)), case)


def assert_same(
    data: TensorDictBase, reference: TensorDictBase, *, exact: bool = True, in_order: bool = True
) -> None:
    """Entries in the same order, with equal dtypes, shapes and values.

    Not exact: torch adds up a batch in another order, and normalised values pass the difference on. Where an
    entry hardly varies, a division by its deviation enlarges it.
    """
    keys, expected = list(data.keys(True, True)), list(reference.keys(True, True))
    assert (keys if in_order else set(keys)) == (expected if in_order else set(expected))
    for key in keys:
        ours, theirs = data[key], reference[key]
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), key
        if exact or not ours.dtype.is_floating_point:
            assert torch.equal(ours, theirs), key
        else:
            torch.testing.assert_close(
                ours, theirs, rtol=1e-4, atol=1e-4, msg=lambda m, key=key: f"{key}: {m}"
            )
