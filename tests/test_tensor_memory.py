"""The memory that a pool's tensors are made of."""

import pickle
import resource

import pytest
import torch

from torchrl_pool import PoolEnv, _core
from torchrl_pool.env.buffers import Templates

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float32,
    torch.float64,
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (5, 1), (7, 4, 84, 84)])
def test_tensors_are_as_their_templates(dtype, shape):
    templates = Templates(a=torch.empty(shape, dtype=dtype), b=torch.empty(2))
    capsules, addresses = templates.memory.make()
    tensors = [torch.utils.dlpack.from_dlpack(capsule) for capsule in capsules]
    for tensor, template, address in zip(tensors, templates.values(), addresses, strict=True):
        assert (tensor.shape, tensor.dtype, tensor.stride()) == (
            template.shape,
            dtype if template is templates["a"] else torch.float32,
            template.stride(),
        )
        assert address % 64 == 0
        assert tensor.numel() == 0 or tensor.data_ptr() == address
        assert tensor._version == 0
        tensor.fill_(1)
    assert (tensors[0] == 1).all()
    assert (tensors[1] == 1).all()


def used_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("is_taken", [True, False])
def test_memory_is_freed_with_what_holds_it(is_taken):
    memory = _core.TensorMemory([((1 << 20,), "float32")])

    def make():
        for capsule in memory.make()[0]:
            if is_taken:
                torch.utils.dlpack.from_dlpack(capsule).fill_(1)

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
