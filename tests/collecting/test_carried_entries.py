"""Entries that no pool writes, in roots and under "next": kept and cleared as by TorchRL's own envs."""

import pytest
import torch
from cases import cases
from small_envs import fall_right
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, is_tensor_collection, tensorclass
from tensordict.tensorclass import NonTensorStack
from torchrl._utils import seed_generator
from torchrl.collectors import Collector
from torchrl.envs import (
    AsyncEnvPool,
    Compose,
    GymEnv,
    InitTracker,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)

from torchrl_pool import PoolCollector, PoolEnv, SingleEnv, fuse

N = 3
CALLS = ("step", "step_and_maybe_reset", "reset")


def pool_env():
    return PoolEnv("CartPole-v1", N)


def serial_env():
    return SerialEnv(N, lambda: GymEnv("CartPole-v1"))


@tensorclass
class State:
    hidden: torch.Tensor
    name: str = "recurrent"


@tensorclass
class Nested:
    state: State
    count: TensorDict


def lazy_stack(*rows, dim=0):
    return LazyStackedTensorDict(*rows, stack_dim=dim)


def ones(*shape, dtype=torch.float32):
    return torch.ones(N, *shape, dtype=dtype)


ENTRIES = {
    **{
        str(dtype).removeprefix("torch."): lambda dtype=dtype: ones(2, dtype=dtype)
        for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.complex64)
    },
    "bool without dimensions": lambda: ones(dtype=torch.bool),
    "picture": lambda: ones(4, 5, 3, dtype=torch.uint8),
    "expanded": lambda: torch.ones(1, 2).expand(N, 2),
    "with a gradient": lambda: ones(2).requires_grad_(),
    "tensordict": lambda: TensorDict({"flag": ones(dtype=torch.bool), "deep": {"x": ones(2)}}, [N]),
    "tensordict of more dimensions": lambda: TensorDict({"x": ones(2, 3)}, [N, 2]),
    "locked tensordict": lambda: TensorDict({"x": ones(2)}, [N]).lock_(),
    "tensordict with names": lambda: TensorDict({"x": ones(2)}, [N], names=["envs"]),
    "tensordict with text": lambda: TensorDict({"x": ones(2)}, [N]).set_non_tensor("text", "hello"),
    "empty tensordict": lambda: TensorDict({}, [N]),
    "lazy stack of scalars": lambda: lazy_stack(
        *[TensorDict({"x": torch.tensor(i + 1.0)}) for i in range(N)]
    ),
    "lazy stack of N": lambda: lazy_stack(*[TensorDict({"x": torch.full((N,), i + 1.0)}) for i in range(N)]),
    "lazy stack of others": lambda: lazy_stack(*[TensorDict({"x": torch.ones(5)}) for _ in range(N)]),
    "lazy stack of shapes": lambda: lazy_stack(*[TensorDict({"x": torch.ones(i + 1)}) for i in range(N)]),
    "lazy stack of keys": lambda: lazy_stack(*[TensorDict({f"x{i}": torch.ones(2)}) for i in range(N)]),
    "lazy stack along the second": lambda: lazy_stack(
        *[TensorDict({"x": ones(2)}, [N]) for _ in range(2)], dim=1
    ),
    "lazy stack in a tensordict": lambda: TensorDict(
        {"lazy": lazy_stack(*[TensorDict({"x": torch.ones(2)}) for _ in range(N)])}, [N]
    ),
    "tensorclass": lambda: State(hidden=ones(2), batch_size=[N]),
    "nested tensorclass": lambda: Nested(
        state=State(hidden=ones(2), batch_size=[N]), count=TensorDict({"x": ones()}, [N]), batch_size=[N]
    ),
    "lazy stack of tensorclasses": lambda: LazyStackedTensorDict.lazy_stack(
        [State(hidden=torch.ones(2), batch_size=[]) for _ in range(N)]
    ),
    "text": lambda: NonTensorData("hello", batch_size=[N]),
    "a text each": lambda: NonTensorStack("a", "b", "c"),
}


def described(value):
    """All that can be seen of an entry, in a form that compares."""
    if isinstance(value, NonTensorStack | NonTensorData):
        return value.batch_size, value.tolist()
    if isinstance(value, torch.Tensor):
        return type(value), value.dtype, value.shape, value.requires_grad, value.tolist()
    if isinstance(value, LazyStackedTensorDict):
        return type(value), value.stack_dim, [described(row) for row in value.tensordicts]
    if isinstance(value, TensorDict):
        entries = {key: described(value.get(key)) for key in value.keys()}  # noqa: SIM118
        return type(value), value.batch_size, value.names, value.is_locked, entries
    if is_tensor_collection(value):
        return type(value), described(value._tensordict)
    return value


def all_described(tensordict, *without):
    return {key: described(tensordict.get(key)) for key in tensordict.keys() if key not in without}  # noqa: SIM118


# ---- in the root


@pytest.mark.parametrize("kind", cases(default=["bool", "with a gradient"], also=ENTRIES))
def test_entries_of_the_root_become_what_serial_env_makes_of_them(kind):
    """Where some rows begin an episode, their entries are cleared; all keep their types."""

    def run(env):
        env.set_seed(3)
        root, seen, partial = env.reset(), [], 0
        root["entry"] = ENTRIES[kind]()
        for _ in range(40):
            data, root = env.step_and_maybe_reset(fall_right(root))
            seen += [described(data.get("entry")), described(root.get("entry"))]
            partial += 0 < data["next", "done"].sum() < N
        assert partial > 2
        return seen

    assert run(pool_env()) == run(serial_env())


def fused_env():
    return fuse(counting_env(pool_env()))


def counting_env(env):
    return TransformedEnv(env, Compose(InitTracker(), StepCounter(5), RewardSum()))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(pool_env, serial_env), (fused_env, lambda: counting_env(serial_env()))],
    ids=["bare", "fused"],
)
@pytest.mark.parametrize("whole", cases([True, False]), ids=["whole roots", "roots of actions"])
def test_keys_of_the_next_root_are_in_torchrls_order(ours, theirs, whole):
    def run(env):
        env.set_seed(3)
        root, orders = env.reset(), []
        root["entry"] = ones(2)
        for _ in range(12):
            root = fall_right(root)
            if not whole:
                root = root.select("action", "step_count", "episode_reward", strict=False)
            _, root = env.step_and_maybe_reset(root)
            orders.append(list(root.keys()))
        return orders

    assert run(ours()) == run(theirs())


@pytest.mark.parametrize("collector", cases([Collector, PoolCollector]))
def test_collectors_take_entries_that_a_policy_carries(collector):
    def collected(collector, env):
        def policy(td):
            greedy = td.get("greedy", torch.zeros(N, dtype=torch.bool))
            state = td.get("state", TensorDict({"on": torch.zeros(N, 2, dtype=torch.bool)}, [N]))
            td["greedy"], td["state"] = ~greedy, ~state
            return fall_right(td)

        env.set_seed(3)
        (batch,) = collector(env, policy, frames_per_batch=40 * N, total_frames=40 * N)
        return batch

    ours, theirs = collected(collector, pool_env()), collected(Collector, serial_env())
    assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
    for key, value in theirs.items(True, True):
        assert ours[key].dtype is value.dtype, key
        assert torch.equal(ours[key], value), key


# ---- under "next"


def add_entries(root, t):
    """What a recurrent policy might leave, at its step t: in the root and under "next"."""
    shape = root.batch_size
    fall_right(root)
    root["hidden"] = torch.full((*shape, 2), t + 1.0)
    root["flag"] = torch.ones(shape, dtype=torch.bool)
    root["next", "hidden"] = torch.full((*shape, 2), t + 2.0)
    root["next", "net"] = TensorDict({"a": torch.full((*shape, 1), t)}, shape)
    root["next", "state"] = State(hidden=torch.full((*shape, 2), t), batch_size=shape)
    root["next", "reward"] = torch.full((*shape, 1), 7.0)  # a step writes these itself
    root["next", "observation"] = torch.zeros(*shape, 4)
    return root


def assert_calls_alike(ours, theirs, call, *without):
    """Calls both many times; ``call(env, root)`` gives what it returned and the root that follows."""
    roots = [env.reset() for env in (ours, theirs)]
    episodes = 0
    for t in range(40):
        results = [call(env, add_entries(root, t)) for env, root in zip((ours, theirs), roots, strict=True)]
        (got, our_root), (expected, their_root) = results
        assert all_described(got, *without) == all_described(expected, *without)
        assert all_described(our_root, *without) == all_described(their_root, *without)
        roots = [our_root, their_root]
        if ("next", "done") in got.keys(True):
            episodes += int(got["next", "done"].sum())
    return episodes


def synchronous(kind):
    def call(env, root):
        if kind == "step_and_maybe_reset":
            return env.step_and_maybe_reset(root)
        data = getattr(env, kind)(root)
        return data, env.reset()

    return call


def asynchronous(kind, groups):
    def call(env, root):
        for rows in groups:
            getattr(env, f"async_{kind}_send")(root[rows].clone(), env_index=rows)
        received = getattr(env, f"async_{kind}_recv")(N)
        if kind == "step_and_maybe_reset":
            return received
        return received, env.reset()

    return call


def seeded_gym_envs(seed):
    """The envs of a pool after ``set_seed(seed)``."""
    envs = []
    for _ in range(N):
        envs.append(GymEnv("CartPole-v1"))
        envs[-1].set_seed(seed)
        seed = seed_generator(seed)
    return envs


@pytest.mark.parametrize("kind", cases(default=["step", "step_and_maybe_reset"], also=CALLS))
def test_a_pool_treats_presets_as_serial_env_does(kind):
    ours, theirs = pool_env(), serial_env()
    for env in (ours, theirs):
        env.set_seed(3)
    episodes = assert_calls_alike(ours, theirs, synchronous(kind))
    assert episodes > 3 or kind != "step_and_maybe_reset"


@pytest.mark.parametrize("kind", cases(default=["step", "step_and_maybe_reset"], also=CALLS))
def test_a_fused_env_treats_all_entries_of_a_root_as_transformed_env_does(kind):
    """Where an episode begins, those that no reset writes are zero: the action, too."""
    ours, theirs = fused_env(), counting_env(serial_env())
    for env in (ours, theirs):
        env.set_seed(3)
    episodes = assert_calls_alike(ours, theirs, synchronous(kind))
    assert episodes > 3 or kind != "step_and_maybe_reset"


@pytest.mark.parametrize(
    "groups", cases(default=[[[0, 1, 2]], [[2], [0, 1]]], also=[[[1], [0], [2]]]), ids=str
)
@pytest.mark.parametrize("kind", cases(default=["step_and_maybe_reset"], also=CALLS))
def test_async_calls_treat_entries_as_async_env_pool_does(kind, groups):
    """However they are sent: in the root, where an episode ends too, and under "next"."""
    ours, theirs = pool_env(), AsyncEnvPool(seeded_gym_envs(3), backend="threading", stack="dense")
    ours.set_seed(3)
    try:
        episodes = assert_calls_alike(ours, theirs, asynchronous(kind, groups), "env_index")
    finally:
        theirs.close()
    assert episodes > 3 or kind != "step_and_maybe_reset"


@pytest.mark.parametrize("kind", cases(default=["step_and_maybe_reset", "reset"], also=[*CALLS, "rand_step"]))
def test_a_single_env_treats_entries_as_gym_env_does(kind):
    pool = pool_env()
    ours, theirs = SingleEnv(pool, 1), seeded_gym_envs(3)[1]
    pool.set_seed(3)

    def call(env, root):
        torch.manual_seed(int(root["hidden"][0]))  # of a random action
        return synchronous(kind)(env, root)

    episodes = assert_calls_alike(ours, theirs, call)
    assert episodes > 1 or kind != "step_and_maybe_reset"


def test_of_several_sends_entries_that_all_have_are_received():
    pool = pool_env()
    root = fall_right(pool.reset())
    root["next", "a"] = root["net", "a"] = torch.arange(N)
    pool.async_step_send(root[[1]], env_index=[1])
    root["next", "b"] = root["net", "b"] = torch.arange(N)
    pool.async_step_send(root[[2]], env_index=[2])
    pool.async_step_send(root[[0]].exclude("next"), env_index=[0])
    two = pool.async_step_recv(3)
    assert "a" not in two["next"].keys()  # noqa: SIM118
    assert two["net"].keys() == {"a"}
    pool.reset()
    pool.async_step_send(root[[1]].exclude(("next", "b")), env_index=[1])
    pool.async_step_send(root[[2]], env_index=[2])
    two = pool.async_step_recv(2)
    assert two["next", "a"].tolist() == [1, 2]
    assert "b" not in two["next"].keys()  # noqa: SIM118
