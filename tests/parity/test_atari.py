"""Atari against the live references: Gymnasium's env and wrappers, and ale-py's own vector env.

Rewards, flags, lives, frame numbers and RAM are exact, and so is every pixel: the tests ask for equality, not
for a tolerance. ale-py's tests of its vector env allow differences of up to 2 per pixel.
"""

import gymnasium
import numpy as np
import pytest
import torch
from ale_py.vector_env import AtariVectorEnv
from cases import LONG, cases
from comparing import assert_same
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from references.atari import INFO, Atari, WithRAM
from torchrl.envs import GymEnv, SerialEnv
from torchrl.envs.utils import check_env_specs

ATARI = Atari()
# Lives and none, paddles and joysticks, PAL and NTSC, still and scrolling, with starting actions and without.
GAMES = [
    "ALE/AirRaid-v5",
    "ALE/Breakout-v5",
    "ALE/DoubleDunk-v5",
    "ALE/Enduro-v5",
    "ALE/MsPacman-v5",
    "ALE/Pong-v5",
    "ALE/PrivateEye-v5",
    "ALE/Qbert-v5",
    "ALE/Seaquest-v5",
    "ALE/SpaceInvaders-v5",
]


@pytest.mark.parametrize("seed", [4_000_000_000, *([11] if LONG else [])])
@pytest.mark.parametrize("task", cases(default=["ALE/Pong-v5", "ALE/SpaceInvaders-v5"], also=GAMES))
def test_equals_gymnasium_with_and_without_sticky_actions(task, seed):
    options = [{"repeat_action_probability": 0.25}, {"repeat_action_probability": 0.0}]
    each = iter(options)
    ATARI.compare(
        task,
        600 if LONG else 150,
        make=lambda: ATARI.make(task, **next(each)),
        num_envs=2,
        seeds=(seed,),
        env_options=options,
    )


# Sizes that take each of OpenCV's ways: uneven, whole factors, two by two, whole along one side only, none.
SIZES = [(84, 84), (96, 64), 50, (40, 70), (80, 105), (160, 105), (80, 210), (160, 210), (1, 1), (159, 209)]


@pytest.mark.parametrize("grayscale_obs", [True, False])
@pytest.mark.parametrize("screen_size", SIZES)
def test_picture_sizes_equal_opencvs(screen_size, grayscale_obs):
    options = {"screen_size": screen_size, "grayscale_obs": grayscale_obs}
    ATARI.compare("ALE/SpaceInvaders-v5", 60 if LONG else 20, num_envs=1, **options)


def sampled_options(seed):
    """Every option of the two references, drawn at random."""
    rng = np.random.default_rng(seed)
    task = GAMES[rng.integers(len(GAMES))]
    ale = gymnasium.make(task).unwrapped.ale
    return task, {
        "noop_max": int(rng.choice([0, 1, 7, 30])),
        "frame_skip": int(rng.choice([1, 2, 3, 4, 5])),
        "screen_size": SIZES[rng.integers(len(SIZES))],
        "terminal_on_life_loss": bool(rng.integers(2)),
        "grayscale_obs": bool(rng.integers(2)),
        "scale_obs": bool(rng.integers(2)),
        "stack_size": int(rng.choice([1, 2, 4, 5])),
        "repeat_action_probability": float(rng.choice([0.0, 0.1, 0.25, 1.0])),
        "full_action_space": bool(rng.integers(2)),
        "mode": int(rng.choice(ale.getAvailableModes())),
        "difficulty": int(rng.choice(ale.getAvailableDifficulties())),
        "max_num_frames_per_episode": [None, 108_000, 97, 160][rng.integers(4)],
    }


@pytest.mark.parametrize("seed", cases(range(4), also=range(4, 24)))
def test_sampled_options_equal_gymnasiums(seed):
    task, options = sampled_options(seed)
    ATARI.compare(task, 100, num_envs=2, seeds=(seed,), **options)


def test_episode_that_ends_during_the_no_ops_equals_gymnasiums():
    (rollout,) = ATARI.compare("ALE/Pong-v5", 40, max_num_frames_per_episode=10)
    assert rollout["next", "done"].sum() > 30


@pytest.mark.parametrize("task", ["ALE/Seaquest-v5", "ALE/Breakout-v5"])
@pytest.mark.parametrize("threshold", cases([0.5, 0.2]))
def test_continuous_actions_equal_gymnasiums(task, threshold, make_pool):
    options = {"continuous": True, "continuous_action_threshold": threshold, "noop_max": 0}
    pool, env = make_pool(task, 2, **options), ATARI.make(task, **options)
    assert_same(pool.action_spec.space.low[0], env.action_space.low, "low")
    assert_same(pool.action_spec.space.high[0], env.action_space.high, "high")
    ATARI.compare(task, 300 if LONG else 120, num_envs=2, **options)


@pytest.mark.parametrize("obs_type", ["rgb", "grayscale", "ram"])
@pytest.mark.parametrize("frame_skip", cases([1, 4]))
def test_plain_observations_equal_those_of_gymnasium_make(obs_type, frame_skip):
    def make():
        env = gymnasium.make(
            "ALE/Breakout-v5", obs_type=obs_type, frameskip=frame_skip, disable_env_checker=True
        )
        return WithRAM(env)

    steps = (250 if LONG else 40) * 4 // frame_skip
    options = {"obs_type": obs_type, "frame_skip": frame_skip}
    (rollout,) = ATARI.compare("ALE/Breakout-v5", steps, make=make, num_envs=2, **options)
    assert rollout["next", "done"].any() or not LONG


def test_pixels_equal_those_of_gym_env(make_pool):
    """GymEnv shows a game one frame for each action, unless it is told otherwise."""
    pool = make_pool("ALE/Pong-v5", 2, from_pixels=True, obs_type="rgb")
    options = {"from_pixels": True, "frame_skip": 4, "categorical_action_encoding": True}
    reference = SerialEnv(2, lambda: GymEnv("ALE/Pong-v5", **options))
    for env in (pool, reference):
        env.set_seed(0)
    root, expected = pool.reset(), reference.reset()
    for _ in range(40):
        assert torch.equal(root["pixels"], expected["pixels"])
        action = pool.rand_action()["action"]
        (_, root), (_, expected) = (
            env.step_and_maybe_reset(one.set("action", action))
            for env, one in ((pool, root), (reference, expected))
        )
    reference.close()


# Options of AtariVectorEnv, and what they are called here.
VECTOR_OPTIONS = [
    ({}, {}),
    ({"repeat_action_probability": 0.25, "noop_max": 0}, {"repeat_action_probability": 0.25, "noop_max": 0}),
    (
        {"episodic_life": True, "reward_clipping": False},
        {"terminal_on_life_loss": True, "reward_clip": False},
    ),
    (
        {"grayscale": False, "frameskip": 1, "stack_num": 2, "noop_max": 1},
        {"grayscale_obs": False, "frame_skip": 1, "stack_size": 2, "noop_max": 1},
    ),
    (
        {"max_num_frames_per_episode": 150, "use_fire_reset": False, "img_height": 60, "img_width": 100},
        {"max_num_frames_per_episode": 150, "fire_reset": False, "screen_size": (100, 60)},
    ),
    ({"full_action_space": True, "frameskip": 3}, {"full_action_space": True, "frame_skip": 3}),
]


@pytest.mark.parametrize("game", ["breakout", "pong", "ms_pacman", "space_invaders"])
@pytest.mark.parametrize(("theirs", "ours"), VECTOR_OPTIONS)
def test_ale_vector_equals_atari_vector_env(game, theirs, ours, make_pool):
    n = 3
    reference = AtariVectorEnv(game, n, num_threads=1, autoreset_mode=AutoresetMode.SAME_STEP, **theirs)
    defaults = {"repeat_action_probability": 0.0, "reward_clip": True, "fire_reset": True}
    pool = make_pool(
        gymnasium.spec(f"ALE/{game.title().replace('_', '')}-v5").id,
        n,
        dialect="ale_vector",
        info_keys=INFO,
        **{**defaults, **ours},
    )
    root = pool.reset(seed=3)
    observation, info = reference.reset(seed=3)
    episodes = 0
    is_short = not LONG and game in ("breakout", "pong")  # the first lives of others last longer
    for t in range(100 if is_short else 200):
        assert_same(root["observation"], observation, f"before step {t}")
        for key in INFO:
            assert root[key][:, 0].tolist() == info[key].tolist(), f"{key} before step {t}"
        data, root = pool.step_and_maybe_reset(pool.rand_action(root))
        observation, reward, terminated, truncated, info = reference.step(data["action"].numpy())
        after = data["next"]
        assert after["reward"][:, 0].tolist() == reward.tolist(), f"reward of step {t}"
        assert after["terminated"][:, 0].tolist() == terminated.tolist(), f"terminated of step {t}"
        assert after["truncated"][:, 0].tolist() == truncated.tolist(), f"truncated of step {t}"
        for i in np.flatnonzero(terminated | truncated):
            episodes += 1
            assert_same(after["observation"][i], info["final_obs"][i], f"last observation at step {t}")
    assert episodes > 0 or not {"max_num_frames_per_episode", "episodic_life"} & set(theirs) or game == "pong"


class FireReset(gymnasium.Wrapper):
    """Stable-Baselines3's FireResetEnv, but with the first observation of the episode that really begins."""

    def reset(self, **kwargs):
        self.env.reset(**kwargs)
        for action in (1, 2):
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


@pytest.mark.parametrize("task", cases(["ALE/Breakout-v5", "ALE/SpaceInvaders-v5"]))
def test_fire_reset_equals_the_usual_wrapper(task):
    def make():
        env = gymnasium.make(task, frameskip=1, disable_env_checker=True)
        env = FireReset(AtariPreprocessing(env, terminal_on_life_loss=True))
        return WithRAM(FrameStackObservation(env, 4))

    options = {"fire_reset": True, "terminal_on_life_loss": True}
    (rollout,) = ATARI.compare(task, 400 if LONG else 80, make=make, num_envs=2, **options)
    assert rollout["next", "done"].sum() > 2 or not LONG


def test_fire_reset_does_nothing_where_there_is_no_fire(make_pool):
    pools = [make_pool("ALE/MsPacman-v5", 1, seed=1, fire_reset=fire) for fire in (False, True)]
    first, second = (pool.reset()["observation"] for pool in pools)
    assert torch.equal(first, second)


def test_clipped_rewards_and_lost_lives_leave_the_episode_alone(make_pool):
    keys = ("lives", "life_lost", "raw_reward")
    clipped = make_pool("ALE/MsPacman-v5", 4, seed=0, reward_clip=True, info_keys=keys)
    plain = make_pool("ALE/MsPacman-v5", 4, seed=0, info_keys=keys)
    a, b = clipped.reset(), plain.reset()
    assert not a["life_lost"].any()
    losses = 0
    large = 0
    for _ in range(400):
        action = plain.rand_action()["action"]
        lives = a["lives"]
        a, a_root = clipped.step_and_maybe_reset(a.set("action", action))
        b, b_root = plain.step_and_maybe_reset(b.set("action", action.clone()))
        after = a["next"]
        assert torch.equal(after["observation"], b["next", "observation"])
        assert torch.equal(after["raw_reward"], b["next", "reward"])
        assert torch.equal(after["reward"], b["next", "reward"].clamp(-1, 1))
        assert torch.equal(after["life_lost"], after["lives"] < lives)
        assert torch.equal(after["done"] & (after["lives"] > 0), torch.zeros(4, 1, dtype=torch.bool))
        losses += int((after["life_lost"] & ~after["done"]).sum())
        large += int((after["raw_reward"] > 1).sum())
        a, b = a_root, b_root
    assert losses > 0
    assert large > 0


@pytest.mark.parametrize(
    "options",
    cases(
        default=[
            {"grayscale_obs": False, "screen_size": (60, 50)},
            {"obs_type": "ram"},
            {"continuous": True, "max_num_frames_per_episode": 8},
        ],
        also=[{"scale_obs": True, "stack_size": 1}],
    ),
)
def test_specs_hold_with_options(options, make_pool):
    pool = make_pool("ALE/Pong-v5", 2, info_keys=("life_lost", "ram", "raw_reward", *INFO), **options)
    check_env_specs(pool, break_when_any_done=False)


def test_many_games_in_one_pool(make_pool):
    tasks = ["ALE/Pong-v5", "ALE/Breakout-v5", "ALE/MsPacman-v5"]
    assert make_pool(tasks, 3, full_action_space=True).action_spec.space.n == 18
    each = iter(tasks)
    ATARI.compare(
        tasks, 100, make=lambda: ATARI.make(next(each), full_action_space=True), full_action_space=True
    )


def test_state_of_other_options_is_refused(make_pool):
    pool, other = make_pool("ALE/Pong-v5", 1), make_pool("ALE/Pong-v5", 1, screen_size=50)
    root, _ = pool.reset(), other.reset()
    expected = pool.step(root.clone().set("action", torch.tensor([0])))
    pool.reset()
    before = pool.get_state()
    with pytest.raises(ValueError, match="other options"):
        pool.set_state(other.get_state())
    assert pool.get_state() == before
    with pytest.raises(ValueError, match="too short"):
        pool.set_state(before[0][:-100])
    assert pool.get_state() == before
    assert expected["next", "observation"].any()


@pytest.mark.parametrize("task", cases(["ALE/AirRaid-v5", "ALE/Pong-v5"]))
def test_pictures_are_the_screen(task, make_pool):
    pool = make_pool(task, 1)
    env = ATARI.make(task, render_mode="rgb_array")
    root = pool.reset(seed=5)
    env.reset(seed=5)
    for _ in range(30):
        assert_same(pool.render(0)[0], env.render(), "picture")
        data, root = pool.step_and_maybe_reset(pool.rand_action(root))
        env.step(int(data["action"]))
    pixels = make_pool(task, 1, from_pixels=True).reset()["pixels"]
    assert pixels.shape == (1, *env.render().shape)
