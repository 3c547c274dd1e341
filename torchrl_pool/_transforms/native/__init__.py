"""Which of TorchRL's transforms run where the envs run, and what describes each of them.

A description is a function of the transform and of the program so far, which it goes on with. Where it raises
NotNative, TorchRL runs the transform, and all that come after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchrl.envs import transforms as torchrl
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool._transforms.ir import Program
from torchrl_pool._transforms.native.casts import dtype_cast
from torchrl_pool._transforms.native.cat_frames import cat_frames
from torchrl_pool._transforms.native.end_of_life import end_of_life
from torchrl_pool._transforms.native.frame_skip import frame_skip
from torchrl_pool._transforms.native.gray_scale import gray_scale
from torchrl_pool._transforms.native.init_tracker import init_tracker
from torchrl_pool._transforms.native.noop_reset import noop_reset
from torchrl_pool._transforms.native.observations import clip, observation_norm, sign
from torchrl_pool._transforms.native.reshape import (
    action_scaling,
    cat_tensors,
    exclude,
    rename,
    reshaped,
    select,
    stack,
    to_tensor_image,
)
from torchrl_pool._transforms.native.reward_sum import reward_sum
from torchrl_pool._transforms.native.rewards import binarize_reward, reward_clipping, reward_scaling
from torchrl_pool._transforms.native.running_statistics import vec_norm, vec_norm_v2
from torchrl_pool._transforms.native.step_counter import step_counter
from torchrl_pool._transforms.native.tensordict_primer import tensordict_primer
from torchrl_pool._transforms.native.time_max_pool import time_max_pool
from torchrl_pool._transforms.native.traj_counter import traj_counter

# By exact class: what a subclass changes nobody here knows.
NATIVE: dict[type, Callable[[Any, Program], None]] = {
    torchrl.ActionScaling: action_scaling,
    torchrl.BinarizeReward: binarize_reward,
    torchrl.CatFrames: cat_frames,
    torchrl.CatTensors: cat_tensors,
    torchrl.CenterCrop: reshaped,
    torchrl.ClipTransform: clip,
    torchrl.DTypeCastTransform: dtype_cast,
    torchrl.DoubleToFloat: dtype_cast,
    torchrl.EndOfLifeTransform: end_of_life,
    torchrl.ExcludeTransform: exclude,
    torchrl.FlattenObservation: reshaped,
    torchrl.FrameSkipTransform: frame_skip,
    torchrl.GrayScale: gray_scale,
    torchrl.InitTracker: init_tracker,
    torchrl.NoopResetEnv: noop_reset,
    torchrl.ObservationNorm: observation_norm,
    torchrl.PermuteTransform: reshaped,
    torchrl.RenameTransform: rename,
    torchrl.RewardClipping: reward_clipping,
    torchrl.RewardScaling: reward_scaling,
    torchrl.RewardSum: reward_sum,
    torchrl.SelectTransform: select,
    torchrl.SignTransform: sign,
    torchrl.SqueezeTransform: reshaped,
    torchrl.Stack: stack,
    torchrl.StepCounter: step_counter,
    torchrl.TensorDictPrimer: tensordict_primer,
    torchrl.TimeMaxPool: time_max_pool,
    torchrl.ToTensorImage: to_tensor_image,
    torchrl.TrajCounter: traj_counter,
    torchrl.UnsqueezeTransform: reshaped,
    VecNorm: vec_norm,
    torchrl.VecNormV2: vec_norm_v2,
}
