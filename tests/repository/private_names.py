"""All that the package uses of TorchRL, tensordict and torch without their promise, and why.

Every name was there in torch 2.13.0 with TorchRL 0.14.1 and tensordict 0.14.0. Where one goes,
``test_private_names.py`` tells which, before a training does. TorchRL's extension points (``_step``,
``_reset``, ``_set_seed``; ``_call``) are no part of it: its own documents name them.
"""

from __future__ import annotations

from typing import NamedTuple


class Private(NamedTuple):
    """Names of a class or a module, and what the package needs them for."""

    place: str  # module:class, or a module
    names: str
    why: str


PRIVATE = [
    # ---- torch
    Private("torch._C", "_from_dlpack", "memory of the executor becomes a tensor without a detour by Python"),
    Private("torch:Tensor", "_version", "has anybody written in place since the last look"),
    Private("torch:UntypedStorage", "_cdata", "whose memory it is"),
    Private("torch.nn.modules.conv", "_ConvNd", "all convolutions"),
    Private("torch.nn.modules.batchnorm", "_NormBase", "layers that learn while they are called"),
    Private(
        "torch.nn:Module",
        "_backward_hooks _backward_pre_hooks _forward_hooks _forward_pre_hooks _compiled_call_impl "
        "_parameters _buffers _modules",
        "a layer may be called as a function where nothing hangs on it; what weights it has",
    ),
    Private(
        "torch.nn.modules.module",
        "_global_forward_hooks _global_forward_pre_hooks",
        "the same, for all layers",
    ),
    # ---- tensordict
    Private(
        "tensordict:TensorDict",
        "_tensordict _batch_size _device _td_dim_names _get_str _set_str _new_unsafe",
        "a tensordict of what is known to fit costs a tenth of one that is checked",
    ),
    Private("tensordict.nn:TensorDictModule", "_kwargs _get_kwargs", "what a module is called with"),
    Private(
        "tensordict.nn:TensorDictSequential",
        "_module_iter _select_before_return",
        "the modules of a policy, in their order",
    ),
    Private(
        "tensordict.nn:ProbabilisticTensorDictModule",
        "_generator _generator_key _out_keys",
        "samples as the module draws them",
    ),
    Private(
        "tensordict.nn:ProbabilisticTensorDictSequential",
        "_requires_sample",
        "whether, and by which module, an action is drawn",
    ),
    # ---- TorchRL: envs and transforms
    Private("torchrl._utils", "seed_generator", "the seed that set_seed returns, as SerialEnv's"),
    Private("torchrl._utils", "_append_last", "names of a transform's statistics"),
    Private(
        "torchrl.envs:EnvBase",
        "_assert_tensordict_shape _run_type_checks _is_spec_locked _skip_tensordict "
        "_post_step_mdp_hooks _step_proc_data",
        "step_and_maybe_reset in one call does what TorchRL's own does",
    ),
    Private("torchrl.envs.common", "_EnvWrapper", "what lies below a wrapper, for workers"),
    Private("torchrl.envs:GymEnv", "_convert_actions_to_numpy", "actions as Gymnasium's envs take them"),
    Private(
        "torchrl.envs:Transform",
        "_reset_env_preprocess _inv_call _inv_apply_transform _apply_transform _check_batched_worker_compat",
        "transforms that TorchRL runs, from the executor's results",
    ),
    Private("torchrl.envs:VecNorm", "_td _init", "statistics that the executor learns"),
    Private(
        "torchrl.envs:VecNormV2",
        "_loc _var _count _maybe_stateful_init",
        "statistics that the executor learns",
    ),
    Private("torchrl.envs:CatFrames", "_make_missing_buffer", "the frames that it holds"),
    Private(
        "torchrl.envs.transforms:TimeMaxPool", "_make_missing_buffer _buffer_name", "the frames that it holds"
    ),
    Private(
        "torchrl.envs:TrajCounter", "_traj_count _initialized", "the counter that it shares with its clones"
    ),
    Private("torchrl.envs:CatTensors", "_find_in_keys _initialized _del_keys", "which entries it joins"),
    Private("torchrl.envs:Stack", "_del_keys", "which entries it joins"),
    # ---- TorchRL: collectors, policies, losses
    Private(
        "torchrl.collectors:Collector",
        "_carrier _make_carrier _carrier_has_no_device _cast_to_env_device _cast_to_policy_device "
        "_compact_next_keys _frames _increment_frames _iter _iter_by_trajectories _flush_trajectory_assembly "
        "_start_new_trajectories _ignore_rb _maybe_set_truncated _policy_output_keys "
        "_should_use_random_frames _sync_storage _traj_pool _wrapped_policy _wrapped_policy_uncompiled "
        "_auto_register_policy_transforms",
        "PoolCollector is a Collector whose rollout is another",
    ),
    Private(
        "torchrl.modules.utils.utils",
        "_compute_missing_env_transforms",
        "what a recurrent policy needs of an env",
    ),
    Private("torchrl._utils", "compile_with_warmup", "a policy that TorchRL has compiled is called as it is"),
    Private("torchrl.modules:QValueModule", "_default_action_value", "the greedy action of values"),
    Private("torchrl.modules:TanhNormal", "_t", "its transform, for densities"),
    Private("torchrl.modules:MLP", "_reshape_out", "whether its layers are all that it does"),
    Private(
        "torchrl.objectives:ClipPPOLoss",
        "_clip_bounds _asymmetric_clip _has_critic _entropy_coeff_map",
        "the loss's settings, which updates follow",
    ),
    Private("torchrl.objectives:SACLoss", "_version", "which of its two forms it has"),
    Private(
        "torchrl.envs.transforms:MultiStepTransform", "_buffer", "the steps that wait for those behind them"
    ),
]
