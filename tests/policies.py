"""Policies of all kinds, and roots for them."""

import torch
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import nn
from torch.distributions import Categorical, Independent, Normal
from torchrl.data import Bounded, OneHot
from torchrl.data import Categorical as Numbers
from torchrl.modules import (
    MLP,
    Actor,
    ActorValueOperator,
    AdditiveGaussianModule,
    Delta,
    EGreedyModule,
    GRUModule,
    IndependentNormal,
    LSTMModule,
    MaskedCategorical,
    MaskedOneHotCategorical,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
    ValueOperator,
)

SIZE, ACTIONS = 5, 3


def network(size=ACTIONS, *layers):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(SIZE, 7), nn.Tanh(), nn.Linear(7, size), *layers)


def continuous(distribution, scored=True, **kwargs):
    net = network(2 * ACTIONS, NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=distribution,
        return_log_prob=scored,
        distribution_kwargs=kwargs,
    )


def discrete(distribution, name="logits", scored=True, in_keys=None):
    layers = [nn.Softmax(-1)] if name == "probs" else []
    return ProbabilisticActor(
        TensorDictModule(network(ACTIONS, *layers), ["observation"], [name]),
        in_keys=in_keys or [name],
        distribution_class=distribution,
        return_log_prob=scored,
    )


def of_tensordict():
    """As policies are built of tensordict's classes alone."""
    return ProbabilisticTensorDictSequential(
        TensorDictModule(network(2 * ACTIONS, NormalParamExtractor()), ["observation"], ["loc", "scale"]),
        ProbabilisticTensorDictModule(
            ["loc", "scale"], ["action"], distribution_class=TanhNormal, return_log_prob=True
        ),
    )


def q_values(spec):
    return QValueActor(network(), in_keys=["observation"], spec=spec)


def recurrent(make, states, **options):
    memory = make(
        input_size=SIZE,
        hidden_size=4,
        in_keys=["observation", *states],
        out_keys=["features", *(("next", state) for state in states)],
        **options,
    )
    head = TensorDictModule(nn.Linear(4, ACTIONS), ["features"], ["logits"])
    return TensorDictSequential(
        memory,
        ProbabilisticActor(
            head, in_keys=["logits"], distribution_class=OneHotCategorical, return_log_prob=True
        ),
    )


def with_value():
    body = TensorDictModule(nn.Linear(SIZE, SIZE), ["observation"], ["hidden"])
    actor = continuous(TanhNormal)
    actor[0].in_keys = ["hidden"]
    return ActorValueOperator(body, actor, ValueOperator(nn.Linear(SIZE, 1), in_keys=["hidden"]))


POLICIES = {
    "TanhNormal": lambda: continuous(TanhNormal),
    "TanhNormal, not scored": lambda: continuous(TanhNormal, scored=False),
    "TanhNormal with limits": lambda: continuous(
        TanhNormal, low=-torch.ones(ACTIONS), high=2.0 * torch.ones(ACTIONS)
    ),
    "TanhNormal with numbers as limits": lambda: continuous(TanhNormal, low=-2.0, high=2.0),
    "TanhNormal, each element scored": lambda: continuous(TanhNormal, event_dims=0),
    "TanhNormal, location bounded": lambda: continuous(TanhNormal, tanh_loc=True, upscale=2.0),
    "TanhNormal, tanh as it is": lambda: continuous(TanhNormal, safe_tanh=False),
    "IndependentNormal": lambda: continuous(IndependentNormal),
    "IndependentNormal, each element scored": lambda: continuous(IndependentNormal, event_dim=0),
    "Normal": lambda: continuous(Normal),
    "a function that makes a Normal": lambda: continuous(
        lambda loc, scale: Independent(Normal(loc, scale), 1)
    ),
    "TruncatedNormal": lambda: continuous(TruncatedNormal),
    "a Normal of tensordict's classes": of_tensordict,
    "OneHotCategorical": lambda: discrete(OneHotCategorical),
    "OneHotCategorical of probabilities": lambda: discrete(OneHotCategorical, "probs"),
    "Categorical": lambda: discrete(Categorical),
    "Categorical, not scored": lambda: discrete(Categorical, scored=False),
    "Categorical of probabilities": lambda: discrete(Categorical, "probs"),
    "MaskedCategorical": lambda: discrete(MaskedCategorical, in_keys=["logits", "mask"]),
    "MaskedOneHotCategorical": lambda: discrete(MaskedOneHotCategorical, in_keys=["logits", "mask"]),
    "Delta": lambda: ProbabilisticActor(
        TensorDictModule(network(), ["observation"], ["param"]), in_keys=["param"], distribution_class=Delta
    ),
    "TanhDelta": lambda: ProbabilisticActor(
        TensorDictModule(network(), ["observation"], ["param"]),
        in_keys=["param"],
        distribution_class=TanhDelta,
    ),
    "a deterministic actor": lambda: Actor(network(ACTIONS, nn.Tanh()), in_keys=["observation"]),
    "values of one-hot actions": lambda: q_values(OneHot(ACTIONS)),
    "values of numbers": lambda: q_values(Numbers(ACTIONS)),
    "values with a mask": lambda: TensorDictSequential(
        TensorDictModule(network(), ["observation"], ["action_value"]),
        QValueModule(spec=OneHot(ACTIONS), action_mask_key="mask"),
    ),
    "epsilon-greedy, one-hot": lambda: TensorDictSequential(
        q_values(OneHot(ACTIONS)), EGreedyModule(OneHot(ACTIONS), eps_init=0.5)
    ),
    "epsilon-greedy, numbers": lambda: TensorDictSequential(
        q_values(Numbers(ACTIONS)), EGreedyModule(Numbers(ACTIONS), eps_init=0.5)
    ),
    "Gaussian noise": lambda: TensorDictSequential(
        Actor(network(ACTIONS, nn.Tanh()), in_keys=["observation"]),
        AdditiveGaussianModule(Bounded(-1, 1, ACTIONS), sigma_init=0.5),
    ),
    "LSTM": lambda: recurrent(LSTMModule, ["hidden", "cell"]),
    "LSTM of two layers": lambda: recurrent(LSTMModule, ["hidden", "cell"], num_layers=2),
    "LSTM in Python": lambda: recurrent(LSTMModule, ["hidden", "cell"], python_based=True),
    "GRU": lambda: recurrent(GRUModule, ["hidden"]),
    "GRU that nobody has primed": lambda: recurrent(GRUModule, ["not there"]),
    "actor and value": with_value,
    "arguments by name": lambda: TensorDictModule(
        lambda x, factor=1.0: x[..., :ACTIONS] * factor, {"x": "observation"}, ["action"]
    ),
    "a method": lambda: TensorDictModule(
        network(), ["observation"], ["action"], method="forward", method_kwargs={}
    ),
    "a dictionary of results": lambda: TensorDictModule(
        lambda x: {"action": x[..., :ACTIONS], "more": x}, ["observation"], ["action"]
    ),
    "a result that is dropped": lambda: TensorDictModule(
        lambda x: (x[..., :ACTIONS], x), ["observation"], ["action", "_"]
    ),
    "nested entries": lambda: TensorDictModule(
        lambda x: (x[..., :ACTIONS], x), [("agents", "observation")], [("agents", "action"), ("a", "b", "c")]
    ),
    "a result that is no tensor": lambda: TensorDictModule(
        lambda x: (x[..., :ACTIONS], {"one": x, "two": x}), ["observation"], ["action", "features"]
    ),
    "a parameter among the results": lambda: ParameterPolicy(),
    "networks in networks": lambda: TensorDictModule(
        nn.Sequential(nn.Sequential(), network(), nn.Sequential(nn.Sequential(nn.Tanh()))),
        ["observation"],
        ["action"],
    ),
    "an MLP": lambda: TensorDictModule(MLP(SIZE, ACTIONS, num_cells=[4]), ["observation"], ["action"]),
    "an MLP of several entries": lambda: TensorDictModule(
        MLP(2 * SIZE, ACTIONS, num_cells=[4]), ["observation", ("agents", "observation")], ["action"]
    ),
    "an MLP that shapes its results": lambda: TensorDictModule(
        MLP(SIZE, (ACTIONS, 2), num_cells=[4]), ["observation"], ["action"]
    ),
    "layers that come twice": lambda: TensorDictModule(repeating(), ["observation"], ["action"]),
    "an MLP whose activation is one object": lambda: TensorDictModule(
        MLP(SIZE, ACTIONS, num_cells=[4, 4], activation_class=lambda: TANH), ["observation"], ["action"]
    ),
    "a network with a hook inside": lambda: TensorDictModule(louder(), ["observation"], ["action"]),
}


class ParameterPolicy(TensorDictModule):
    def __init__(self):
        weights = nn.Parameter(torch.zeros(6, ACTIONS))
        super().__init__(lambda x: (weights, x), ["observation"], ["action", "seen"])


TANH = nn.Tanh()


def repeating():
    square = nn.Linear(SIZE, SIZE)
    return nn.Sequential(square, TANH, square, TANH, nn.Linear(SIZE, ACTIONS))


def louder():
    net = network()
    net[0].register_forward_hook(lambda module, args, result: 2 * result)
    return net


def a_root(num_envs=6, device=None):
    torch.manual_seed(0)
    root = TensorDict(
        {
            "observation": torch.randn(num_envs, SIZE),
            "mask": torch.rand(num_envs, ACTIONS) < 0.7,
            "is_init": torch.rand(num_envs, 1) < 0.4,
            "agents": {"observation": torch.randn(num_envs, SIZE)},
            "done": torch.zeros(num_envs, 1, dtype=torch.bool),
        },
        batch_size=[num_envs],
        device=device,
    )
    root["mask"][:, 0] = True
    for state in ("hidden", "cell"):
        root[state] = torch.randn(num_envs, 2 if device else 1, 4)
    return root


def assert_same(one, other):
    assert one.batch_size == other.batch_size
    assert list(one.keys(True, True)) == list(other.keys(True, True))
    for key, value in other.items(True, True):
        assert one[key].dtype is value.dtype, key
        assert one[key].device == value.device, key
        assert torch.equal(one[key], value), key
