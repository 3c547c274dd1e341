"""Entries that no pool writes: kept and cleared as by TorchRL's own envs."""

import pytest
import torch
from small_envs import fall_right
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, is_tensor_collection, tensorclass
from tensordict.tensorclass import NonTensorStack
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import PoolCollector, PoolEnv

N = 3


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


@pytest.mark.parametrize("kind", ENTRIES)
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


@pytest.mark.parametrize("collector", [Collector, PoolCollector])
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
