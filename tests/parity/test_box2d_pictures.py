"""What render() shows of LunarLander, BipedalWalker and CarRacing, against pygame's, in every byte."""

import pytest
import torch
from cases import LONG, cases
from test_pictures import assert_same_pictures, play

from torchrl_pool import list_tasks

pytest.importorskip("Box2D", reason="there are wheels of box2d for CPython 3.11 to 3.13 on x86-64 alone")

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:UserWarning")


@pytest.mark.parametrize("task", cases(default=["LunarLander-v3"], also=list_tasks("box2d")))
def test_pictures_equal_gymnasiums(task, make_pool):
    torch.manual_seed(0)
    steps = 400 if LONG else 30 if "Car" in task else 60
    assert_same_pictures(play(task, make_pool, episodes=3 if LONG else 2, steps=steps))


def test_wind_blows_particles_too(make_pool):
    torch.manual_seed(1)
    assert_same_pictures(
        play("LunarLander-v3", make_pool, episodes=1, steps=60, enable_wind=True, gravity=-3.0)
    )


def test_skid_marks(make_pool):
    """Hard braking in turns leaves some."""
    turns = torch.tensor([[1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    assert_same_pictures(
        play("CarRacing-v3", make_pool, episodes=1, steps=90, act=lambda t, root: turns[int(t > 60)])
    )


def test_domain_randomization_shows(make_pool):
    assert_same_pictures(
        play("CarRacing-v3", make_pool, episodes=2, steps=3, domain_randomize=True, continuous=False)
    )


def test_a_picture_is_the_state_s(make_pool):
    """Not a matter of how often it was looked at; and looking changes nothing that comes."""
    for task in ("LunarLander-v3", "BipedalWalker-v3"):
        watched, unseen = make_pool(task, 2), make_pool(task, 2)
        roots = [watched.reset(seed=2), unseen.reset(seed=2)]
        for _ in range(25):
            watched.render()
            action = watched.rand_action()["action"]
            roots = [
                pool.step(root.set("action", action))["next"]
                for pool, root in zip((watched, unseen), roots, strict=True)
            ]
            assert torch.equal(roots[0]["observation"], roots[1]["observation"])
        shown = watched.render()
        assert torch.equal(shown, watched.render())
        assert torch.equal(shown, unseen.render())
