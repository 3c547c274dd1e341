"""Functions that step fused envs and are compiled by torch: one graph, and the data of the eager calls."""

import pytest
import torch
from comparing import assert_td_equal
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch._dynamo.exc import Unsupported
from torch._dynamo.utils import counters
from torchrl.envs import (
    CatFrames,
    ClipTransform,
    Compose,
    DoubleToFloat,
    RewardSum,
    StepCounter,
    Transform,
    TransformedEnv,
    VecNorm,
    VecNormV2,
)

from torchrl_pool import PoolEnv, fuse

N = 3

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


class Mean(Transform):
    """Takes off the mean of all that it has seen: a reset of no env would change it."""

    def __init__(self):
        super().__init__(in_keys=["observation"], out_keys=["observation"])
        self.register_buffer("total", torch.zeros(4))
        self.count = torch.zeros(())

    def _call(self, next_tensordict):
        value = next_tensordict["observation"]
        self.total += value.sum(0)
        self.count += len(value)
        return next_tensordict.set("observation", value - self.total / self.count)

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)


class Resets(Transform):
    """Counts its resets in Python, or in tensors that take the place of others."""

    def __init__(self, what):
        super().__init__()
        self.what, self.number, self.tensor = what, 0, torch.zeros(())
        self.register_buffer("buffer", torch.zeros(()))

    def _reset(self, tensordict, tensordict_reset):
        setattr(self, self.what, getattr(self, self.what) + 1)
        return tensordict_reset


def v2(in_keys=("observation",), **options):
    return VecNormV2(list(in_keys), decay=0.99, eps=1e-2, reduce_batch_dims=True, **options)


def ppo(norm):
    return lambda: Compose(
        norm(), ClipTransform(["observation"], low=-10, high=10), RewardSum(), StepCounter(3), DoubleToFloat()
    )


PPO = {"VecNorm": ppo(lambda: VecNorm(["observation"], decay=0.99, eps=1e-2)), "VecNormV2": ppo(v2)}
TAILS = {
    "row by row": lambda: Compose(StepCounter(3), RewardSum(reward_spec=True)),
    "statistics": lambda: Compose(RewardSum(), StepCounter(3), Mean()),
    "behind statistics": lambda: Compose(v2(), StepCounter(3), Mean(), RewardSum()),
    "twice": lambda: Compose(v2(), StepCounter(3), v2()),
}


def make(transforms, task="CartPole-v1"):
    options = {"max_episode_steps": 4} if task == "CartPole-v1" else {}
    return fuse(TransformedEnv(PoolEnv(task, N, seed=0, num_threads=2, **options), transforms()))


def policy_of(env):
    torch.manual_seed(0)
    size, actions = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    network = torch.nn.Linear(size, actions)
    discrete = env.action_spec.dtype is torch.int64
    choose = (
        (lambda x: torch.nn.functional.one_hot(network(x.float()).argmax(-1), actions))
        if discrete
        else (lambda x: network(x.float()).clamp(-1, 1))  # compiled, a tanh may have another last digit
    )
    return TensorDictModule(choose, ["observation"], ["action"])


def statistics(env):
    return {key: value.clone() for key, value in env.transform.state_dict().items() if torch.is_tensor(value)}


def assert_same_rollouts(make_env, backend, steps=2, calls=4):
    """Batch after batch, through ends of episodes of some envs and of all, by one graph."""

    def rollout(env, policy, root):
        made = []
        for _ in range(steps):
            step, root = env.step_and_maybe_reset(policy(root))
            made.append(step)
        return torch.stack(made), root

    sides = []
    for call in (torch.compile(rollout, fullgraph=True, backend=backend), rollout):
        env = make_env()
        policy = policy_of(env)
        _, root = env.step_and_maybe_reset(policy(env.reset()))
        # Envs end their episodes at different times.
        root = env.reset(root.set("_reset", torch.tensor([[False], [False], [True]])))
        root = TensorDict({key: root[key] for key in sorted(root.keys())}, root.batch_size)
        sides.append((call, env, policy, root))
    ended = set()
    with torch.no_grad():
        for _ in range(calls):
            found = []
            for i, (call, env, policy, root) in enumerate(sides):
                data, root = call(env, policy, root)
                sides[i] = call, env, policy, root
                found.append((data, root, statistics(env)))
            (data, root, ours), (wanted, expected, theirs) = found
            assert_td_equal(data, wanted)
            assert_td_equal(root, expected)
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
            ended.update(data["next", "done"].sum(1).flatten().tolist())
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert {0, 1} <= ended
    # What calls without a compiler then find, of the envs that a mask leaves out, too.
    mask, after = torch.tensor([True, False, False]), []
    for _, env, policy, root in sides:
        root = env.reset(root.clone().set("_reset", mask[:, None]))
        after.append((root.clone(), env.step(policy(root).set("_step", mask)), TensorDict(statistics(env))))
    for ours, theirs in zip(*after, strict=True):
        assert_td_equal(ours, theirs)


@pytest.mark.parametrize("norm", PPO)
@pytest.mark.parametrize(
    ("task", "backend"),
    [(task, backend) for task in ("CartPole-v1", "HalfCheetah-v5") for backend in ("aot_eager", "inductor")],
)
def test_ppo_pipeline(norm, task, backend):
    assert_same_rollouts(lambda: make(PPO[norm], task), backend)


@pytest.mark.parametrize("norm", [VecNorm, v2])
def test_statistics_of_an_entry(norm):
    """Later calls for some envs look at the latest ones of the others."""
    chain = lambda: Compose(norm(in_keys=["observation"], out_keys=["normed"]), StepCounter(3))  # noqa: E731
    assert not make(chain).fusion().rest
    assert_same_rollouts(lambda: make(chain), "aot_eager")


@pytest.mark.parametrize(
    ("tail", "backend"), [("row by row", "inductor"), *((tail, "aot_eager") for tail in TAILS)]
)
def test_foreign_transforms(tail, backend):
    assert make(TAILS[tail]).fusion().rest
    assert_same_rollouts(lambda: make(TAILS[tail]), backend)


@pytest.mark.parametrize("chain", ["VecNorm", "VecNormV2", "row by row", "behind statistics"])
def test_resets_and_steps(chain):
    """One graph, where all transforms are native that of the first reset, too."""

    def calls(env, policy, mask):
        first = env.step(policy(env.reset()))
        root = first["next"].exclude("reward").set("_reset", mask[:, None])
        return first, env.step(policy(env.reset(root)))

    found = []
    for call in (torch.compile(calls, fullgraph=True, backend="aot_eager"), calls):
        env, made = make({**PPO, **TAILS}[chain]), []
        policy = policy_of(env)
        if chain in TAILS:
            env.reset()  # TorchRL's transforms look for their keys in the first one
        with torch.no_grad():
            for mask in ([True, False, True], [False] * N, [True] * N):
                made += [*call(env, policy, torch.tensor(mask)), TensorDict(statistics(env))]
        found.append(made)
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
    assert counters["stats"]["unique_graphs"] == 1


def test_transforms_that_are_changed():
    """They count from the next step on, as without a compiler; other entries are another graph."""

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(env, root):
        return env.step_and_maybe_reset(root)[0]["next"]

    env = make(lambda: Compose(RewardSum(), StepCounter(50)))
    root = env.rand_action(env.reset())
    assert not step(env, root.clone())["truncated"].any()
    env.transform[1].max_steps = 1
    assert step(env, root.clone())["truncated"].all()
    assert counters["stats"]["unique_graphs"] == 1
    env.append_transform(ClipTransform(["observation"], ["clipped"], low=-1e-3, high=1e-3))
    assert step(env, root.clone())["clipped"].abs().max() <= 1e-3


@pytest.mark.parametrize("what", ["number", "tensor", "buffer"])
def test_what_a_graph_cannot_take_back(what):
    env = make(lambda: Compose(StepCounter(), Resets(what)))
    root = env.rand_action(env.reset())

    def step(root):
        return env.step_and_maybe_reset(root)[0]

    with pytest.raises(Unsupported, match="a transform's reset assigns something"):
        torch.compile(step, fullgraph=True, backend="aot_eager")(root.clone())
    with pytest.raises(RuntimeError, match=f"attribute '{what}'"):
        torch.compile(step, backend="aot_eager")(root.clone())


def test_what_torch_cannot_trace():
    """TorchRL's CatFrames looks into its mask: an error in one graph, a break in others."""

    def chain():
        return Compose(Mean(), CatFrames(2, dim=-1, in_keys=["observation"]))

    def rollout(env, root, steps=5):
        made = []
        for _ in range(steps):
            step, root = env.step_and_maybe_reset(env.rand_action(root))
            made.append(step)
        return torch.stack(made)

    found = []
    for compiles in (True, False):
        env = make(chain)
        if compiles:
            env.compile(backend="aot_eager")
        torch.manual_seed(0)
        found.append((rollout(env, env.reset()), TensorDict(statistics(env))))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
    assert found[0][0]["next", "done"].any()
    torch._dynamo.reset()
    env = make(chain)
    root = env.reset()
    with pytest.raises(Unsupported, match="Data-dependent branching"):
        env.compile(fullgraph=True, backend="aot_eager").step_and_maybe_reset(env.rand_action(root))


@pytest.mark.parametrize("chain", ["VecNorm", "statistics"])
def test_compile_of_an_env(chain):
    found = []
    for compiles in (True, False):
        env = make({**PPO, **TAILS}[chain])
        if compiles:
            env.compile(fullgraph=True, backend="aot_eager")
        torch.manual_seed(0)
        data = env.rollout(7, break_when_any_done=False)
        found.append((data, TensorDict(statistics(env))))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
    assert not counters["graph_break"]


def test_compile_of_a_transformed_env():
    """TorchRL's own, whose graph breaks where it looks whether an episode has ended."""
    found = []
    for options in ({"compile": {"backend": "aot_eager"}}, {}):
        pool = PoolEnv("CartPole-v1", N, seed=0, num_threads=2, max_episode_steps=3)
        env = TransformedEnv(pool, Compose(v2(), StepCounter()), **options)
        torch.manual_seed(0)
        data = env.rollout(5, break_when_any_done=False)
        found.append((data, TensorDict(statistics(env))))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
    assert all(reason.startswith("Data-dependent branching") for reason in counters["graph_break"])


def test_seeds_and_masks_of_steps():
    """They break the graph, with a reason."""
    found = []

    def seeded(env):
        return env.reset(seed=3)

    def masked(env, root):
        return env.step(root.set("_step", torch.tensor([True, False, True])))

    for compiles in (torch.compile, lambda call, **_: call):
        env = make(PPO["VecNormV2"])
        torch.manual_seed(0)
        root = env.rand_action(compiles(seeded, backend="aot_eager")(env))
        found.append((root, compiles(masked, backend="aot_eager")(env, root.clone())))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match="a reset with seeds or options"):
        torch.compile(seeded, fullgraph=True, backend="aot_eager")(make(PPO["VecNormV2"]))
