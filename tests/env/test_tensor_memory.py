"""The memory that a pool's tensors are made of."""

import gc
import json
import pickle
import resource
import weakref
from pathlib import Path

import pytest
import torch
from cases import cases
from dtypes import DTYPES
from processes import printed
from tensordict import TensorDict
from torchrl.envs import RewardSum, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv, _core, fuse
from torchrl_pool._env.buffers import tensor_memory
from torchrl_pool._env.tensors import unsafe_tensordict


def memory_of(prototypes, tensor_type):
    """As ``tensor_memory``; of a type without an exchange in C, as older versions of torch have it."""
    return _core.TensorMemory(
        tensor_type=tensor_type,
        from_dlpack=torch._C._from_dlpack,
        keys=list(prototypes),
        tensors=[(list(one.shape), str(one.dtype).removeprefix("torch.")) for one in prototypes.values()],
        positions=list(range(len(prototypes))),
        fixed=[(0, 0)] * len(prototypes),
    )


@pytest.mark.parametrize("tensor_type", [torch.Tensor, object])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (5, 1), (7, 4, 84, 84)])
def test_tensors_are_as_their_templates(dtype, shape, tensor_type):
    prototypes = {"a": torch.empty(shape, dtype=dtype), "b": torch.empty(2)}
    made, addresses = memory_of(prototypes, tensor_type).make()
    assert list(made) == ["a", "b"]
    tensors = list(made.values())
    for tensor, template, address in zip(tensors, prototypes.values(), addresses, strict=True):
        assert (tensor.shape, tensor.dtype, tensor.stride()) == (
            template.shape,
            dtype if template is prototypes["a"] else torch.float32,
            template.stride(),
        )
        assert address % 64 == 0
        assert tensor.numel() == 0 or tensor.data_ptr() == address
        assert tensor._version == 0
        tensor.fill_(1)
    assert (tensors[0] == 1).all()
    assert (tensors[1] == 1).all()


def test_addresses_are_where_the_executor_looks_for_them():
    like = {"a": torch.empty(2), ("b", "c"): torch.empty(3)}
    memory = tensor_memory(like, [3, 1], [(7, 1), (0, 0), (8, 1), (0, 0)])
    made, addresses = memory.make()
    assert list(made) == ["a", ("b", "c")]
    assert addresses == [7, made["b", "c"].data_ptr(), 8, made["a"].data_ptr()]
    assert {key: tuple(one.shape) for key, one in memory.make(1)[0].items()} == {"a": (1,), ("b", "c"): (1,)}


def test_memory_is_used_again_once_nobody_holds_it():
    memory = tensor_memory({"a": torch.empty(1 << 20), "b": torch.empty(1 << 20)})
    first, addresses = memory.make()
    second, others = memory.make()
    assert not {*addresses} & {*others}
    view = second["b"][5:]
    second.clear()
    third, again = memory.make()
    assert again[0] == others[0]  # of the same column
    assert again[1] not in (addresses[1], others[1])  # a view still holds it
    del view, third
    memory.make()
    assert first["a"].data_ptr() == addresses[0]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells what is resident")
def test_memory_of_a_closed_pool_is_freed_while_a_tensor_of_it_is_held():
    """One row of the last root, say, which is a user's for ever."""
    before, after = json.loads(printed(HOLDS_ONE_ROW))  # alone: a heap of many tests has holes to keep
    assert before - after > 1.5 * 48


HOLDS_ONE_ROW = """
import json, resource
import torch
from torchrl_pool._env.buffers import tensor_memory

def resident_megabytes():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize() / 2**20

memory = tensor_memory({"a": torch.empty(48 << 18)})  # which the C library gives back at once
batches = [memory.make()[0] for _ in range(3)]
for batch in batches:
    batch["a"].fill_(1)
held = batches.pop()["a"][:1]
del batch
batches.clear()
before = resident_megabytes()
memory.let_go()
assert held.item() == 1
print(json.dumps([before, resident_megabytes()]))
"""


@pytest.mark.parametrize("use", cases(default=["append_transform", "_reset"], also=["_step"]))
def test_a_closed_fused_env_keeps_no_tensors(use):
    env = fuse(TransformedEnv(PoolEnv("CartPole-v1", 3, seed=0), StepCounter()))
    root = env.rand_action(env.rollout(2, break_when_any_done=False)[:, -1].exclude("next"))
    some = torch.tensor([True, False, True])
    if use == "_step":
        root = env.step(root.set("_step", some))["next"]
    elif use == "_reset":
        root = env.reset(root.set("_reset", some[:, None]))
    else:
        env.append_transform(RewardSum())
        root = env.rollout(2)
    tensors = [weakref.ref(value) for value in (*env.base_env._stepper.latest.values(), *root.values())]
    env.base_env.close()
    del root
    gc.collect()
    assert not [ref for ref in tensors if ref() is not None]
    assert env.rollout(2)["next", "step_count"][0].flatten().tolist() == [1, 2]


def test_what_no_tensor_comes_of():
    def refuse(capsule):
        raise ArithmeticError("no")

    tensors = [((2,), "float32")]
    arguments = {"keys": ["a"], "tensors": tensors, "positions": [0], "fixed": [(0, 0)]}
    arguments["tensor_type"] = object
    with pytest.raises(ArithmeticError, match="no"):
        _core.TensorMemory(from_dlpack=refuse, **arguments).make()
    with pytest.raises(ValueError, match="as many keys"):
        _core.TensorMemory(from_dlpack=refuse, **arguments | {"keys": []})
    with pytest.raises(IndexError):
        _core.TensorMemory(from_dlpack=refuse, **arguments | {"positions": [1]})


def test_tensordicts_of_a_pool_have_all_that_others_have():
    values, size = {"a": torch.ones(3)}, torch.Size([3])
    own = unsafe_tensordict(values, size, None, nested=False)
    given = TensorDict._new_unsafe(values, size)
    assert {k: type(v) for k, v in vars(own).items()} == {k: type(v) for k, v in vars(given).items()}
    assert own.batch_size == given.batch_size
    assert own._tensordict is not values


def used_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize(
    ("tensor_type", "is_taken"), cases(default=[(object, True), (object, False)], also=[(torch.Tensor, True)])
)
def test_memory_is_freed_with_what_holds_it(tensor_type, is_taken):
    memory = _core.TensorMemory(
        tensor_type=tensor_type,
        from_dlpack=torch.utils.dlpack.from_dlpack if is_taken else lambda capsule: capsule,
        keys=["a"],
        tensors=[((1 << 20,), "float32")],
        positions=[0],
        fixed=[(0, 0)],
    )

    def make():
        made, _ = memory.make()
        if is_taken:
            made["a"].fill_(1)

    make()
    before = used_kib()
    for _ in range(500):  # 2 GB
        make()
    assert used_kib() - before < 50_000


def test_what_users_do_with_tensors():
    root = PoolEnv("CartPole-v1", 3, seed=0).reset()
    observation = root["observation"]
    view, array = observation[1:], observation.numpy()
    expected = observation.clone()
    del root, observation
    assert torch.equal(view, expected[1:])
    assert (array == expected.numpy()).all()
    shared = PoolEnv("CartPole-v1", 3, seed=0).reset().share_memory_()
    assert shared["observation"].is_shared()
    assert torch.equal(pickle.loads(pickle.dumps(shared["observation"])), expected)
    with torch.inference_mode():
        assert PoolEnv("CartPole-v1", 3).reset()["observation"].is_inference()
