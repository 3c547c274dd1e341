"""Tasks that others have written: Gymnasium's Ant rebuilt, and TorchRL's own classes under another base."""

import inspect
from pathlib import Path

import pytest
import torch
import torchrl.envs.custom.mujoco as torchrl_mujoco
from comparing import same
from tensordict import TensorDict
from torchrl.data import Bounded, Unbounded
from torchrl.envs.utils import check_env_specs

from torchrl_pool import MujocoTask, PoolEnv
from torchrl_pool.examples.mujoco_ant import make_ant
from torchrl_pool.examples.mujoco_cartpole import make_cartpole, train
from torchrl_pool.examples.mujoco_quadruped import make_quadruped, stand

# Sums of squares are added up in another order, in float32 for the controls.
REWARD_BOUND = 1e-6
# TorchRL takes differences of positions that are rounded to float32, here they are exact.
VELOCITY_BOUND = 1e-4


@pytest.mark.parametrize("seed", [0, 1])
def test_the_rebuilt_ant_is_ant(seed):
    rebuilt, original = make_ant(6, seed=seed, dtype=torch.float64), PoolEnv("Ant-v5", 6, seed=seed)
    own, expected = rebuilt.reset(), original.reset()
    torch.manual_seed(seed)
    ends = 0
    for _ in range(150):
        own["action"] = expected["action"] = original.full_action_spec["action"].rand()
        played, own = rebuilt.step_and_maybe_reset(own)
        told, expected = original.step_and_maybe_reset(expected)
        for key in ("observation", "done", "terminated", "truncated"):
            assert same(played["next", key], told["next", key]), key
        assert same(own["observation"], expected["observation"])
        difference = played["next", "reward"] - told["next", "reward"].double()
        assert difference.abs().max() <= REWARD_BOUND
        ends += int(told["next", "done"].sum())
    assert ends > 3


def moved(cls):
    """The class with another base, as its author would write it."""
    source = inspect.getsource(inspect.getmodule(cls)).replace(
        "from torchrl.envs.custom.mujoco.base import MujocoEnv", "from torchrl_pool import MujocoTask"
    )
    assert "(MujocoEnv)" in source
    namespace = {"__name__": "moved"}
    exec(source.replace("(MujocoEnv)", "(MujocoTask)"), namespace)
    return namespace[cls.__name__]


@pytest.mark.parametrize("name", ["AntEnv", "HopperEnv", "Walker2dEnv", "HumanoidEnv"])
def test_torchrls_classes_move_over(name):
    cls = getattr(torchrl_mujoco, name)
    original = cls(backend="mujoco", seed=0)
    own = moved(cls)(num_envs=2, seed=0)
    assert issubclass(type(own), MujocoTask)
    if name in ("AntEnv", "HopperEnv"):
        check_env_specs(own)
    root, expected = own.reset(), original.reset()
    # From the same state on:
    state = expected.clone().set("qpos", original._backend.qpos).set("qvel", original._backend.qvel)
    both = torch.cat([state, state])
    root = own.reset(both.select("qpos", "qvel"), set_state=True)
    assert torch.equal(root["observation"][:1], expected["observation"])
    torch.manual_seed(0)
    for _ in range(30):
        action = original.full_action_spec["action"].rand() * 0.4
        told = original.step(expected.set("action", action))
        played = own.step(root.set("action", torch.cat([action, action])))
        for key in ("observation", "terminated", "truncated", "done"):
            assert torch.equal(played["next", key][1:], told["next", key]), key
        assert (played["next", "reward"][1:] - told["next", "reward"]).abs() < VELOCITY_BOUND
        root, expected = own.step_mdp(played), original.step_mdp(told)


class Slow(MujocoTask):
    XML_PATH = "hopper.xml"
    RESET_NOISE_SCALE = 0.0

    def _sample_initial_state(self, n, tensordict=None):
        qpos, qvel = super()._sample_initial_state(n, tensordict)
        return qpos + 0.01, qvel

    def _make_obs(self, state):
        return state["qpos"].to(self.dtype)

    def _prepare_ctrl(self, action):
        return action * 0.5

    def _compute_reward(self, state, action, next_state):
        return action.sum(-1, keepdim=True)

    def _compute_done(self, state, next_state):
        return next_state["time"] > 0.05


def test_hooks():
    env = Slow(num_envs=3, frame_skip=2)
    check_env_specs(env)
    assert env._backend.timestep == 0.002 or env._backend.timestep > 0
    root = env.reset()
    assert torch.allclose(root["observation"][0], (env._backend.qpos0 + 0.01).float())
    data = env.rollout(200, break_when_any_done=True)
    assert torch.allclose(data["next", "reward"], data["action"].sum(-1, keepdim=True))
    assert data["next", "terminated"][:, -1].all()


class Mirrored(Slow):
    """Half as many actions as controls: one for both hips, knees and ankles of two legs."""

    XML_PATH = "walker2d.xml"
    _sample_initial_state = MujocoTask._sample_initial_state

    def __init__(self, **options):
        super().__init__(**options)
        self.action_spec = Bounded(-1, 1, (self.num_envs, 3))

    def _prepare_ctrl(self, action):
        return torch.cat([action, -action], dim=1) * 0.5


@pytest.mark.parametrize("cls", [Slow, Mirrored])
def test_async_steps_show_the_action_and_not_the_control(cls):
    env, other = cls(num_envs=3, seed=0), cls(num_envs=3, seed=0)
    root = env.reset()
    expected = other.step(other.reset().set("action", env.full_action_spec["action"].rand()))
    env.async_step_send(root[:2].set("action", expected["action"][:2]), [0, 1])
    env.async_step_send(root[2].set("action", expected["action"][2]), 2)
    data = torch.cat([env.async_step_recv(2), env.async_step_recv(env_index=2).unsqueeze(0)])
    for key in ("action", ("next", "observation"), ("next", "reward")):
        assert torch.equal(data[key], expected[key]), key
    assert set(data.keys()) == {"env_index", *expected.keys()}


@pytest.mark.parametrize(("pixels_only", "entries"), [(True, {"pixels"}), (False, {"observation", "pixels"})])
def test_pictures_beside_what_a_method_observes(pixels_only, entries):
    env = Slow(from_pixels=True, pixels_only=pixels_only)
    assert set(env.observation_spec.keys()) == entries


def test_all_that_a_class_observes():
    class Two(MujocoTask):
        XML_PATH = "hopper.xml"

        def _compute_reward(self, state, action, next_state):
            return next_state["qpos"][:, 0]

        def _compute_done(self, state, next_state):
            return torch.zeros(self.num_envs, dtype=torch.bool)

        def _make_obs_spec(self):
            spec = super()._make_obs_spec()
            spec["height"] = Unbounded(shape=(self.num_envs, 1))
            return spec

        def _build_obs_dict(self, state):
            out = super()._build_obs_dict(state)
            if self.from_pixels:
                out["pixels"] = self._render_pixels()
            return {**out, "height": state["qpos"][:, 1:2].float()}

    assert set(Two(from_pixels=True).observation_spec.keys()) == {"observation", "height", "pixels"}
    env = Two(num_envs=2)
    check_env_specs(env)
    step = env.rollout(3)["next"]
    assert torch.equal(step["height"], step["observation"][..., 1:2])


HOPPER = str(Path(torchrl_mujoco.__file__).parent / "assets" / "hopper.xml")


def goal(base):
    """A task with a goal of each episode, which its observations show."""

    class Goal(base):
        XML_PATH = None

        def __init__(self, **options):
            self.XML_PATH = HOPPER
            super().__init__(**options)
            self.goals, self.started = 0, 0.0

        def _patch_xml(self, xml):
            return xml

        def _sample_initial_state(self, n, tensordict=None):
            qpos, qvel = super()._sample_initial_state(n, tensordict)
            if tensordict is not None and "start" in tensordict:
                qpos = torch.cat([tensordict["start"].to(qpos.dtype), qpos[:, 1:]], 1)
            return qpos, qvel

        def _on_reset_all(self, tensordict=None):
            self.goals += 1

        def _on_reset_mask(self, mask, tensordict=None):
            self.goals += 100 * int(mask.sum())

        def _make_obs(self, state):
            return super()._make_obs(state) * 0 + self.goals

        def _compute_reward(self, state, action, next_state):
            return torch.full_like(next_state["qpos"][..., :1], self.goals)

        def _compute_done(self, state, next_state):
            return next_state["qpos"][..., :1] > 99

    return Goal


def test_a_class_whose_goals_change_with_its_episodes():
    """Its model is named by the instance, its XML as it is, and its constructor not over with super's."""
    data = []
    for base, options in ((torchrl_mujoco.MujocoEnv, {}), (MujocoTask, {})):
        env = goal(base)(num_envs=1, backend="mujoco", seed=0, max_episode_steps=3, **options)
        assert (env.max_episode_steps, env.from_pixels) == (3, False)
        data.append(env.rollout(8, break_when_any_done=False))
    expected, own = data
    assert own["observation"][0, :, 0].tolist() == [1, 1, 1, 101, 101, 101, 201, 201]
    for key in ("observation", ("next", "observation"), ("next", "reward")):
        assert torch.equal(own[key], expected[key]), key


def test_what_a_reset_is_given_arrives():
    env = goal(MujocoTask)(seed=0)
    assert env.reset(TensorDict({"start": torch.tensor([[7.0]])}, [1])).shape == (1,)
    assert env._backend.qpos[0, 0] == 7


def test_async_resets_call_the_hooks():
    class Counted(Slow):
        begun = 0

        def _on_reset_all(self, tensordict=None):
            self.begun += self.num_envs

        def _on_reset_mask(self, mask, tensordict=None):
            self.begun += int(mask.sum())

        _sample_initial_state = MujocoTask._sample_initial_state

    env = Counted(num_envs=3)
    env.async_reset_send(env_index=[0, 2])
    env.async_reset_recv(2)
    assert env.begun == 2
    env.async_reset_send(env_index=[1])
    env.async_reset_recv(1)
    assert env.begun == 3


@pytest.mark.parametrize(
    ("option", "hook"),
    [("reward", "_compute_reward"), ("terminated", "_compute_done"), ("reset", "_sample_initial_state")],
)
def test_functions_that_nobody_would_call_are_refused(option, hook):
    with pytest.raises(TypeError, match=f"{option}: expected no function, because Slow overrides {hook}"):
        Slow(**{option: lambda *arguments: None})


def test_random_changes_are_drawn_beside_the_noise():
    class Noisy(Slow):
        RESET_NOISE_SCALE = 0.1
        _sample_initial_state = MujocoTask._sample_initial_state

    env = Noisy(num_envs=2, seed=0, randomize=["body_mass:torso *= uniform(0.8, 1.2)"])
    noise = env.reset()["observation"] - env._backend.qpos0
    assert ((noise.abs() <= 0.1) & (noise != 0)).all()


def test_another_backend_is_refused():
    with pytest.raises(ValueError, match="backend: expected 'mujoco'"):
        Slow(backend="mjx")


def test_arguments_of_torchrls_class():
    parameters = inspect.signature(torchrl_mujoco.MujocoEnv.__init__).parameters
    defaults = {name: one.default for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    Slow(**{**defaults, "backend": "mujoco", "num_workers": 1, "parallel": None})
    others = {
        "render_every": 2,
        "compile_step": True,
        "compile_kwargs": {},
        "num_workers": 4,
        "parallel": False,
    }
    for name, value in others.items():
        with pytest.raises(TypeError, match=f"{name}: MujocoTask takes .* alone, got {value!r}"):
            Slow(**{name: value})
    with pytest.raises(ValueError, match="pixels_only=True requires from_pixels=True"):
        Slow(pixels_only=True)


def test_a_class_without_a_model():
    class Nothing(MujocoTask):
        pass

    with pytest.raises(ValueError, match="XML_PATH"):
        Nothing()
    Nothing.XML_PATH = "nowhere.xml"
    with pytest.raises(FileNotFoundError, match=r"nowhere\.xml"):
        Nothing()


def test_the_quadruped_stands_unless_it_is_pushed():
    fallen = {}
    for body in (None, "torso"):
        env = make_quadruped(16, seed=0, push_body=body, push_force=(50, 100))
        data = env.rollout(200, stand, break_when_any_done=False, break_when_all_done=True)
        fallen[body] = int(data["next", "terminated"].any(1).sum())
    assert fallen[None] == 0
    assert fallen["torso"] > 4
    check_env_specs(make_quadruped(2))


@pytest.fixture
def _threads_as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_threads_as_before")
def test_the_cartpole_learns():
    check_env_specs(make_cartpole(2))
    mean, frames, _ = train(total_frames=12_288)
    assert frames == 12_288 or mean >= 475
