"""What a class of tasks may override; the names are those of TorchRL's ``MujocoEnv``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from tensordict import TensorDictBase

from torchrl_pool._mujoco.functions import Functions, naming_fields


class TaskHooks:
    """The task of a :class:`~torchrl_pool.MujocoPool`: functions, or a subclass's methods in their place."""

    rng: torch.Generator
    _functions: Functions
    # The methods that stand for functions which are not given.
    _HOOKS: ClassVar[Mapping[str, str]] = {
        "reward": "_compute_reward",
        "terminated": "_compute_done",
        "observe": "_make_obs",
        "reset": "_initial_state",
    }

    def _compute_reward(
        self, state: TensorDictBase, action: torch.Tensor, next_state: TensorDictBase
    ) -> torch.Tensor | Mapping[str, torch.Tensor]:
        if self._functions.reward is None:
            return torch.zeros(action.shape[0], device=action.device)
        with naming_fields(next_state):
            return self._functions.reward(state, action, next_state)

    def _compute_done(self, state: TensorDictBase, next_state: TensorDictBase) -> torch.Tensor:
        if self._functions.terminated is None:
            return torch.zeros_like(next_state["terminated"])
        with naming_fields(next_state):
            return self._functions.terminated(state, next_state)

    def _make_obs(self, state: TensorDictBase) -> torch.Tensor | Mapping[str, torch.Tensor]:
        """The observation where it is computed; else the arrays that it names are its entries."""
        assert self._functions.observe is not None
        with naming_fields(state):
            return self._functions.observe(state)

    def _observed(self, state: TensorDictBase) -> torch.Tensor | Mapping[str, torch.Tensor]:
        return self._make_obs(state)

    def _prepare_ctrl(self, action: torch.Tensor) -> torch.Tensor:
        """What the physics gets for an action."""
        return action

    def _initial_state(self, rows: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Where episodes of these envs begin, beyond ``keyframe`` and ``randomize``."""
        return {} if self._functions.reset is None else self._functions.reset(rows, self.rng)

    def _gives_initial_states(self) -> bool:
        return self._functions.reset is not None

    def _begun(self, rows: torch.Tensor) -> None:
        """Called where episodes of these envs have begun, before anybody has seen how."""

    def _check_hooks(self, functions: Functions) -> None:
        """Refuses functions that nobody would call.

        Raises:
            TypeError: the class has a method of its own in the place of one.
        """
        for name, hook in self._HOOKS.items():
            own = getattr(type(self), hook) is not getattr(TaskHooks, hook, None)
            if own and getattr(functions, name) is not None:
                raise TypeError(
                    f"{name}: expected no function, because {type(self).__name__} overrides {hook}, got one"
                )
