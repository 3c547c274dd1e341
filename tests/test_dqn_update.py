"""DQNUpdate and DistributionalDQNUpdate have the numbers of TorchRL's losses."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from torch import nn
from torchrl.data import Categorical, OneHot
from torchrl.modules import MLP, DistributionalQValueActor, QValueActor
from torchrl.objectives import DistributionalDQNLoss, DQNLoss, HardUpdate

from torchrl_pool.training import DistributionalDQNUpdate, DQNUpdate
from torchrl_pool.training._distributional_dqn_update import projected

ROWS, FEATURES, ACTIONS = 96, 5, 3


def make_loss(one_hot=False, apart=True, drops_out=False, **options):
    torch.manual_seed(1)
    spec = OneHot(ACTIONS) if one_hot else Categorical(ACTIONS)
    network = MLP(FEATURES, ACTIONS, num_cells=[16], dropout=0.3 if drops_out else None)
    actor = QValueActor(network, in_keys=["observation"], spec=spec)
    space = "one-hot" if one_hot else "categorical"
    loss = DQNLoss(actor, action_space=space, **{"loss_function": "l2", "delay_value": True, **options})
    loss.make_value_estimator(gamma=0.9)
    if apart:  # else the target says what the network says, and a double one chooses nothing
        for tensor in loss.target_value_network_params.values(True, True):
            tensor.data += 0.3 * torch.randn_like(tensor)
    return loss


def transitions(one_hot=False):
    after = {
        "observation": torch.randn(ROWS, FEATURES),
        "reward": torch.randn(ROWS, 1),
        "terminated": torch.rand(ROWS, 1) < 0.3,
    }
    after["done"] = after["terminated"] | (torch.rand(ROWS, 1) < 0.3)  # time limits do not count
    action = torch.randint(ACTIONS, (ROWS,))
    action = torch.nn.functional.one_hot(action, ACTIONS).bool() if one_hot else action
    return TensorDict({"observation": torch.randn(ROWS, FEATURES), "action": action, "next": after}, [ROWS])


def assert_updates_as(loss, rows, make_update, extra, compile):
    """Losses, errors and gradients of an update are those of TorchRL's loss; returns the update."""
    weights = torch.rand(ROWS) + 0.1 if extra == "weights" else None
    if weights is not None:
        rows["priority_weight"] = weights
    if extra == "steps":
        rows["steps_to_next_obs"] = torch.randint(1, 4, (ROWS, 1))
    indices = torch.randperm(ROWS)[:32]
    sample = rows[indices]
    expected = loss(sample)["loss"]
    expected.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in loss.named_parameters()}

    update = make_update(loss, partial(torch.optim.SGD, lr=0.0), compile=compile)
    found = update(update.columns(rows), indices, None if weights is None else weights[indices])
    torch.testing.assert_close(found["loss"], expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found["td_error"], sample["td_error"].reshape(-1), rtol=1e-5, atol=1e-5)
    for name, parameter in loss.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)
    return update


@pytest.mark.parametrize(
    ("options", "extra", "compile"),
    [
        ({}, "plain", False),
        ({}, "weights", False),
        ({"double_dqn": True}, "steps", False),
        ({"loss_function": "smooth_l1", "one_hot": True}, "plain", False),
        ({"double_dqn": True}, "weights", True),
        ({"double_dqn": True}, "weights", "trace"),
        ({"loss_function": "smooth_l1", "one_hot": True}, "steps", "trace"),
    ],
)
def test_losses_and_gradients_are_those_of_dqn_loss(options, extra, compile):
    loss = make_loss(**options)  # seeds, too
    assert_updates_as(loss, transitions(options.get("one_hot", False)), DQNUpdate, extra, compile)


@pytest.mark.parametrize("drops_out", [False, True])
def test_traced_updates_are_the_same_bit_for_bit(drops_out):
    def learned(compile):
        loss = make_loss(double_dqn=True, drops_out=drops_out)
        make = partial(torch.optim.Adam, lr=1e-2, fused=True)
        update = DQNUpdate(loss, make, target_every=3, compile=compile)
        columns = update.columns(transitions())
        for count in [32, 32, 7, 32, 7, 32]:  # only the first size is traced
            update(columns, torch.randperm(ROWS)[:count])
        return update.parameters, update.targets, torch.rand(3)  # as many draws, too

    for one, other in zip(learned("trace"), learned(False), strict=True):
        assert torch.equal(one, other)


def test_other_ways_to_compile_are_refused():
    with pytest.raises(ValueError, match="compile: expected True, False or 'trace', got 'max'"):
        DQNUpdate(make_loss(), torch.optim.SGD, compile="max")


# ---- distributions

ATOMS = 21


def make_distributional_loss(one_hot=False, **options):
    torch.manual_seed(1)
    network = nn.Sequential(
        MLP(FEATURES, ATOMS * ACTIONS, num_cells=[16]), nn.Unflatten(-1, (ATOMS, ACTIONS)), nn.LogSoftmax(-2)
    )
    support = options.pop("support", torch.linspace(-2.0, 3.0, ATOMS))
    spec = OneHot(ACTIONS) if one_hot else Categorical(ACTIONS)
    actor = DistributionalQValueActor(network, support, spec=spec, make_log_softmax=False)
    loss = DistributionalDQNLoss(actor, gamma=0.9, **{"delay_value": True, **options})
    for name, tensor in loss.target_value_network_params.flatten_keys(".").items():
        if "support" not in name:
            tensor.data += 0.3 * torch.randn_like(tensor)
    return loss


@pytest.mark.parametrize(
    ("one_hot", "extra", "compile"),
    [
        (False, "plain", False),
        (True, "weights", False),
        (False, "steps", False),
        (False, "weights", True),
        (True, "weights", "trace"),
    ],
)
def test_losses_and_gradients_are_those_of_distributional_dqn_loss(one_hot, extra, compile):
    loss = make_distributional_loss(one_hot)
    support = loss.value_network_params["support"].clone()
    update = assert_updates_as(loss, transitions(one_hot), DistributionalDQNUpdate, extra, compile)
    assert torch.equal(loss.value_network_params["support"], support)
    assert len(update.targets) == sum(one.numel() for one in loss.parameters())  # and no support


def test_probabilities_go_to_the_atoms_around():
    support = torch.linspace(-1.0, 1.0, 5)
    moved = torch.tensor([[-9.0, -0.5, 0.1, 1.0, 9.0]])
    found = projected(torch.full((1, 5), 0.2), moved, support)
    torch.testing.assert_close(found, torch.tensor([[0.2, 0.2, 0.16, 0.04, 0.4]]))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"support": torch.arange(ATOMS) ** 2.0}, "evenly spaced"), ({"delay_value": False}, "delay_value")],
)
def test_options_of_distributions_that_are_not_known(options, message):
    with pytest.raises(ValueError, match=message):
        DistributionalDQNUpdate(make_distributional_loss(**options), torch.optim.SGD)


def test_several_updates_end_where_torchrls_do():
    rows, ends = transitions(), []
    for lean in (True, False):
        loss = make_loss(apart=False)
        if lean:
            update = DQNUpdate(loss, partial(torch.optim.Adam, lr=1e-2), target_every=3)
        else:
            optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
            targets = HardUpdate(loss, value_network_update_interval=2)  # which is every third step
        for seed in range(5):
            indices = torch.arange(seed, seed + 32)
            if lean:
                update(update.columns(rows), indices)
                continue
            loss(rows[indices])["loss"].backward()
            optimizer.step()
            optimizer.zero_grad()
            targets.step()
        after = loss.target_value_network_params.flatten_keys(".").items()
        ends.append((list(loss.parameters()), [tensor for _, tensor in sorted(after)]))
    for lean_end, end in zip(*ends, strict=True):
        for one, other in zip(lean_end, end, strict=True):
            torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-4, atol=1e-5)


def test_options_that_are_not_known():
    with pytest.raises(ValueError, match="delay_value"):
        DQNUpdate(DQNLoss(MLP(2, 2), action_space="categorical", delay_value=False), torch.optim.SGD)
