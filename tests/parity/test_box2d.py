"""LunarLander, BipedalWalker and CarRacing against Gymnasium on pybox2d, bit for bit, rewards as doubles."""

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG, cases
from comparing import differing_keys
from gymnasium.vector import AutoresetMode
from references.reference import gymnasium_env

from torchrl_pool import PoolEnv, list_tasks
from torchrl_pool.gymnasium import PoolVectorEnv

pytest.importorskip("Box2D", reason="there are wheels of box2d for CPython 3.11 to 3.13 on x86-64 alone")
from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics
from gymnasium.envs.box2d.lunar_lander import heuristic

TASKS = list_tasks("box2d")
LUNAR, WALKERS = [t for t in TASKS if "Lunar" in t], [t for t in TASKS if "Walker" in t]

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:UserWarning")


class Player:
    """Acts at random, by Gymnasium's heuristics, or by these with some random actions, by turns."""

    def __init__(self, env, episode):
        self.env, self.task = env, env.spec.id
        self.randomness = (1.0, 0.0, 0.3)[episode % 3]
        self.walker = BipedalWalkerHeuristics()
        self.draws = np.random.default_rng(episode)
        env.action_space.seed(episode)

    def act(self, observation):
        space = self.env.action_space
        if self.draws.random() < self.randomness:
            return space.sample()
        if "Lunar" in self.task:
            return np.asarray(heuristic(self.env, observation), space.dtype)
        if "Walker" in self.task:
            return np.asarray(self.walker.step_heuristic(observation), np.float32)
        return self.follow_the_road() if isinstance(space, gymnasium.spaces.Box) else space.sample()

    def follow_the_road(self):
        env = self.env.unwrapped
        x, y = env.car.hull.position
        road = np.array([point[2:4] for point in env.track])
        ahead = road[(int(np.argmin(((road - (x, y)) ** 2).sum(1))) + 5) % len(road)]
        angle, speed = env.car.hull.angle, np.hypot(*env.car.hull.linearVelocity)
        aside = (ahead[0] - x) * np.cos(angle) + (ahead[1] - y) * np.sin(angle)
        gas, brake = 0.5 if speed < 40 else 0.0, 0.2 if speed > 50 else 0.0
        return np.array([np.clip(aside / 8, -1, 1), gas, brake], np.float32)


def play(task, episodes, *, first_seed=0, limit=None, make_player=Player, blind=False, **options):
    """Compares some episodes, of which every fourth is not seeded; gives how each of them ended.

    ``blind``: whether Gymnasium draws no picture of a race, and only rewards and flags are compared.
    """
    lengths = {} if limit is None else {"max_episode_steps": limit}
    twin = gymnasium_env(task, **options, **lengths)
    pool = PoolVectorEnv(task, 1, autoreset_mode=AutoresetMode.DISABLED, **options, **lengths)
    if blind:
        twin.unwrapped._render = lambda mode: np.zeros((96, 96, 3), np.uint8)
    ends = []
    for episode in range(episodes):
        seed = None if episode % 4 == 3 else first_seed + episode**9
        observation, _ = twin.reset(seed=seed)
        if seed is None:
            ours, _ = pool.reset(options={"reset_mask": np.ones(1, bool)})
        else:
            ours, _ = pool.reset(seed=seed)
        player, t, done = make_player(twin, episode), 0, False
        while not done:
            where = f"episode {episode}, step {t}"
            assert blind or np.array_equal(ours[0], observation), where
            action = player.act(observation)
            observation, reward, terminated, truncated, info = twin.step(action)
            ours, rewards, terminations, truncations, infos = pool.step(np.asarray(action)[None])
            assert rewards.dtype == np.float64
            assert rewards[0] == reward, where
            assert (terminations[0], truncations[0]) == (terminated, truncated), where
            done, t = terminated or truncated, t + 1
            if "lap_finished" in info:
                assert infos["lap_finished"].dtype == bool
                assert infos["lap_finished"][0] == info["lap_finished"]
        assert blind or np.array_equal(ours[0], observation)
        ends.append(round(float(reward)) if abs(reward) == 100 else info.get("lap_finished", terminated))
    twin.close()
    pool.close()
    return ends


@pytest.mark.parametrize(
    ("task", "options"),
    [
        *((task, {}) for task in TASKS),
        ("LunarLander-v3", {"continuous": True}),
        ("CarRacing-v3", {"continuous": False}),
    ],
    ids=str,
)
def test_spaces_equal_gymnasiums(task, options):
    pool, twin = PoolVectorEnv(task, 1, **options), gymnasium_env(task, **options)
    assert pool.single_observation_space == twin.observation_space
    assert pool.single_action_space == twin.action_space
    pool.close()
    twin.close()


@pytest.mark.parametrize(
    "options",
    cases(
        default=[{}, {"enable_wind": True}],
        also=[
            {"continuous": True},
            {"continuous": True, "enable_wind": True, "wind_power": 20.0, "turbulence_power": 2.0},
            {"gravity": -5.3, "enable_wind": True, "wind_power": 4.0, "turbulence_power": 0.0},
            {"gravity": -11.9},
        ],
    ),
    ids=str,
)
def test_lunar_lander(options):
    ends = play("LunarLander-v3", 60 if LONG else 9, **options)
    if not options or options == {"continuous": True}:
        assert {-100, 100} <= set(ends), "it lands and it crashes"


def test_lunar_lander_with_engines_that_can_be_throttled():
    assert {-100, 100} <= set(play("LunarLanderContinuous-v3", 9))
    assert play("LunarLanderContinuous-v3", 3, limit=40, continuous=False) == [False] * 3


@pytest.mark.parametrize("task", cases(WALKERS))
def test_bipedal_walker(task):
    """In one world over all episodes: what was destroyed in it matters."""
    ends = play(task, 60 if LONG else 10, limit=None if LONG else 700)
    assert {-100, False} <= set(ends), "it falls, and time ends"


def test_bipedal_walker_arrives():
    class Walker(Player):
        def __init__(self, env, episode):
            super().__init__(env, 1)

    assert play("BipedalWalker-v3", 1, first_seed=6, make_player=Walker) == [True]


def test_hardcore_is_an_option_too():
    play("BipedalWalker-v3", 2, limit=300, hardcore=True)


@pytest.mark.parametrize(
    "options",
    cases(
        default=[{"continuous": False}, {"domain_randomize": True}],
        also=[{}, {"domain_randomize": True, "continuous": False}],
    ),
    ids=str,
)
def test_car_racing(options):
    play("CarRacing-v3", 4, limit=300 if LONG else 10, **options)


def test_colours_stay_where_a_reset_says_so():
    pool = PoolVectorEnv("CarRacing-v3", 2, domain_randomize=True)
    first = pool.reset(seed=[1, 2])[0]
    kept = pool.reset(seed=[1, 2], options={"randomize": False})[0]
    others = pool.reset(seed=[3, 4])[0]

    def field(picture):
        colours, counts = np.unique(picture[:60].reshape(-1, 3), axis=0, return_counts=True)
        return max(zip(counts, map(tuple, colours), strict=True), key=lambda pair: pair[0] * any(pair[1]))[1]

    for a, b, c in zip(first, kept, others, strict=True):
        assert field(a) == field(b) != field(c)
    assert field(first[0]) != field(first[1])
    pool.close()


class Straight(Player):
    """Leaves the field."""

    def act(self, observation):
        return np.array([0, 0.5, 0], np.float32)


def test_car_racing_ends_beyond_the_field():
    assert play("CarRacing-v3", 1, make_player=Straight, blind=True) == [-100]


def test_car_racing_ends_with_a_lap():
    assert play("CarRacing-v3", 2, blind=True, lap_complete_percent=0.0) == [True, True]


@pytest.mark.slow  # a lap takes a minute
@pytest.mark.parametrize("percent", [0.5, 0.95])
def test_laps_of_car_racing(percent):
    class Driver(Player):
        def __init__(self, env, episode):
            super().__init__(env, 1)

    assert True in play(
        "CarRacing-v3", 8, limit=2400, make_player=Driver, blind=True, lap_complete_percent=percent
    )


@pytest.mark.parametrize(
    "task",
    cases(
        default=["BipedalWalkerHardcore-v3", "CarRacing-v3", "LunarLander-v3", "LunarLanderContinuous-v3"],
        also=TASKS,
    ),
)
def test_states_of_worlds_that_have_lived(task):
    """A state that is loaded elsewhere goes on through the next episodes, and looks the same."""
    pools = [PoolEnv(task, 2, max_episode_steps=25, categorical_action_encoding=True) for _ in range(2)]
    lived, other = pools
    root = lived.reset(seed=5)
    for _ in range(60):
        root = lived.step_and_maybe_reset(lived.rand_action(root))[1]
    other.reset(seed=0)
    shown = lived.render()
    other.set_state(lived.get_state())
    assert torch.equal(other.render(), shown)
    roots = [root.clone(), root.clone()]
    for _ in range(60):
        action = lived.rand_action()["action"]
        steps = [p.step_and_maybe_reset(r.set("action", action)) for p, r in zip(pools, roots, strict=True)]
        assert not differing_keys(steps[0][0], steps[1][0])
        roots = [step[1] for step in steps]
    for pool in pools:
        pool.close()


@pytest.mark.parametrize("gravity", cases([0.0, 1.0, -12.0]))
def test_gravity_that_the_reference_refuses(gravity):
    with pytest.raises(AssertionError):
        gymnasium_env("LunarLander-v3", gravity=gravity)
    with pytest.raises(ValueError, match="gravity"):
        PoolEnv("LunarLander-v3", 1, gravity=gravity).reset()


def test_physics_that_fail_end_an_episode_not_the_process(make_pool):
    """Box2D asserts that numbers are finite: an error, after which a reset begins in a world of its own."""
    pool, whole = (make_pool("BipedalWalker-v3", 2) for _ in range(2))
    first = pool.reset(seed=0)
    broken = first.clone().set("action", torch.full((2, 4), float("nan")))

    def step_on():
        root = broken
        for _ in range(5):
            root = pool.step(root)["next"].set("action", broken["action"])

    with pytest.raises(Exception, match=r"Box2D|NaN|nan|finite"):
        step_on()
    assert torch.equal(pool.reset(seed=1)["observation"], whole.reset(seed=1)["observation"])
