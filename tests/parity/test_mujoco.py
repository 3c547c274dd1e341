"""Gymnasium's MuJoCo tasks, bit for bit."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import cases
from gymnasium.envs.mujoco import MujocoEnv
from references.mujoco import MuJoCo
from references.reference import gymnasium_env, gymnasium_tasks, info_keys
from torchrl.envs import GymEnv

from torchrl_pool import task_info

TASKS = gymnasium_tasks("mujoco")

# Gymnasium says so of every id whose number is not the highest, and of MuJoCo's own older XML attributes.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:gymnasium", "ignore:.*:UserWarning:gymnasium"
)

MUJOCO = MuJoCo()


@pytest.mark.parametrize(
    "task", cases(default=["InvertedDoublePendulum-v5", "Reacher-v5", "Walker2d-v5"], also=TASKS)
)
def test_options_are_those_of_the_constructor(task):
    """Names and defaults of the class and of what it hands on to MujocoEnv."""
    env_class = type(gymnasium_env(task).unwrapped)
    own = dict(inspect.signature(env_class.__init__).parameters)
    base = dict(inspect.signature(MujocoEnv.__init__).parameters)
    expected = {name: p for name, p in own.items() if name not in ("self", "kwargs")}
    passed_on = ("width", "height", "camera_id", "camera_name", "max_geom", "visual_options")
    expected.update({name: base[name] for name in passed_on})
    options = {option.name: option.default for option in task_info(task).options}
    # Swimmer-v4 alone leaves the view to who makes it.
    assert set(options) - set(expected) <= {"default_camera_config"}
    for name, parameter in expected.items():
        default = parameter.default
        if isinstance(default, tuple):
            default = list(default)
        if isinstance(default, dict):
            default = {key: np.atleast_1d(value).tolist() for key, value in default.items()}
        assert options[name] == default, name


def test_every_task_with_options_of_its_own_is_tried():
    view = {"width", "height", "camera_id", "camera_name", "max_geom", "visual_options"}
    tried = {task: set() for task in TASKS}
    for task, options in MUJOCO.default_options:
        tried[task] |= set(options)
    for task in TASKS:
        own = {option.name for option in task_info(task).options}
        missing = own - view - tried[task] - {"xml_file", "frame_skip", "default_camera_config"}
        assert not missing, f"{task}: {missing}"


def test_options_per_env():
    weights = [0.5, 1.0, 2.0]
    options = [{"forward_reward_weight": weight, "reset_noise_scale": weight / 100} for weight in weights]
    each = iter(options)
    MUJOCO.compare(
        "HalfCheetah-v5", 50, make=lambda: gymnasium_env("HalfCheetah-v5", **next(each)), env_options=options
    )


def test_model_from_a_path_of_ones_own(tmp_path):
    """A quadruped with another mass and ground, as users load their own robots into Ant."""
    text = (Path(inspect.getfile(MujocoEnv)).parent / "assets" / "ant.xml").read_text()
    path = tmp_path / "heavy_ant.xml"
    path.write_text(text.replace('density="5.0"', 'density="9.0"').replace('armature="1"', 'armature="0.8"'))
    assert path.read_text() != text
    MUJOCO.compare("Ant-v5", 100, xml_file=str(path), max_episode_steps=40)


@pytest.mark.parametrize("task", cases(["HalfCheetah-v5", "Humanoid-v5"]))
def test_float32_is_the_rounded_float64(task, make_pool):
    doubles, floats = make_pool(task), make_pool(task, obs_dtype=torch.float32)
    assert floats.observation_spec["observation"].dtype is torch.float32
    a, b = doubles.reset(seed=0), floats.reset(seed=0)
    for _ in range(20):
        assert b["observation"].dtype is torch.float32
        assert torch.equal(a["observation"].float(), b["observation"])
        action = doubles.rand_action()["action"]
        a = doubles.step_and_maybe_reset(a.set("action", action))[1]
        b = floats.step_and_maybe_reset(b.set("action", action.clone()))[1]


@pytest.mark.parametrize("task", cases(default=["Humanoid-v5", "Ant-v5"], also=["HumanoidStandup-v5"]))
def test_info_keys_are_those_of_gym_env(task, make_pool):
    """Shapes and dtypes as TorchRL gives them."""
    keys = info_keys(task)
    env = GymEnv(task)
    env.auto_register_info_dict()
    env.set_seed(0)
    pool = make_pool(task, 1, info_keys=keys)
    pool.set_seed(0)
    for actual, expected in (
        (pool.reset(), env.reset()),
        (pool.rand_step()["next"], env.rand_step()["next"]),
    ):
        for key in keys:
            assert actual[key].shape == (1, *expected[key].shape), key
            assert actual[key].dtype is expected[key].dtype, key
