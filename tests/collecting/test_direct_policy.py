"""Policies that are taken apart, against the same policies whole."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cases import cases
from collecting import FRAMES, categorical_actor
from policies import ACTIONS, POLICIES, a_root, assert_same, continuous, discrete, network
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictSequential,
    set_skip_existing,
)
from torch import nn
from torch.distributions import Categorical, Normal
from torch.nn.utils import parametrize
from torchrl.data import Bounded
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type
from torchrl.modules import (
    Actor,
    IndependentNormal,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    SafeModule,
    TanhNormal,
)

from torchrl_pool import PoolCollector, PoolEnv, explain
from torchrl_pool._collecting.direct_policy import exploring, parts_of, take_apart

RANDOM, DETERMINISTIC = ExplorationType.RANDOM, ExplorationType.DETERMINISTIC


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("exploration", [RANDOM, DETERMINISTIC], ids=["random", "deterministic"])
@pytest.mark.parametrize(
    "name",
    cases(
        default=[
            "TanhNormal, location bounded",
            "values with a mask",
            "LSTM in Python",
            "arguments by name",
            "a dictionary of results",
            "a result that is dropped",
            "nested entries",
            "a parameter among the results",
        ],
        also=POLICIES,
    ),
)
@torch.no_grad()
def test_gives_what_the_policy_gives(name, exploration, device):
    policy, root = POLICIES[name](), a_root(device=device)
    if "LSTM" in name or "GRU" in name:
        layers = 2 if "two" in name else 1
        root.update({state: torch.randn(6, layers, 4) for state in ("hidden", "cell")})
    with set_exploration_type(exploration):
        direct = take_apart(policy)
        assert direct is not None, parts_of(policy)
        for seed in range(4):
            torch.manual_seed(seed)
            expected = policy(root.clone())
            drawn = torch.rand(())
            torch.manual_seed(seed)
            assert_same(direct(root.clone()), expected)
            assert torch.equal(torch.rand(()), drawn), "the generator is in another state"


@pytest.mark.parametrize(
    "kind", cases(default=[Normal, IndependentNormal, Categorical], also=[TanhNormal, OneHotCategorical])
)
@torch.no_grad()
def test_draws_with_the_policys_own_generator(kind):
    policy, root = (discrete if "Categorical" in kind.__name__ else continuous)(kind), a_root()
    own = policy.module[-1]._generator = torch.Generator()
    with set_exploration_type(RANDOM):
        direct = take_apart(policy)
        assert direct is not None, parts_of(policy)
        for seed in range(3):
            before = torch.get_rng_state()
            own.manual_seed(seed)
            expected, state = policy(root.clone()), own.get_state()
            own.manual_seed(seed)
            assert_same(direct(root.clone()), expected)
            assert torch.equal(own.get_state(), state)
            assert torch.equal(torch.get_rng_state(), before)


@torch.no_grad()
def test_a_thread_draws_as_it_was_told_whatever_others_have_set():
    policy, root, before = continuous(Normal), a_root(), exploration_type()
    with exploring(RANDOM), set_exploration_type(DETERMINISTIC):  # another thread's, begun a little later
        drawn = [take_apart(policy)(root.clone())["action"] for _ in range(2)]
        assert not torch.equal(*drawn)
    assert exploration_type() is before
    with set_exploration_type(DETERMINISTIC):
        drawn = [take_apart(policy)(root.clone())["action"] for _ in range(2)]
    assert torch.equal(*drawn)


def test_threads_that_end_in_any_order_leave_the_type_as_they_found_it():
    before = exploration_type()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second, third = exploring(RANDOM), exploring(DETERMINISTIC), exploring(RANDOM)
        begin(one, first)
        begin(other, second)
        end(one, first)
        assert exploration_type() is DETERMINISTIC
        begin(one, third)
        end(one, third)
        assert exploration_type() is DETERMINISTIC
        end(other, second)
    assert exploration_type() is before


def begin(thread, context):
    thread.submit(context.__enter__).result()


def end(thread, context):
    thread.submit(context.__exit__, None, None, None).result()


def hooked():
    policy = continuous(TanhNormal)
    policy.module[0].register_forward_hook(lambda module, args, result: None)
    return policy


def selecting():
    return TensorDictModule(lambda x: (x, x), ["observation"], ["action", "more"]).select_out_keys("action")


class Counting(TensorDictModuleBase):
    in_keys, out_keys = ("observation",), ("action",)

    def forward(self, tensordict):
        return tensordict.set("action", tensordict["observation"][..., :ACTIONS])


class LouderModule(TensorDictModule):
    def forward(self, tensordict):
        return super().forward(tensordict).apply_(lambda x: x * 2)


def replaced():
    policy = discrete(Categorical)
    policy.forward = lambda tensordict: tensordict
    return policy


def with_generator_entry():
    policy = discrete(Categorical)
    policy.module[-1]._generator_key = "generator"
    return policy


WHOLE = {
    "a hook": (hooked, "hooks"),
    "a safe actor, which is a hook": (
        lambda: SafeModule(network(), ["observation"], ["action"], spec=Bounded(-1, 1, ACTIONS), safe=True),
        "hooks",
    ),
    "selected keys, which are a hook": (selecting, "hooks"),
    "a class of the user's": (lambda: TensorDictSequential(Counting()), "form of its class is known"),
    "a subclass with its own forward": (
        lambda: LouderModule(network(), ["observation"], ["action"]),
        "form of its class is known",
    ),
    "a forward that was replaced": (replaced, "forward or __call__ is overridden"),
    "a generator that is an entry": (with_generator_entry, "generator"),
    "several samples": (
        lambda: ProbabilisticTensorDictModule(
            ["loc", "scale"], ["action"], distribution_class=Normal, num_samples=3
        ),
        "several samples",
    ),
    "a new tensordict for the results": (
        lambda: TensorDictModule(network(), ["observation"], ["action"], inplace=False),
        "inplace",
    ),
    "a function": (lambda: lambda tensordict: tensordict, "no torch.nn.Module"),
}


@pytest.mark.parametrize(
    "name",
    cases(
        default=[
            "selected keys, which are a hook",
            "a forward that was replaced",
            "a generator that is an entry",
            "several samples",
            "a new tensordict for the results",
            "a function",
        ],
        also=WHOLE,
    ),
)
def test_what_does_more_is_called_as_it_is(name):
    make, why = WHOLE[name]
    policy = make()
    with set_exploration_type(RANDOM):
        assert take_apart(policy) is None
        assert any(why in part.why_not for part in parts_of(policy)), parts_of(policy)


def test_modes_of_the_caller_count():
    policy = discrete(Categorical)
    with set_exploration_type(RANDOM), set_skip_existing(True):
        assert take_apart(policy) is None
    with set_exploration_type(None):
        assert take_apart(policy) is None


def test_a_linear_layer_that_somebody_has_changed(monkeypatch):
    forward = nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda layer, values: 2 * forward(layer, values))
    policy = Actor(network(ACTIONS), in_keys=["observation"])
    with set_exploration_type(RANDOM), torch.no_grad():
        assert_same(take_apart(policy)(a_root()), policy(a_root()))


def test_new_weights_and_train_mode_count():
    policy = Actor(network(ACTIONS, nn.Dropout(0.5)), in_keys=["observation"])
    first = policy.module[0]

    def set_to_a_tensor():
        del first.weight
        first.weight = torch.ones(first.out_features, first.in_features)

    with set_exploration_type(RANDOM), torch.no_grad():
        direct = take_apart(policy)
        for change in (
            lambda: policy.eval(),
            lambda: first.weight.fill_(0.1),
            lambda: policy.train(),
            lambda: setattr(first, "weight", nn.Parameter(torch.rand_like(first.weight))),
            lambda: setattr(first, "bias", None),
            lambda: setattr(first, "bias", nn.Parameter(torch.rand(first.out_features))),
            lambda: (TensorDict.from_module(policy) * 0.5).to_module(policy),
            lambda: parametrize.register_parametrization(first, "weight", nn.Softplus()),
            lambda: parametrize.remove_parametrizations(first, "weight"),
            set_to_a_tensor,
        ):
            change()
            torch.manual_seed(0)
            expected = policy(a_root())
            torch.manual_seed(0)
            assert_same(direct(a_root()), expected)


@pytest.mark.parametrize(
    "make",
    cases(
        [lambda: continuous(TanhNormal), lambda: discrete(Categorical), lambda: discrete(OneHotCategorical)]
    ),
)
def test_gradients_flow(make):
    policy, root = make(), a_root()
    with set_exploration_type(RANDOM):
        direct = take_apart(policy)
        grads = []
        for call in (policy, direct):
            torch.manual_seed(0)
            out = call(root.clone())
            policy.zero_grad()
            score = out["action_log_prob"].sum()
            (score + out["action"].sum() if out["action"].requires_grad else score).backward()
            grads.append([p.grad.clone() for p in policy.parameters()])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def logits_actor():
    """Its logits are its observations."""
    module = TensorDictModule(nn.Identity(), ["observation"], ["logits"])
    draw = {"distribution_class": OneHotCategorical, "return_log_prob": True}
    return ProbabilisticActor(module, in_keys=["logits"], **draw)


@pytest.mark.parametrize(
    "dtype", cases(default=[torch.float32, torch.float64, torch.float16], also=[torch.bfloat16])
)
@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_logits_of_all_sizes_and_dtypes(dtype, scale):
    """Some are -inf: what is never chosen."""
    torch.manual_seed(scale)
    logits = (torch.randn(50, 5) * scale).to(dtype)
    logits[::7, 2] = -torch.inf
    root, drawn = TensorDict({"observation": logits}, [50]), []
    with set_exploration_type(RANDOM):
        for policy in (logits_actor(), take_apart(logits_actor())):
            torch.manual_seed(0)
            drawn.append((policy(root.clone()), torch.get_rng_state()))
    (expected, their_state), (ours, our_state) = drawn
    assert torch.equal(our_state, their_state)
    for key in ("action", "action_log_prob"):
        assert torch.equal(ours[key], expected[key]), key


@pytest.mark.parametrize("bad", cases([[torch.nan, 0.0], [torch.inf, 0.0], [-torch.inf, -torch.inf]]))
def test_logits_of_no_distribution_are_refused(bad):
    logits = torch.zeros(4, 2)
    logits[1] = torch.tensor(bad)
    refused = pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan`")
    with set_exploration_type(RANDOM), refused:
        take_apart(logits_actor())(TensorDict({"observation": logits}, [4]))


def test_a_failing_network_is_named():
    policy = TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"])
    with set_exploration_type(RANDOM), pytest.raises(RuntimeError, match="shapes") as raised:
        take_apart(policy)(a_root())
    assert "observation" in raised.value.__notes__[0]


def test_a_missing_entry_is_named():
    policy = TensorDictModule(nn.Linear(4, 2), ["velocity"], ["action"])
    with set_exploration_type(RANDOM), pytest.raises(KeyError, match="velocity"):
        take_apart(policy)(a_root())


def explained(collector, capsys):
    """The rows of the table of modules, and what is said of groups."""
    print(explain(collector))
    *rows, groups = [line for line in capsys.readouterr().out.splitlines()[1:] if line]
    return rows, groups


def test_explain_tells_how_the_policy_is_called(capsys):
    env = PoolEnv("CartPole-v1", 4)
    policy = categorical_actor(env)
    rows, groups = explained(PoolCollector(env, policy, frames_per_batch=FRAMES), capsys)
    assert [row.split() for row in rows] == [
        ["TensorDictModule", "tensors"],
        ["SafeProbabilisticModule", "tensors"],
    ]
    assert groups.endswith("all together")
    whole = TensorDictSequential(policy, TensorDictSequential(Counting()))
    whole.module[1].module[0].forward = lambda tensordict: tensordict
    collector = PoolCollector(env, whole, frames_per_batch=FRAMES, double_buffered="auto")
    rows, groups = explained(collector, capsys)
    assert rows[0].endswith("a tensordict  another one needs it")
    assert "forward or __call__ is overridden" in rows[2]
    assert groups.endswith("being measured")
    env.close()


def test_a_compiled_policy_is_compiled_once():
    """... for all batches, as one graph; without draws it is compared with what is not compiled."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    batches = []
    for options in ({}, {"compile_policy": {"backend": "eager", "fullgraph": True}}):
        env = PoolEnv("CartPole-v1", 4, seed=0)
        policy = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec_unbatched)
        with torch.no_grad():
            policy[0].module.weight.copy_(torch.arange(8.0).reshape(2, 4) - 3)
            policy[0].module.bias.zero_()
        collector = PoolCollector(env, policy, frames_per_batch=FRAMES, total_frames=3 * FRAMES, **options)
        batches.append([])
        graphs = []
        for batch in collector:
            batches[-1].append(batch)
            graphs.append(torch._dynamo.utils.counters["stats"].get("unique_graphs", 0))
        assert graphs == graphs[:1] * 3
    assert graphs[0] >= 1
    for one, other in zip(*batches, strict=True):
        assert_same(one, other)
