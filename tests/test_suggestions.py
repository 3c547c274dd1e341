"""What the answer to an unknown task suggests."""

import ast
import re

import pytest

from torchrl_pool import PoolEnv


def answer(task):
    with pytest.raises(ValueError, match=re.escape(f"unknown task {task!r}; ")) as info:
        PoolEnv(task, 1)
    return str(info.value).splitlines()[0].partition("; ")[2]


@pytest.mark.parametrize(
    ("task", "suggested"),
    [
        ("Taxi-v3", "'Taxi-v4'"),
        ("Acrobot-v2", "'Acrobot-v1'"),
        ("LunarLander-v2", "'LunarLander-v3'"),
        ("HalfCheetah-v3", "'HalfCheetah-v5' or 'HalfCheetah-v4'"),
        ("Blackjack-v0", "'Blackjack-v1' or 'ALE/Blackjack-v5'"),
        ("gym/CartPole-v1", "'CartPole-v1' or 'CartPole-v0'"),
        ("Pong-v5", "'ALE/Pong-v5'"),  # EnvPool's
        ("space_invaders", "'ALE/SpaceInvaders-v5'"),  # ale-py's
        ("PongNoFrameskip-v0", "'ALE/Pong-v5'"),  # Gym's
        ("PongNoFrameskip-v4", "'ALE/Pong-v5', with repeat_action_probability=0.0"),
        ("Pong-ramDeterministic-v4", "'ALE/Pong-v5', with repeat_action_probability=0.0 and obs_type='ram'"),
    ],
)
def test_ids_of_other_versions_and_libraries(task, suggested):
    assert answer(task) == f"did you mean {suggested}?"


@pytest.mark.parametrize(
    ("task", "suggested"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("cheetah", "HalfCheetah-v5"),
        ("Cliff-v1", "CliffWalking-v1"),
        ("CheetahRun-v1", "dm_control/cheetah-run-v0"),
    ],
)
def test_misspelt_and_shortened_names(task, suggested):
    assert answer(task).startswith(f"did you mean '{suggested}'")


@pytest.mark.parametrize("task", ["", "/", "-v5", "a\nb", "zzzz", "AcmeTask-v1"])
def test_where_nothing_is_similar_nothing_is_suggested(task):
    assert answer(task) == "see list_tasks()"


@pytest.mark.parametrize("suffix", ["NoFrameskip-v4", "-ram-v4"])
def test_a_suggestion_with_options_is_one_that_works(suffix):
    _, task, _, options = re.split(r"'(ALE/Pong-v5)'(, with )?", answer(f"Pong{suffix}"))
    given = dict(option.split("=") for option in options.rstrip("?").split(" and "))
    env = PoolEnv(task, 1, **{name: ast.literal_eval(value) for name, value in given.items()})
    assert env.rollout(2)["observation"].shape[2:] == ((128,) if suffix.startswith("-ram") else (4, 84, 84))
