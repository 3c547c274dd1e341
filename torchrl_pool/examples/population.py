"""Population-based training: policies learn at the same time, and the worse ones go on from the better.

Jaderberg et al. (2017), as Sample Factory does it (Petrenko et al. 2020, section 3.5).
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from torchrl.envs import EnvBase

from torchrl_pool.examples.options import Settings, flag, is_allowed
from torchrl_pool.examples.results import Row, could
from torchrl_pool.examples.training import Training

MUTATED = ("learning_rate", "entropy_coef", "clip_epsilon", "value_coef")
"""The hyperparameters that an exchange may change."""
REPLACED = 0.3  # of the policies, at an exchange
CLEARLY_BETTER = 0.1  # of the better return: by less than this, none is replaced


@dataclass
class Exchange:
    """Decides which policy goes on from which, and with which hyperparameters.

    Args:
        mutation_rate: probability that a hyperparameter changes.
        random: what is drawn from.
        settings: the class with the limits of hyperparameters.

    Examples:
        >>> from torchrl_pool.examples.appo import Config
        >>> exchange = Exchange(mutation_rate=1.0, random=random.Random(0), settings=Config)
        >>> exchange.parents([10.0, 200.0, 150.0, 190.0])
        [1, 1, 1, 3]
        >>> factor = exchange.mutated({"learning_rate": 1.0})["learning_rate"]
        >>> 1.1 <= max(factor, 1 / factor) <= 1.5
        True
    """

    mutation_rate: float
    random: random.Random
    settings: type[Settings]

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

    def mutated(self, hyperparameters: dict[str, float]) -> dict[str, float]:
        """Some of them 1.1 to 1.5 times as large or as small, but for those that would pass their limits."""
        return {name: self._mutated(name, value) for name, value in hyperparameters.items()}

    def _mutated(self, name: str, value: float) -> float:
        if self.random.random() >= self.mutation_rate:
            return value
        changed = value * self.random.uniform(1.1, 1.5) ** self.random.choice((-1, 1))
        field = next(one for one in fields(self.settings) if one.name == name)
        return changed if is_allowed(field, changed) else value


class Population(Training[Any]):
    """Trainings that take turns, batch by batch, and exchange weights after every so many env steps.

    While one learns, the threads of the others collect. Seeds differ; the first one's hyperparameters are
    never mutated, only replaced. ``total_frames`` are those of all policies together.

    Args:
        member: makes a training of ``(config, folder, compile=…)`` that has ``set(**hyperparameters)``,
            ``become(other)`` and ``actors``, as :class:`~torchrl_pool.examples.appo.APPOTraining` has.
        config: of the whole.
        folder: for ``population.csv`` and ``population.png``, and a folder for each policy.
        compile: whether updates are compiled.
    """

    members: list[Any]

    def __init__(
        self, member: Callable[..., Training[Any]], config: Any, folder: Path, *, compile: bool = False
    ) -> None:
        count = config.population
        self.members = []
        for i in range(count):
            own = replace(config, seed=config.seed + i * 1000, total_frames=config.total_frames // count)
            self.members.append(member(own, folder / f"policy-{i}", compile=compile))
        super().__init__(config, folder, count * self.members[0].frames_per_batch, compile=compile)
        for one in self.members:
            one.clock = self.clock
        self._random = random.Random(config.seed)
        self._exchange = Exchange(config.mutation_rate, self._random, type(config))
        self._history: list[Row] = []
        for one in self.members[1:]:
            one.set(**replace(self._exchange, mutation_rate=1.0).mutated(hyperparameters_of(one)))

    @property
    def best(self) -> Any:
        """The member whose last episodes went best."""
        return max(self.members, key=_objective)

    @property
    def actor(self) -> Any:
        """The best one's."""
        return self.best.actor

    def parts(self) -> dict[str, Any]:
        return {}  # but the members

    def advance(self) -> Row:
        """An iteration of every policy, and the exchange where it is due."""
        due = self.members[0].frames // self.config.exchange_frames
        for one in self.members:
            one.make_iteration()
        if self.members[0].frames // self.config.exchange_frames > due:
            with self.clock.timed("other"):
                self._make_exchange()
        best = self.best
        self.curve.follow(best.curve)
        return {"best_policy": self.members.index(best), **hyperparameters_of(best)}

    def _make_exchange(self) -> None:
        returns = [_objective(one) for one in self.members]
        parents = self._exchange.parents(returns)
        for i, (one, parent) in enumerate(zip(self.members, parents, strict=True)):
            values = hyperparameters_of(one)
            row = {"frames": one.frames, "policy": i, "return": returns[i], "parent": parent}
            self._history.append({**row, **values})
        values_of = [hyperparameters_of(one) for one in self.members]
        for i, (one, parent) in enumerate(zip(self.members, parents, strict=True)):
            if parent != i:  # parents are never replaced themselves
                one.become(self.members[parent])
            one.set(**(self._exchange.mutated(values_of[parent]) if i else values_of[parent]))
        path = self.curve.folder / "population.csv"
        could(path, save_history, self._history, path)

    def state_dict(self) -> dict[str, Any]:
        version, internal, gauss = self._random.getstate()
        members = [
            {"state": one.state_dict(), "hyperparameters": hyperparameters_of(one)} for one in self.members
        ]
        return {
            **super().state_dict(),
            "members": members,
            "history": self._history,
            "random": [version, list(internal), gauss],
        }

    def networks(self) -> dict[str, Any]:
        return {"members": [{"state": _learned_by(one)} for one in self.members]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in MUTATED:
            began_with = state["config"][name]
            if getattr(self.config, name) != began_with:
                raise ValueError(
                    f"{flag(name)}: expected {began_with}, as the population began: exchanges change it"
                )
        for one, saved in zip(self.members, state["members"], strict=True):
            one.set(**saved["hyperparameters"])
            one.load_state_dict(saved["state"])  # last: its learning rate may be an adapted one
        self._history = [dict(row) for row in state["history"]]
        version, internal, gauss = state["random"]
        self._random.setstate((version, tuple(internal), gauss))
        super().load_state_dict(state)
        self.curve.follow(self.best.curve)

    def evaluation_env(self, num_envs: int, *, render: bool = False) -> EnvBase:
        for one in self.members:
            one.actors.rest()
        env: EnvBase = self.best.evaluation_env(num_envs, render=render)
        return env

    def close(self) -> None:
        for one in self.members:
            one.close()
        if self._history:
            path = self.curve.folder / "population.png"
            could(path, plot_history, self._history, path)


def hyperparameters_of(member: Any) -> dict[str, float]:
    """Those of a member's that exchanges may change, as they are now."""
    return {name: getattr(member.config, name) for name in MUTATED}


def _learned_by(member: Any) -> dict[str, Any]:
    returns = list(member.curve.state_dict()["returns"])
    return {**member.networks(), "config": asdict(member.config), "curve": {"returns": returns}}


def _objective(member: Any) -> float:
    mean = member.curve.mean_return
    return -math.inf if math.isnan(mean) else mean


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
