"""reset(options=…): what a caller chooses for one reset, for all envs or for each."""

import pytest
import torch
from building import build_plugin
from cases import cases
from tensordict import TensorDict
from torchrl.envs import ParallelEnv

from torchrl_pool import EnvFailure, PoolEnv, load_plugin, task_info
from torchrl_pool.__main__ import main


@pytest.fixture(scope="module", autouse=True)
def _plugin():
    load_plugin(build_plugin("starts"))


def seen(td):
    return td["observation"].tolist()


def test_an_author_declares_them_like_options():
    options = {option.name: option for option in task_info("Starts-v0").reset_options}
    assert list(options) == ["start", "lap", "side"]
    assert (options["start"].type, options["start"].default, options["start"].maximum) == ("float", 1.5, 10)
    assert (options["lap"].nullable, options["lap"].default) == (True, 7)
    assert options["side"].choices == ("left", "right")
    assert task_info("FrozenLake-v1").reset_options == ()


def test_what_is_not_chosen_has_its_default():
    env = PoolEnv("Starts-v0", 2, env_options=[{}, {"home": -2}])
    default = [[1.5, 7, 0], [-2, 7, 0]]
    assert seen(env.reset()) == default
    assert seen(env.reset(options={})) == default
    assert seen(env.reset(options={"lap": 3})) == [[1.5, 3, 0], [-2, 3, 0]]
    assert seen(env.reset(options={"lap": None, "start": 4})) == [[4, -1, 0]] * 2
    assert seen(env.reset()) == default  # chosen for one reset only


def test_each_env_has_its_own():
    env = PoolEnv("Starts-v0", 3)
    chosen = [{"start": 1}, None, {"side": "right", "lap": 0}]
    assert seen(env.reset(options=chosen)) == [[1, 7, 0], [1.5, 7, 0], [1.5, 0, 1]]
    kwargs = [{"options": options} for options in chosen]
    assert seen(env.reset(list_of_kwargs=kwargs)) == [[1, 7, 0], [1.5, 7, 0], [1.5, 0, 1]]
    # What is given for all comes first, as in SerialEnv.
    assert seen(env.reset(list_of_kwargs=kwargs, options={"lap": 5})) == [[1.5, 5, 0]] * 3


def test_a_mask_leaves_the_others_where_they_are():
    env = PoolEnv("Starts-v0", 3)
    td = env.step(env.rand_action(env.reset()))["next"]
    td["_reset"] = torch.tensor([True, False, True]).unsqueeze(-1)
    after = env.reset(td, options=[{"start": 1}, {"start": 2}, {"start": 3}])
    assert seen(after) == [[1, 7, 0], [0, 0, 0], [3, 7, 0]]


def test_an_episode_that_follows_has_none():
    env = PoolEnv("Starts-v0", 2)
    root = env.rand_action(env.reset(options={"start": 5}))
    assert seen(env.step_and_maybe_reset(root)[1]) == [[1.5, 7, 0]] * 2


@pytest.mark.parametrize(
    ("given", "error", "message"),
    cases(
        default=[
            ({"options": {"start": "x"}}, TypeError, "option 'start': expected float, got 'x'"),
            ({"options": {"start": None}}, TypeError, "option 'start': expected float, got None"),
            ({"options": [{}]}, ValueError, r"options: expected one mapping per env \(2\), got 1"),
            ({"options": [{}, 3]}, TypeError, "options: expected a mapping for each env, got 3"),
            ({"options": 3}, TypeError, "options: expected a mapping, or one for each env, got 3"),
            (
                {"list_of_kwargs": [{}]},
                ValueError,
                r"list_of_kwargs: expected one mapping per env \(2\), got 1",
            ),
            ({"list_of_kwargs": [{}, {"x": 1}]}, TypeError, "expected 'seed' and 'options', got 'x'"),
        ],
        also=[
            ({"options": {"begin": 1}}, TypeError, "no reset option 'begin'; it has: start, lap, side"),
            ({"options": {"star": 1}}, TypeError, r"no reset option 'star' \(did you mean 'start'\?\)"),
            ({"options": {"start": 11}}, ValueError, r"expected a number in \[-10, 10\], got 11"),
            ({"options": {"side": "top"}}, ValueError, "expected one of 'left', 'right', got 'top'"),
            (
                {"options": {"side": "right", "start": -1}},
                ValueError,
                "Starts-v0: there is no road on the right",
            ),
            ({"list_of_kwargs": [{}, {"seed": -1}]}, ValueError, "seed: expected at least 0, got -1"),
            ({"option": {}}, TypeError, "takes 'seed', 'options' and 'list_of_kwargs', got option"),
        ],
    ),
)
def test_bad_ones_are_refused_before_anything_moves(given, error, message):
    env = PoolEnv("Starts-v0", 2)
    env.reset()
    states = env.step(env.rand_action(env.reset(options={"start": 2})))
    with pytest.raises(error, match=message):
        env.reset(**given)
    assert states["next", "done"].all()
    env.rand_step(env.reset())


def test_tasks_without_any_say_so():
    env = PoolEnv("FrozenLake-v1", 2)
    with pytest.raises(TypeError, match="task 'FrozenLake-v1' has no reset option 'low'; it has: none"):
        env.reset(options={"low": 1})
    env.reset(options={})


def test_an_env_that_fails_in_such_a_reset_leaves_the_others_alone():
    env = PoolEnv("Starts-v0", 2)
    with pytest.raises(EnvFailure, match=r"env 1 .* failed in a reset: nobody starts into lap 13") as caught:
        env.reset(options=[{"lap": 3}, {"lap": 13}])
    assert caught.value.env_index == [1]
    assert seen(env.reset()) == [[1.5, 7, 0]] * 2


def test_seeds_of_some():
    """Through list_of_kwargs each env may have a seed, or go on."""
    one, other = PoolEnv("CartPole-v1", 2), PoolEnv("CartPole-v1", 2)
    first, again = one.reset(seed=[3, 4]), other.reset(seed=[3, 4])
    mixed, going_on = one.reset(list_of_kwargs=[{"seed": 3}, {}]), other.reset()
    assert mixed["observation"][0].equal(first["observation"][0])
    assert mixed["observation"][1].equal(going_on["observation"][1])
    assert not mixed["observation"][1].equal(again["observation"][1])


def test_through_torchrls_batched_envs():
    def at(position):
        return {"low": position, "high": position}

    envs = ParallelEnv(2, lambda: PoolEnv("MountainCar-v0", 2), mp_start_method="fork")
    try:
        assert envs.reset(options=at(-0.5))["observation"][..., 0].eq(-0.5).all()
        chosen = [{"options": at(-1.0)}, {"options": [at(0.25), at(0.5)]}]
        positions = envs.reset(list_of_kwargs=chosen)["observation"][..., 0]
        assert positions.tolist() == [[-1, -1], [0.25, 0.5]]
    finally:
        envs.close()


def test_other_entries_of_the_tensordict_do_not_matter():
    env = PoolEnv("Starts-v0", 2)
    td = TensorDict({"mine": torch.zeros(2)}, [2])
    assert seen(env.reset(td, options={"start": 3})) == [[3, 7, 0]] * 2


def test_info_shows_them(capsys):
    assert main(["info", "Pendulum-v1"]) == 0
    shown = capsys.readouterr().out
    assert "Options of a reset" in shown
    assert shown.count("x_init") == 2
