"""Population-based training: policies learn at the same time, and the worse ones go on from the better.

Jaderberg et al. (2017), as Sample Factory does it (Petrenko et al. 2020, section 3.5).
"""

from __future__ import annotations

import copy
import csv
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from torchrl_pool.examples.options import expect, limits_of
from torchrl_pool.examples.results import Row, could
from torchrl_pool.examples.run import Run, Train

MUTATED = ("learning_rate", "entropy_coef", "clip_epsilon", "value_coef")
"""The hyperparameters that an exchange may change."""
REPLACED = 0.3  # of the policies, at an exchange
CLEARLY_BETTER = 0.1  # of the better return: by less than this, none is replaced


class Population:
    """Decides which policy goes on from which, and with which hyperparameters.

    Args:
        config: of the whole.
        members: its trainings, each with a seed of its own.

    Examples:
        >>> from torchrl_pool.examples.appo import Config
        >>> population = Population(Config(mutation_rate=1.0), [])
        >>> population.parents([10.0, 200.0, 150.0, 190.0])
        [1, 1, 1, 3]
        >>> factor = population.mutated({"learning_rate": 1.0}, 1.0)["learning_rate"]
        >>> 1.1 <= max(factor, 1 / factor) <= 1.5
        True
    """

    def __init__(self, config: Any, members: Sequence[Run]) -> None:
        self.config, self.members, self.history = config, members, list[Row]()
        self.random = random.Random(config.seed)
        self._began_with = hyperparameters_of(config)

    def parents(self, returns: Sequence[float]) -> list[int]:
        """Of each policy the one that it goes on from: itself, or one of the best for one of the worst."""
        order = sorted(range(len(returns)), key=lambda member: returns[member])
        count = min(math.ceil(REPLACED * len(returns)), len(returns) // 2)
        worst, best = order[:count], order[len(order) - count :]
        parents = list(range(len(returns)))
        for member in worst:
            parent = self.random.choice(best)
            if returns[parent] - returns[member] > CLEARLY_BETTER * abs(returns[parent]):
                parents[member] = parent
        return parents

    def mutated(self, hyperparameters: dict[str, float], rate: float) -> dict[str, float]:
        """Some of them 1.1 to 1.5 times as large or as small, but for those that would pass their limits."""
        found = dict(hyperparameters)
        limits = limits_of(type(self.config))
        for name, value in hyperparameters.items():
            if self.random.random() < rate:
                changed = value * self.random.uniform(1.1, 1.5) ** self.random.choice((-1, 1))
                found[name] = changed if limits[name].allow(changed) else value
        return found

    def exchange_weights(self) -> None:
        """Lets the worse members go on from the better."""
        returns = [one.curve.objective for one in self.members]
        parents = self.parents(returns)
        values_of = [hyperparameters_of(one.config) for one in self.members]
        for i, (one, parent) in enumerate(zip(self.members, parents, strict=True)):
            row = {"frames": one.frames, "policy": i, "return": returns[i], "parent": parent}
            self.history.append({**row, **values_of[i]})
        for i, (one, parent) in enumerate(zip(self.members, parents, strict=True)):
            if parent != i:  # parents are never replaced themselves
                go_on_from(one, self.members[parent])
            values = self.mutated(values_of[parent], self.config.mutation_rate) if i else values_of[parent]
            changed = {name: value for name, value in values.items() if getattr(one.config, name) != value}
            one.set(**changed)  # what stays is not set: a learning rate may have been adapted

    def state_dict(self) -> dict[str, Any]:
        version, internal, gauss = self.random.getstate()
        numbers = [version, list(internal), gauss]
        return {"random": numbers, "history": self.history, "began_with": self._began_with}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state["began_with"].items():
            began = f"{value}, as the population began, since exchanges change it"
            expect(self._began_with[name] == value, name, began, self._began_with[name])
        self.history = [dict(row) for row in state["history"]]
        version, internal, gauss = state["random"]
        self.random.setstate((version, tuple(internal), gauss))


def train(train_one: Train, config: Any, run: Run) -> Iterator[dict[str, float]]:
    """Trainings that take turns, batch by batch, and exchange weights after every so many env steps.

    While one learns, the threads of the others collect. Seeds differ; the first one's hyperparameters are
    never mutated, only replaced. ``total_frames`` are those of all policies together.

    Args:
        train_one: the algorithm of each, whose settings have the :data:`MUTATED`.
        config: of the whole.
        run: of the whole.
    """
    count = config.population
    frames = config.total_frames // count
    run.members = [
        Run(
            train_one,
            replace(config, seed=config.seed + i * 1000, total_frames=frames),
            run.folder / f"policy-{i}",
            compile=run.compile,
            device=run.device,
        )
        for i in range(count)
    ]
    population = Population(config, run.members)
    for one in run.members:
        one.adapted = MUTATED
    for one in run.members[1:]:
        one.set(**population.mutated(hyperparameters_of(config), 1.0))
    first = run.members[0]
    yield run.begin(first.env, first.actor, count * first.frames_per_batch, population=population)

    for _ in run.iterations():
        due = first.frames // config.exchange_frames
        for one in run.members:
            one.iterate()
        if first.frames // config.exchange_frames > due:
            population.exchange_weights()
            for name, write in (("population.csv", save_history), ("population.png", plot_history)):
                could(run.folder / name, write, population.history, run.folder / name)
        run.curve.follow(run.best.curve)
        yield {"best_policy": run.members.index(run.best), **hyperparameters_of(run.best.config)}


def go_on_from(one: Run, other: Run) -> None:
    """Takes over what another member has learned: weights, their optimizer's state, statistics."""
    for run in (one, other):
        run.parts["actors"].rest()
    one.load_networks(copy.deepcopy(other.networks()))
    scaling = one.parts["scaling"]
    own = {"returns": scaling.state_dict()["returns"]}  # of its own envs
    scaling.load_state_dict({**other.parts["scaling"].state_dict(), **own})
    one.parts["actors"].publish(one.iteration)


def hyperparameters_of(config: Any) -> dict[str, float]:
    """Those that exchanges may change, as they are now."""
    return {name: getattr(config, name) for name in MUTATED}


def save_history(history: Sequence[Row], path: Path) -> None:
    """Writes what each exchange found, as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(history[0]))
        writer.writeheader()
        writer.writerows(history)


def plot_history(history: Sequence[Row], path: Path) -> None:
    """Draws what each exchange found."""
    names = ("return", *MUTATED)
    figure = Figure(figsize=(8, 2 * len(names)), dpi=100, layout="constrained")
    for axes, name in zip(figure.subplots(len(names), 1, sharex=True), names, strict=True):
        for policy in sorted({row["policy"] for row in history}):
            rows = [row for row in history if row["policy"] == policy]
            frames = [row["frames"] for row in rows]
            axes.plot(frames, [row[name] for row in rows], marker=".", label=f"policy {policy:.0f}")
        axes.set_ylabel(name)
        if name == "learning_rate":
            axes.set_yscale("log")
    axes.set_xlabel("frames of each policy")
    figure.axes[0].legend(ncols=4, fontsize="small")
    figure.savefig(path)
