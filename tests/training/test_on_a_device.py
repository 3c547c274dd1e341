"""What learns on a device ends with the weights that it has on the CPU: nothing of it is on the wrong one.

The device stands for a GPU: see device.py. Random numbers are the same on both.
"""

import copy
from functools import partial

import pytest
import torch
from cases import cases
from device import strict_device, waits
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torch.utils._pytree import tree_map_only
from torchrl.data import Composite, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import InitTracker
from torchrl.modules import (
    EGreedyModule,
    IndependentNormal,
    LSTMModule,
    OneHotCategorical,
    ProbabilisticActor,
    QValueModule,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE, VTrace

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool.training import (
    PPOUpdate,
    ReturnScaling,
    TargetUpdate,
    collector_state,
    estimate_advantages,
    estimate_vtrace,
    load_collector_state,
    minibatches,
)

NUM_ENVS, STEPS = 4, 16
DISTRIBUTIONS = {
    "CartPole-v1": (OneHotCategorical, ["logits"], 2),
    "Pendulum-v1": (TanhNormal, ["loc", "scale"], 2),
    "InvertedPendulum-v5": (IndependentNormal, ["loc", "scale"], 2),
}
ADAM = partial(torch.optim.Adam, lr=1e-2)


@pytest.fixture
def strict():
    with strict_device() as device:
        yield device


def networks(task, device, *, recurrent=False):
    torch.manual_seed(0)
    distribution, parameters, outputs = DISTRIBUTIONS[task]
    env = PoolEnv(task, NUM_ENVS, seed=0, obs_dtype=torch.float32, device=device)
    features = env.observation_spec["observation"].shape[-1]
    layers = [TensorDictModule(nn.Sequential(nn.Linear(features, 8), nn.Tanh()), ["observation"], ["hidden"])]
    if recurrent:
        memory = LSTMModule(input_size=8, hidden_size=8, in_key="hidden", out_key="hidden")
        layers.append(memory)
        env = env.append_transform(InitTracker()).append_transform(memory.make_tensordict_primer().to(device))
    head = nn.Linear(8, outputs)
    if len(parameters) == 2:
        head = nn.Sequential(head, NormalParamExtractor())
    trunk = TensorDictSequential(*layers)
    actor = ProbabilisticActor(
        TensorDictSequential(trunk, TensorDictModule(head, ["hidden"], parameters)),
        in_keys=parameters,
        distribution_class=distribution,
        return_log_prob=True,
    )
    critic = TensorDictSequential(trunk, ValueOperator(nn.Linear(8, 1), in_keys=["hidden"]))
    return env, actor.to(device), critic.to(device)


def train_on_policy(task, device, *, recurrent=False, vtrace=False, **options):
    """Weights after two batches, on the CPU, and what goes into a checkpoint."""
    env, actor, critic = networks(task, device, recurrent=recurrent)
    loss = ClipPPOLoss(actor, critic, entropy_bonus=False, clip_value=True, normalize_advantage=True)
    length = STEPS // 2 if recurrent else 1
    update = PPOUpdate(loss.to(device), ADAM, max_grad_norm=0.5, sequence_length=length, **options)
    estimator = (
        VTrace(gamma=0.9, actor_network=actor, value_network=critic)
        if vtrace
        else GAE(gamma=0.9, lmbda=0.8, value_network=critic)
    ).to(device)
    scaling = ReturnScaling(NUM_ENVS, 0.9)
    collector = PoolCollector(env, actor, frames_per_batch=NUM_ENVS * STEPS, total_frames=-1)
    batches = iter(collector)
    for _ in range(2):
        batch = next(batches)
        assert batch["observation"].device.type == torch.device(device).type
        after = batch["next"]
        after["reward"] = scaling(after["reward"], after["done"])
        (estimate_vtrace if vtrace else estimate_advantages)(estimator, batch, sequence_length=length)
        columns = update.columns(batch)
        before = len(waits)
        for indices in minibatches(batch.numel(), 32, length, device):
            update(columns, indices)
        waited = waits[before:]
        assert not waited or recurrent, waited  # memories begin anew where episodes do
        update.diagnostics(columns)
    state = collector_state(collector), update.state_dict()
    collector.shutdown()
    return [one.detach().cpu() for one in actor.parameters()], state


@pytest.mark.parametrize(
    "options",
    cases([{}, {"vtrace": True}, {"gradient_accumulation": 2}, {"recurrent": True}]),
    ids=["plain", "vtrace", "accumulated", "recurrent"],
)
@pytest.mark.parametrize("task", DISTRIBUTIONS)
def test_ppo_learns_the_same(strict, task, options):
    here, _ = train_on_policy(task, "cpu", **options)
    there, _ = train_on_policy(task, strict, **options)
    for one, other in zip(here, there, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # sums are in another order


@pytest.mark.parametrize("there", cases(["cpu", "strict"]))
def test_a_checkpoint_goes_on_where_the_other_device_is(strict, there):
    here = strict if there == "cpu" else "cpu"
    _, (collected, learned) = train_on_policy("Pendulum-v1", here)
    # As torch.save and torch.load(map_location="cpu") bring it from one machine to another.
    collected, learned = tree_map_only(torch.Tensor, torch.Tensor.cpu, (collected, learned))
    weights = []
    for device in (here, torch.device(there)):
        env, actor, critic = networks("Pendulum-v1", device)
        loss = ClipPPOLoss(actor, critic, entropy_bonus=False).to(device)
        update = PPOUpdate(loss, ADAM)
        update.load_state_dict(copy.deepcopy(learned))  # the optimizer learns on in what it is given
        collector = PoolCollector(env, actor, frames_per_batch=NUM_ENVS * STEPS, total_frames=-1)
        load_collector_state(collector, copy.deepcopy(collected))
        batch = next(iter(collector))
        estimate_advantages(GAE(gamma=0.9, lmbda=0.8, value_network=critic).to(device), batch)
        update(update.columns(batch), torch.arange(32, device=device))
        collector.shutdown()
        weights.append([one.detach().cpu() for one in actor.parameters()])
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


class Loss(nn.Module):
    """Of DQN."""

    def __init__(self, network):
        super().__init__()
        self.network, self.target = network, copy.deepcopy(network).requires_grad_(False)

    def forward(self, rows):
        value = (self.network(rows["observation"]) * rows["action"]).sum(-1)
        best = self.target(rows["next", "observation"]).amax(-1)
        target = rows["next", "reward"].squeeze(-1) + 0.9 * best * ~rows["next", "terminated"].squeeze(-1)
        error = (target - value).square()
        return error.mean().reshape(1), error.detach()


def train_off_policy(device, compile):
    """Weights after some updates from a replay buffer on the device, on the CPU."""
    torch.manual_seed(0)
    env = PoolEnv("CartPole-v1", NUM_ENVS, seed=0, obs_dtype=torch.float32, device=device)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)
    keys = ["observation", "action", *(("next", key) for key in ("observation", "reward", "terminated"))]
    update = TargetUpdate(
        Loss(network), ADAM, keys=keys, followed="network", tau=0.5, target_every=2, compile=compile
    )
    policy = TensorDictSequential(
        TensorDictModule(network, ["observation"], ["action_value"]),
        QValueModule(spec=env.action_spec_unbatched),
        EGreedyModule(spec=Composite(action=env.action_spec_unbatched), eps_init=0.5, annealing_num_steps=64),
    ).to(device)
    collector = PoolCollector(
        env, policy, frames_per_batch=NUM_ENVS * STEPS, total_frames=NUM_ENVS * STEPS * 2
    )
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(128, device=device), batch_size=16)
    for batch in collector:
        buffer.extend(batch.reshape(-1))
        columns, before = update.columns(buffer[:]), len(waits)
        for _ in range(8):
            update(columns, torch.randint(len(buffer), (16,), device=device))
        assert len(waits) == before, waits[before:]
    collector.shutdown()
    return [one.detach().cpu() for one in network.parameters()]


@pytest.mark.parametrize("compile", cases([False, "trace"]))
def test_dqn_learns_the_same(strict, compile):
    for one, other in zip(train_off_policy("cpu", compile), train_off_policy(strict, compile), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
