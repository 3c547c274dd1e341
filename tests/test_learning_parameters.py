"""Which parameters an update changes, and what becomes of those that are moved, frozen or replaced later."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Categorical
from torchrl.modules import OneHotCategorical, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import A2CLoss, ClipPPOLoss, DQNLoss, SACLoss

from torchrl_pool.training import DQNUpdate, PPOUpdate, SACUpdate, VTraceUpdate

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


def vtrace(network):
    actor = actor_of(network)
    critic = ValueOperator(layers(1), in_keys=["observation"])
    loss = A2CLoss(actor, critic, loss_critic_type="l2")
    update = VTraceUpdate(loss, ADAM, gamma=0.9)
    batch = steps(torch.eye(2, dtype=torch.int64)[torch.randint(2, (ROWS,))])
    batch["action_log_prob"] = torch.full((ROWS,), -0.7)
    return loss, update, partial(update, batch.reshape(4, 8))


def dqn(network, **options):
    actor = QValueActor(network, in_keys=["observation"], spec=Categorical(2))
    loss = DQNLoss(actor, loss_function="l2", delay_value=True, action_space="categorical")
    loss.make_value_estimator(gamma=0.9)
    update = DQNUpdate(loss, ADAM, tau=0.5, **options)
    columns = update.columns(steps(torch.randint(2, (ROWS,))))
    return loss, update, partial(update, columns, torch.arange(ROWS))


class Critic(nn.Linear):
    def forward(self, observation, action):
        return super().forward(torch.cat([observation, action], -1))


def sac(network, **options):
    normal = TensorDictModule(
        nn.Sequential(network, NormalParamExtractor()), ["observation"], ["loc", "scale"]
    )
    actor = ProbabilisticActor(
        normal, in_keys=["loc", "scale"], distribution_class=TanhNormal, return_log_prob=True
    )
    critic = ValueOperator(Critic(FEATURES + 1, 1), in_keys=["observation", "action"])
    loss = SACLoss(actor, critic, loss_function="l2", target_entropy=-1.0)
    loss.make_value_estimator(gamma=0.9)
    update = SACUpdate(loss, ADAM, tau=0.5, **options)
    columns = update.columns(steps(torch.rand(ROWS, 1)))
    return loss, update, partial(update, columns, torch.arange(ROWS))


MAKES = {
    "ppo": ppo,
    "vtrace": vtrace,
    "dqn": dqn,
    "dqn, traced": partial(dqn, compile="trace"),
    "sac": sac,
    "sac, traced": partial(sac, compile="trace"),
}
every_update = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


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


@pytest.mark.parametrize("compile", [False, "trace"])
def test_the_rest_of_a_network_learns_as_with_the_loss(compile):
    """What surrounds the frozen layer: targets, too, follow what they belong to."""
    network = layers(2)
    network[0].requires_grad_(False)
    loss, update, step = dqn(network, compile=compile)
    step()
    flat = loss.value_network_params.flatten_keys(".")
    targets = loss.target_value_network_params.flatten_keys(".")
    first = {key: value.clone() for key, value in targets.items()}
    before = {key: value.detach().clone() for key, value in flat.items()}
    step()
    for key, value in flat.items():
        assert torch.equal(value, before[key]) is ("module.0.module.0" in key), key
        torch.testing.assert_close(targets[key], torch.lerp(first[key], value.detach(), 0.5))
    assert update.parameters.numel() == 8 * 2 + 2


@every_update
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "freed"])
def test_a_parameter_that_is_frozen_or_freed_later_is_named(make, frozen):
    network = layers(2)
    network[2].bias.requires_grad_(frozen)
    update = make(network)[2]
    update()
    network[2].bias.requires_grad_(not frozen)
    with pytest.raises(RuntimeError, match=f"bias' was {'frozen' if frozen else 'freed'}.*make a new update"):
        update()


@every_update
@pytest.mark.parametrize("whose", ["loss", "optimizer", "network"])
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


@pytest.mark.parametrize("make", [ppo, vtrace])
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


@pytest.mark.parametrize("make", [dqn, sac])
def test_layers_that_count_what_they_see_are_named(make):
    network = nn.Sequential(layers(2), nn.BatchNorm1d(2))
    update = make(network)[2]
    with pytest.raises(ValueError, match=r"BatchNorm1d.*eval"):
        update()
    network.eval()
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
