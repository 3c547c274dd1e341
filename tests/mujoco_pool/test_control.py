"""Laws of control beside a loop in Python, which evaluates them between mj_step1 and mj_step2."""

import math
import re

import mujoco
import numpy as np
import pytest
import torch
from comparing import assert_td_equal
from models import ARM, Reference, assert_equal

from torchrl_pool import EnvFailure, MujocoPool, PoolEnv

PD = "kp * (action - position) - kd * velocity"
LAWS = [
    {"lift": PD, "bend": PD},
    {"bend": "-action ** 2 / 3 + 2 ** -time"},
    {"lift": "clip(tanh(2 * action) - sensordata:angle, -0.5, 1e-1 + .2)", "1": "action - ctrl / 2"},
    {
        "lift": "max(min(action, qpos:shoulder), -abs(qvel:'elbow'))",
        "bend": "exp(-qpos[4]) * log(2 + qpos[4])",
    },
    {
        "lift": "qfrc_bias:shoulder + sqrt(abs(sensordata:felt[0])) * sin(action:bend)",
        "bend": "cos(time) + tan(action)",
    },
    {
        "lift": "where(xpos:lower[2] < 0.6, 1, action) - - +kd",
        "bend": "(action > 0) + (action <= 0.5) * body_mass:box",
    },
    {"lift": "xpos:lower[0] - (1 - (2 - action)) - 3 * action / 2 / kp"},
    {"lift": "where(action == 0.5, action, -1) + (ctrl != 0.5)", "bend": "(action == action) * 0.3"},
    {"lift": "tanh(sensordata:felt[2] / 50)"},  # of the simulation step before
]
GAINS = {"kp": 3.7, "kd": [0.3, 0.11]}


def make(num_envs=3, xml=ARM, **options):
    used = {name: gain for name, gain in GAINS.items() if name in str(options.get("control"))}
    settings = {"gains": used, "frame_skip": 4, "observation": ("qpos", "qvel", "ctrl"), "keyframe": "bent"}
    return MujocoPool(xml, num_envs, **{**settings, **options})


class Loop(Reference):
    """One simulation in Python, with a law that Python evaluates."""

    def __init__(self, laws, gains=GAINS, xml=ARM):
        super().__init__(xml, keyframe=0)
        self.step2 = mujoco.mj_step if "RK4" in xml else mujoco.mj_step2
        self.laws, self.gains = laws, gains
        self.reset()

    def step(self, action, count=4):
        for _ in range(count):
            mujoco.mj_step1(self.model, self.data)
            self.data.ctrl[:] = [self.control(i, action.tolist()) for i in range(2)]
            self.step2(self.model, self.data)

    def control(self, i, action):
        actuator = self.model.actuator(i)
        law = self.laws.get(actuator.name, self.laws.get(str(i), "action"))
        joint = self.data.joint(actuator.trnid[0])
        names = {name: gain[i] if isinstance(gain, list) else gain for name, gain in self.gains.items()}
        names.update(
            {name: getattr(math, name) for name in ("sin", "cos", "tan", "tanh", "exp", "log", "sqrt")},
            clip=lambda x, low, high: min(max(x, low), high),
            where=lambda test, one, other: one if test else other,
            get=self.get_part,
            position=joint.qpos[0].item(),
            velocity=joint.qvel[0].item(),
            ctrl=self.data.ctrl[i].item(),
            action=action[i],
            actions={"lift": action[0], "bend": action[1]},
            qpos=self.data.qpos.tolist(),
            time=self.data.time,
        )
        law = re.sub(r"action:(\w+)", r"actions['\1']", law)
        law = re.sub(r"(\w+):'?(\w+)'?", r"get('\1', '\2')", law)
        return float(eval(law, names))

    def get_part(self, array, part):
        if array == "body_mass":
            return self.model.body(part).mass.item()
        owner = {"xpos": self.data.body, "sensordata": self.data.sensor}.get(array, self.data.joint)
        value = getattr(owner(part), {"sensordata": "data"}.get(array, array))
        return value.item() if value.size == 1 else value.tolist()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast"])
def test_controls_are_a_python_loops(law, integrator):
    xml = ARM.replace("<option", f'<option integrator="{integrator}"')
    env = make(xml=xml, control=law, dtype=torch.float64, num_threads=2)
    loops = [Loop(law, xml=xml) for _ in range(3)]
    root = env.reset()
    for _ in range(12):
        data, root = env.step_and_maybe_reset(env.rand_action(root))
        for i, loop in enumerate(loops):
            loop.step(data["action"][i].double())
            for array in ("qpos", "qvel", "ctrl"):
                assert_equal(data["next", array][i], getattr(loop.data, array))
    assert torch.isfinite(data["next", "ctrl"]).all()
    assert (data["next", "ctrl"] != data["action"]).any()


def test_gains_drive_joints_to_targets():
    law = "kp * (target - position) - kd * velocity"
    options = {"unlimited_range": (-3, 3), "action_delay": (0, 5), "seed": 0}
    for scale in ({}, {"target_scale": [0.5, 0.3]}):
        torch.manual_seed(0)
        one = make(kp=20.0, kd=[1.0, 0.5], **scale, **options).rollout(20)
        torch.manual_seed(0)
        other = make(control=law, gains={"kp": 20, "kd": [1, 0.5]}, **scale, **options).rollout(20)
        assert_td_equal(one, other)
    mixed = make(control={"bend": law}, unlimited_range=(-3, 3)).action_spec.space
    assert mixed.high[0].tolist() == [2, 3]
    assert make(control=law).action_spec.space.high[0, 0] == pytest.approx(math.radians(150))


def test_gains_of_each_env():
    kp, kd = torch.tensor([1.0, 2.0, 3.0]), torch.rand(3, 2, dtype=torch.float64)
    env = make(control=PD, gains={"kp": kp, "kd": kd}, dtype=torch.float64)
    root = env.reset()
    loops = [Loop({"lift": PD, "bend": PD}, {"kp": kp[i].item(), "kd": kd[i].tolist()}) for i in range(3)]
    for _ in range(5):
        data, root = env.step_and_maybe_reset(env.rand_action(root))
        for i, loop in enumerate(loops):
            loop.step(data["action"][i].double())
            assert_equal(data["next", "qpos"][i], loop.data.qpos)


def test_gains_are_drawn_at_random():
    env = make(1, control=PD, randomize=["numeric_data:kp *= uniform(0.5, 2)"], dtype=torch.float64)
    root = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        loop = Loop({"lift": PD, "bend": PD}, {**GAINS, "kp": GAINS["kp"] * rng.uniform(0.5, 2)})
        for _ in range(3):
            data, root = env.step_and_maybe_reset(env.rand_action(root))
            loop.step(data["action"][0].double())
        assert_equal(data["next", "qpos"][0], loop.data.qpos)
        root = env.reset()


def test_threads_do_not_matter():
    def play(threads):
        torch.manual_seed(0)
        noise = ["qpos += uniform(-0.1, 0.1)", "numeric_data:kd *= uniform(0.5, 2)"]
        env = make(9, control=LAWS[5], randomize=noise, num_threads=threads, max_episode_steps=7, seed=0)
        return env.rollout(30, break_when_any_done=False)

    assert_td_equal(play(1), play(3))


@pytest.mark.parametrize("law", LAWS)
def test_states_go_on_bit_for_bit(law):
    drawn = "numeric_data:kp" if "kp" in str(law) else "body_mass:box"
    options = {"control": law, "randomize": [f"{drawn} *= uniform(0.5, 2)"], "dtype": torch.float64}
    env, other = make(seed=0, **options), make(seed=1, **options)
    env.rollout(7)
    other.rollout(3)
    other.set_state(env.get_state())
    actions = env.full_action_spec["action"].rand()
    for _ in range(5):
        one, same = (
            each.step(each.full_action_spec.zero().set("action", actions.clone())) for each in (env, other)
        )
        assert_td_equal(one["next"], same["next"])


# Without sensors, for which MuJoCo would compute all of it.
CART = """<mujoco><option timestep="0.01"/><worldbody><geom type="plane" size="5 5 .1"/>
<body name="cart" pos="0 0 .1"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
<geom size=".1" mass="1"/><body name="pole"><joint name="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 .5" size=".03" mass=".3"/></body></body></worldbody>
<actuator><motor joint="hinge"/></actuator></mujoco>"""


@pytest.mark.parametrize("observation", [(), ("cfrc_ext", "cacc", "subtree_linvel")])
@pytest.mark.parametrize("name", ["cfrc_ext:cart[5]", "cacc:pole[3]", "subtree_linvel:cart[0]"])
def test_what_mujoco_computes_on_demand_is_there_for_laws(name, observation):
    """Observed or not: momenta as new as positions and velocities, forces of the simulation step before."""
    law = f"action + 0.1 * {name}"
    pool = MujocoPool(CART, 1, observation=("qpos", *observation), control=law, frame_skip=3)
    model = mujoco.MjModel.from_xml_string(CART)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    array, body, index = re.match(r"(\w+):(\w+)\[(\d)\]", name).groups()
    root = pool.reset()
    for step in range(20):
        root["action"] = torch.full((1, 1), math.sin(step))
        root = pool.step(root)["next"]
        for _ in range(3):
            mujoco.mj_step1(model, data)
            mujoco.mj_subtreeVel(model, data)
            action = np.float32(math.sin(step))
            data.ctrl[0] = float(action) + 0.1 * getattr(data, array)[model.body(body).id][int(index)]
            mujoco.mj_step2(model, data)
            mujoco.mj_rnePostConstraint(model, data)
        np.testing.assert_array_equal(root["qpos"][0], data.qpos.astype(np.float32))
    assert abs(getattr(data, array)[model.body(body).id][int(index)]) > 1e-3


def test_expressions_have_pythons_precedence():
    rng = np.random.default_rng(0)

    def expression(depth):
        if depth == 0:
            return rng.choice(["action", "2", "0.5", "1.5", "time"])
        left, right = expression(depth - 1), expression(depth - 1)
        form = rng.choice(
            ["{} + {}", "{} - {}", "{} * {}", "{} / (({}) ** 2 + 1)", "-{} + {}", "({}) * -({})", "({} < {})"]
        )
        return form.format(left, right)

    laws = [expression(4) for _ in range(40)] + [
        "2 ** 3 ** 0.5 * -action",
        "-2 ** 2",
        "- 2 ** -1",
        "2 ** - - 2",
    ]
    pool = [PoolEnv("MJCF-v0", 1, observation=["ctrl", "time"], control=[law]) for law in laws]
    for env, law in zip(pool, laws, strict=True):
        root = env.rand_step(env.reset())
        expected = eval(law, {"action": root["action"].double().item(), "time": root["time"].item()})
        assert root["next", "ctrl"].item() == float(expected), law


def test_an_actuators_name_comes_before_its_number():
    law = {"1": "0.25", "bend": "action:1"}
    env = make(1, xml=ARM.replace('"lift"', '"1"'), control=law, gains={})
    root = env.rand_step(env.reset())
    assert root["next", "ctrl"][0, 0] == 0.25
    assert root["next", "ctrl"][0, 1] == root["action"][0, 0]


@pytest.mark.parametrize("name", ["a=b", "=", "a = b", "a==b", "<=", "it's", 'so "called"', "'a'"])
def test_names_may_hold_signs(name):
    quote = "'" if '"' in name else '"'
    env = make(1, xml=ARM.replace('"lift"', f"{quote}{name}{quote}"), control={name: "0.25"}, gains={})
    assert env.rand_step(env.reset())["next", "ctrl"][0, 0] == 0.25


@pytest.mark.parametrize("line", ["it's = 0.25", "'it\"s' = 0.25", "'bo th' = 0.25", '"it\'s" = 0.25'])
def test_lines_may_quote_names(line):
    name = line.rpartition(" = ")[0]
    name = name[1:-1] if name[0] == name[-1] else name
    quote = "'" if '"' in name else '"'
    env = make(1, xml=ARM.replace('"lift"', f"{quote}{name}{quote}"), control=[line], gains={})
    assert env.rand_step(env.reset())["next", "ctrl"][0, 0] == 0.25


def test_quoted_names_in_laws_for_all_may_hold_signs():
    xml = ARM.replace('"elbow"', '"a=b"')
    env = make(1, xml=xml, control="qpos:'a=b' - 0.5", gains={}, keyframe="bent")
    assert env.rand_step(env.reset())["next", "ctrl"][0, 0] == pytest.approx(-1.2, abs=0.2)


WRONG = [
    ({"control": "stiffness * positoin"}, "no 'stiffness'"),
    ({"control": "positoin"}, "no 'positoin' .did you mean 'position'"),
    ({"control": "qpos:shouldr"}, "no joint 'shouldr' .did you mean 'shoulder'"),
    ({"control": "sensordata:angel"}, "no sensor 'angel' .did you mean 'angle'"),
    ({"control": {"lifft": "action"}}, "no actuator 'lifft' .did you mean 'lift'"),
    ({"control": "action:bent"}, "no actuator 'bent' .did you mean 'bend'"),
    ({"control": "sensordata:where"}, "has 3 elements: say which"),
    ({"control": "sensordata:where[3]"}, r"has 3 elements, got \[3\]"),
    ({"control": "ncon"}, "no real numbers"),
    ({"control": "tanhh(action)"}, "no function 'tanhh' .did you mean 'tanh'"),
    ({"control": "min(action)"}, "'min' takes 2, got 1"),
    ({"control": "action +"}, "expected a number, a name or '.', got the end"),
    ({"control": "2 action"}, "expected an operator, got 'action'"),
    ({"control": "__import__('os')"}, "no function '__import__'"),
    ({"control": "(" * 500}, "nested too deeply"),
    ({"control": ["action", "2 * action"]}, "are for all actuators"),
    ({"control": ["lift = action", "0 = action"]}, "two lines for the actuator 'lift'"),
    ({"control": 3}, "control: expected an expression"),
    ({"control": {1: "action"}}, "control: expected names of actuators, got 1"),
    (
        {"gains": {"kp": [1, 2, 3]}},
        "kp: expected one number, or one for each of the model's 2 actuators, got 3",
    ),
    ({"gains": {"kp": torch.ones(2)}}, r"expected shape \[3\] or \[3, actuators\]"),
    ({"gains": {"target": 1}}, "'target' is a name of its own in expressions"),
    ({"target_scale": 1.0, "control": PD}, "target_scale: only"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_laws_that_cannot_be(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**options)


def test_a_control_that_is_no_number_is_that_envs_failure():
    env = make(control="action / gain", gains={"gain": torch.tensor([1.0, 0.0, 1.0])})
    root = env.rand_action(env.reset())
    root["action"] = root["action"].abs()
    with pytest.raises(EnvFailure, match="MuJoCo: ") as raised:
        env.step(root)
    assert raised.value.env_index == [1]


def test_other_actuators_than_joints_have_no_position():
    xml = ARM.replace(
        '<motor name="bend" joint="elbow" gear="2"/>', '<motor name="bend" site="tip" gear="1 0 0 0 0 0"/>'
    )
    with pytest.raises(ValueError, match="'bend' moves no hinge or slide: it has no 'position'"):
        MujocoPool(xml, 1, control=PD, gains=GAINS)
    MujocoPool(xml, 1, control={"lift": PD}, gains=GAINS).rollout(3)
