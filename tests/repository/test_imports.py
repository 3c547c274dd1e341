"""What a program waits for when it begins: packages of simulators are no part of it."""

import subprocess
import sys

import pytest

SIMULATORS = {"mujoco", "gymnasium", "gym", "ale_py", "dm_control", "pettingzoo", "minigrid"}
PROGRAMS = """
PoolEnv("CartPole-v1", 2).rollout(3)
fuse(TransformedEnv(PoolEnv("CartPole-v1", 2), RewardSum())).rollout(3)
explain(PoolEnv("CartPole-v1", 2))
next(iter(PoolCollector(PoolEnv("CartPole-v1", 2), None, frames_per_batch=6, total_frames=6)))
PoolEnv("HalfCheetah-v5", 2).rollout(3)
PoolEnv("dm_control/cheetah-run-v0", 2).rollout(3)
PoolEnv("ALE/Pong-v5", 2).rollout(3)
MujocoPool("ant.xml", 2).rollout(3)
"""


def modules_after(*lines: str) -> list[set[str]]:
    """The packages that a new interpreter has imported after each line."""
    told = "print('imported', *{name.partition('.')[0] for name in sys.modules})"
    program = "\n".join(["import sys", *(f"{line}\n{told}" for line in lines)])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("imported ")]


def test_the_package_alone_imports_neither_torch_nor_numpy():
    (imported,) = modules_after("import torchrl_pool")
    assert not imported & {*SIMULATORS, "torch", "torchrl", "tensordict", "numpy"}


@pytest.mark.slow  # makes an env of every family
def test_native_tasks_import_no_package_of_simulators():
    # TorchRL's own import looks for mujoco.mjx, and imports mujoco for that where it is installed.
    torchrls = "import torchrl.envs, torchrl.collectors; forget()"
    programs = PROGRAMS.split("\n")[1:-1]
    _, _, _, *after = modules_after(
        f"def forget(): [sys.modules.pop(n) for n in [*sys.modules] if n.split('.')[0] in {SIMULATORS}]\n",
        torchrls,
        "from torchrl.envs import RewardSum, TransformedEnv; "
        "from torchrl_pool import MujocoPool, PoolCollector, PoolEnv, explain, fuse",
        *programs,
    )
    found = {program: imported & SIMULATORS for program, imported in zip(programs, after, strict=True)}
    assert not {program: names for program, names in found.items() if names}
