"""Which of TorchRL's transforms run where the envs run, and what describes each of them.

A description is a function of the transform and of the chain's builder, to which it adds stages. Where it
raises NotNative, TorchRL runs the transform, and all that come after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchrl.envs import transforms as torchrl
from torchrl.envs.transforms.transforms import VecNorm

from torchrl_pool._transforms.chain_builder import ChainBuilder
from torchrl_pool._transforms.native.elementwise import (
    binarize_reward,
    clip,
    dtype_cast,
    observation_norm,
    reward_clipping,
    reward_scaling,
    sign,
)
from torchrl_pool._transforms.native.episodes import (
    end_of_life,
    frame_skip,
    init_tracker,
    noop_reset,
    reward_sum,
    step_counter,
    tensordict_primer,
    traj_counter,
)
from torchrl_pool._transforms.native.frames import cat_frames, gray_scale, time_max_pool
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
from torchrl_pool._transforms.native.running_statistics import vec_norm, vec_norm_v2

# By exact class: what a subclass changes nobody here knows.
NATIVE: dict[type, Callable[[Any, ChainBuilder], None]] = {
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
