"""What is kept of a policy between batches holds until somebody changes the policy."""

import pytest
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.data import Bounded, Categorical, Composite
from torchrl.envs.utils import ExplorationType, RandomPolicy, set_exploration_type
from torchrl.modules import MLP, EGreedyModule, ProbabilisticActor, TanhNormal

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._collecting.lean_policy import UntilChanged


class LocAndScale(nn.Module):
    def forward(self, outputs):
        loc, scale = outputs.chunk(2, -1)
        return loc, scale.exp()


def make_policy():
    torch.manual_seed(0)
    network = nn.Sequential(MLP(3, 2, num_cells=[8]), LocAndScale())
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": torch.tensor(-2.0), "high": torch.tensor(2.0)},
    )


def network_of(policy):
    return policy.module[0].module


def draw_of(policy):
    return policy.module[-1]


CHANGES = {
    "a module in another's place": lambda policy: network_of(policy).__setitem__(1, LocAndScale()),
    "a layer more": lambda policy: network_of(policy)[0].append(nn.Identity()),
    "an attribute": lambda policy: setattr(draw_of(policy), "return_log_prob", True),
    "a mode": lambda policy: policy.eval(),
    "a hook": lambda policy: network_of(policy)[0][0].register_forward_hook(lambda *_: None),
    "a hook before": lambda policy: network_of(policy).register_forward_pre_hook(lambda *_: None),
    "an argument": lambda policy: draw_of(policy).distribution_kwargs.update(low=torch.tensor(-1.0)),
    "an argument, in place": lambda policy: draw_of(policy).distribution_kwargs["low"].fill_(-1.0),
    "an argument's name": lambda policy: draw_of(policy).distribution_kwargs.update(
        upscale=draw_of(policy).distribution_kwargs.pop("high")
    ),
    "a dtype": lambda policy: policy.double(),
    "a parameter": lambda policy: setattr(network_of(policy)[0][0], "bias", nn.Parameter(torch.zeros(8))),
    "forward": lambda policy: setattr(network_of(policy)[1], "forward", lambda outputs: outputs.chunk(2, -1)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_noticed(change):
    calls = []
    known, policy = UntilChanged(calls.append), make_policy()
    known(policy)
    known(policy)
    assert len(calls) == 1
    CHANGES[change](policy)
    known(policy)
    known(policy)
    assert calls == [policy, policy]


def test_values_of_weights_are_none():
    calls = []
    known, policy = UntilChanged(calls.append), make_policy()
    known(policy)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.ones_like(parameter)
    known(policy)
    assert len(calls) == 1


def test_another_policy_or_exploration_type_is_another_question():
    calls = []
    known, policy, other = UntilChanged(calls.append), make_policy(), make_policy()
    for one in (policy, other, other):
        known(one)
    with set_exploration_type(ExplorationType.MODE):
        known(other)
    with torch.autocast("cpu", torch.bfloat16):
        known(other)
    hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        known(other)
    finally:
        hook.remove()
    assert calls == [policy, other, other, other, other]


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module.spec.__setitem__("action", Categorical(1)),
        lambda module: module.spec["action"].update_mask(torch.tensor([True, False])),
        lambda module: module.spec["action"].mask.fill_(True),
    ],
)
def test_changes_of_specs_are_noticed(change):
    calls, mask = [], torch.tensor([False, True])
    known = UntilChanged(calls.append)
    policy = EGreedyModule(Composite(action=Categorical(2, mask=mask)))
    known(policy)
    known(policy)
    assert len(calls) == 1
    change(policy)
    known(policy)
    assert len(calls) == 2


def test_random_policies_follow_their_specs():
    policy = RandomPolicy(Composite(action=Bounded(-2, 2, (4, 1)), shape=[4]))
    batches = iter(PoolCollector(PoolEnv("Pendulum-v1", 4, seed=0), policy, frames_per_batch=64))
    next(batches)
    policy.action_spec["action"] = Bounded(-0.1, 0.1, (4, 1))
    assert float(next(batches)["action"].abs().max()) <= 0.1


def test_tensors_of_inference_mode_are_looked_at_each_time():
    calls, policy = [], make_policy()
    with torch.inference_mode():
        draw_of(policy).distribution_kwargs["low"] = torch.tensor(-1.0)
    known = UntilChanged(calls.append)
    known(policy)
    known(policy)
    assert len(calls) == 2


def test_lazy_layers_are_made_by_the_first_batch():
    policy = TensorDictModule(nn.Sequential(nn.LazyLinear(1), nn.Tanh()), ["observation"], ["action"])
    collector = PoolCollector(PoolEnv("Pendulum-v1", 4), policy, frames_per_batch=8, use_buffers=False)
    assert next(iter(collector)).shape == (4, 2)


def test_what_is_no_module_is_looked_at_each_time():
    calls = []
    known = UntilChanged(calls.append)
    known(len)
    known(len)
    assert len(calls) == 2


@pytest.mark.parametrize("change", ["an argument, in place", "a module in another's place", "a hook"])
def test_batches_follow_changes(change):
    """As a collector that begins with the changed policy, from the same state of everything."""

    def batches(change_at):
        env, policy = PoolEnv("Pendulum-v1", 4, seed=0), make_policy()
        calls = []
        louder = network_of(policy)
        if change != "a hook":
            alter = CHANGES[change]
        else:

            def alter(policy):
                louder.register_forward_hook(lambda *_: calls.append(1))

        collector, found = PoolCollector(env, policy, frames_per_batch=8, total_frames=32), []
        torch.manual_seed(1)
        for number, batch in enumerate(collector):
            found.append(batch["action"])
            if number == change_at:
                alter(policy)
        return found, len(calls)

    changed, calls = batches(1)
    as_it_was, _ = batches(99)
    assert all(torch.equal(one, other) for one, other in zip(changed[:2], as_it_was[:2], strict=True))
    if change == "an argument, in place":
        assert not torch.equal(changed[2], as_it_was[2])
        assert float(changed[2].min()) >= -1.0
    else:
        assert torch.equal(changed[3], as_it_was[3])
        assert calls == (4 if change == "a hook" else 0)
