"""What goes wrong in MuJoCo becomes an exception: it does not end the process, print, or write a log."""

import os
from pathlib import Path

import mujoco
import pytest
import torch
from cases import cases

from torchrl_pool import EnvFailure, PoolEnv

MODEL = """
<mujoco>
  <option timestep="0.01"/>
  {options}
  <worldbody>
    <body name="cart">
      <joint name="slide" type="slide" axis="1 0 0"/>
      <geom size="0.1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom size="0.05" pos="0 0 0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" ctrlrange="-1 1" gear="{gear}"/></actuator>
</mujoco>
"""


@pytest.fixture
def write_model(tmp_path):
    def write(options="", gear=100):
        path = tmp_path / "model.xml"
        path.write_text(MODEL.format(options=options, gear=gear))
        return str(path)

    return write


@pytest.fixture(autouse=True)
def _silent(capfd, monkeypatch, tmp_path):
    """Nothing on standard output or error, no file in the working directory."""
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield
    assert capfd.readouterr() == ("", "")
    assert os.listdir(folder) == []


def test_missing_file():
    with pytest.raises(FileNotFoundError, match=r"HalfCheetah-v5: File /nowhere/robot\.xml does not exist"):
        PoolEnv("HalfCheetah-v5", 2, xml_file="/nowhere/robot.xml")
    with pytest.raises(FileNotFoundError, match=r"assets/halfcheetah\.xml does not exist"):
        PoolEnv("HalfCheetah-v5", 2, xml_file="halfcheetah.xml")


def test_bad_xml(tmp_path):
    """With MuJoCo's own message."""
    path = tmp_path / "bad.xml"
    path.write_text("<mujoco><worldbody><geom shape='1'/></worldbody></mujoco>")
    with pytest.raises(ValueError, match="Schema violation: unrecognized attribute: 'shape'"):
        PoolEnv("HalfCheetah-v5", 2, xml_file=str(path))
    path.write_text("<mujoco")
    with pytest.raises(ValueError, match="XML parse error"):
        PoolEnv("HalfCheetah-v5", 2, xml_file=str(path))


def test_missing_asset(tmp_path):
    path = tmp_path / "mesh.xml"
    path.write_text(
        "<mujoco><asset><mesh name='m' file='lost.stl'/></asset>"
        "<worldbody><geom type='mesh' mesh='m'/></worldbody></mujoco>"
    )
    with pytest.raises(ValueError, match=r"lost\.stl"):
        PoolEnv("HalfCheetah-v5", 2, xml_file=str(path))


@pytest.mark.parametrize(
    ("task", "options", "message"),
    cases(
        default=[
            ("HalfCheetah-v5", {"camera_id": 0, "camera_name": "track"}, "cannot both be given"),
            (
                "HalfCheetah-v5",
                {"default_camera_config": {"zoom": 3}},
                "a camera has no 'zoom'; it has: type",
            ),
            ("HalfCheetah-v5", {"default_camera_config": {"lookat": [1, 2]}}, "takes three numbers"),
            ("HalfCheetah-v5", {"default_camera_config": {"distance": [1, 2]}}, "takes one number"),
            ("HalfCheetah-v5", {"visual_options": {99: True}}, "expected numbers of mjtVisFlag"),
            ("Ant-v5", {"main_body": 77}, "invalid body id 77; the model has 14"),
            (
                "Pusher-v5",
                {"xml_file": "reacher.xml"},
                "at least 7 positions and 7 velocities, reacher.xml has 4",
            ),
            ("Reacher-v5", {"xml_file": "hopper.xml"}, "invalid body name 'fingertip'"),
            ("InvertedDoublePendulum-v5", {"xml_file": "hopper.xml"}, "a site at the tip"),
            ("Hopper-v5", {"frame_skip": 0}, "expected a number in"),
            ("Hopper-v5", {"width": 0}, "expected a number in"),
        ],
        also=[
            (
                "HalfCheetah-v5",
                {"camera_name": "front"},
                "invalid camera name 'front'; the model has: 'track'",
            ),
            ("HalfCheetah-v5", {"camera_id": 3}, "invalid camera id 3; the model has 1: 'track'"),
            ("Ant-v5", {"main_body": "spine"}, "invalid body name 'spine'; the model has: 'world', 'torso'"),
        ],
    ),
)
def test_bad_options(task, options, message):
    with pytest.raises(ValueError, match=message):
        PoolEnv(task, 2, **options)


@pytest.mark.parametrize(
    "options",
    cases(
        default=[{"main_body": 1.5}, {"default_camera_config": 4}, {"visual_options": {0: "on"}}],
        also=[{"main_body": None}],
    ),
)
def test_options_of_another_type(options):
    with pytest.raises(TypeError, match="expected"):
        PoolEnv("Ant-v5", 2, **options)


def zero_but(env, index, value=1.0):
    """Controls of zero, but full control of one env."""
    action = env.full_action_spec.zero()["action"]
    action[index] = value
    return action


def check_that_one_fails_and_revives(env, message):
    root = env.reset()
    failed = None
    for _ in range(200):
        try:
            root = env.step_and_maybe_reset(root.set("action", zero_but(env, 1)))[1]
        except EnvFailure as error:
            failed = error
            break
    assert failed is not None
    assert failed.env_index == [1]
    assert message in str(failed)
    with pytest.raises(RuntimeError, match="1"):
        env.step(root.set("action", zero_but(env, 1)))
    mask = torch.tensor([False, True, False])
    root = env.reset(root.set("_reset", mask))
    root = env.step_and_maybe_reset(root.set("action", zero_but(env, 1, 0.0)))[1]
    assert root["observation"].isfinite().all()


def test_divergence_is_that_envs_error(write_model):
    """MuJoCo alone would start the simulation again in the middle of the episode."""
    path = write_model(gear=1e13)
    env = PoolEnv("HalfCheetah-v5", 3, xml_file=path, seed=0)
    check_that_one_fails_and_revives(env, "simulation is unstable")
    env.close()


def test_exhausted_memory_is_that_envs_error(tmp_path):
    """mju_error, whose default handler calls exit, here from inside a step: balls fall onto one another."""
    balls = "".join(f"<body pos='0 0 {1 + 0.3 * i}'><freejoint/><geom size='0.1'/></body>" for i in range(30))
    path = tmp_path / "balls.xml"
    path.write_text(
        "<mujoco><size memory='60K'/><worldbody><geom type='plane' size='5 5 1'/><body pos='3 0 1'>"
        f"<joint name='slide' type='slide'/><geom size='0.1'/></body>{balls}</worldbody>"
        "<actuator><motor joint='slide' ctrlrange='-1 1'/></actuator></mujoco>"
    )
    env = PoolEnv("HalfCheetah-v5", 3, xml_file=str(path), seed=0, reset_noise_scale=0.0)
    for _ in range(2):  # it can be reset, and fails again
        env.rollout(3)
        with pytest.raises(EnvFailure, match="memory") as failure:
            env.rollout(500)
        assert failure.value.env_index == [0, 1, 2]
    env.close()


def test_callbacks_of_the_python_package_are_not_the_pools():
    """Nor are its clock and its handlers: both sides have a MuJoCo of their own."""
    clock = mujoco.get_mjcb_time()
    env = PoolEnv("Hopper-v5", 2, seed=0)
    torch.manual_seed(0)
    expected = env.rollout(10)
    model = mujoco.MjModel.from_xml_string(MODEL.format(options="", gear=1))
    data = mujoco.MjData(model)
    calls = []
    mujoco.set_mjcb_control(lambda *_: calls.append(1))
    try:
        env.set_seed(0)
        torch.manual_seed(0)
        assert (env.rollout(10) == expected).all()
        assert calls == []
        mujoco.mj_step(model, data)
        assert calls
    finally:
        mujoco.set_mjcb_control(None)
    env.close()
    assert mujoco.get_mjcb_time() is clock


def test_extensions_of_mujoco_work(write_model):
    """A model may use the extensions that the package brings."""
    path = write_model(
        options="""<extension><plugin plugin="mujoco.pid"><instance name="pid"><config key="kp" value="4.0"/>
                   </instance></plugin></extension>"""
    )
    motor = '<motor joint="slide" ctrlrange="-1 1" gear="100"/>'
    pid = '<plugin joint="slide" plugin="mujoco.pid" instance="pid" ctrlrange="-1 1"/>'
    text = Path(path).read_text()
    assert motor in text
    text = text.replace(motor, pid)
    Path(path).write_text(text)
    env = PoolEnv("HalfCheetah-v5", 2, xml_file=path)
    assert env.rollout(20)["next", "observation"].isfinite().all()
