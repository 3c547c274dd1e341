"""How the policy's calls and the env's steps share the processors: groups of envs, and torch's threads.

This is the one place that decides both. **Groups** are what ``double_buffered`` asks for. Two pay where the
policy takes about as long as the simulators, on other processors, which depends on the machine: ``"auto"``
measures three batches with one group and three with two, in turn, and keeps the faster. **Threads** are what
``policy_threads`` asks for, or else follow from the network alone, since the last bits of a product may
depend on them: one thread, or torch's own number for convolutions and from 130 million multiplications a
call on. That many take five milliseconds on one processor, as long as idle threads spin after a call, where
simulators want to run.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from torchrl_pool._env.arguments import check_int

# Of each number of groups: the first batch of one is slower, and one batch may be disturbed.
_BATCHES = 3
_WORTH_THREADS = 1 << 27  # multiplications of a call, for all its rows


class Schedule:
    """In how many groups envs are stepped, and with how many threads the policy computes meanwhile.

    Args:
        double_buffered: False or True for one or two groups, their number, or ``"auto"``.
        policy_threads: torch's threads; None: those that the network is worth.

    Examples:
        >>> schedule = Schedule("auto")
        >>> for seconds in (9.0, 9.0, 3.0, 2.0, 3.0, 2.0):  # one group and two, in turn
        ...     schedule.note(seconds)
        >>> schedule.num_groups, schedule.is_decided
        (2, True)
    """

    def __init__(self, double_buffered: bool | int | str, policy_threads: int | None = None) -> None:
        self._seconds: dict[int, list[float]] = {}
        if double_buffered == "auto":
            self.num_groups = 1
            self._seconds = {1: [], 2: []}
        elif isinstance(double_buffered, str):
            raise ValueError(
                f"double_buffered: expected a bool, a number of groups or 'auto', got {double_buffered!r}"
            )
        elif isinstance(double_buffered, bool):
            self.num_groups = 2 if double_buffered else 1
        else:
            self.num_groups = check_int("double_buffered", double_buffered, minimum=1)
        if policy_threads is not None:
            policy_threads = check_int("policy_threads", policy_threads, minimum=1)
        self._policy_threads = policy_threads

    @property
    def is_decided(self) -> bool:
        return not self._seconds

    def fit(self, num_envs: int, obstacle: str) -> None:
        """Decides for one group where there is nothing to choose.

        Args:
            num_envs: of all groups.
            obstacle: what envs that can be stepped in groups would have; empty: these can.

        Raises:
            ValueError: there are more groups than envs, or more than one of envs that cannot be.
        """
        if not self.is_decided and (obstacle or num_envs < 2):
            self._decide(1)
        if self.num_groups > 1 and obstacle:
            raise ValueError(f"double_buffered: {obstacle}")
        if self.num_groups > num_envs:
            raise ValueError(f"double_buffered: expected at most {num_envs} groups, got {self.num_groups}")

    def note(self, seconds: float) -> None:
        """Takes note of how long a batch has taken; the next one may be collected in another number."""
        if self.is_decided:
            return
        self._seconds[self.num_groups].append(seconds)
        if all(len(taken) == _BATCHES for taken in self._seconds.values()):
            self._decide(min(self._seconds, key=lambda number: min(self._seconds[number][1:])))
        else:
            self.num_groups = 3 - self.num_groups

    def _decide(self, num_groups: int) -> None:
        self.num_groups, self._seconds = num_groups, {}

    @contextlib.contextmanager
    def computing(self, policy: Any, num_envs: int) -> Iterator[None]:
        """Sets ``torch.set_num_threads`` while a batch is collected.

        Elsewhere than in a process's main thread it does nothing: the number is the whole process's, where
        somebody else may compute at the same time.
        """
        before = torch.get_num_threads()
        threads = self._policy_threads
        if threads is None:
            is_worth_threads = work_for(policy) * num_envs / self.num_groups >= _WORTH_THREADS
            threads = before if is_worth_threads else 1
        if threads == before or threading.current_thread() is not threading.main_thread():
            yield
            return
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def work_for(policy: Any) -> float:
    """Multiplications that a call of a policy takes for each row; infinite where it convolves.

    What is no ``torch.nn.Module`` counts as small.
    """
    if not isinstance(policy, nn.Module):
        return 0
    # nn.Module's own iterators name every module and parameter, which takes as long as a step of small envs.
    work, seen = 0, {id(policy)}
    modules: list[nn.Module] = [policy]
    for module in modules:
        if isinstance(module, nn.modules.conv._ConvNd):
            return math.inf
        for parameter in module._parameters.values():
            if parameter is None or id(parameter) in seen or is_lazy(parameter):
                continue  # a lazy one waits for a first call
            seen.add(id(parameter))
            work += parameter.numel()  # each weight is used once
        found = [one for one in module._modules.values() if one is not None and id(one) not in seen]
        seen.update(map(id, found))
        modules += found
    return work
