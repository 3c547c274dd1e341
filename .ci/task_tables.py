"""The tables of tasks in ``docs/families``, from the registry, the models and the games themselves.

What no model tells, such as the sines of InvertedDoublePendulum, stands in ``elements.toml``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from generated import CHECKOUT, fill, table, write

from torchrl_pool import PoolEnv, TaskInfo, list_tasks, task_info
from torchrl_pool.__main__ import main as command_line

ELEMENTS = tomllib.loads((CHECKOUT / ".ci" / "elements.toml").read_text())
JOINTS = {"rootx": "torso x", "rootz": "torso z", "rooty": "torso pitch", "slider1": "x", "slider2": "y"}


def infos(family: str, prefix: str = "") -> list[TaskInfo]:
    return [task_info(task) for task in list_tasks(family) if task.startswith(prefix) and task != "MJCF-v0"]


def alike(tasks: list[TaskInfo]) -> list[list[TaskInfo]]:
    """Tasks with the same description together."""
    groups: dict[str, list[TaskInfo]] = defaultdict(list)
    for task in tasks:
        groups[task.description].append(task)
    return list(groups.values())


def tasks_table(family: str, prefix: str = "") -> str:
    """What there is to do, until when, and with which options."""
    rows = []
    for group in alike(infos(family, prefix)):
        limits = [task.max_episode_steps for task in group]
        solved = [task.reward_threshold for task in group]
        rows.append([code_list(task.id for task in group), group[0].description])
        if any(limits):
            rows[-1] += [distinct(limits), distinct(solved)]
            rows[-1] += (
                [] if family == "mujoco" else [options(group)]
            )  # too many: Gymnasium's pages list them
        elif family == "toy_text":
            rows[-1] += ["none", "none", options(group)]
    header = ["task", "what to do", "time limit:", "solved at:", "options and their defaults"]
    return table(header[: len(rows[0])], rows)


def options(group: list[TaskInfo]) -> str:
    """With all defaults that they have in the group."""
    described = []
    for option in group[-1].options:
        defaults = [o.default for task in group for o in task.options if o.name == option.name]
        values = list(dict.fromkeys(map(literal, defaults)))
        described += [f"`{option.name}={values[0]}`", *(f"`{value}`" for value in values[1:])]
    return ", ".join(described)


def literal(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    return {math.pi: "π", 1 / 3: "1/3"}.get(value, str(value))


def distinct(values: list[Any]) -> str:
    return ", ".join(dict.fromkeys("none" if value is None else f"{value:,g}" for value in values))


def code_list(names: Iterator[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# Elements of observations and actions.


def numbered(names: list[str], start: int = 0) -> str:
    """Names with their indices; equal neighbours as a range."""
    runs: list[tuple[int, int, str]] = []
    for i, name in enumerate(names, start):
        if runs and runs[-1][2] == name:
            runs[-1] = (runs[-1][0], i, name)
        else:
            runs.append((i, i, name))
    return ", ".join(
        f"**{first}**{f'-**{last}**' if last > first else ''} {name}" for first, last, name in runs
    )


def elements_table(family: str) -> str:
    """As the plugin names them; tasks with the same ones together."""
    tasks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for info in infos(family):
        entries = described(info.id)
        if info.id != "CarRacing-v3":  # a picture
            tasks[words(info, entries["observation"]), words(info, entries["action"])].append(info.id)
    rows = [[code_list(iter(ids)), observation, action] for (observation, action), ids in tasks.items()]
    return table(["task", "`observation`", "`action`"], rows)


def described(task: str) -> dict[str, dict[str, Any]]:
    """The entries of a task by their names, as ``info`` shows them."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert command_line(["info", task, "--json"]) == 0
    return {spec["name"]: spec for spec in json.loads(shown.getvalue())["specs"]}


def words(info: TaskInfo, entry: dict[str, Any]) -> str:
    """What the numbers of a vector, or the choices, mean."""
    observed, choices = entry["name"] == "observation", entry["categories"] or []
    if observed and len(choices) == 1:
        return f"{entry['help']}: 0 to {choices[0] - 1}"
    names = re.split(r", (?![^(]*\))", entry["help"])
    if len(choices) > 1:
        names = [f"{name}: 0 to {n - 1}" for name, n in zip(names, choices, strict=True)]
    else:
        assert len(names) == (choices[0] if choices else math.prod(entry["shape"])), info.id
    if observed or choices:
        return numbered(names)
    pairs = zip(entry["low"], entry["high"], strict=True)
    return f"{numbered(names)}; in {', '.join(dict.fromkeys(f'[{low:g}, {high:g}]' for low, high in pairs))}"


def bounds(env: PoolEnv) -> str:
    space = env.action_spec_unbatched.space
    pairs = dict.fromkeys(
        (low, high) for low, high in zip(space.low.tolist(), space.high.tolist(), strict=True)
    )
    return ", ".join(f"[{low:.3g}, {high:.3g}]" for low, high in pairs)


def mujoco_elements() -> str:
    """From the names of joints and actuators in Gymnasium's models."""
    tasks: dict[tuple[tuple[str, ...], ...], list[str]] = defaultdict(list)
    for group in alike(infos("mujoco")):
        tasks[tuple(mujoco_rows(group[-1].id))].append(group[-1].id)
    rows = [
        [code_list(iter(ids)) if i == 0 else "", *row]
        for described, ids in tasks.items()
        for i, row in enumerate(described)
    ]
    return table(["task", "index:", "what"], rows)


def mujoco_rows(task: str) -> Iterator[tuple[str, ...]]:
    import gymnasium

    reference = gymnasium.make(task).unwrapped
    structure: dict[str, int] = getattr(reference, "observation_structure", None) or {}
    size = reference.observation_space.shape[0]
    hand = next((names for prefix, names in ELEMENTS.items() if task.startswith(prefix)), None)
    if hand:
        assert len(hand) == size, task
        yield span(0, size), numbered(hand)
    else:
        skipped, used = structure.get("skipped_qpos", 0), 0
        for part in ("qpos", "qvel", "cinert", "cvel", "qfrc_actuator", "cfrc_ext"):
            if count := structure.get(part, 0):
                yield span(used, count), part_words(reference.model, part, count, skipped, used)
                used += count
        assert used == size, task
    actuated = [
        joint_name(reference.model.joint(int(joint))) for joint in reference.model.actuator_trnid[:, 0]
    ]
    noun = "force on" if task.startswith("Inverted") else "torque on"
    yield f"action {span(0, len(actuated))}", f"{noun} {numbered(actuated)}; in {bounds(PoolEnv(task, 1))}"


def span(first: int, count: int) -> str:
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def part_words(model: Any, part: str, count: int, skipped: int, start: int) -> str:
    if part in ("qpos", "qvel"):
        names = [name for i in range(model.njnt) for name in coordinates(model.joint(i), part == "qvel")]
        names = names[skipped:] if part == "qpos" else names
        assert len(names) == count
        return ("position: " if part == "qpos" else "velocity: ") + numbered(names, start)
    bodies = [model.body(i).name or "(unnamed)" for i in range(1, model.nbody)]
    if part == "qfrc_actuator":
        return "`qfrc_actuator`, the actuators' torque on each joint but the root"
    each = {
        "cinert": "mass and inertia (10 numbers)",
        "cvel": "velocity (6)",
        "cfrc_ext": "contact force (6)",
    }[part]
    assert count == len(bodies) * {"cinert": 10, "cvel": 6, "cfrc_ext": 6}[part]
    return f"`{part}`, {each} of each body: {', '.join(bodies)}"


def coordinates(joint: Any, velocity: bool) -> list[str]:
    if joint.type[0] != 0:
        return [joint_name(joint)]
    turning = (
        ["torso angular x", "torso angular y", "torso angular z"]
        if velocity
        else [f"torso quaternion {axis}" for axis in "wxyz"]
    )
    return ["torso x", "torso y", "torso z", *turning]


def joint_name(joint: Any) -> str:
    return JOINTS.get(joint.name, joint.name.removesuffix("_joint").removeprefix("r_").replace("_", " "))


def robotics_tasks() -> str:
    """Tasks of Fetch, and mazes by robot and size; all of them have a dense twin."""
    groups: dict[tuple[str, str, int | None], dict[str, None]] = defaultdict(dict)
    for info in infos("robotics"):
        robot, _, rest = info.id.replace("Dense", "").partition("_")
        maze, _, version = rest.rpartition("-")
        name = f"{robot}_<maze>-{version}" if maze else robot
        groups[name, info.description, info.max_episode_steps][maze] = None
    rows = []
    for (name, description, limit), mazes in groups.items():
        rows.append([f"`{name}`", description, code_list(iter(filter(None, mazes))), f"{limit:,}"])
    return table(["task", "what to do", "mazes", "time limit:"], rows)


def robotics_elements() -> str:
    """Those of AntMaze are Ant's."""
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for info in infos("robotics"):
        if "Dense" not in info.id and not info.id.startswith("AntMaze"):
            entries = described(info.id)
            names = [entries[key]["help"].split(", ") for key in ("achieved_goal", "observation", "action")]
            rows[tuple(map(numbered, names))].append(info.id.split("_")[0])
    cells = [[code_list(iter(dict.fromkeys(ids))), *row] for row, ids in rows.items()]
    return table(["task", "`achieved_goal`", "`observation`", "`action`"], cells)


def dm_control_tasks() -> str:
    """By domain: tasks, entries with their shapes, numbers of actions."""
    domains: dict[tuple[str, ...], list[TaskInfo]] = defaultdict(list)
    for info in infos("dm_control"):
        env = PoolEnv(info.id, 1)
        entries = [f"`{name}` {spec.shape.numel()}" for name, spec in env.observation_spec_unbatched.items()]
        domain = info.id.removeprefix("dm_control/").split("-")[0]
        domains[domain, ", ".join(entries), str(env.action_spec_unbatched.shape[-1])].append(info)
    rows = []
    for (domain, entries, actions), group in domains.items():
        words = [f"`{info.id.split('-')[1]}`: {info.description}" for info in group]
        rows.append([f"`{domain}`", "; ".join(words), entries, actions])
    return table(["domain", "tasks", "observation entries and their sizes", "actions:"], rows)


def atari_tasks() -> str:
    """Games by the actions that they have, as ALE names them."""
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    games: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for info in infos("atari"):
        ale = ALEInterface()
        ale.loadROM(roms.get_rom_path(info.description.rpartition(" ")[2]))
        games[tuple(action.name for action in ale.getMinimalActionSet())].append(info.id)
    ordered = sorted(games.items(), key=lambda entry: len(entry[0]))
    all_actions = ordered[-1][0]
    rows = [
        [
            code_list(iter(ids)),
            "all 18, as listed above" if actions == all_actions else numbered(list(actions)),
        ]
        for actions, ids in ordered
    ]
    return f"All 18: {numbered(list(all_actions))}.\n\n" + table(["games", "actions"], rows)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "classic": {
        "tasks": functools.partial(tasks_table, "classic"),
        "elements": functools.partial(elements_table, "classic"),
    },
    "toy_text": {
        "tasks": functools.partial(tasks_table, "toy_text"),
        "elements": functools.partial(elements_table, "toy_text"),
    },
    "box2d": {
        "tasks": functools.partial(tasks_table, "box2d"),
        "elements": functools.partial(elements_table, "box2d"),
    },
    "minigrid": {
        "minigrid": functools.partial(tasks_table, "minigrid", "MiniGrid-"),
        "babyai": functools.partial(tasks_table, "minigrid", "BabyAI-"),
    },
    "mpe": {"tasks": functools.partial(tasks_table, "mpe")},
    "sisl": {"tasks": functools.partial(tasks_table, "sisl")},
    "mujoco": {"tasks": functools.partial(tasks_table, "mujoco"), "elements": mujoco_elements},
    "dm_control": {"tasks": dm_control_tasks},
    "robotics": {"tasks": robotics_tasks, "elements": robotics_elements},
    "atari": {"tasks": atari_tasks},
}


def texts() -> dict[str, str]:
    """The pages, by path."""
    paths = {f"docs/families/{name}.md": blocks for name, blocks in PAGES.items()}
    return {path: fill((CHECKOUT / path).read_text(), blocks) for path, blocks in paths.items()}


if __name__ == "__main__":
    sys.exit(write(__doc__, texts))
