"""VTraceUpdate beside what it stands for: V-trace, A2CLoss, their gradients and the optimiser's step."""

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule, TensorDictSequential
from torch import nn
from torch.distributions import Categorical
from torchrl.modules import IndependentNormal, OneHotCategorical, ProbabilisticActor, TanhNormal
from torchrl.objectives import A2CLoss
from torchrl.objectives.value.functional import vtrace_advantage_estimate

from torchrl_pool.training import VTraceUpdate

N, T = 6, 9


def networks(kind, trunk=False):
    torch.manual_seed(3)
    below = [TensorDictModule(nn.Sequential(nn.Linear(4, 8), nn.Tanh()), ["observation"], ["features"])]
    key, size = ("features", 8) if trunk else ("observation", 4)
    if kind in (Categorical, OneHotCategorical):
        head, parameters, more = nn.Linear(size, 3), ["logits"], {}
    else:
        head = nn.Sequential(nn.Linear(size, 2), AddStateIndependentNormalScale(2))
        parameters = ["loc", "scale"]
        more = {"distribution_kwargs": {"low": -2.0, "high": 3.0}} if kind is TanhNormal else {}
    module = TensorDictModule(head, [key], parameters)
    actor = ProbabilisticActor(
        TensorDictSequential(*below, module) if trunk else module,
        in_keys=parameters,
        distribution_class=kind,
        return_log_prob=True,
        **more,
    )
    value = TensorDictModule(nn.Linear(size, 1), [key], ["state_value"])
    return actor, TensorDictSequential(*below, value) if trunk else value


def steps_of(actor):
    """Chosen by older weights; episodes end within, of themselves and by their limit."""
    torch.manual_seed(4)
    observations = torch.randn(N, T + 1, 4)
    done = torch.rand(N, T, 1) < 0.2
    after = {
        "observation": torch.where(done, torch.randn(N, T, 4), observations[:, 1:]),
        "reward": torch.randn(N, T, 1),
        "done": done,
        "terminated": done & (torch.rand(N, T, 1) < 0.5),
    }
    with torch.no_grad():
        steps = actor(TensorDict({"observation": observations[:, :-1]}, [N, T]))
    return steps.set("next", TensorDict(after, [N, T]))


def both(kind, trunk=False, **options):
    """The update, and loss and estimator over networks of the same weights, a little off the older ones."""
    sides = []
    for _ in range(2):
        actor, critic = networks(kind, trunk)
        steps = steps_of(actor)
        torch.manual_seed(5)
        for parameter in {*actor.parameters(), *critic.parameters()}:
            parameter.data += 0.1
        bonus = kind is not TanhNormal
        loss = A2CLoss(
            actor,
            critic,
            entropy_bonus=bonus,
            entropy_coeff=0.02,
            critic_coeff=0.7,
            **{"loss_critic_type": "l2", **options},
        )
        sides.append((loss, [*dict.fromkeys([*actor.parameters(), *critic.parameters()])], steps))
    return sides


VTRACE = {"gamma": 0.9, "rho_clip": 1.1, "c_clip": 0.9}
still = partial(torch.optim.SGD, lr=0.0)


@torch.no_grad()
def corrected(loss, steps):
    """The steps with TorchRL's V-trace of the actions that were taken, each network asked by itself."""
    actor, critic = loss.actor_network, loss.critic_network
    with loss.actor_network_params.to_module(actor), loss.critic_network_params.to_module(critic):
        log_prob = actor.get_dist(steps).log_prob(steps["action"]).unsqueeze(-1)
        value = critic(steps.select("observation"))["state_value"]
        next_value = critic(steps["next"].select("observation"))["state_value"]
    steps["advantage"], steps["value_target"] = vtrace_advantage_estimate(
        torch.tensor(VTRACE["gamma"]),
        log_prob,
        steps["action_log_prob"].unsqueeze(-1),
        value,
        next_value,
        *(steps["next", key] for key in ("reward", "done", "terminated")),
        rho_thresh=VTRACE["rho_clip"],
        c_thresh=VTRACE["c_clip"],
    )
    return steps


def expected_of(loss, steps):
    losses = loss(corrected(loss, steps))
    sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
    return losses


@pytest.mark.parametrize("kind", [Categorical, OneHotCategorical, IndependentNormal, TanhNormal])
@pytest.mark.parametrize(
    ("trunk", "options"),
    [(False, {}), (True, {"reduction": "sum"}), (False, {"loss_critic_type": "smooth_l1"})],
    ids=["mean", "trunk-sum", "smooth"],
)
def test_losses_and_gradients_are_those_of_the_two(kind, trunk, options):
    (loss, own, steps), (their_loss, theirs, their_steps) = both(kind, trunk, **options)
    found = VTraceUpdate(loss, still, **VTRACE)(steps)
    expected = expected_of(their_loss, their_steps)
    for name, value in found.items():
        if name in set(expected.keys()) and not (kind is TanhNormal and name == "loss_objective"):
            torch.testing.assert_close(value, expected[name].detach(), rtol=1e-5, atol=1e-5)
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_parts_give_the_mean_of_their_gradients():
    (loss, own, steps), (other_loss, other, _) = both(Categorical)
    VTraceUpdate(loss, still, **VTRACE)(*steps.chunk(2))
    gradients = [one.grad.clone() for one in own]
    update = VTraceUpdate(other_loss, still, **VTRACE)
    sums = [torch.zeros_like(one) for one in other]
    for part in steps.chunk(2):
        update(part)
        for total, one in zip(sums, other, strict=True):
            total += one.grad / 2
    for one, total in zip(gradients, sums, strict=True):
        torch.testing.assert_close(one, total)


def test_an_update_clips_and_steps():
    (loss, own, steps), (their_loss, theirs, their_steps) = both(Categorical)
    optimizer = partial(torch.optim.RMSprop, lr=1e-2, alpha=0.99, eps=0.01)
    VTraceUpdate(loss, optimizer, max_grad_norm=0.1, **VTRACE)(steps)
    expected_of(their_loss, their_steps)
    nn.utils.clip_grad_norm_(theirs, 0.1)
    optimizer(theirs).step()
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one.data, other.data, rtol=1e-4, atol=1e-6)


def test_what_is_not_known_is_refused():
    actor, critic = networks(Categorical)
    with pytest.raises(ValueError, match="clip_value"):
        VTraceUpdate(A2CLoss(actor, critic, clip_value=0.2), still, gamma=0.9)
    with pytest.raises(TypeError, match="A2CLoss"):
        VTraceUpdate(nn.Linear(1, 1), still, gamma=0.9)
