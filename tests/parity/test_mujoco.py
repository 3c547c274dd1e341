"""Gymnasium's MuJoCo tasks, bit for bit."""

import inspect
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG, cases
from comparing import assert_same, assert_steps_equal
from gymnasium.envs.mujoco import MujocoEnv
from reference import N, Reference, assert_registered_as_in_gymnasium, gymnasium_env, gymnasium_tasks
from torchrl.envs import GymEnv, SerialEnv
from torchrl.envs.utils import check_env_specs

from torchrl_pool import task_info
from torchrl_pool._plugins.registry import open_config

TASKS = gymnasium_tasks("mujoco")

# Gymnasium says so of every id whose number is not the highest, and of MuJoCo's own older XML attributes.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:gymnasium", "ignore:.*:UserWarning:gymnasium"
)

# Options that many tasks have, in the combinations in which they have them.
_NOISE = {"reset_noise_scale": 0.03, "exclude_current_positions_from_observation": False}
_RUNNER = {**_NOISE, "forward_reward_weight": 0.7, "ctrl_cost_weight": 0.3}
_HEALTHY = {"healthy_reward": 0.6, "terminate_when_unhealthy": False}
_WALKER = {**_RUNNER, **_HEALTHY, "healthy_z_range": (0.9, 1.4), "healthy_angle_range": (-0.1, 0.15)}
_HUMANOID = {**_RUNNER, **_HEALTHY, "healthy_z_range": (1.1, 1.5)}
_ANT = {
    **_NOISE,
    **_HEALTHY,
    "ctrl_cost_weight": 0.25,
    "contact_cost_weight": 0.1,
    "healthy_z_range": (0.4, 0.8),
    "contact_force_range": (-0.5, 3.0),
}
OPTIONS = [
    ("Ant-v5", {**_ANT, "forward_reward_weight": 1.3, "main_body": "aux_1", "frame_skip": 3}),
    ("Ant-v5", {"include_cfrc_ext_in_observation": False, "main_body": 3, "healthy_z_range": (0.5, 0.9)}),
    ("Ant-v4", {**_ANT, "use_contact_forces": True}),
    ("Ant-v4", {"healthy_z_range": (0.5, 0.9), "ctrl_cost_weight": 0.1}),
    ("HalfCheetah-v5", {**_RUNNER, "frame_skip": 2}),
    ("HalfCheetah-v4", _RUNNER),
    ("Hopper-v5", {**_WALKER, "healthy_state_range": (-2.0, 2.0), "frame_skip": 5}),
    ("Hopper-v5", {"healthy_state_range": (-1.5, 1.5)}),
    ("Hopper-v4", {**_WALKER, "healthy_state_range": (-2.0, 2.0)}),
    ("Walker2d-v5", {**_WALKER, "xml_file": "walker2d.xml"}),
    ("Walker2d-v4", _WALKER),
    (
        "Humanoid-v5",
        {**_HUMANOID, "contact_cost_weight": 1e-4, "contact_cost_range": (0.1, 2.0), "frame_skip": 3},
    ),
    ("Humanoid-v5", {"include_cinert_in_observation": False, "include_cfrc_ext_in_observation": False}),
    ("Humanoid-v5", {"include_cvel_in_observation": False, "include_qfrc_actuator_in_observation": False}),
    ("Humanoid-v5", {"xml_file": "humanoidstandup.xml"}),
    ("Humanoid-v4", _HUMANOID),
    (
        "HumanoidStandup-v5",
        {
            **_NOISE,
            "uph_cost_weight": 2.0,
            "ctrl_cost_weight": 0.3,
            "impact_cost_weight": 1e-4,
            "impact_cost_range": (0.05, 3.0),
            "include_cinert_in_observation": False,
        },
    ),
    (
        "HumanoidStandup-v5",
        {
            "include_cvel_in_observation": False,
            "include_qfrc_actuator_in_observation": False,
            "include_cfrc_ext_in_observation": False,
        },
    ),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 3.0, "reset_noise_scale": 0.02, "frame_skip": 3}),
    ("InvertedPendulum-v5", {"reset_noise_scale": 0.1, "frame_skip": 1}),
    (
        "Pusher-v5",
        {"reward_near_weight": 0.3, "reward_dist_weight": 2, "reward_control_weight": 0.7, "frame_skip": 2},
    ),
    ("Reacher-v5", {"reward_dist_weight": 0.5, "reward_control_weight": 0.3, "frame_skip": 4}),
    ("Swimmer-v5", {**_RUNNER, "frame_skip": 2}),
    ("Swimmer-v4", _RUNNER),
]


def info_keys(task):
    return [spec.name for spec in open_config(task, {}).specs if spec.role == "info"]


def assert_infos(td, reference, keys, what):
    """Entries of the info dicts; TorchRL fills those that a reset leaves out with zeros."""
    for key in keys:
        for i, info in enumerate(reference.infos):
            actual = td[key][i]
            expected = torch.from_numpy(np.asarray(info[key])) if key in info else torch.zeros_like(actual)
            assert actual.dtype is expected.dtype, f"{what}: {key} of env {i}"
            assert torch.equal(actual, expected), f"{what}: {key} of env {i}"


def play(pool, reference, steps, seed, keys):
    """Compares the two step by step and returns how many episodes ended."""
    root = pool.reset(seed=seed)
    assert_same(root["observation"], reference.reset(seed), "first observation")
    assert_infos(root, reference, keys, "first infos")
    episodes = 0
    for t in range(steps):
        root["action"] = pool.rand_action()["action"]
        after, first = reference.step(root["action"])
        td, root = pool.step_and_maybe_reset(root)
        for key, expected in after.items():
            assert_same(td["next", key], expected, f"next {key} of step {t}")
        assert_infos(td["next"], reference, keys, f"infos of step {t}")
        assert_same(root["observation"], first, f"root observation after step {t}")
        episodes += int(td["next", "done"].sum())
    return episodes


def test_family_is_complete():
    """Every id that Gymnasium registers and that runs there on this version of MuJoCo."""
    reference = set()
    for id, spec in gymnasium.registry.items():
        if not str(spec.entry_point).startswith("gymnasium.envs.mujoco."):  # others have such, too
            continue
        try:
            gymnasium.make(id, disable_env_checker=True).close()
        except ImportError as error:
            assert "only supported on `mujoco<3`" in str(error)  # noqa: PT017
        else:
            reference.add(id)
    assert set(TASKS) == reference


def test_registrations_equal_gymnasiums():
    for task in TASKS:
        assert_registered_as_in_gymnasium(task)


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


@pytest.mark.parametrize("task", cases(default=["Ant-v5", "Walker2d-v5"], also=TASKS))
def test_specs_equal_those_of_gym_env(task, make_pool):
    pool = make_pool(task)
    reference = SerialEnv(N, lambda: GymEnv(task))
    for kind in ("observation", "action", "reward", "done", "state"):
        assert getattr(pool, f"{kind}_spec") == getattr(reference, f"{kind}_spec")
    check_env_specs(pool)


@pytest.mark.parametrize("task", cases(default=["Hopper-v4", "Reacher-v5"], also=TASKS))
def test_equals_serial_env_of_gym_envs(task, make_pool):
    limit = {} if LONG else {"max_episode_steps": 100}
    pool = make_pool(task, **limit)
    reference = SerialEnv(N, lambda: GymEnv(task, **limit))
    assert pool.set_seed(0) == reference.set_seed(0)
    assert assert_steps_equal(pool, reference, 1_100 if LONG else 250) >= N
    reference.close()


@pytest.mark.parametrize("seed", [1, 2] if LONG else [1])
@pytest.mark.parametrize("task", cases(default=["InvertedPendulum-v5", "Reacher-v5"], also=TASKS))
def test_equals_gymnasium_with_infos(task, seed, make_pool):
    keys = info_keys(task)
    torch.manual_seed(seed)
    reference = Reference([lambda: gymnasium_env(task)] * N)
    episodes = play(make_pool(task, info_keys=keys), reference, 1_100 if LONG else 250, seed, keys)
    assert episodes >= N or not LONG
    assert set(keys) == set(reference.infos[0]) - {"TimeLimit.truncated"}


@pytest.mark.parametrize(("task", "options"), OPTIONS)
def test_options_act_as_in_gymnasium(task, options, make_pool):
    keys = info_keys(task)
    reference = Reference([lambda: gymnasium_env(task, max_episode_steps=40, **options)] * N)
    pool = make_pool(task, info_keys=keys, max_episode_steps=40, **options)
    assert play(pool, reference, 150, 5, keys) >= 3 * N


def test_every_task_with_options_of_its_own_is_tried():
    view = {"width", "height", "camera_id", "camera_name", "max_geom", "visual_options"}
    tried = {task: set() for task in TASKS}
    for task, options in OPTIONS:
        tried[task] |= set(options)
    for task in TASKS:
        own = {option.name for option in task_info(task).options}
        missing = own - view - tried[task] - {"xml_file", "frame_skip", "default_camera_config"}
        assert not missing, f"{task}: {missing}"


def test_options_per_env(make_pool):
    weights = [0.5, 1.0, 2.0]
    options = [{"forward_reward_weight": weight, "reset_noise_scale": weight / 100} for weight in weights]
    reference = Reference([lambda kw=kw: gymnasium_env("HalfCheetah-v5", **kw) for kw in options])
    play(make_pool("HalfCheetah-v5", env_options=options), reference, 50, 3, [])


def test_model_from_a_path_of_ones_own(make_pool, tmp_path):
    """A quadruped with another mass and ground, as users load their own robots into Ant."""
    text = (Path(inspect.getfile(MujocoEnv)).parent / "assets" / "ant.xml").read_text()
    path = tmp_path / "heavy_ant.xml"
    path.write_text(text.replace('density="5.0"', 'density="9.0"').replace('armature="1"', 'armature="0.8"'))
    assert path.read_text() != text
    reference = Reference([lambda: gymnasium_env("Ant-v5", xml_file=str(path), max_episode_steps=40)] * N)
    play(make_pool("Ant-v5", xml_file=str(path), max_episode_steps=40), reference, 100, 0, [])


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
