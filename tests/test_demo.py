"""``torchrl-pool demo``: CartPole is solved while one looks on, and a curve is left."""

import csv
import math
import os
import signal
import subprocess
import sys
import tomllib
from itertools import islice
from pathlib import Path

import pytest
from environments import CHECKOUT, linked_environment, run

from torchrl_pool.__main__ import main
from torchrl_pool.examples import demo
from torchrl_pool.examples.demo import learn


def points_of(path):
    with path.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_cartpole_is_solved_with_what_the_package_asks_for_alone(tmp_path):
    python, missing = linked_environment(tmp_path / "environment", "")
    assert not missing
    out = run(python, "-m", "torchrl_pool", "demo", "--output", "curve.csv", cwd=tmp_path)
    points = points_of(tmp_path / "curve.csv")
    assert [point["frames"] for point in points] == [2048.0 * (i + 1) for i in range(len(points))]
    assert points[0]["mean_return"] < 40  # random actions last for about 22 steps
    assert points[-1]["mean_return"] >= demo.GOAL > points[-2]["mean_return"]
    assert out.startswith("Starting torch and TorchRL …\n")
    assert f"Learning curve: {tmp_path / 'curve.csv'}\n" in out  # and no picture: matplotlib is not there
    assert "Solved: " in out
    assert f"{points[-1]['mean_return']:.1f}  ####" in out
    program = Path(out.splitlines()[-1].removeprefix("The program that has just run: "))
    assert program.parts[-3:] == Path(demo.__file__).parts[-3:]


def test_equal_seeds_give_the_same_curve():
    curves = [[point.mean_return for point in islice(learn(seed), 3)] for seed in (0, 0, 1)]
    assert curves[0] == curves[1] != curves[2]


def test_a_picture_is_drawn_where_matplotlib_is(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "MOST_FRAMES", 4096)
    assert main(["demo", "--seed", "3", "--output", str(tmp_path / "curve.csv")]) == 1
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert f"{tmp_path / 'curve.csv'}, {tmp_path / 'curve.png'}\n" in out
    assert "Not solved: 4,096 steps in " in out


def test_before_the_first_episode_has_ended(capsys):
    demo._show(demo.Point(32, 0.1, math.nan))
    assert "nan  ...." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "expected 0 to 2**32 - 1, got -1"),
        (["--seed", str(2**32)], "expected 0 to 2**32 - 1, got 4294967296"),
        (["--output", "no/such/folder/curve.csv"], "No such file or directory: 'no/such/folder/curve.csv'"),
    ],
)
def test_wrong_options(arguments, message):
    command = (sys.executable, "-m", "torchrl_pool", "demo", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (2, True)


def test_ctrl_c_ends_it_with_a_line(tmp_path):
    # A shell's background jobs ignore it.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from torchrl_pool.__main__ import main; sys.exit(main(['demo']))"
    command = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while "steps" not in command.stdout.readline():
        pass
    os.kill(command.pid, signal.SIGINT)
    out, errors = command.communicate(timeout=120)
    assert (command.returncode, out.splitlines()[-1], errors) == (128 + signal.SIGINT, "interrupted", "")
    assert points_of(tmp_path / "cartpole_curve.csv")


def test_the_command_is_installed():
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"torchrl-pool": "torchrl_pool.__main__:main"}
