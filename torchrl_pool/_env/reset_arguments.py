"""What one reset is given beside its tensordict: seeds and options, for all envs or for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_int, entropy_per_env, seed_words
from torchrl_pool._plugins.registry import checked_reset_options

Options: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None"


@dataclass
class ResetArguments:
    """What was given, for each env.

    Attributes:
        entropy: words of the seeds, empty where there is none; or nothing at all.
        options: as they were given.
        executor_options: in the form that the executor takes; or nothing at all.
        states: those of envs whose state travels in tensordicts, as bytes of each env that is reset, and
            whether the envs are to begin from them; or nothing.
    """

    entropy: list[list[int]] = field(default_factory=list)
    options: list[Mapping[str, Any] | None] = field(default_factory=list)
    executor_options: list[_core.ResetOptions | None] = field(default_factory=list)
    states: tuple[torch.Tensor, bool | None] | None = None

    @property
    def may_be_told(self) -> bool:
        """Whether there may be something that sources have to tell workers beforehand, env by env."""
        return bool(self.options) or self.states is not None

    def for_executor(self, note: int) -> _core.ResetArguments:
        """The same as the executor takes it, with the number under which workers know their part."""
        return self.entropy, self.executor_options, note


def reset_arguments(
    num_envs: int,
    seed: int | Sequence[int] | None,
    options: Options,
    list_of_kwargs: Sequence[Mapping[str, Any]] | None,
) -> ResetArguments:
    """Checks what :meth:`PoolEnv.reset` was given, before any env moves."""
    entropy = entropy_per_env(seed, num_envs)
    per_env = _options_per_env(options, num_envs)
    if list_of_kwargs is not None:  # as SerialEnv has it, where what is given for all comes first
        own = _own_arguments(list_of_kwargs, num_envs)
        if seed is None and any(kwargs.get("seed") is not None for kwargs in own):
            entropy = [_words(kwargs.get("seed")) for kwargs in own]
        if options is None:
            per_env = [kwargs.get("options") for kwargs in own]
    return ResetArguments(entropy, per_env)


def _own_arguments(list_of_kwargs: Sequence[Mapping[str, Any]], num_envs: int) -> list[Mapping[str, Any]]:
    own = list(list_of_kwargs)
    if len(own) != num_envs:
        raise ValueError(f"list_of_kwargs: expected one mapping per env ({num_envs}), got {len(own)}")
    for kwargs in own:
        if not isinstance(kwargs, Mapping):
            raise TypeError(f"list_of_kwargs: expected mappings, got {kwargs!r}")
        if unknown := [name for name in kwargs if name not in ("seed", "options")]:
            raise TypeError(
                f"list_of_kwargs: expected 'seed' and 'options', got {', '.join(map(repr, unknown))}"
            )
    return own


def _words(seed: int | None) -> list[int]:
    return [] if seed is None else seed_words(check_int("seed", seed, minimum=0))


def _options_per_env(options: Options, num_envs: int) -> list[Mapping[str, Any] | None]:
    if options is None or isinstance(options, Mapping):
        return [options] * num_envs
    if not isinstance(options, Sequence) or isinstance(options, str):
        raise TypeError(f"options: expected a mapping, or one for each env, got {options!r}")
    if len(options) != num_envs:
        raise ValueError(f"options: expected one mapping per env ({num_envs}), got {len(options)}")
    return list(options)


def open_options(
    tasks: Sequence[str], configs: Sequence[_core.Config], per_env: Sequence[Mapping[str, Any] | None]
) -> list[_core.ResetOptions | None]:
    """Those of tasks, checked. Envs that share a configuration and have equal options share these too."""
    if not any(per_env):
        return []
    opened: dict[tuple[int, str], _core.ResetOptions] = {}
    checked: dict[tuple[str, int], dict[str, Any]] = {}  # one mapping may be that of all envs
    chosen: list[_core.ResetOptions | None] = []
    for task, config, options in zip(tasks, configs, per_env, strict=True):
        if not options:
            chosen.append(None)
            continue
        if not isinstance(options, Mapping):
            raise TypeError(f"options: expected a mapping for each env, got {options!r}")
        if (task, id(options)) not in checked:
            checked[task, id(options)] = checked_reset_options(task, options)
        own = checked[task, id(options)]
        same = id(config), repr(own)  # in their own types, which show all digits: a tensor does not
        if same not in opened:
            opened[same] = _core.ResetOptions(config, own)
        chosen.append(opened[same])
    return chosen
