"""Pictures of the MuJoCo tasks, against Gymnasium's renderer on the same OpenGL."""

import gc
import os

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from cases import cases
from opengl import missing_opengl
from processes import printed
from torchrl.envs import GymEnv

from torchrl_pool import PoolEnv, list_tasks

TASKS = [task for task in list_tasks("mujoco") if task.endswith("v5")]


MISSING_OPENGL = missing_opengl("InvertedPendulum-v5")
needs_opengl = pytest.mark.skipif(MISSING_OPENGL is not None, reason=str(MISSING_OPENGL))
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:UserWarning")


@pytest.fixture(autouse=True)
def _offscreen(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", os.environ.get("MUJOCO_GL") or "egl")


def initial_lookat(model):
    """The median of the geoms' places in the initial state, as PoolEnv's free camera looks at."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return np.median(data.geom_xpos, axis=0)


def pool_and_reference(task, **options):
    """A pool's picture right after a reset, and Gymnasium's with a camera that looks at the same place."""
    pool = PoolEnv(task, 1, device="cpu", **options)
    pool.reset(seed=0)
    picture = pool.render()
    pool.close()
    env = gymnasium.make(task, render_mode="rgb_array", disable_env_checker=True, **options)
    env.reset(seed=0)
    env.render()
    config = env.unwrapped.mujoco_renderer.default_cam_config or {}
    if "lookat" not in config:
        env.unwrapped.mujoco_renderer.viewer.cam.lookat[:] = initial_lookat(env.unwrapped.model)
    reference = env.render()
    env.close()
    return picture, reference


@needs_opengl
@pytest.mark.parametrize(
    "task", cases(default=["InvertedDoublePendulum-v5", "InvertedPendulum-v5"], also=TASKS)
)
def test_default_view_is_gymnasiums(task):
    picture, reference = pool_and_reference(task)
    assert picture.shape == (1, 480, 480, 3)
    assert picture.dtype is torch.uint8
    assert np.array_equal(picture[0].numpy(), reference)
    assert len(np.unique(reference)) > 20


@needs_opengl
@pytest.mark.parametrize(
    ("task", "options"),
    cases(
        default=[
            (
                "Walker2d-v5",
                {"default_camera_config": {"distance": 6.0, "azimuth": 130.0, "elevation": -40.0}},
            ),
            ("Ant-v5", {"visual_options": {int(mujoco.mjtVisFlag.mjVIS_JOINT): True}}),
            ("Reacher-v5", {"width": 1280, "height": 900}),
            ("Swimmer-v4", {"max_geom": 3}),
        ],
        also=[
            ("HalfCheetah-v5", {"camera_name": "track"}),
            ("Ant-v5", {"camera_id": 0, "width": 120, "height": 80}),
            ("Hopper-v5", {"default_camera_config": {"lookat": np.array([0.0, 0.2, 1.0])}}),
        ],
    ),
)
def test_view_options_are_gymnasiums(task, options):
    picture, reference = pool_and_reference(task, **options)
    assert picture.shape[1:3] == (options.get("height", 480), options.get("width", 480))
    assert np.array_equal(picture[0].numpy(), reference)


@needs_opengl
@pytest.mark.parametrize("pixels_only", [False, True])
def test_pixels_as_observation(pixels_only):
    """Keys and specs as GymEnv's; the pictures are those of render()."""
    options = {"from_pixels": True, "pixels_only": pixels_only}
    reference = GymEnv("Hopper-v5", **options)
    pool = PoolEnv("Hopper-v5", 3, device="cpu", max_episode_steps=5, seed=0, **options)
    expected = {key: reference.observation_spec[key] for key in reference.observation_spec.keys()}  # noqa: SIM118
    assert set(pool.observation_spec.keys()) == set(expected)
    for key, spec in expected.items():
        assert pool.observation_spec[key][0] == spec
    root = pool.reset()
    assert torch.equal(root["pixels"], pool.render())
    for _ in range(12):
        td, root = pool.step_and_maybe_reset(pool.rand_action(root))
        assert torch.equal(root["pixels"], pool.render())
        done = td["next", "done"].flatten()
        assert torch.equal(td["next", "pixels"][~done], root["pixels"][~done])
        for i in done.nonzero().flatten():
            assert not torch.equal(td["next", "pixels"][i], root["pixels"][i])
    reference.close()
    pool.close()


def test_pixels_of_a_family_that_needs_no_opengl():
    pool = PoolEnv("CartPole-v1", 2, from_pixels=True, pixels_only=False, seed=0)
    td = pool.rollout(3)
    assert td["pixels"].shape == (2, 3, 400, 600, 3)
    assert set(pool.observation_spec.keys()) == {"pixels", "observation"}


@pytest.mark.slow  # draws without a GPU
@needs_opengl
def test_threads_and_models_share_nothing_visible():
    """Many models drawn by several threads: each env's picture is that of its own model."""
    sizes = [{"default_camera_config": {"distance": 3.0 + i}} for i in range(6)]
    pool = PoolEnv("Hopper-v5", 6, env_options=sizes, from_pixels=True, num_threads=3, width=64, height=64)
    root = pool.reset(seed=[0] * 6)
    singles = []
    for size in sizes:
        single = PoolEnv("Hopper-v5", 1, width=64, height=64, **size)
        single.reset(seed=0)
        singles.append(single.render()[0])
        single.close()
    for i, picture in enumerate(singles):
        assert torch.equal(root["pixels"][i], picture)
    assert not torch.equal(singles[0], singles[1])
    pool.close()


@needs_opengl
def test_context_of_the_caller_stays_current():
    """A renderer of one's own in the same thread does not notice the pool's."""
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    from mujoco.egl import GLContext

    gc.collect()  # the end of an earlier test's GLContext would release this thread's current one
    context = GLContext(64, 64)
    context.make_current()
    scene, camera, option = mujoco.MjvScene(model, 100), mujoco.MjvCamera(), mujoco.MjvOption()
    resources = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, resources)

    def draw():
        pixels = np.zeros((64, 64, 3), dtype=np.uint8)
        mujoco.mjv_updateScene(
            model, data, option, mujoco.MjvPerturb(), camera, mujoco.mjtCatBit.mjCAT_ALL, scene
        )
        mujoco.mjr_render(mujoco.MjrRect(0, 0, 64, 64), scene, resources)
        mujoco.mjr_readPixels(pixels, None, mujoco.MjrRect(0, 0, 64, 64), resources)
        return pixels

    before = draw()
    assert before.any()
    env = PoolEnv("Hopper-v5", 1)
    env.reset()
    env.render()
    assert np.array_equal(draw(), before)
    resources.free()
    context.free()


@pytest.mark.parametrize(
    ("value", "message"),
    cases([("off", "MUJOCO_GL=off turns rendering off"), ("glfw", "MUJOCO_GL=egl or osmesa, got 'glfw'")]),
)
def test_without_opengl_there_is_one_error_and_a_working_env(value, message):
    script = f"""
from torchrl_pool import PoolEnv
env = PoolEnv("Hopper-v5", 2, seed=0)
env.reset()
try:
    env.render()
except NotImplementedError as error:
    assert {message!r} in str(error), error
else:
    raise AssertionError("drew")
assert env.rollout(20).shape[0] == 2
try:
    PoolEnv("Hopper-v5", 2, from_pixels=True).reset()
except RuntimeError as error:
    assert {message!r} in str(error), error
else:
    raise AssertionError("drew")
"""
    printed(script, MUJOCO_GL=value)
