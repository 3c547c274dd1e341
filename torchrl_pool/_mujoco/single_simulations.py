"""Single envs of a MujocoPool: in flight, saved and set back, filmed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool._env.arguments import EnvIndex, env_indices
from torchrl_pool._env.errors import EnvFailure, joined
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.random_actions import hidden_from_class, rand_action, rand_step
from torchrl_pool._mujoco.snapshots import join_state, split_states

_GIVEN = "_action"  # the entry in which actions travel beside the controls that they become


class SingleSimulations(EnvBase):
    """The methods of :class:`~torchrl_pool.MujocoPool` that take an ``env_index``."""

    num_envs: int
    dtype: torch.dtype
    _physics: PoolEnv
    _terms: tuple[str, ...]  # of the reward, which are entries
    _state: TensorDict | None  # what all envs are in now, of which functions see rows
    _written: TensorDict | None = None  # the same, where async calls write into it: nobody else holds it
    _model_values: dict[str, torch.Tensor]

    @abstractmethod
    def _prepare_ctrl(self, action: torch.Tensor) -> torch.Tensor:
        """What the physics gets for an action."""

    @abstractmethod
    def _gives_initial_states(self) -> bool:
        """Whether functions say where episodes begin."""

    @abstractmethod
    def _results(
        self,
        state: TensorDictBase,
        action: torch.Tensor,
        next_state: TensorDictBase,
        *,
        rows: torch.Tensor | None = None,
    ) -> TensorDict:
        """What follows from a step."""

    @abstractmethod
    def _begun(self, rows: torch.Tensor) -> None:
        """Called where episodes of these envs have begun."""

    @abstractmethod
    def _root(self, state: TensorDictBase) -> TensorDict:
        """What an episode begins with."""

    def _running(self) -> TensorDict:
        if self._state is None:
            raise RuntimeError(f"{self!r} has no running simulations: call reset() before the first step")
        return self._state

    def _state_to_write(self) -> TensorDict:
        """The state of all envs in tensors of its own: what functions were given is never written again."""
        with self._physics._opening:  # several threads may receive at once
            if self._state is None:
                self._state = self._written = self._blank_state()
            elif self._state is not self._written:
                self._state = self._written = self._state.clone()
            return self._state

    def async_step_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """As :meth:`PoolEnv.async_step_send`. The functions see the envs that are received together."""
        self._running()
        self._physics.async_step_send(self._with_control(tensordict), env_index)

    def _send_alone(self, tensordict: TensorDictBase, indices: Sequence[int]) -> None:
        self._running()
        self._physics._send_alone(self._with_control(tensordict), indices)

    def _with_control(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What the physics is sent: its control, and the action, which functions and callers see."""
        action = action_of(tensordict)
        control = self._prepare_ctrl(action if tensordict.batch_dims else action.unsqueeze(0))
        control = control if tensordict.batch_dims else control.squeeze(0)
        return tensordict.copy().update({_GIVEN: action, "action": control})

    def async_step_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """As :meth:`PoolEnv.async_step_recv`."""
        data = self._physics.async_step_recv(min_get, env_index, max_get=max_get, timeout=timeout)
        rows, next_state = self._received(data, data.get("next"))
        state = self._state_to_write()
        before = state[rows]
        action = data.pop(_GIVEN)
        data.set("action", action)
        action = action if data.batch_dims else action.unsqueeze(0)
        try:
            result = self._results(before, action, next_state, rows=rows)
        except EnvFailure as failure:
            if (result := failure.tensordict) is not None:
                failure.tensordict = data.set("next", result if data.batch_dims else result[0])
            raise
        finally:
            write_rows(state, rows, next_state)
        return data.set("next", result if data.batch_dims else result[0])

    def async_reset_send(self, tensordict: TensorDictBase | None = None, env_index: EnvIndex = None) -> None:
        """As :meth:`PoolEnv.async_reset_send`.

        Raises:
            NotImplementedError: resets are given values by ``reset`` or ``model_fields``, for whole batches.
        """
        self._refuse_given_beginnings("async_reset_send")
        self._physics.async_reset_send(tensordict, env_index)

    def async_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> TensorDictBase:
        """As :meth:`PoolEnv.async_reset_recv`."""
        data = self._physics.async_reset_recv(min_get, env_index, max_get=max_get, timeout=timeout)
        rows, state = self._received(data, data)
        latest = self._state_to_write()
        state = state.update({key: torch.zeros_like(latest.get(key)[rows]) for key in self._terms})
        write_rows(latest, rows, state)
        self._begun(rows)
        root = self._root(state).set("env_index", rows)
        return root if data.batch_dims else root[0]

    def async_step_and_maybe_reset_send(self, tensordict: TensorDictBase, env_index: EnvIndex = None) -> None:
        """As :meth:`PoolEnv.async_step_and_maybe_reset_send`.

        Raises:
            NotImplementedError: resets are given values by ``reset`` or ``model_fields``, for whole batches.
        """
        self._refuse_given_beginnings("async_step_and_maybe_reset_send")
        self.async_step_send(tensordict, env_index)

    def async_step_and_maybe_reset_recv(
        self,
        min_get: int | None = None,
        env_index: int | None = None,
        *,
        max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.async_step_and_maybe_reset_recv`.

        Which episodes have ended is known when the functions have run: so their envs begin anew here, one
        beside the other, and this waits for them.
        """
        data = self.async_step_recv(min_get, env_index, max_get=max_get, timeout=timeout)
        root = self.step_mdp(data)
        done = root.get("done")
        if not done.any():
            return data, root
        root = root.clone()  # the step keeps what it shows
        rows = root if root.batch_dims else root.unsqueeze(0)
        ended = done.reshape(-1).nonzero().flatten().tolist()
        numbers = [int(rows.get("env_index")[row]) for row in ended]
        for number in numbers:
            self._physics.async_reset_send(env_index=number)
        failures: list[EnvFailure] = []
        for row, number in zip(ended, numbers, strict=True):
            try:
                write_rows(rows, torch.tensor([row]), self.async_reset_recv(env_index=number))
            except EnvFailure as failure:
                failures.append(failure)
        if failures:
            raise joined(failures)
        return data, root

    @hidden_from_class
    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """As :meth:`PoolEnv.rand_action`."""
        return rand_action(self, tensordict)

    def rand_step(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """As :meth:`PoolEnv.rand_step`."""
        return rand_step(self, tensordict)

    def _refuse_given_beginnings(self, method: str) -> None:
        if self._model_values or self._gives_initial_states():
            raise NotImplementedError(
                f"{method}: episodes that a reset function or model_fields begin are for reset(); "
                "keyframe and randomize work here too"
            )

    def _received(self, data: TensorDictBase, state: TensorDictBase) -> tuple[torch.Tensor, TensorDictBase]:
        rows = data.get("env_index").reshape(-1)
        return rows, state if state.batch_dims else state.unsqueeze(0)

    def _blank_state(self) -> TensorDict:
        blank: TensorDict = self._physics.full_observation_spec.zero()
        for key in self._terms:
            blank.set(key, torch.zeros(self.num_envs, dtype=self.dtype, device=self.device))
        return blank.update(self._physics.full_done_spec.zero())

    def get_state(self, env_index: EnvIndex = None) -> list[bytes]:
        """As :meth:`PoolEnv.get_state`: a restored env continues bit for bit.

        What functions keep by themselves, and the generator that ``reset`` is given, is not part of it.
        """
        state = self._running()
        indices = self._indices(env_index)
        physics = self._physics.get_state(indices)
        return [join_state(one, state[i]) for one, i in zip(physics, indices, strict=True)]

    def set_state(self, state: bytes | Sequence[bytes], env_index: EnvIndex = None) -> None:
        """As :meth:`PoolEnv.set_state`."""
        indices = self._indices(env_index)
        states = [state] * len(indices) if isinstance(state, bytes) else list(state)
        current = self._blank_state() if self._state is None else self._state.clone()
        chosen = torch.tensor(indices[: len(states)], dtype=torch.long)
        rows = current[chosen]
        physics = split_states(states[: len(indices)], rows) + states[len(indices) :]
        current[chosen] = rows
        self._physics.set_state(physics, indices)
        self._state = current

    def _indices(self, env_index: EnvIndex) -> list[int]:
        return list(range(self.num_envs)) if env_index is None else env_indices(env_index, self.num_envs)

    def render(self, env_index: EnvIndex = None) -> torch.Tensor:
        """As :meth:`PoolEnv.render`: uint8 ``[k, H, W, 3]``."""
        return self._physics.render(env_index)


def action_of(tensordict: TensorDictBase) -> torch.Tensor:
    """The action of a step.

    Raises:
        KeyError: there is none.
    """
    action: torch.Tensor | None = tensordict.get("action", None)
    if action is None:
        raise KeyError(f"expected an entry 'action' in the tensordict, got {list(tensordict.keys())}")
    return action


def write_rows(state: TensorDictBase, rows: torch.Tensor, values: TensorDictBase) -> None:
    """Writes the entries that both have."""
    for key, value in list(state.items()):
        new = values.get(key, None)
        if new is None:
            continue
        if value.is_inference() and not torch.is_inference_mode_enabled():
            value = state.set(key, value.clone()).get(key)
        value[rows] = new
