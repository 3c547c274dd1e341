"""What PoolEnv is given, checked and in the form that the executor takes."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from tensordict import TensorDictBase

from torchrl_pool import _core
from torchrl_pool._plugins import registry

# Envs of a pool: numbers, or a mask of bools, in whatever holds them.
EnvIndex: TypeAlias = "int | Iterable[int] | torch.Tensor | None"


MOST_ENVS = 2**31 - 1
"""Of a pool: the executor keeps their numbers in 31 bits."""
MOST_INT = 2**63 - 1
"""Of what the executor counts: steps, results."""


def check_int(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """``value`` as an int: NumPy's integers are fine, bools and floats are not."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:  # of an array, say
        raise TypeError(f"{name}: expected an int, got {value!r}") from None
    if number < minimum:
        raise ValueError(f"{name}: expected at least {minimum}, got {value}")
    if maximum is not None and number > maximum:
        raise ValueError(f"{name}: expected at most {maximum}, got {value}")
    return number


def check_float_dtype(name: str, value: Any) -> torch.dtype | None:
    """``torch.float32`` or ``torch.float64``, from torch's, NumPy's or the name of either; or None."""
    dtype: torch.dtype | None = value
    if value is not None and not isinstance(value, torch.dtype):
        with contextlib.suppress(TypeError):
            dtype = getattr(torch, np.dtype(value).name, value)
    if dtype is not None and dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name}: expected torch.float32, torch.float64 or None, got {value!r}")
    return dtype


def check_names(argument: str, names: Any) -> list[str]:
    """A sequence of strings as a list; a string is none, though it holds strings."""
    is_sequence = isinstance(names, Sequence) and not isinstance(names, str)
    if not is_sequence or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument}: expected a sequence of strings, got {names!r}")
    return list(names)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """A string that is one of these."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def check_seconds(name: str, value: Any) -> float | None:
    """A time in seconds, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: expected seconds or None, got {value!r}")
    if not value > 0:
        raise ValueError(f"{name}: expected seconds, more than 0, got {value}")
    return float(value)


def check_affinity(thread_affinity: Sequence[int] | None) -> list[int]:
    cpus = list(thread_affinity or ())
    if not hasattr(os, "sched_getaffinity"):
        return cpus
    allowed = os.sched_getaffinity(0)
    for cpu in cpus:
        if cpu not in allowed:
            raise ValueError(
                f"thread_affinity: expected CPUs that this process may use, of {sorted(allowed)}, got {cpu!r}"
            )
    return cpus


def check_device(device: torch.device | str | int | None) -> None:
    """A CUDA device must be one that torch finds; it judges other names itself."""
    if device is None:
        return
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type != "cuda":
        return
    if not torch.cuda.is_available():
        raise ValueError(
            f"device: expected one that torch can use, got {str(device)!r}, but CUDA is not available"
        )
    count = torch.cuda.device_count()
    if device.index is not None and device.index >= count:
        raise ValueError(f"device: expected one of {count} CUDA devices, got {str(device)!r}")


def number_of(task: Any, num_envs: int | None) -> int:
    """How many envs these are; of a sequence of tasks its length says so, too."""
    if num_envs is None:
        if isinstance(task, str) or not isinstance(task, Sequence):
            raise TypeError("num_envs: expected a number; only with a sequence of tasks can it be left out")
        if not task:
            raise ValueError("task: expected at least one, got an empty sequence")
        return len(task)
    return num_envs


def task_per_env(task: str | Sequence[str], num_envs: int) -> list[str]:
    if isinstance(task, str):
        return [task] * num_envs
    if not isinstance(task, Sequence):
        raise TypeError(f"task: expected the id of a task or a sequence of ids, got {task!r}")
    if len(task) != num_envs:
        raise ValueError(f"task: expected one id or {num_envs} of them, got {len(task)}")
    for one in task:
        if not isinstance(one, str):
            raise TypeError(f"task: expected the id of a task, got {one!r}")
    return list(task)


def check_env_options(env_options: Sequence[Mapping[str, Any]] | None, num_envs: int) -> None:
    if env_options is not None and len(env_options) != num_envs:
        raise ValueError(f"env_options: expected one mapping per env ({num_envs}), got {len(env_options)}")


def open_configs(
    tasks: Sequence[str],
    env_options: Sequence[Mapping[str, Any]] | None,
    task_options: Mapping[str, Any],
) -> list[_core.Config]:
    """One configuration per env; envs with equal options share theirs."""
    check_env_options(env_options, len(tasks))
    opened: dict[str, _core.Config] = {}
    configs = []
    for i, task in enumerate(tasks):
        options, name = {**task_options}, task
        if env_options is not None:
            # In their own types, which show all digits: a tensor does not.
            options = registry.checked_options(task, {**task_options, **env_options[i]})
            name = f"{task} {sorted(options.items())!r}"
        if name not in opened:
            config = registry.open_config(task, options)
            if mismatch := next(iter(opened.values()), config).mismatch(config):
                of = "task" if task != tasks[0] else f"env_options: env 0 and env {i}"
                raise ValueError(f"{of}: {mismatch}")
            opened[name] = config
        configs.append(opened[name])
    return configs


def entropy_per_env(seed: int | Sequence[int] | None, num_envs: int) -> list[list[int]]:
    """Gymnasium's rule for vector envs: env i gets seed + i, or the i-th of a list. Empty: no seeds."""
    if seed is None:
        return []
    if isinstance(seed, Sequence) and not isinstance(seed, str):
        if len(seed) != num_envs:
            raise ValueError(f"seed: expected {num_envs} seeds, got {len(seed)}")
        return [seed_words(check_int("seed", s, minimum=0)) for s in seed]
    first = check_int("seed", seed, minimum=0)
    return [seed_words(first + i) for i in range(num_envs)]


def check_mask(name: str, mask: torch.Tensor, num_envs: int) -> torch.Tensor:
    """A mask as contiguous bool [N] on the CPU."""
    if not isinstance(mask, torch.Tensor) or mask.dtype is not torch.bool:
        got = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise TypeError(f"{name!r}: expected a mask of dtype torch.bool, got {got}")
    if mask.shape not in ((num_envs,), (num_envs, 1)):
        raise ValueError(
            f"{name!r}: expected a mask of shape [{num_envs}] or [{num_envs}, 1], got {list(mask.shape)}"
        )
    return mask.reshape(num_envs).cpu().contiguous()


def mask_of_reset(tensordict: TensorDictBase | None, num_envs: int) -> torch.Tensor | None:
    """The mask of a reset, as :func:`check_mask` gives it. None: all envs."""
    if tensordict is None:
        return None
    mask = tensordict.get("_reset", None)
    if mask is not None:
        mask = check_mask("_reset", mask, num_envs)
        return None if mask.all() else mask
    for key in tensordict.keys(True, True):
        if isinstance(key, tuple) and "_reset" in key:
            raise ValueError(f"{key}: expected '_reset', a mask of envs, whose agents are reset together")
    return None


def env_indices(env_index: EnvIndex, num_envs: int) -> list[int]:
    """The numbers of the envs that an ``EnvIndex`` names, in its order."""
    if isinstance(env_index, torch.Tensor) and env_index.dtype is torch.int64:
        indices: list[int] = env_index.flatten().tolist()
    else:
        names = list(_scalars(env_index))
        if names and not names_one_env(env_index) and all(isinstance(name, bool) for name in names):
            if len(names) != num_envs:
                raise ValueError(f"env_index: expected a mask of {num_envs} bools, got {len(names)}")
            names = [i for i, named in enumerate(names) if named]
        for name in names:
            if isinstance(name, bool) or not hasattr(name, "__index__"):
                raise TypeError(f"env_index: expected ints or a mask of {num_envs} bools, got {name!r}")
        indices = [operator.index(name) for name in names]
    if not indices:
        raise ValueError("env_index: expected at least one env, got none")
    if min(indices) < 0 or max(indices) >= num_envs:
        unknown = next(i for i in indices if not 0 <= i < num_envs)
        raise IndexError(f"env_index: expected 0 to {num_envs - 1}, got {unknown}")
    return indices


def names_one_env(env_index: Any) -> bool:
    """Whether it is a number rather than something that holds numbers: an int, NumPy's, or a 0-d tensor."""
    return hasattr(env_index, "__index__") and getattr(env_index, "ndim", 0) == 0


def _scalars(values: Any) -> Iterator[Any]:
    if hasattr(values, "tolist"):  # a tensor, an array, a NonTensorStack
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        yield values
        return
    for value in values:
        if type(value) is int:  # nearly always
            yield value
        else:
            yield from _scalars(value)


def generator_seed(seed: int) -> int:
    """A seed that torch's generators take: itself, unless it has more than 64 bits."""
    number = operator.index(seed)
    if number < 1 << 64:
        return number
    return int(np.random.SeedSequence(number).generate_state(1, np.uint64)[0])


def seed_words(seed: int) -> list[int]:
    """A seed as NumPy's SeedSequence takes it: 32-bit words, least significant first."""
    words = [seed & 0xFFFFFFFF]
    while seed := seed >> 32:
        words.append(seed & 0xFFFFFFFF)
    return words
