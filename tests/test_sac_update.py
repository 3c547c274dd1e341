"""SACUpdate has the numbers of SACLoss."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate

from torchrl_pool.training import SACUpdate

ROWS, FEATURES, ACTIONS = 96, 5, 3
BOUNDS = {"low": torch.tensor([-1.0, -2.0, 0.0]), "high": torch.tensor([1.0, 2.0, 4.0])}


def make_loss(**options):
    torch.manual_seed(1)
    network = nn.Sequential(MLP(FEATURES, 2 * ACTIONS, num_cells=[16]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=BOUNDS,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(FEATURES + ACTIONS, 1, num_cells=[16]), in_keys=["observation", "action"])
    loss = SACLoss(
        actor, critic, **{"loss_function": "l2", "target_entropy": -3.0, "alpha_init": 0.5, **options}
    )
    loss.make_value_estimator(gamma=0.9)
    return loss


def transitions():
    after = {
        "observation": torch.randn(ROWS, FEATURES),
        "reward": torch.randn(ROWS, 1),
        "terminated": torch.rand(ROWS, 1) < 0.3,
    }
    after["done"] = after["terminated"] | (torch.rand(ROWS, 1) < 0.3)  # time limits do not count
    action = BOUNDS["low"] + torch.rand(ROWS, ACTIONS) * (BOUNDS["high"] - BOUNDS["low"])
    return TensorDict({"observation": torch.randn(ROWS, FEATURES), "action": action, "next": after}, [ROWS])


def noise_from(seed, count):
    """The numbers that SACLoss draws: for the next actions, then for today's."""
    torch.manual_seed(seed)
    return torch.stack([torch.randn(count, ACTIONS) for _ in range(2)])


@pytest.mark.parametrize(
    ("extra", "compile"),
    [
        ("plain", False),
        ("weights", False),
        ("steps", False),
        ("smooth", False),
        ("weights", "trace"),
        pytest.param("weights", True, marks=pytest.mark.slow),  # test_dqn_update.py compiles a smaller one
    ],
)
def test_losses_and_gradients_are_those_of_sac_loss(extra, compile):
    options = {"loss_function": "smooth_l1", "fixed_alpha": True} if extra == "smooth" else {}
    loss, rows = make_loss(**options), transitions()
    weights = torch.rand(ROWS) + 0.1 if extra == "weights" else None
    if weights is not None:
        rows["priority_weight"] = weights
    if extra == "steps":
        rows["steps_to_next_obs"] = torch.randint(1, 4, (ROWS, 1))
    indices = torch.randperm(ROWS)[:32]
    noise = noise_from(5, 32)
    torch.manual_seed(5)
    sample = rows[indices]
    expected = loss(sample)
    (expected["loss_actor"] + expected["loss_qvalue"] + expected["loss_alpha"]).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in loss.named_parameters()}

    update = SACUpdate(loss, partial(torch.optim.SGD, lr=0.0), tau=0.1, compile=compile)
    found = update(update.columns(rows), indices, None if weights is None else weights[indices], noise)
    for name in update.names:
        torch.testing.assert_close(found[name], expected[name].detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found["td_error"], sample["td_error"].reshape(-1), rtol=1e-5, atol=1e-5)
    for name, parameter in loss.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-6)


def test_several_updates_end_where_torchrls_do():
    rows, ends = transitions(), []
    for lean in (True, False):
        loss = make_loss()
        if lean:
            update = SACUpdate(loss, partial(torch.optim.Adam, lr=1e-2), tau=0.1)
        else:
            optimizer, targets = torch.optim.Adam(loss.parameters(), lr=1e-2), SoftUpdate(loss, tau=0.1)
        for seed in range(5):
            indices, noise = torch.arange(seed, seed + 32), noise_from(seed, 32)
            if lean:
                update(update.columns(rows), indices, noise=noise)
                continue
            torch.manual_seed(seed)
            out = loss(rows[indices])
            (out["loss_actor"] + out["loss_qvalue"] + out["loss_alpha"]).backward()
            optimizer.step()
            optimizer.zero_grad()
            targets.step()
        own = torch.cat([one.detach().reshape(-1) for one in loss.parameters()])
        after = loss.target_qvalue_network_params.flatten_keys(".").items()
        ends.append((own, torch.cat([tensor.reshape(-1) for _, tensor in sorted(after)])))
    for lean_end, end in zip(*ends, strict=True):
        torch.testing.assert_close(lean_end, end, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_alpha": 0.1}, "min_alpha"),
        ({"delay_actor": True}, "delay_actor"),
        ({"reduction": "sum"}, "reduction"),
    ],
)
def test_options_that_are_not_known(options, message):
    with pytest.raises(ValueError, match=message):
        SACUpdate(make_loss(**options), partial(torch.optim.SGD, lr=0.0), tau=0.1)
