"""The quick look at the entries that a step reads: what it takes as it is, what it leaves to a closer one."""

import pytest
import torch
from dtypes import DTYPES
from tensordict import NonTensorData, TensorDict
from torch import nn
from torch.overrides import TorchFunctionMode
from torchrl.envs import RewardSum, TransformedEnv

from torchrl_pool import PoolEnv, _core, fuse
from torchrl_pool._env.tensors import PlainEntries

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="torch has no functions for DLPack in C: all is looked at closely",
)


def entries(dtype=torch.float32, shape=(4, 3), required=(True,)):
    return PlainEntries([("a", dtype, torch.Size(shape))], required)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 0), (4, 3, 2)])
def test_plain_tensors_are_found(dtype, shape):
    value = torch.ones(shape, dtype=dtype)
    found = entries(dtype, shape).find(TensorDict({"a": value, "b": torch.ones(4)}, [4]))
    assert found is not None
    assert found[0][0] is value
    assert found[1] == [value.data_ptr()]


def test_views_that_lie_as_they_show_are_found():
    whole = torch.arange(60.0).reshape(5, 4, 3)
    values, addresses = entries().find(TensorDict({"a": whole[2]}, [4]))
    assert addresses == [whole.data_ptr() + 2 * 12 * 4]
    assert values[0].data_ptr() == addresses[0]
    one = torch.arange(8.0).reshape(4, 2)[:1, :1]  # whatever the strides of a single number are
    assert entries(shape=(1, 1)).find(TensorDict({"a": one}, [1])) is not None


class Subclass(torch.Tensor):
    pass


OTHERS = {
    "dtype": torch.ones(4, 3, dtype=torch.float64),
    "bfloat16": torch.ones(4, 3, dtype=torch.bfloat16),
    "complex": torch.ones(4, 3, dtype=torch.complex64),
    "shape": torch.ones(4, 2),
    "dimensions": torch.ones(4, 3, 1),
    "transposed": torch.ones(3, 4).T,
    "expanded": torch.ones(1, 3).expand(4, 3),
    "strided": torch.ones(4, 6)[:, ::2],
    "negated": torch._neg_view(torch.ones(4, 3)),
    "imaginary": torch.ones(4, 3, dtype=torch.complex64).conj().imag,
    "gradient": torch.ones(4, 3, requires_grad=True),
    "parameter": nn.Parameter(torch.ones(4, 3), requires_grad=False),
    "subclass": torch.ones(4, 3).as_subclass(Subclass),
    "meta": torch.ones(4, 3, device="meta"),
    "freed": torch.ones(4, 3),
    "sparse": torch.ones(4, 3).to_sparse(),
}


OTHERS["freed"].untyped_storage().resize_(0)


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
def test_others_are_left_to_a_closer_look(value):
    tensordict = TensorDict._new_unsafe({"a": value}, torch.Size([4]))
    assert entries().find(tensordict) is None


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_whole_numbers_that_show_the_opposite_are_left(dtype):
    value = torch._neg_view(torch.ones(4, 3, dtype=dtype))
    assert entries(dtype).find(TensorDict({"a": value}, [4])) is None


def test_an_entry_that_is_taken_out_meanwhile_is_held():
    tensordict = TensorDict({"a": torch.ones(4, 3)}, [4])

    class TakesItOut(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            del args
            tensordict._tensordict.pop("a", None)
            return result

    with TakesItOut():
        values, addresses = entries().find(tensordict)
    assert values[0].data_ptr() == addresses[0]
    assert (values[0] == 1).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.quint8])
def test_dtypes_that_the_executor_does_not_know_are_left(dtype):
    value = torch.empty(4, 3, dtype=dtype) if dtype is not torch.quint8 else torch.ones(4, 3)
    assert entries(dtype).find(TensorDict({"a": value}, [4])) is None


def test_tensors_of_a_transformed_function_are_left():
    seen = []

    def look(value):
        seen.append(entries(shape=(3,)).find(TensorDict._new_unsafe({"a": value}, torch.Size([3]))))
        return value

    torch.vmap(look)(torch.ones(4, 3))
    assert seen == [None]


def test_what_may_be_missing():
    assert entries().find(TensorDict({}, [4])) is None
    assert entries(required=(False,)).find(TensorDict({}, [4])) == ([None], [0])


def test_another_number_of_rows():
    tensordict = TensorDict({"a": torch.ones(2, 3)}, [2])
    assert entries().find(tensordict) is None
    assert entries().find(tensordict, 2) is not None
    assert entries().find(tensordict, 4) is None


def nested(required=True):
    return PlainEntries([(("a", "b", "c"), torch.float32, torch.Size([4]))], [required])


def test_nested_keys():
    tensordict = TensorDict({"a": {"b": {"c": torch.ones(4)}}}, [4])
    assert nested().find(tensordict) == ([tensordict["a", "b", "c"]], [tensordict["a", "b", "c"].data_ptr()])
    for missing in ({}, {"a": {}}, {"a": {"b": {}}}):
        assert nested().find(TensorDict(missing, [4])) is None
        assert nested(required=False).find(TensorDict(missing, [4])) == ([None], [0])
    assert nested().find(TensorDict({"a": torch.ones(4)}, [4])) is None


def test_other_tensordicts_are_left():
    assert entries().find({"a": torch.ones(4, 3)}) is None
    assert nested().find(TensorDict({"a": {"b": NonTensorData("c")}}, [4])) is None
    lazy = TensorDict.lazy_stack([TensorDict({"a": torch.ones(3)}) for _ in range(4)])
    assert entries().find(lazy) is None


def test_versions_of_torch_without_an_exchange_in_c():
    old = _core.PlainTensors(
        tensor_type=object,
        tensordict_type=TensorDict,
        keys=[["a"]],
        tensors=[((4,), "float32")],
        required=[True],
    )
    assert old.find(TensorDict({"a": torch.ones(4)}, [4])) is None


@pytest.mark.parametrize("key", ["action", "episode_reward"])
def test_tensors_without_memory_are_refused(key):
    env = fuse(TransformedEnv(PoolEnv("Pendulum-v1", 3), RewardSum()))
    root = env.rand_action(env.reset())
    root[key] = root[key] * 1
    root[key].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=f"'{key}': expected a tensor with memory"):
        env.step_and_maybe_reset(root)
