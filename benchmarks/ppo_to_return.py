"""How long PPO takes to a mean return, beside Stable-Baselines3's PPO on Gymnasium's own envs.

Both sides have the same settings (a preset of ``torchrl_pool.examples.ppo``, and what is set by hand),
the same networks, and torch with one thread. They train at the same time, each in a process of its own, and
each stops at the return, after the settings' frames, or when its time is up:

    python benchmarks/ppo_to_return.py LunarLander-v3 200
    python benchmarks/ppo_to_return.py MiniGrid-DoorKey-8x8-v0 0.95 --minutes 10 --set num_envs=16
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from torchrl_pool.examples.options import family_of
from torchrl_pool.examples.ppo import PROGRAM, Config, train
from torchrl_pool.examples.program import COMPILE_FROM
from torchrl_pool.examples.results import WINDOW
from torchrl_pool.examples.run import Run

Point = tuple[int, float]  # frames, and the mean return of the last episodes


# ---- the sides, each in a process of its own


def pool_side(config: Config) -> Iterator[Point]:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(train, config, Path(folder), compile=config.num_updates >= COMPILE_FROM)
        while not run.is_over:
            run.iterate()
            enough = run.curve.has_reached(float("-inf"))  # episodes for a mean
            yield run.frames, run.curve.mean_return if enough else float("nan")


def sb3_side(config: Config) -> Iterator[Point]:
    from stable_baselines3 import PPO

    model = PPO(env=sb3_env(config), **sb3_settings(config))
    while model.num_timesteps < config.total_frames:
        model.learn(config.steps * config.num_envs, reset_num_timesteps=False)
        episodes = [episode["r"] for episode in model.ep_info_buffer or []]
        yield model.num_timesteps, sum(episodes) / WINDOW if len(episodes) == WINDOW else float("nan")


def sb3_env(config: Config) -> Any:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    wrapper = sb3_grid()[0] if family_of(config.task) == "minigrid" else None
    env = make_vec_env(config.task, config.num_envs, seed=config.seed, wrapper_class=wrapper)
    if config.normalize_observations or config.normalize_rewards:
        what = {"norm_obs": config.normalize_observations, "norm_reward": config.normalize_rewards}
        env = VecNormalize(env, **what, gamma=config.gamma)
    return env


def sb3_settings(config: Config) -> dict[str, Any]:
    """What Stable-Baselines3 calls the settings. Raises ValueError: it has none for some of them."""
    unknown = config.kl_target or config.advantages_each_epoch or config.recurrent != "none"
    if unknown or config.anneal_learning_rate or config.anneal_clip_epsilon or config.policy != "normal":
        raise ValueError("expected settings that Stable-Baselines3 has too")
    hidden = [int(size) for size in config.hidden.split(",")]
    network: dict[str, Any] = {
        "net_arch": {"pi": hidden, "vf": hidden},
        "activation_fn": torch.nn.Tanh,
        "optimizer_kwargs": {"eps": config.adam_eps},
    }
    is_grid = family_of(config.task) == "minigrid"
    if is_grid:
        network["features_extractor_class"] = sb3_grid()[1]
    return {
        "policy": "MultiInputPolicy" if is_grid else "MlpPolicy",
        "policy_kwargs": network,
        "learning_rate": config.learning_rate,
        "n_steps": config.steps,
        "batch_size": config.minibatch_size,
        "n_epochs": config.epochs,
        "gamma": config.gamma,
        "gae_lambda": config.gae_lambda,
        "clip_range": config.clip_epsilon,
        "clip_range_vf": config.clip_epsilon if config.clip_value else None,
        "normalize_advantage": config.normalize_advantage,
        "ent_coef": config.entropy_coef,
        "vf_coef": config.value_coef,
        "max_grad_norm": config.max_grad_norm or float("inf"),
        "seed": config.seed,
        "device": "cpu",
    }


def sb3_grid() -> tuple[Callable[..., Any], type]:
    """A wrapper of MiniGrid's envs for missions in words, and the example's network for them."""
    import gymnasium
    import numpy as np
    from minigrid.wrappers import DictObservationSpaceWrapper
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    from torchrl_pool.examples.networks import GridFeatures

    class Numbers(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
        """In 16 bits: of bytes Stable-Baselines3 makes a picture, and of words choices, one-hot."""

        def __init__(self, env: Any) -> None:
            super().__init__(DictObservationSpaceWrapper(env))
            box = {"image": (7, 7, 3), "mission": (50,)}
            self.observation_space = gymnasium.spaces.Dict(
                {key: gymnasium.spaces.Box(0, 255, shape, np.int16) for key, shape in box.items()}
            )

        def observation(self, observation: Any) -> Any:
            return {key: np.asarray(observation[key], np.int16) for key in ("image", "mission")}

    class Features(BaseFeaturesExtractor):
        def __init__(self, space: gymnasium.Space[Any]) -> None:
            super().__init__(space, GridFeatures.size)
            self.network = GridFeatures()

        def forward(self, observed: Mapping[str, torch.Tensor]) -> torch.Tensor:
            found: torch.Tensor = self.network(observed["image"], observed["mission"].long())
            return found

    return Numbers, Features


SIDES: dict[str, Callable[[Config], Iterator[Point]]] = {
    "torchrl_pool": pool_side,
    "Stable-Baselines3": sb3_side,
}


def serve(side: str, config: Config, goal: float, minutes: float) -> None:
    """Trains, and writes a line for each batch."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # BabyAI's levels print
    torch.set_num_threads(1)
    start, started = time.perf_counter(), time.process_time()
    for frames, mean in SIDES[side](config):
        seconds, processor = time.perf_counter() - start, time.process_time() - started
        row = {"frames": frames, "return": mean, "seconds": seconds, "processor_seconds": processor}
        print(json.dumps(row), file=answers, flush=True)
        if mean >= goal or seconds > 60 * minutes:
            break


# ---- the table and the chart


def draw(curves: Mapping[str, list[dict[str, float]]], title: str, path: Path) -> None:
    """Draws returns by minutes and by frames."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), dpi=120, layout="constrained")
    plots = figure.subplots(1, 2, sharey=True)
    columns = [("seconds", 60, "minutes"), ("frames", 1_000_000, "frames (millions of env steps)")]
    for axes, (column, unit, label) in zip(plots, columns, strict=True):
        for side, rows in curves.items():
            axes.plot([row[column] / unit for row in rows], [row["return"] for row in rows], label=side)
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    plots[0].set_ylabel(f"mean return of {WINDOW} episodes")
    plots[0].legend()
    figure.suptitle(title)
    figure.savefig(path, format="png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task")
    parser.add_argument("goal", type=float, help=f"mean return of {WINDOW} episodes")
    parser.add_argument("--preset", help="of torchrl_pool.examples.ppo; default: the task's")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="other settings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10.0, help="that a side may train")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    preset = ["--preset", parsed.preset] if parsed.preset else []
    config: Config = PROGRAM.parse(["--task", parsed.task, *preset])[1]
    given = {"seed": parsed.seed}
    for one in parsed.set:
        name, _, value = one.partition("=")
        given[name] = ast.literal_eval(value)
    config = Config(**{**vars(config), **given})
    config.check()
    if parsed.serve:
        serve(parsed.serve, config, parsed.goal, parsed.minutes)
        return

    from throughput import machine_line, save

    from torchrl_pool._tables import print_table

    command = [sys.executable, "-Wignore", __file__, *sys.argv[1:]]
    sides = {
        side: subprocess.Popen([*command, "--serve", side], stdout=subprocess.PIPE) for side in parsed.sides
    }
    try:
        output = {side: process.communicate()[0] for side, process in sides.items()}
    finally:
        for process in sides.values():
            process.kill()
    curves = {side: [json.loads(line) for line in lines.splitlines()] for side, lines in output.items()}
    print(f"{machine_line()}\n\n{parsed.task} to a mean return of {parsed.goal:g}, seed {config.seed}")
    rows = []
    for side, points in curves.items():
        last = points[-1]
        seconds = [f"{last[column]:.0f}" for column in ("seconds", "processor_seconds")]
        rows.append([side, f"{last['frames']:,}", *seconds, f"{last['return']:.3f}"])
    print_table(["", "frames", "seconds", "of processors", "mean return"], rows, numbers=4)
    save(parsed.json, {"task": parsed.task, "goal": parsed.goal, "settings": vars(config), "curves": curves})
    if parsed.plot:
        draw(curves, f"PPO on {parsed.task}, seed {config.seed}", parsed.plot)


if __name__ == "__main__":
    main()
