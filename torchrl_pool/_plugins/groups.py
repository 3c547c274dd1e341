"""Groups of agents, as the names of a task's entries tell."""

from __future__ import annotations

from torchrl_pool import _core


def groups_of(config: _core.Config) -> dict[str, int]:
    """The groups of agents, and how many are in each: below its name, each has a reward and all else."""
    counts: dict[str, int] = {}
    for spec in config.specs:
        group, _, name = spec.name.partition("/")
        if spec.role == "reward" and name and len(spec.shape) > 1:
            counts[group] = spec.shape[0]
    for spec in config.specs:
        group, _, name = spec.name.partition("/")
        if name and group in counts and tuple(spec.shape[:1]) != (counts[group],):
            del counts[group]
    return counts


def agents_of(group: str, count: int) -> list[str]:
    """The names of its agents, where it is called after them: ``agent_0`` and ``agent_1`` make ``agent``."""
    if count == 1 and group.rpartition("_")[2].isdecimal():
        return [group]
    return [f"{group}_{i}" for i in range(count)]
