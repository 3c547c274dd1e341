"""The pool in TorchRL's hydra configurations: chosen in yaml, trained by its own PPO and SAC trainers."""

import pytest
import torch
from cases import cases
from processes import printed

hydra = pytest.importorskip("hydra", reason="hydra-core is not installed")
pytest.importorskip("torchrl.trainers.algorithms.configs")

# What a directory of configurations needs to say, in its own yaml alone.
CONFIG = """
defaults:
  - transform@step_counter: step_counter
  - env@training_env: transformed_env
  - env@training_env.base_env: pool
  - transform@training_env.transform: compose
  - model@models.policy: tanh_normal
  - model@models.value: value
  - network@networks.policy: mlp
  - network@networks.value: mlp
  - collector@collector: sync
  - replay_buffer@replay_buffer: base
  - storage@replay_buffer.storage: lazy_tensor
  - sampler@replay_buffer.sampler: without_replacement
  - trainer@trainer: ppo
  - optimizer@optimizer: adam
  - loss@loss: ppo
  - _self_

training_env:
  base_env:
    task: InvertedPendulum-v5
    num_envs: 8
    obs_dtype: float32
    reset_noise_scale: 0.02
  transform:
    transforms: ["${step_counter}"]

networks:
  policy: {in_features: 4, out_features: 2, num_cells: [16]}
  value: {in_features: 4, out_features: 1, num_cells: [16]}
models:
  policy:
    return_log_prob: true
    in_keys: [observation]
    param_keys: [loc, scale]
    out_keys: [action]
    low: -3.0
    high: 3.0
    network: ${networks.policy}
  value: {in_keys: [observation], out_keys: [state_value], network: "${networks.value}"}

loss: {actor_network: "${models.policy}", critic_network: "${models.value}"}
optimizer: {lr: 3.0e-4}
collector:
  create_env_fn: ${training_env}
  policy: ${models.policy}
  total_frames: 512
  frames_per_batch: 256
  _partial_: true
replay_buffer:
  storage: {max_size: 256, device: cpu, ndim: 1}
  sampler: {drop_last: true, shuffle: true}
  batch_size: 64
trainer:
  collector: ${collector}
  optimizer: ${optimizer}
  replay_buffer: ${replay_buffer}
  loss_module: ${loss}
  logger: null
  total_frames: 512
  num_epochs: 1
  progress_bar: false
  seed: 0
  save_trainer_interval: 100000
  save_trainer_file: null
  log_interval: 100000
  optim_steps_per_batch: null
  frame_skip: 1
  clip_grad_norm: true
  clip_norm: 1.0

hydra:
  searchpath: [pkg://torchrl_pool.configs]
"""

SAC_CONFIG = """
defaults:
  - transform@transform0: step_counter
  - transform@transform1: double_to_float
  - transform@transform2: reward_sum
  - env@training_env: transformed_env
  - env@training_env.base_env: pool
  - transform@training_env.transform: compose
  - model@models.policy: tanh_normal
  - model@models.qvalue: value
  - network@networks.policy: mlp
  - network@networks.qvalue: mlp
  - collector@collector: sync
  - replay_buffer@replay_buffer: base
  - storage@replay_buffer.storage: lazy_tensor
  - writer@replay_buffer.writer: round_robin
  - sampler@replay_buffer.sampler: random
  - trainer@trainer: sac
  - optimizer@optimizer: adam
  - loss@loss: sac
  - target_net_updater@target_net_updater: soft
  - _self_

transform0: {max_steps: 200, step_count_key: step_count}
transform1: {in_keys: null, out_keys: null}
transform2: {in_keys: [reward], out_keys: [reward_sum]}
training_env:
  base_env: {task: InvertedPendulum-v5, num_envs: 8, reset_noise_scale: 0.02}
  transform:
    transforms: ["${transform0}", "${transform1}", "${transform2}"]

networks:
  policy: {in_features: 4, out_features: 2, num_cells: [16]}
  qvalue: {in_features: 5, out_features: 1, num_cells: [16]}
models:
  policy:
    return_log_prob: true
    in_keys: [observation]
    param_keys: [loc, scale]
    out_keys: [action]
    low: -3.0
    high: 3.0
    network: ${networks.policy}
  qvalue: {in_keys: [observation, action], out_keys: [state_action_value], network: "${networks.qvalue}"}

loss:
  actor_network: ${models.policy}
  qvalue_network: ${models.qvalue}
  target_entropy: auto
  loss_function: l2
  alpha_init: 1.0
  delay_qvalue: true
  num_qvalue_nets: 2
target_net_updater: {tau: 0.001}
optimizer: {lr: 3.0e-4}
collector:
  create_env_fn: ${training_env}
  policy: ${models.policy}
  total_frames: 512
  frames_per_batch: 256
  init_random_frames: 256
  track_policy_version: true
  _partial_: true
replay_buffer:
  storage: {max_size: 512, device: cpu, ndim: 1}
  writer: {compilable: false}
  batch_size: 16
trainer:
  collector: ${collector}
  optimizer: ${optimizer}
  replay_buffer: ${replay_buffer}
  target_net_updater: ${target_net_updater}
  loss_module: ${loss}
  logger: null
  total_frames: 512
  frame_skip: 1
  clip_grad_norm: false
  clip_norm: null
  progress_bar: false
  seed: 0
  save_trainer_interval: 100000
  save_trainer_file: null
  log_interval: 100000
  optim_steps_per_batch: 2

hydra:
  searchpath: [pkg://torchrl_pool.configs]
"""

TRAIN = """
import hydra
from torchrl.trainers.algorithms.configs import *  # registers TorchRL's

with hydra.initialize_config_dir(CONFIG_DIR, version_base="1.3"):  # Python 3.14 refuses hydra.main's help
    cfg = hydra.compose("config")
trainer = hydra.utils.instantiate(cfg.trainer)
env = trainer.collector.env
print("COLLECTOR", type(trainer.collector).__name__)
print("ENV", type(env).__name__, repr(env.base_env), env.base_env._arguments["reset_noise_scale"])
before = [p.clone() for p in trainer.loss_module.parameters()]
trainer.train()
after = list(trainer.loss_module.parameters())
print("TRAINED", trainer.collected_frames, any((a != b).any() for a, b in zip(before, after)))
"""


@pytest.mark.parametrize("collector", cases(["Collector", "PoolCollector"]))
@pytest.mark.parametrize("config", [SAC_CONFIG, CONFIG], ids=["sac", "ppo"])
def test_torchrls_trainers_take_the_pool_from_yaml(config, collector, tmp_path):
    if collector == "PoolCollector":
        config = config.replace("\ncollector:\n", "\ncollector:\n  _target_: torchrl_pool.PoolCollector\n")
    (tmp_path / "config.yaml").write_text(config)
    out = printed(TRAIN.replace("CONFIG_DIR", repr(str(tmp_path))), cwd=tmp_path)
    kind, env, trained = (
        line for line in out.splitlines() if line.startswith(("COLLECTOR", "ENV", "TRAINED"))
    )
    assert kind == f"COLLECTOR {collector}"
    assert "PoolEnv('InvertedPendulum-v5', num_envs=8" in env
    assert env.endswith(" 0.02")
    assert trained == "TRAINED 512 True"


def test_the_choice_alone():
    with hydra.initialize_config_module("torchrl_pool.configs", version_base="1.3"):
        cfg = hydra.compose(overrides=["+env=pool", "env.task=[CartPole-v1]", "env.num_envs=1"])
    env = hydra.utils.instantiate(cfg.env)
    assert env.rollout(3).shape == (1, 3)


def test_dtypes_by_their_names():
    with hydra.initialize_config_module("torchrl_pool.configs", version_base="1.3"):
        cfg = hydra.compose(
            overrides=["+env=pool", "env.task=Pendulum-v1", "env.num_envs=1", "env.obs_dtype=float64"]
        )
    assert hydra.utils.instantiate(cfg.env).rollout(1)["observation"].dtype is torch.float64
