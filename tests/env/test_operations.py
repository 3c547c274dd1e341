"""What a step of a pool has torch do."""

from torch.utils._python_dispatch import TorchDispatchMode

from torchrl_pool import PoolEnv


class Operations(TorchDispatchMode):
    """Collects the names of the operations that torch runs."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_step_runs_no_operation_of_torch():
    env = PoolEnv("HalfCheetah-v5", 4)
    root = env.rand_action(env.reset())
    action = root["action"]
    with Operations() as operations:
        for _ in range(3):
            _, root = env.step_and_maybe_reset(root.set("action", action))
    assert operations.names == []
    with operations:
        action.clone()
    assert operations.names == ["aten.clone.default"]
