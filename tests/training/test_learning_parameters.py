"""Which parameters an update changes, and what becomes of those that are moved, frozen or replaced later."""

import copy
from functools import partial

import pytest
import torch
from cases import cases
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss

from torchrl_pool.training import PPOUpdate, TargetUpdate

ROWS, FEATURES = 32, 4
ADAM = partial(torch.optim.Adam, lr=0.01)


def layers(outputs, *more):
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, outputs), *more)


def actor_of(network):
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )


def steps(action):
    """Steps ``[4, 8]`` with what every loss here asks for."""
    batch = {"observation": torch.randn(ROWS, FEATURES), "action": action}
    after = {"observation": torch.randn(ROWS, FEATURES), "reward": torch.randn(ROWS, 1)}
    for key in ("done", "terminated"):
        after[key] = torch.zeros(ROWS, 1, dtype=torch.bool)
    for key in ("advantage", "value_target"):
        batch[key] = torch.randn(ROWS, 1)
    return TensorDict({**batch, "next": after}, [ROWS])


def ppo(network, **options):
    actor = actor_of(network)
    loss = ClipPPOLoss(actor, ValueOperator(layers(1), in_keys=["observation"]))
    update = PPOUpdate(loss, options.pop("optimizer", ADAM), **options)
    batch = steps(torch.eye(2, dtype=torch.int64)[torch.randint(2, (ROWS,))]).reshape(4, 8)
    return loss, update, partial(update, update.columns(batch), torch.arange(ROWS))


class Following(nn.Module):
    """A loss with a network, and a target that follows it."""

    def __init__(self, network):
        super().__init__()
        self.network, self.target = network, copy.deepcopy(network).requires_grad_(False)

    def forward(self, rows):
        following = self.target(rows["next", "observation"])
        errors = (self.network(rows["observation"]) - following - 1).square().sum(-1)
        return errors.mean().reshape(1), errors


def target(network, **options):
    loss, keys = Following(network), ["observation", ("next", "observation")]
    update = TargetUpdate(loss, ADAM, keys=keys, followed="network", tau=0.5, **options)
    columns = update.columns(steps(torch.rand(ROWS, 1)))
    return loss, update, partial(update, columns, torch.arange(ROWS))


MAKES = {
    "ppo": ppo,
    "target": target,
    "target, traced": partial(target, compile="trace"),
}
every_update = pytest.mark.parametrize("make", cases(MAKES.values()), ids=MAKES)


def weights_of(network):
    return [parameter.detach().clone() for parameter in network.parameters()]


def moved(network, before):
    return [not torch.equal(one, was) for one, was in zip(network.parameters(), before, strict=True)]


@every_update
def test_frozen_parameters_stay_as_they_are(make):
    network = layers(2)
    network[0].requires_grad_(False)
    before = weights_of(network)
    update = make(network)[2]
    for _ in range(3):
        update()
    assert moved(network, before) == [False, False, True, True]


@pytest.mark.parametrize("compile", cases([False, "trace"]))
def test_targets_follow_what_learns_around_a_frozen_layer(compile):
    network = layers(2)
    network[0].requires_grad_(False)
    loss, update, step = target(network, compile=compile)
    step()
    first, frozen = weights_of(loss.target), weights_of(network[0])
    step()
    assert not any(moved(network[0], frozen))
    for one, was, own in zip(loss.target[2].parameters(), first[2:], network[2].parameters(), strict=True):
        torch.testing.assert_close(one, torch.lerp(was, own.detach(), 0.5))
    assert update.targets.numel() == 8 * 2 + 2


@every_update
@pytest.mark.parametrize("frozen", cases([True, False]), ids=["frozen", "freed"])
def test_a_parameter_that_is_frozen_or_freed_later_is_named(make, frozen):
    network = layers(2)
    network[2].bias.requires_grad_(frozen)
    update = make(network)[2]
    update()
    network[2].bias.requires_grad_(not frozen)
    with pytest.raises(RuntimeError, match=f"bias' was {'frozen' if frozen else 'freed'}.*make a new update"):
        update()


@every_update
@pytest.mark.parametrize("whose", cases(default=["loss", "network"], also=["optimizer"]))
def test_gradients_that_somebody_takes_away_come_back(make, whose):
    network, torch_state = layers(2), torch.get_rng_state()
    loss, update, step = make(network)
    torch.set_rng_state(torch_state)
    step()
    {"loss": loss, "optimizer": update.optimizer, "network": network}[whose].zero_grad()
    before = weights_of(network)
    step()
    assert all(moved(network, before))


@every_update
def test_parameters_that_were_moved_are_named(make):
    network = layers(2)
    update = make(network)[2]
    update()
    network.double().float()
    with pytest.raises(RuntimeError, match=r"was moved.*make a new update"):
        update()


@every_update
def test_parameters_that_were_replaced_are_noticed(make):
    network = layers(2)
    update = make(network)[2]
    update()
    network.load_state_dict({k: v.clone() for k, v in network.state_dict().items()}, assign=True)
    with pytest.raises(RuntimeError, match=r"was replaced.*make a new update"):
        update()


def test_decay_passes_frozen_parameters_by():
    network = layers(2)
    network[0].requires_grad_(False)
    before = weights_of(network)
    ppo(network, optimizer=partial(torch.optim.AdamW, lr=0.1, weight_decay=0.1))[2]()
    assert moved(network, before) == [False, False, True, True]


def test_layers_that_count_what_they_see_are_named():
    network = nn.Sequential(layers(2), nn.BatchNorm1d(2))
    loss, _, update = target(network)
    with pytest.raises(ValueError, match=r"BatchNorm1d.*eval"):
        update()
    loss.eval()
    before = weights_of(network)
    update()
    assert any(moved(network, before))


def test_a_module_that_the_actor_calls_twice_is_called_twice():
    again = TensorDictModule(nn.Linear(8, 8), ["hidden"], ["hidden"])
    body = TensorDictModule(nn.Linear(FEATURES, 8), ["observation"], ["hidden"])
    head = TensorDictModule(nn.Linear(8, 2), ["hidden"], ["logits"])
    actor = ProbabilisticActor(
        TensorDictSequential(body, again, again, head),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = TensorDictSequential(body, again, again, ValueOperator(nn.Linear(8, 1), in_keys=["hidden"]))
    loss = ClipPPOLoss(actor, critic)
    update = PPOUpdate(loss, partial(torch.optim.SGD, lr=0.0))
    batch = steps(torch.eye(2, dtype=torch.int64)[torch.randint(2, (ROWS,))])
    columns = update.columns(batch)
    expected = loss(batch)
    found = update(columns, torch.arange(ROWS))
    for key in ("loss_objective", "loss_critic"):
        torch.testing.assert_close(found[key], expected[key].detach())
