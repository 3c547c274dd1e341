"""Models as text and as files: marks, encodings, and files from memory."""

import codecs
import pickle

import pytest
import torch
from cases import cases
from models import ARM

from torchrl_pool import MujocoPool

INCLUDED = '<mujocoinclude><body name="more" pos="3 0 1"><geom size="0.1"/></body></mujocoinclude>'


@pytest.fixture
def marked(tmp_path):
    path = tmp_path / "marked.xml"
    path.write_bytes(codecs.BOM_UTF8 + ARM.encode())
    return path


def test_a_byte_order_mark_is_no_part_of_a_model(marked):
    text = marked.read_text("utf-8")
    assert text[0] == "\ufeff"
    for env in (MujocoPool(text, 1), MujocoPool(marked, 1)):
        assert (env.mj_model.nq, env.mj_model.ncam) == (9, 1)
        env.rollout(2)


def test_an_asset_may_be_called_as_a_model_is():
    text = ARM.replace("</worldbody>", '<include file="model.xml"/></worldbody>')
    for name in ("model.xml", "./model.xml"):
        env = MujocoPool(text, 1, assets={name: memoryview(INCLUDED.encode())})
    env = pickle.loads(pickle.dumps(env))
    assert env.mj_model.body("more").id > 0
    env.rollout(2)


@pytest.mark.parametrize(
    ("assets", "message"),
    cases(
        [
            ({"a.xml": "text"}, "assets: 'a.xml': expected bytes, got str"),
            (["a"], "assets: expected a mapping"),
        ]
    ),
)
def test_assets_that_are_none(assets, message):
    with pytest.raises(TypeError, match=message):
        MujocoPool(ARM, 1, assets=assets)


def test_each_env_may_have_its_own_model(tmp_path):
    heavy = ARM.replace('mass="0.5"', 'mass="5"')
    thumb = '<geom name="thumb" size="0.05" pos="0.1 0 0"/><site name="tip"'
    handed = tmp_path / "handed.xml"
    handed.write_text(ARM.replace('<site name="tip"', thumb))
    models = [ARM, heavy, handed, ARM]
    env = MujocoPool(models, 4, frame_skip=3, dtype="float64", observation=("qpos", "sensordata"), seed=0)
    data = env.rollout(20, break_when_any_done=False)
    for i, model in enumerate(models):
        alone = MujocoPool(model, 1, frame_skip=3, dtype="float64", observation=("qpos", "sensordata"))
        root = alone.reset()
        for step in range(20):
            root["action"] = data["action"][i : i + 1, step]
            stepped, root = alone.step_and_maybe_reset(root)
            for key in ("qpos", "sensordata"):
                assert torch.equal(stepped["next", key][0], data["next", key][i, step])
    assert not torch.equal(data["next", "qpos"][0], data["next", "qpos"][1])


def test_models_per_env_must_agree_in_what_is_observed():
    with pytest.raises(ValueError, match="xml: expected one model or 3 of them, one per env, got 2"):
        MujocoPool([ARM, ARM], 3)
    with pytest.raises(TypeError, match="xml: expected the path of a model or its text, got list"):
        MujocoPool([ARM, [ARM]], 2)
    with pytest.raises(ValueError, match=r"env 0 and env 1: .* give 'qpos' different shapes"):
        MujocoPool([ARM, "ant.xml"], 2)
    other = ARM.replace('"elbow"', '"knee"')
    with pytest.raises(ValueError, match="'qpos:elbow': the model has no joint 'elbow'"):
        MujocoPool([ARM, other], 2, observation=("qpos:elbow",))


def test_models_per_env_are_drawn_from_by_themselves_and_pickled():
    heavy = ARM.replace('mass="0.5"', 'mass="5"')
    env = MujocoPool(
        [ARM, heavy],
        2,
        observation=("qpos", "body_mass:lower"),
        randomize=["body_mass:lower *= uniform(1, 2)"],
    )
    copy = pickle.loads(pickle.dumps(env))
    for one in (env, copy):
        one.set_seed(3)
        light, other = one.reset()["body_mass:lower"].flatten().tolist()
        assert 0.5 <= light <= 1
        assert 5 <= other <= 10
