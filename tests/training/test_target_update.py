"""The losses of the DQN and SAC programs, learned from by TargetUpdate, have the numbers of TorchRL's."""

import copy
from functools import partial

import pytest
import torch
from cases import cases
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Categorical
from torchrl.modules import (
    MLP,
    DistributionalQValueActor,
    ProbabilisticActor,
    QValueActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import DistributionalDQNLoss, DQNLoss, HardUpdate, SoftUpdate
from torchrl.objectives import SACLoss as TorchRLsSACLoss

pytest.importorskip("tyro")

from torchrl_pool.examples import dqn, sac
from torchrl_pool.examples.replay import STORED
from torchrl_pool.training import TargetUpdate

ROWS, FEATURES, ACTIONS, ATOMS = 96, 5, 3, 21
LOW, HIGH = torch.tensor([-1.0, -2.0, 0.0]), torch.tensor([1.0, 2.0, 4.0])


def transitions(continuous=False):
    torch.manual_seed(2)
    after = {
        "observation": torch.randn(ROWS, FEATURES),
        "reward": torch.randn(ROWS, 1),
        "terminated": torch.rand(ROWS, 1) < 0.3,
    }
    after["done"] = after["terminated"] | (torch.rand(ROWS, 1) < 0.3)  # time limits do not count
    action = LOW + torch.rand(ROWS, ACTIONS) * (HIGH - LOW) if continuous else torch.randint(ACTIONS, (ROWS,))
    return TensorDict({"observation": torch.randn(ROWS, FEATURES), "action": action, "next": after}, [ROWS])


def moved(network):
    """Another network, as a target is: with other weights."""
    other = copy.deepcopy(network)
    for one in other.parameters():
        one.data += 0.3 * torch.randn_like(one)
    return other


def of_dqn(drops_out=False, **options):
    """A loss of the program, and TorchRL's with the same weights."""
    torch.manual_seed(1)
    network = MLP(FEATURES, ACTIONS, num_cells=[16], dropout=0.3 if drops_out else None)
    target, config = moved(network), dqn.Config(gamma=0.9, **options)
    make = partial(QValueActor, in_keys=["observation"], spec=Categorical(ACTIONS))
    theirs = DQNLoss(
        make(copy.deepcopy(network)),
        loss_function=config.loss,
        delay_value=True,
        double_dqn=config.double,
        action_space="categorical",
    )
    theirs.make_value_estimator(gamma=0.9)
    theirs.target_value_network_params.data.update_(TensorDict.from_module(make(target)).data)
    own = dqn.ValueLoss(network, config)
    own.target.load_state_dict(target.state_dict())
    return own, theirs


def of_c51():
    torch.manual_seed(1)
    config = dqn.Config(gamma=0.9, distributional=True, atoms=ATOMS, value_min=-2.0, value_max=3.0)
    network = nn.Sequential(
        MLP(FEATURES, ATOMS * ACTIONS, num_cells=[16]), nn.Unflatten(-1, (ATOMS, ACTIONS)), nn.LogSoftmax(-2)
    )
    target, own = moved(network), dqn.DistributionLoss(network, config)
    options = {"spec": Categorical(ACTIONS), "make_log_softmax": False}
    make = lambda one: DistributionalQValueActor(one, own.support.clone(), **options)  # noqa: E731
    theirs = DistributionalDQNLoss(make(copy.deepcopy(network)), gamma=0.9, delay_value=True)
    theirs.target_value_network_params.data.update_(TensorDict.from_module(make(target)).data)
    own.target.load_state_dict(target.state_dict())
    return own, theirs


def of_sac(**options):
    torch.manual_seed(1)
    config = sac.Config(gamma=0.9, alpha_init=0.5, **options)
    network = nn.Sequential(MLP(FEATURES, 2 * ACTIONS, num_cells=[16]), sac.LocAndScale())
    critics = nn.ModuleList(MLP(FEATURES + ACTIONS, 1, num_cells=[16]) for _ in range(2))
    actor = ProbabilisticActor(
        TensorDictModule(copy.deepcopy(network), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": LOW, "high": HIGH},
        return_log_prob=True,
    )
    theirs = TorchRLsSACLoss(
        actor,
        ValueOperator(copy.deepcopy(critics[0]), in_keys=["observation", "action"]),
        loss_function="l2",
        alpha_init=0.5,
        fixed_alpha=config.fixed_alpha,
        target_entropy=-float(ACTIONS),
    )
    theirs.make_value_estimator(gamma=0.9)
    stacked = theirs.qvalue_network_params.flatten_keys(".")  # drawn anew for each critic
    for i, critic in enumerate(critics):
        critic.load_state_dict({name: stacked[f"module.{name}"][i] for name in critic.state_dict()})
    return sac.SACLoss(critics, network, LOW, HIGH, config), theirs


def noise_from(seed, count):
    """The numbers that TorchRL's SACLoss draws: for the next actions, then for today's."""
    torch.manual_seed(seed)
    return torch.stack([torch.randn(count, ACTIONS) for _ in range(2)])


SGD = partial(torch.optim.SGD, lr=0.0)


def update_of(loss, rows, make=SGD, **options):
    keys = [key for key in (*STORED, "steps_to_next_obs") if key in rows.keys(True)]
    followed = "critics" if isinstance(loss, sac.SACLoss) else "network"
    return TargetUpdate(loss, make, keys=keys, followed=followed, **options)


CASES = {
    "dqn": (of_dqn, {}),
    "double": (of_dqn, {"double": True}),
    "smooth": (of_dqn, {"loss": "smooth_l1"}),
    "c51": (of_c51, {}),
    "sac": (of_sac, {}),
    "sac, fixed temperature": (of_sac, {"fixed_alpha": True}),
}


@pytest.mark.parametrize("extra", cases(["plain", "weights", "steps"]))
@pytest.mark.parametrize("case", cases(default=["double"], also=CASES))
def test_losses_and_gradients_are_torchrls(case, extra):
    make, options = CASES[case]
    own, theirs = make(**options)
    rows, indices, is_sac = transitions(make is of_sac), torch.arange(32), make is of_sac
    if extra == "weights":
        rows["priority_weight"] = torch.rand(ROWS) + 0.1
    if extra == "steps":
        rows["steps_to_next_obs"] = torch.randint(1, 4, (ROWS, 1))
    noise = [noise_from(5, 32)] if is_sac else []
    torch.manual_seed(5)
    sample = rows[indices]
    found = theirs(sample)
    names = ("loss_qvalue", "loss_actor", "loss_alpha") if is_sac else ("loss",)
    sum(found[name] for name in names).backward()

    update = update_of(own, rows)
    weights = [rows["priority_weight"][indices]] if extra == "weights" else []
    terms, errors = update(update.columns(rows), indices, *noise, *weights)
    expected = torch.stack([found[name].detach() for name in names])
    torch.testing.assert_close(terms, expected, rtol=1e-5, atol=1e-6)
    theirs_errors = sample["td_error"].reshape(-1)
    squared = make is of_dqn  # as DQNLoss tells them
    torch.testing.assert_close(errors.square() if squared else errors, theirs_errors, rtol=1e-5, atol=1e-5)
    gradient = torch.cat([one.grad.reshape(-1) for one in theirs.parameters() if one.grad is not None])
    torch.testing.assert_close(update._flat.grad.norm(), gradient.norm(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(update._flat.grad.sort().values, gradient.sort().values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("make", "tau", "every"), cases([(of_dqn, 1.0, 3), (of_sac, 0.1, 1)]))
def test_several_updates_end_where_torchrls_do(make, tau, every):
    rows, (own, theirs), is_sac = transitions(make is of_sac), make(), make is of_sac
    if not is_sac:
        theirs.target_value_network_params.data.update_(theirs.value_network_params.data)
        own.target.load_state_dict(own.network.state_dict())
    update = update_of(own, rows, partial(torch.optim.Adam, lr=1e-2), tau=tau, target_every=every)
    optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    # Every third step, too.
    targets = SoftUpdate(theirs, tau=tau) if is_sac else HardUpdate(theirs, value_network_update_interval=2)
    for seed in range(5):
        indices, noise = torch.arange(seed, seed + 32), [noise_from(seed, 32)] if is_sac else []
        update(update.columns(rows), indices, *noise)
        torch.manual_seed(seed)
        found = theirs(rows[indices])
        names = ("loss_qvalue", "loss_actor", "loss_alpha") if is_sac else ("loss",)
        optimizer.zero_grad()
        sum(found[name] for name in names).backward()
        optimizer.step()
        targets.step()
    name = "qvalue_network" if is_sac else "value_network"
    after = getattr(theirs, f"target_{name}_params").flatten_keys(".").values()
    for found, expected in ((update.targets, after), (update._flat, theirs.parameters())):
        expected = torch.cat([one.detach().reshape(-1) for one in expected])
        torch.testing.assert_close(found.detach().sort().values, expected.sort().values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("drops_out", cases([False, True]))
def test_traced_updates_are_the_same_bit_for_bit(drops_out):
    def learned(compile):
        loss, _ = of_dqn(drops_out, double=True)
        rows = transitions()
        make = partial(torch.optim.Adam, lr=1e-2, fused=True)
        update = update_of(loss, rows, make, target_every=3, compile=compile)
        for count in [32, 32, 7, 32, 7, 32]:  # only the first size is traced
            update(update.columns(rows), torch.randperm(ROWS)[:count])
        return update._flat, update.targets, torch.rand(3)  # as many draws, too

    for one, other in zip(learned("trace"), learned(False), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow  # torch.compile
@pytest.mark.parametrize("make", [of_dqn, of_sac])
def test_compiled_updates_have_the_same_numbers(make):
    rows, noise = transitions(make is of_sac), [noise_from(5, 32)] if make is of_sac else []
    found = []
    for compile in (True, False):
        update = update_of(make()[0], rows, compile=compile)
        found.append(update(update.columns(rows), torch.arange(32), *noise))
        found[-1] = (*found[-1], update._flat.grad.clone())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_what_is_refused():
    loss, _ = of_dqn()
    with pytest.raises(ValueError, match="compile: expected True, False or 'trace', got 'max'"):
        update_of(loss, transitions(), compile="max")


def test_probabilities_go_to_the_atoms_around():
    support = torch.linspace(-1.0, 1.0, 5)
    values = torch.tensor([[-9.0, -0.5, 0.1, 1.0, 9.0]])
    found = dqn.projected(torch.full((1, 5), 0.2), values, support)
    torch.testing.assert_close(found, torch.tensor([[0.2, 0.2, 0.16, 0.04, 0.4]]))
