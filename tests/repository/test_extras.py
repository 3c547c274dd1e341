"""Each extra brings what it is for: used in environments that have nothing else.

Quickly in environments of links; in the long form in ones that pip makes.
"""

import importlib.metadata
import sys

import pytest
from environments import CHECKOUT, installed_environment, linked_environment, run
from markdown import code_blocks

pytestmark = pytest.mark.repo

(RAY,) = [
    program
    for program in code_blocks(CHECKOUT / "docs" / "recipes" / "many_processes.md", "python")
    if "RayCollector" in program
]
# One of each family but Atari, whose games lack their ROMs, and a MujocoPool.
ROLLOUTS = """
from torchrl_pool import MujocoPool, PoolCollector, PoolEnv
for task in ("CartPole-v1", "Taxi-v4", "HalfCheetah-v5", "dm_control/cheetah-run-v0"):
    print(PoolEnv(task, 2).rollout(3).shape)
print(MujocoPool("ant.xml", 2).rollout(3).shape)
for collected in PoolCollector(PoolEnv("CartPole-v1", 2), None, frames_per_batch=6, total_frames=6):
    print(collected.shape)
"""
PONG = "from torchrl_pool import PoolEnv; print(PoolEnv('ALE/Pong-v5', 2).rollout(3).shape)"


def use_no_extra(python, folder):
    out = run(python, "-c", ROLLOUTS, cwd=folder)
    assert out.count("torch.Size([2, 3])") == 6
    assert "CartPole-v1" in run(python, "-m", "torchrl_pool", "info", "CartPole-v1", cwd=folder)
    assert "pip install ale-py" in run(python, "-c", PONG, cwd=folder, status=1)
    mj_model = "from torchrl_pool import MujocoPool; MujocoPool('ant.xml', 2).mj_model"
    assert "No module named 'mujoco'" in run(python, "-c", mj_model, cwd=folder, status=1)


def use_atari(python, folder):
    assert "torch.Size([2, 3])" in run(python, "-c", PONG, cwd=folder)


def use_gymnasium(python, folder):
    make = "import gymnasium, torchrl_pool.gymnasium as pool; pool.register_tasks(); "
    make += "print(gymnasium.make_vec('torchrl_pool/CartPole-v1', num_envs=2).reset()[0].shape)"
    assert "(2, 4)" in run(python, "-c", make, cwd=folder)


def use_mujoco(python, folder):
    mj_model = "from torchrl_pool import MujocoPool; print(MujocoPool('ant.xml', 2).mj_model.nq)"
    assert "15" in run(python, "-c", mj_model, cwd=folder)


def use_sb3(python, folder):
    train = "from stable_baselines3 import PPO; from torchrl_pool.stable_baselines3 import PoolVecEnv; "
    train += "PPO('MlpPolicy', PoolVecEnv('CartPole-v1', 2), n_steps=8, batch_size=8).learn(16)"
    run(python, "-c", train, cwd=folder)


def use_all(python, folder):
    for use in (use_atari, use_gymnasium, use_mujoco, use_sb3):
        use(python, folder)


def use_bench(python, folder):
    tasks = ("CartPole-v1", "HalfCheetah-v5", "ALE/Pong-v5")
    quick = ("--num-envs", 2, "--rounds", 2, "--round-seconds", 0.001)
    out = run(python, CHECKOUT / "benchmarks" / "throughput.py", "--task", *tasks, *quick, cwd=folder)
    assert "settotalmass" not in out
    assert not (folder / "MUJOCO_LOG.TXT").exists()
    left_out = [line for line in out.splitlines() if "not installed" in line]
    assert not [line for line in left_out if not line.startswith("  not measured: envpool: ")]
    return left_out


def use_docs(python, folder):
    run(
        python.parent / "mkdocs",
        "build",
        "-q",
        "-f",
        CHECKOUT / ".mkdocs.yml",
        "-d",
        folder / "site",
        cwd=folder,
    )
    assert "<title>" in (folder / "site" / "index.html").read_text()


def use_examples(python, folder):
    short = ("--frames", 2048, "--output", folder / "curve.png")
    out = run(python, "-m", "torchrl_pool.examples.quickstart", *short, cwd=folder, status=1)
    assert "misses the goal" in out


def use_ray(python, folder):
    (folder / "collect.py").write_text(RAY)
    assert "[(4, 10), (4, 10)]" in run(python, "collect.py", cwd=folder)


def use_test(python, folder):
    pytest = (python.parent / "pytest", "-q", "-n", 0, "-p", "no:cacheprovider")
    out = run(*pytest, "--collect-only", "tests", cwd=CHECKOUT)
    assert "error" not in out.splitlines()[-1]
    out = run(*pytest, "tests/repository/test_benchmarks.py", "tests/plugins/test_template.py", cwd=CHECKOUT)
    assert "skipped" not in out.splitlines()[-1]


def use_dev(python, folder):
    out = run(python.parent / "pre-commit", "run", "--all-files", cwd=CHECKOUT)
    assert out.count("Passed") == 4


USES = {
    "": use_no_extra,
    "all": use_all,
    "atari": use_atari,
    "bench": use_bench,
    "dev": use_dev,
    "docs": use_docs,
    "examples": use_examples,
    "gymnasium": use_gymnasium,
    "mujoco": use_mujoco,
    "ray": use_ray,
    "sb3": use_sb3,
    "test": use_test,
}
WITHOUT_CHECKOUT = [extra for extra in USES if extra not in ("dev", "docs", "test")]


def test_every_extra_is_used_here():
    assert {*USES} - {""} == {*importlib.metadata.metadata("torchrl_pool").get_all("Provides-Extra")}


@pytest.mark.slow  # installs each extra
@pytest.mark.parametrize("extra", WITHOUT_CHECKOUT)  # all in the long form
def test_an_extra_brings_all_that_its_use_imports(extra, tmp_path):
    python, missing = linked_environment(tmp_path / "environment", extra)
    assert missing <= {"envpool"}  # a peer that the tests do without
    USES[extra](python, tmp_path)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, CHECKOUT, cwd=folder)
    return folder


@pytest.mark.slow  # half an hour
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("extra", USES)
def test_an_extra_installed_by_pip(extra, wheels, tmp_path):
    python = installed_environment(tmp_path / "environment", extra, wheels)
    assert not USES[extra](python, tmp_path)  # none of bench's peers is left out
