"""How many threads torch computes with between the steps of a pool."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

# Multiplications of a call, for all rows, from which torch's threads are worth what they cost: about five
# milliseconds on one processor. They spin for about as long after each call, where simulators want to run.
_WORTH_THREADS = 1 << 27


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


def threads_for(work: float) -> int:
    """The threads that so many multiplications are worth: one, or for a large network torch's own number.

    It depends on the network alone, not on measurements, since the last bits of a product may depend on it.
    """
    return torch.get_num_threads() if work >= _WORTH_THREADS else 1


@contextlib.contextmanager
def computing_with(num_threads: int) -> Iterator[None]:
    """Sets ``torch.set_num_threads`` for a while, where nobody else computes at the same time.

    Elsewhere than in a process's main thread it does nothing: the number is the whole process's.
    """
    before = torch.get_num_threads()
    if num_threads == before or threading.current_thread() is not threading.main_thread():
        yield
        return
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
