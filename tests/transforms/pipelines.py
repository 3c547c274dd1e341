"""Chains of transforms that programs use, made anew for each env, and envs that have them."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torchrl.data import Unbounded
from torchrl.envs import EnvBase, GymEnv, SerialEnv, TransformedEnv
from torchrl.envs import transforms as t
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool import FusedEnv, PoolEnv, fuse

OBS = ["observation"]

# What looks at one row alone.
ROWS: dict[str, Callable[[], list[t.Transform]]] = {
    "counters": lambda: [t.RewardSum(), t.StepCounter(), t.InitTracker()],
    "sac": lambda: [t.InitTracker(), t.StepCounter(13), t.DoubleToFloat(), t.RewardSum()],
    "reward_sum": lambda: [t.RewardSum(in_keys=["reward"], out_keys=["return"])],
    "step_counter": lambda: [t.StepCounter()],
    "init_tracker": lambda: [t.InitTracker("first")],
    "ddpg": lambda: [t.StepCounter(max_steps=17), t.DoubleToFloat(), t.RewardSum()],
    "steps_by_name": lambda: [t.StepCounter(9, step_count_key="steps")],
    "observation_norm": lambda: [
        t.ObservationNorm(0.3, 2.0, in_keys=OBS),
        t.DoubleToFloat(),
        t.StepCounter(),
    ],
    "standard_normal": lambda: [t.ObservationNorm(0.3, 2.0, in_keys=OBS, standard_normal=True)],
    "clip": lambda: [t.ClipTransform(OBS, low=-0.05, high=0.05), t.RewardSum()],
    "clip_low": lambda: [t.ClipTransform([*OBS, "reward"], out_keys=["clipped", "reward"], low=-0.01)],
    "signed_sum": lambda: [t.SignTransform(["reward"]), t.RewardSum()],
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
    "left_out": lambda: [
        t.RenameTransform(OBS, ["seen"], create_copy=True),
        t.StepCounter(),
        t.ExcludeTransform("observation"),
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
}

# What looks at the whole batch.
STATISTICS: dict[str, Callable[[], list[t.Transform]]] = {
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
    "v2_by_row": lambda: [t.VecNormV2(OBS, decay=0.99, eps=1e-2), t.ClipTransform(OBS, low=-5, high=5)],
    "v2_undecayed": lambda: [t.VecNormV2(OBS, decay=1.0, eps=1e-2, reduce_batch_dims=True)],
    "numbered": lambda: [t.StepCounter(11), t.TrajCounter(), t.RewardSum()],
    "numbered_then_normal": lambda: [t.TrajCounter("episode"), VecNorm(OBS), t.InitTracker()],
    "frames_then_normal": lambda: [t.CatFrames(2, -1, OBS), VecNorm(OBS), t.RewardSum()],
    "normal_then_frames": lambda: [VecNorm(OBS), t.CatFrames(3, -1, OBS), t.StepCounter(9)],
    "normal_then_maxima": lambda: [VecNorm(OBS), t.TimeMaxPool(OBS, T=2)],
    "scaled_then_normal": lambda: [t.ObservationNorm(1.0, 3.0, in_keys=OBS), VecNorm(OBS), t.InitTracker()],
}

ALL = {**ROWS, **STATISTICS}


def torchrl_env(pool: EnvBase, pipeline: str) -> TransformedEnv:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TransformedEnv(pool, t.Compose(*ALL[pipeline]()))


def fused_env(pool: PoolEnv, pipeline: str) -> FusedEnv:
    env = fuse(torchrl_env(pool, pipeline))
    assert not env.fusion().rest, env.fusion().why_not
    return env


def serial_env(task: str, pipeline: str, num_envs: int) -> TransformedEnv:
    return torchrl_env(SerialEnv(num_envs, lambda: GymEnv(task)), pipeline)


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
