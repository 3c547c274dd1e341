"""What bad input gets: words, and a pool that goes on."""

import math

import pytest
import torch
from cases import cases
from models import ARM

from torchrl_pool import EnvFailure, MujocoPool

WRONG = [
    ({"xml": "<mujoco><worldbody><body><geom/></body></worldbody></mujoco>"}, ValueError, "geom"),
    ({"xml": "<mujoco><wrong/></mujoco>"}, ValueError, "unrecognized element"),
    ({"xml": "nowhere.xml"}, FileNotFoundError, r"no model 'nowhere.xml', neither in the current folder \(/"),
    ({"xml": "some/nowhere.xml"}, FileNotFoundError, r"/some/nowhere\.xml does not exist"),
    ({"xml": 3}, TypeError, "xml: expected"),
    ({"xml": "<mujoco/>"}, ValueError, "is empty|no actuators"),
    ({"observation": ["qpoz"]}, ValueError, "did you mean 'qpos'"),
    (
        {"fields": ["body_mas"]},
        ValueError,
        "mjData and mjModel have no array 'body_mas' .did you mean 'body_mass'",
    ),
    ({"observation": ["xpos:lowr"]}, ValueError, "no body 'lowr' .did you mean 'lower'.*it has: 'world'"),
    ({"observation": ["efc_force"]}, ValueError, "another length in each step"),
    ({"observation": ["mocap_pos:upper"]}, ValueError, "has nothing in"),
    ({"observation": ["qM:upper"]}, ValueError, "no array|no names"),
    ({"observation": "qpos"}, TypeError, "observation: expected a sequence"),
    ({"observation": ["qpos", "qpos:"]}, ValueError, "expected names after the colon"),
    ({"fields": ["act"]}, ValueError, "'act' is empty in this model"),
    ({"keyframe": "bend"}, ValueError, "did you mean 'bent'"),
    ({"keyframe": 3}, ValueError, "the model has 1"),
    ({"randomize": ["qpos ~ normal(0, 1)"]}, ValueError, "randomize: expected 'FIELD ='"),
    ({"randomize": ["= uniform(0, 1)"]}, ValueError, "randomize: expected 'FIELD ='"),
    ({"randomize": ["qpos += uniform(0, 1"]}, ValueError, "randomize: expected 'FIELD ='"),
    ({"randomize": ["qpos += uniform(0, 1, 2)"]}, ValueError, "randomize: expected 'FIELD ='"),
    ({"randomize": ["qpos += gauss(0, 1)"]}, ValueError, "randomize: expected 'FIELD ='"),
    ({"randomize": ["qpos:'elbow += uniform(0, 1)"]}, ValueError, "no joint ''elbow'"),
    ({"randomize": ["qpos += uniform(0.1, x)"]}, ValueError, "expected a number, got 'x'"),
    ({"randomize": ["qpos += uniform(1, 0)"]}, ValueError, "wrong order"),
    ({"randomize": ["body_mas *= uniform(0, 1)"]}, ValueError, "did you mean 'body_mass'.*may change: qpos"),
    ({"randomize": ["jnt_qposadr += uniform(0, 9)"]}, ValueError, "holds integers"),
    ({"randomize": ["xpos += uniform(0, 1)"]}, ValueError, "mjModel has no array 'xpos'"),
    ({"model_fields": {"body_mass": torch.ones(2, 5)}}, ValueError, "expected 3 rows"),
    (
        {"model_fields": {"body_mass": torch.ones(3, 4)}},
        ValueError,
        "^model_fields: .* has 5 elements, got 4",
    ),
    (
        {"model_fields": {"body_inertia": torch.ones(3, 3, 5)}},
        ValueError,
        r"^model_fields: 'body_inertia': expected shape \[3, 5, 3\], got \[3, 3, 5\]",
    ),
    ({"model_fields": {"body_mass": torch.full((3, 5), torch.nan)}}, ValueError, "^model_fields: .* NaN"),
    ({"kp": [1.0, 2.0, 3.0]}, ValueError, "one for each of the model's 2 actuators, got 3"),
    ({"target_scale": 1.0}, ValueError, "only with kp"),
    ({"unlimited_range": (1, -1)}, ValueError, "unlimited_range"),
    ({"action_delay": (3, 1)}, ValueError, "action_delay"),
    ({"frame_skip": 0}, ValueError, "frame_skip"),
    ({"frame_skip": 2**63}, ValueError, "'frame_skip': expected an int of 64 bits, got 9223372036854775808"),
    ({"reward": 3}, TypeError, "reward: expected a function"),
    (
        {"reward": lambda n: n},
        TypeError,
        r"of \(state, action, next_state\), got one of \(n\)",
    ),
    (
        {"terminated": lambda s, a, n: n},
        TypeError,
        r"terminated: .*of \(state, next_state\)",
    ),
    ({"reset": lambda rows: {}}, TypeError, r"reset: expected a function of \(rows, generator\)"),
    ({"observation": lambda: 0}, TypeError, r"observe: expected a function of \(state\)"),
    ({"task": object()}, TypeError, "task: expected an object"),
    ({"dtype": torch.float16}, ValueError, "dtype"),
    ({"frameskip": 3}, TypeError, "did you mean 'frame_skip'"),
    ({"obs_dtype": torch.float32}, TypeError, "obs_dtype"),
    ({"xml": " "}, ValueError, "xml: expected the path"),
    ({"kd": 0.5}, ValueError, "kd: only with kp"),
    (
        {
            "xml": ARM.replace('joint="shoulder" gear', 'site="tip" gear').replace(
                'joint="elbow" gear', 'site="tip" gear'
            ),
            "kp": 1,
        },
        ValueError,
        "kp: no actuator of the model moves a hinge or a slide",
    ),
    ({"unlimited_range": (-math.inf, math.inf)}, ValueError, "unlimited_range: expected two finite"),
    ({"randomize": ["dof_M0 *= uniform(1, 2)"]}, ValueError, "'dof_M0' of mjModel: MuJoCo derives it"),
    ({"model_fields": ["geom_rbound:cube"]}, ValueError, "'geom_rbound:cube' of mjModel: MuJoCo derives it"),
    ({"action_delay": 2}, ValueError, "expected 2 elements in a list, got 2"),
    ({"model_fields": {"body_mass": 1.0}}, TypeError, "model_fields: 'body_mass': expected a torch.Tensor"),
    ({"model_fields": "body_mass"}, TypeError, "model_fields: expected a sequence"),
]


def make(**options):
    return MujocoPool(options.pop("xml", ARM), 3, **options)


@pytest.mark.parametrize(("options", "kind", "message"), cases(WRONG))
def test_wrong_arguments(options, kind, message):
    with pytest.raises(kind, match=f"(?s){message}"):
        make(**options)


@pytest.mark.parametrize(
    ("functions", "kind", "message"),
    cases(
        default=[
            ({"reward": lambda s, a, n: torch.zeros(3, 2)}, ValueError, r"got \[3, 2\]"),
            (
                {"reward": lambda s, a, n: torch.ones(3).long()},
                TypeError,
                "reward: expected a floating",
            ),
            ({"terminated": lambda s, n: torch.zeros(3)}, TypeError, "terminated: expected dtype torch.bool"),
            (
                {"terminated": lambda s, n: torch.ones(1).bool()},
                ValueError,
                "terminated: expected shape",
            ),
        ],
        also=[
            (
                {"reward": lambda s, a, n: torch.zeros(2)},
                ValueError,
                r"reward: expected shape \[3\] or \[3, 1\], got \[2\]",
            ),
            ({"reward": lambda s, a, n: 1.0}, TypeError, "reward: expected a torch.Tensor, got float"),
        ],
    ),
)
def test_wrong_results_of_functions(functions, kind, message):
    env = make(**functions)
    root = env.reset()
    for _ in range(2):
        with pytest.raises(kind, match=message):
            env.step(env.rand_action(root))
        root = env.reset()


@pytest.mark.parametrize(
    ("reset", "kind", "message"),
    cases(
        default=[
            (
                lambda rows, rng: {"qpos": torch.zeros(3, 8)},
                ValueError,
                "^reset: 'qpos' has 9 elements, got 8",
            ),
            (
                lambda rows, rng: {"qpos:elbw": torch.zeros(3, 1)},
                ValueError,
                "^reset: .*did you mean 'elbow'",
            ),
            (lambda rows, rng: {"body_mass": torch.zeros(3, 6)}, ValueError, "what model_fields names"),
            (lambda rows, rng: {"qpos": torch.full((3, 9), torch.nan)}, (ValueError, TypeError), "set"),
            (lambda rows, rng: torch.zeros(3), TypeError, "reset: expected a mapping"),
        ],
        also=[
            (lambda rows, rng: {"qpos": torch.zeros(2, 9)}, ValueError, "'qpos': expected 3 rows"),
            (
                lambda rows, rng: {"qpoz": torch.zeros(3, 9)},
                ValueError,
                "^reset: .*'qpoz' .did you mean 'qpos'",
            ),
            (lambda rows, rng: {"qpos": 1.0}, TypeError, "expected a torch.Tensor, got float"),
        ],
    ),
)
def test_wrong_initial_states(reset, kind, message):
    with pytest.raises(kind, match=message):
        make(reset=reset).reset()


def test_a_wrong_observation_is_told_at_once():
    with pytest.raises(ValueError, match="expected 3 rows"):
        make(observation=lambda state: state["qpos"][:1], fields=("qpos",))
    with pytest.raises(TypeError, match="observe: expected a tensor"):
        make(observation=lambda state: 1)


def test_rewards_that_are_no_numbers():
    wrong = torch.zeros(3)
    env = make(reward=lambda state, action, new: new["qpos"][:, 0] + wrong)
    root = env.reset()
    wrong[1] = torch.nan
    with pytest.raises(EnvFailure, match="env 1 failed: the reward is nan") as raised:
        env.step(env.rand_action(root))
    assert raised.value.env_index == [1]
    assert torch.isfinite(raised.value.tensordict["reward"][[0, 2]]).all()
    wrong[1] = 0
    env.rollout(3)


def test_a_simulation_that_diverges():
    speed = torch.zeros(3, 1)
    env = make(reset=lambda rows, rng: {"qvel:free": speed[rows].expand(-1, 6)})
    env.reset()
    speed[2] = 1e30
    with pytest.raises(EnvFailure, match=r"env 2 .*failed in step 1: MuJoCo: ") as raised:
        env.rollout(20)
    assert raised.value.env_index == [2]
    speed[2] = 0
    env.rollout(20)


@pytest.mark.parametrize(
    "functions",
    cases(
        default=[
            {"terminated": lambda state, new: state["qvel"][:, 0] > 9},
            {"observation": lambda state: state["qvel"]},
        ],
        also=[{"reward": lambda state, action, new: new["qvel"][:, 0]}],
    ),
)
def test_an_array_that_the_states_do_not_hold(functions):
    functions = {"observation": ["qpos"], **functions}
    with pytest.raises(KeyError, match="qvel") as raised:
        MujocoPool("hopper.xml", 2, fields=["qpos"], **functions).rollout(1)
    assert "Name 'qvel' in `fields`." in raised.value.__notes__[0]
    with pytest.raises(KeyError) as raised:  # a mistake of another kind stays as it is
        MujocoPool("hopper.xml", 2, reward=lambda state, action, new: {}["qvel"]).rollout(1)
    assert not hasattr(raised.value, "__notes__")


def test_envs_are_in_flight_while_functions_run():
    """And what a function has raised in is received again."""
    refused, wrong = [], [True]

    def reward(state, action, new):
        try:
            env.async_step_send(root.clone())
        except RuntimeError as error:
            refused.append(str(error))
        if wrong:
            raise ZeroDivisionError
        return new["qpos"][:, 0]

    env, twin = make(reward=reward), make(reward=lambda state, action, new: new["qpos"][:, 0])
    root, expected = env.rand_action(env.reset()), twin.reset()
    expected = twin.step(expected.set("action", root["action"].clone()))["next"]
    env.async_step_send(root)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            env.async_step_recv(3)
    wrong.clear()
    received = env.async_step_recv(3)
    assert len(refused) == 3
    assert all("in flight" in words for words in refused)
    assert received["env_index"].tolist() == [0, 1, 2]
    assert torch.equal(received["next", "reward"], expected["reward"])
