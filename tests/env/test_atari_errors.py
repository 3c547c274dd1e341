"""What Atari tasks do with bad input. Their trajectories are compared in tests/parity/test_atari.py."""

import shutil
from pathlib import Path

import ale_py
import pytest
import torch
from cases import cases
from processes import printed

from torchrl_pool import PoolEnv
from torchrl_pool._plugins import registry
from torchrl_pool._plugins.loading import locate_packages

ROMS = Path(ale_py.__file__).parent / "roms"


@pytest.fixture
def roms(tmp_path):
    """A folder that the plugin takes for ale_py's."""
    plugin, _ = registry.find_task("ALE/Pong-v5")
    locate_packages(plugin)
    (tmp_path / "roms").mkdir()
    plugin.locate([str(tmp_path)])
    yield tmp_path / "roms"
    plugin.locate([str(ROMS.parent)])


def test_missing_rom(roms, capfd):
    with pytest.raises(FileNotFoundError, match=r"pong\.bin is missing"):
        PoolEnv("ALE/Pong-v5", 1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("damage", cases(default=["truncated", "changed", "empty"], also=["another"]))
def test_corrupt_rom(roms, damage, capfd):
    good = (ROMS / "pong.bin").read_bytes()
    other = (ROMS / "breakout.bin").read_bytes()
    bad = {"truncated": good[:-1], "changed": b"\x00" + good[1:], "empty": b"", "another": other}[damage]
    (roms / "pong.bin").write_bytes(bad)
    with pytest.raises(ValueError, match=r"pong\.bin is corrupt: expected the MD5 sum 60e0ea3c"):
        PoolEnv("ALE/Pong-v5", 1)
    assert capfd.readouterr() == ("", "")


def test_rom_that_vanishes_fails_the_env_and_not_the_process(roms, capfd):
    shutil.copy(ROMS / "pong.bin", roms)
    env = PoolEnv("ALE/Pong-v5", 2)
    env.reset(seed=0)
    (roms / "pong.bin").unlink()
    env.reset()  # needs no ROM: only a seeded reset inserts the cartridge again
    with pytest.raises(
        RuntimeError, match=r"env 0 .* failed in a reset: the emulator failed: ROM file .* not found"
    ):
        env.reset(seed=0)
    shutil.copy(ROMS / "pong.bin", roms)
    assert env.reset(seed=0)["observation"].any()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("task", "near"),
    cases(
        default=[
            ("ALE/Pnog-v5", "'ALE/Pong-v5'"),
            ("ale/pong-v5", "'ALE/Pong-v5'"),
            ("ALE/MsPacMan-v5", "'ALE/MsPacman-v5'"),
        ],
        also=[("Breakout-v5", "'ALE/Breakout-v5'")],
    ),
)
def test_unknown_game_is_answered_with_near_ones(task, near):
    with pytest.raises(ValueError, match=f"unknown task '{task}'; did you mean .*{near}"):
        PoolEnv(task, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    cases(
        default=[
            ({"difficulty": 9}, r"option 'difficulty': this game has 0, 1, 2, 3, got 9"),
            ({"screen_size": (84, 211)}, r"got 84 x 211"),
            ({"screen_size": (1, 2, 3)}, r"expected one number, or width and height, got 3"),
            ({"screen_size": 0}, r"'screen_size': expected a number in \[1, "),
            ({"frame_skip": 0}, r"'frame_skip': expected a number in \[1, "),
            ({"noop_max": -1}, r"'noop_max': expected a number in \[0, "),
            ({"obs_type": "ram", "noop_max": 3}, r"'noop_max' belongs to preprocessed observations"),
        ],
        also=[
            ({"mode": 77}, r"option 'mode': this game has 0, 1, got 77"),
            ({"screen_size": 161}, r"160 wide and 210 high, .* got 161 x 161"),
            ({"stack_size": 0}, r"'stack_size': expected a number in \[1, "),
            ({"repeat_action_probability": 1.5}, r"expected a number in \[0, 1\], got 1.5"),
            ({"obs_type": "pixels"}, r"expected one of 'preprocessed', 'rgb', 'grayscale', 'ram'"),
            ({"obs_type": "rgb", "dialect": "ale_vector"}, r"'dialect' belongs to preprocessed observations"),
            ({"dialect": "envpool"}, r"expected one of 'gymnasium', 'ale_vector'"),
        ],
    ),
    ids=str,
)
def test_option_that_is_not_allowed(options, message):
    with pytest.raises(ValueError, match=message):
        PoolEnv("ALE/Pong-v5", 1, **options)


@pytest.mark.parametrize("action", cases(default=[-1, 17], also=[6]))
def test_action_outside_the_set_is_refused_before_anything_moves(action):
    env = PoolEnv("ALE/Pong-v5", 2, categorical_action_encoding=True, info_keys=("frame_number",))
    root = env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(ValueError, match="0 to 5"):
        env.step(root.clone().set("action", torch.tensor([0, action])))
    assert env.get_state() == before


def test_radius_outside_the_joysticks_reach_is_refused_where_actions_are_checked_strictly():
    env = PoolEnv("ALE/Pong-v5", 1, continuous=True, check_actions="strict")
    root = env.reset()
    for bad in ([1.1, 0, 0], [0, 4, 0], [0, 0, float("nan")]):
        with pytest.raises(ValueError, match="action"):
            env.step(root.clone().set("action", torch.tensor([bad], dtype=torch.float32)))


def test_games_with_different_actions_do_not_share_a_pool():
    with pytest.raises(ValueError, match="numbers of categories"):
        PoolEnv(["ALE/Pong-v5", "ALE/Breakout-v5"], 2)
    env = PoolEnv(["ALE/Pong-v5", "ALE/Breakout-v5"], 2, full_action_space=True)
    assert env.rollout(5)["next", "observation"].shape == (2, 5, 4, 84, 84)


def test_ale_py_in_the_same_process_is_another_emulator():
    """Both copies of ALE work, whichever is loaded first."""
    program = """
import sys
first = sys.argv[1]
def ours():
    from torchrl_pool import PoolEnv
    return int(PoolEnv("ALE/Pong-v5", 1).reset(seed=0)["observation"].sum())
def theirs():
    import ale_py
    ale = ale_py.ALEInterface()
    ale.loadROM(ale_py.roms.get_rom_path("pong"))
    return sum(ale.act(0) for _ in range(100)) + int(ale.getScreenGrayscale().sum())
a = (ours(), theirs()) if first == "ours" else (theirs(), ours())[::-1]
assert a[0] > 0 and a[1] > 0
print(a[0])
"""
    assert printed(program, "ours") == printed(program, "theirs")
