"""A PoolCollector in TorchRL's Trainer: a training that is resumed goes on bit for bit."""

import pytest
import torch
from cases import cases
from collecting import categorical_actor
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl.checkpoint import Checkpoint, GlobalRNGState
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import Compose, RewardSum, TransformedEnv, VecNormV2
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.trainers import Trainer

from torchrl_pool import PoolCollector, PoolEnv

FRAMES = 64
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*CKPT_BACKEND"),
    pytest.mark.filterwarnings("ignore:VecNormV2"),
]


def make_trainer(seed, batches, form, file):
    """A trainer, the batches that it will have trained on, and its parameters."""
    torch.manual_seed(seed)
    env = PoolEnv("Pendulum-v1", 4, seed=seed, obs_dtype=torch.float32)
    env = TransformedEnv(env, Compose(VecNormV2(in_keys=["observation"]), RewardSum()))
    network = torch.nn.Sequential(MLP(3, 2, num_cells=[16]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    loss = ClipPPOLoss(actor, ValueOperator(MLP(3, 1, num_cells=[16]), in_keys=["observation"]))
    loss.make_value_estimator()
    checkpoint = Checkpoint(rng=GlobalRNGState()) if form == "checkpoint" else None
    trainer = Trainer(
        collector=PoolCollector(env, actor, frames_per_batch=FRAMES, total_frames=batches * FRAMES),
        total_frames=batches * FRAMES,
        frame_skip=1,
        loss_module=loss,
        optimizer=torch.optim.Adam(loss.parameters(), 1e-3),
        optim_steps_per_batch=2,
        progress_bar=False,
        save_trainer_interval=0,
        save_trainer_file=str(file),
        checkpoint=checkpoint,
    )
    seen = []

    def record(batch):
        seen.append(batch.clone())
        return batch

    trainer.register_op("batch_process", record)
    return trainer, seen, list(loss.parameters())


@pytest.mark.parametrize("form", cases(["legacy", "checkpoint"]))
def test_a_resumed_training_goes_on_bit_for_bit(form, tmp_path):
    """From the file of a training that has ended, too: its collector has closed the env by then."""
    whole, expected, parameters = make_trainer(0, 4, form, tmp_path / "whole")
    whole.train()
    first, _, _ = make_trainer(0, 2, form, tmp_path / "half")
    first.train()
    generator = torch.get_rng_state()
    second, seen, resumed = make_trainer(1, 4, form, tmp_path / "rest")
    second.load_from_file(tmp_path / "half")
    torch.set_rng_state(generator)  # the legacy form does not hold it
    second.train()
    assert len(seen) == 2
    for batch, other in zip(expected[2:], seen, strict=True):
        differing = [key for key in batch.keys(True, True) if not torch.equal(batch[key], other[key])]
        assert differing == []
    assert all(torch.equal(one, other) for one, other in zip(parameters, resumed, strict=True))


def test_the_state_after_the_last_frame_is_kept():
    def make(seed, total_frames):
        torch.manual_seed(0)
        env = PoolEnv("CartPole-v1", 4, seed=seed)
        return PoolCollector(env, categorical_actor(env), frames_per_batch=8, total_frames=total_frames)

    ended, going_on, other = make(0, 16), make(0, -1), make(1, -1)
    found = []
    for collector in (ended, going_on):
        torch.manual_seed(1)
        batches = iter(collector)
        next(batches), next(batches)
    assert ended.env.is_closed
    other.load_state_dict(ended.state_dict())
    for collector in (going_on, other):
        torch.manual_seed(2)
        found.append(next(iter(collector)))
        collector.shutdown()
    assert torch.equal(found[0]["next", "observation"], found[1]["next", "observation"])


def ended_collector(**options):
    torch.manual_seed(0)
    env = PoolEnv("CartPole-v1", 4, seed=0)
    collector = PoolCollector(env, categorical_actor(env), frames_per_batch=8, total_frames=16, **options)
    for _ in collector:
        collector.update_policy_weights_()
    return collector


def test_the_kept_state_has_the_newest_version_of_the_policy():
    ended = ended_collector(track_policy_version=True)
    state = ended.state_dict()
    assert ended.policy_version == state["policy_version"] == state["pool"]["policy_version"] == 2


def test_the_kept_state_is_that_of_the_last_frame_alone():
    ended = ended_collector()
    ended.env.reset()
    ended.reset()
    ended._frames = 0
    ended.rollout()
    state = ended.state_dict()
    assert state["frames"] == state["pool"]["frames"]


def test_no_state_is_kept_of_a_step_that_has_not_ended():
    buffer = ReplayBuffer(storage=LazyTensorStorage(64))
    ended = ended_collector(replay_buffer=buffer, extend_buffer=False)
    with pytest.warns(UserWarning, match="no simulators: the collector has ended, with extend_buffer=False"):
        assert "pool" not in ended.state_dict()
