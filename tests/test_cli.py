import inspect
import json
import os
import signal
import subprocess
import sys

import ale_py
import gymnasium
import pytest
from cases import cases
from own_tasks import OWN_TASKS

import torchrl_pool.gymnasium  # noqa: F401  registers the tasks
from torchrl_pool import MujocoPool, PoolEnv, __version__, list_tasks
from torchrl_pool.__main__ import main
from torchrl_pool._plugins.names import gymnasium_id


def test_list_names_every_task(capsys):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(task in shown for task in list_tasks())
    assert "475" in shown
    assert f"\n{len(list_tasks())} tasks in " in shown


def test_list_of_a_family_as_json(capsys):
    assert main(["list", "--family", "classic", "--json"]) == 0
    tasks = {task["id"]: task for task in json.loads(capsys.readouterr().out)}
    assert sorted(tasks) == list_tasks("classic")
    assert tasks["CartPole-v1"]["max_episode_steps"] == 500
    assert tasks["Pendulum-v1"]["reward_threshold"] is None


def test_list_begins_with_small_families(capsys):
    assert main(["list"]) == 0
    table, _ = capsys.readouterr().out.split("\n\n")
    families = [line.split()[1] for line in table.splitlines()[1:]]
    sizes = [families.count(family) for family in dict.fromkeys(families)]
    assert sizes == sorted(sizes)
    assert sum(sizes) == len(families)


@pytest.mark.parametrize(
    "arguments",
    cases(default=[["list"], ["info", "Ant-v5"]], also=[["info", "gymnasium:CartPole-v1"]]),
)
def test_torch_is_not_waited_for(arguments):
    program = (
        "import sys; from torchrl_pool.__main__ import main\n"
        f"try: main({arguments})\n"
        "finally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=True)


@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "BabyAI-BlockedUnlockPickup-v0",
            "MiniGrid-GoToObject-8x8-N2-v0",
            "dm_control/ball_in_cup-catch-v0",
            "dm_control/swimmer-swimmer6-v0",
        ],
        also=OWN_TASKS,
    ),
)
def test_info_shows_specs_options_and_limit(task, capsys):
    assert main(["info", task]) == 0
    shown = capsys.readouterr().out
    assert main(["info", task, "--json"]) == 0
    info = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # not in JSON: Infinity, NaN
    assert task in shown
    has_agents = task.startswith(("mpe2/", "sisl/"))
    assert (gymnasium_id(task) in gymnasium.registry) is not has_agents
    assert (f"gymnasium.make_vec: {gymnasium_id(task)!r}" in shown) is not has_agents
    limit = info["max_episode_steps"]
    own = {"minigrid": "the task's own (option max_steps)"}
    own["mpe"] = "25 steps (option max_cycles)"
    own["sisl"] = "500 steps (option max_cycles)"
    own["atari"] = "108000 frames (option max_num_frames_per_episode)"
    said = own.get(info["family"], "none") if limit is None else f"{limit} steps"
    assert f"time limit: {said};" in shown
    for entry in info["specs"] + info["options"]:
        assert entry["name"] in shown
    assert {spec["role"] for spec in info["specs"]} >= {"observation", "action", "reward"}
    assert {"step_count", "is_init"} <= set(info["native_info_keys"])
    assert ("episode_reward" in info["native_info_keys"]) is not has_agents


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases(
        [
            (["info", "CartPole"], "did you mean 'CartPole-v1' or 'CartPole-v0'?"),
            (["list", "--family", "robots"], "unknown family 'robots'; expected one of: "),
            (["info", "gymnasium:CartPol-v1"], "doesn't exist. Did you mean: `CartPole`?"),
        ]
    ),
)
def test_unknown_names(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "task",
    cases(
        default=["FrozenLake-v1", "Ant-v5"],
        also=["CartPole-v1", "Blackjack-v1", "gymnasium:CartPole-v1", "gymnasium:Taxi-v4"],
    ),
)
def test_info_shows_shapes_as_pool_env_has_them(task, capsys):
    assert main(["info", task]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line}
    assert main(["info", task, "--json"]) == 0
    specs = json.loads(capsys.readouterr().out)["specs"]
    env = PoolEnv(task, 2)
    for name, spec in (("action", env.action_spec), ("observation", env.observation_spec["observation"])):
        shape = list(spec.shape[1:])
        assert rows[name][2:4] == [str(spec.dtype).removeprefix("torch."), "x".join(map(str, shape))]
        (entry,) = (entry for entry in specs if entry["name"] == name)
        assert (entry["one_hot_shape"] or entry["shape"]) == shape


def test_info_shows_the_bounds_and_meaning_of_each_number(capsys):
    assert main(["info", "CartPole-v1"]) == 0
    shown = capsys.readouterr().out
    assert "[-4.8, 4.8] [-inf, inf] [-0.4189, 0.4189] [-inf, inf]" in shown
    assert "3      pole angular velocity (rad/s)" in shown
    assert "1      push right" in shown
    assert main(["info", "LunarLander-v3"]) == 0
    shown = capsys.readouterr().out
    assert "[-2.5, 2.5] x 2 [-10, 10] x 2" in shown
    assert "[0, 1] x 2" in shown  # Gymnasium has -0.0 there


def test_info_of_an_env_that_gymnasium_makes(capsys):
    assert main(["info", "gymnasium:CartPole-v1"]) == 0
    shown = capsys.readouterr().out
    assert "this package has it in C++, faster, as CartPole-v1" in shown
    assert "time limit: 500 steps; solved at a return of: 475" in shown
    assert main(["info", "gymnasium:Blackjack-v1"]) == 0
    assert "time limit: none registered;" in capsys.readouterr().out


def test_help_shows_commands_that_work(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    _, _, examples = capsys.readouterr().out.partition("examples:\n")
    commands = [line.partition("torchrl_pool ")[2].split() for line in examples.splitlines()]
    for command in commands:
        if command[:1] in (["list"], ["info"]):
            assert main(command) == 0
    assert {command[0] for command in commands if command} == {"list", "info", "new"}


def elements(task, name, capsys):
    """What ``info`` says of the elements of an entry, or of its choices."""
    assert main(["info", task]) == 0
    _, _, rows = capsys.readouterr().out.partition(f" of '{name}'\nindex  meaning\n")
    return [line.split(maxsplit=1)[1] for line in rows.partition("\n\n")[0].splitlines()]


@pytest.mark.parametrize("task", cases(["ALE/Pong-v5", "ALE/Seaquest-v5"]))
def test_info_names_the_actions_of_games_as_ale_does(task, capsys):
    gymnasium.register_envs(ale_py)
    assert elements(task, "action", capsys) == gymnasium.make(task).unwrapped.get_action_meanings()


@pytest.mark.parametrize("task", cases(["HalfCheetah-v5", "Ant-v5"]))
def test_info_names_the_actuators_of_models(task, capsys):
    model = gymnasium.make(task).unwrapped.model
    joints = [model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0]]
    names = [model.actuator(i).name or joint for i, joint in enumerate(joints)]
    assert elements(task, "action", capsys) == [f"control of {name}" for name in names]


def test_info_shows_the_time_limit_of_mujoco_pools(capsys):
    assert main(["info", "MJCF-v0"]) == 0
    limit = inspect.signature(MujocoPool.__init__).parameters["max_episode_steps"].default
    assert f"a time limit of {limit} steps by default" in capsys.readouterr().out


def test_types_of_options_are_said_in_words(capsys):
    assert main(["info", "HalfCheetah-v5"]) == 0
    assert "mapping from names to a number or numbers or None" in capsys.readouterr().out
    assert main(["info", "ALE/Pong-v5"]) == 0
    shown = capsys.readouterr().out
    assert "list of int" in shown
    assert "int of list" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    cases(
        default=[
            (["new", "json"], "'json' is that of an installed package"),
            (["build", "/dev/full/no.cc"], "no.cc"),
        ],
        also=[(["new", "torch"], "'torch' is that of an installed package")],
    ),
)
def test_what_cannot_be_is_said_in_a_line(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_terminals_that_lack_a_character_and_none_at_all():
    for closed in (False, True):
        program = [sys.executable, "-m", "torchrl_pool", "info", "CartPole-v1"]
        line = ["sh", "-c", f"exec {' '.join(program)} >&-"] if closed else program
        done = subprocess.run(line, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_no_command_shows_the_help(capsys):
    assert main([]) == 0
    assert "list the tasks, by family" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"torchrl_pool {__version__}\n"


def test_help(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    assert "list the tasks, by family" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "lines"), cases([(["list"], 0), (["info", "Ant-v5", "--json"], 1)]))
def test_a_reader_may_leave_early(arguments, lines):
    command = subprocess.Popen(
        [sys.executable, "-m", "torchrl_pool", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pipesize=4096,  # less than the output, so that writing it fails, not only the flush at the end
        text=True,
    )
    for _ in range(lines):
        command.stdout.readline()
    command.stdout.close()
    assert "Broken pipe" not in command.stderr.read()
    assert command.wait(60) == 128 + signal.SIGPIPE
