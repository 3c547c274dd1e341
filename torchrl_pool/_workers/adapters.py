"""Each kind of env, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torchrl_pool._workers.entries import Entry
from torchrl_pool._workers.wrappers import is_from


class Adapter(Protocol):
    """One env, as sequences of arrays in the order of its entries."""

    @property
    def env(self) -> Any:
        """The env itself."""

    @property
    def entries(self) -> Sequence[Entry]:
        """Actions first; then the outputs: observations, rewards, flags below the root, infos."""

    @property
    def states(self) -> Sequence[Entry]:
        """What steps read besides actions. Where there is any, the last action holds these, as bytes."""

    @property
    def specs(self) -> bytes | None:
        """A TorchRL env's specs, pickled: full action, observation, reward, done and state spec."""

    @property
    def has_own_state(self) -> bool:
        """Whether the env has ``get_state()`` and ``set_state(state)``."""

    is_restored: bool
    """Whether the next step goes on from what was restored, whatever states it is given."""
    tell_info: Callable[[Any, bool], None] | None
    """Takes an info dict that is not empty, and whether it is a reset's. None: nobody is told of it."""

    def state(self) -> tuple[Any, Any]:
        """The env, and what is carried from its last step to the next one."""

    def restore(self, state: Any) -> None:
        """Becomes what :meth:`state` gave, in this process or another."""

    def seed(self, seed: int) -> None:
        """What TorchRL's ``SerialEnv.set_seed`` does with one env."""

    def begin_from(self, states: Any, set_state: bool | None) -> None:
        """What the next reset is given: bytes of :attr:`states`, and whether they become the env's."""

    def reset(self, seed: int | None, options: Any) -> tuple[Sequence[Any], Any, Any]:
        """Begins an episode.

        Returns:
            The outputs without the rewards; whether the episode is terminated already, and whether it is
            truncated.
        """

    def step(self, actions: Sequence[Any], is_last: bool = False) -> tuple[Sequence[Any], Any, Any, Any]:
        """Takes one step.

        Args:
            actions: one per entry: a NumPy scalar where its shape is ``()``, otherwise an array that the
                env may keep.
            is_last: whether the limit of a pool ends the episode here, for who tells of episodes.

        Returns:
            The outputs without the rewards; the reward, or a tuple of them where there are several; whether
            the episode is terminated, and whether it is truncated, as the env said it (to be read as bools).
        """


def adapt(
    env: Any, info_keys: Sequence[str] = (), told: Sequence[Entry] | None = None, own_names: bool = False
) -> Adapter:
    """The adapter that speaks this env's language.

    Args:
        env: an env of Gymnasium, an env of TorchRL without batch dimensions, or an env of PettingZoo.
        info_keys: what of a Gymnasium env's info dicts is returned too; ``/`` separates nested levels. Of an
            env of PettingZoo: ``"state"``.
        told: the entries of rewards and infos of another env of Gymnasium like it; None: it takes a trial to
            know them.
        own_names: whether entries of spaces of Gymnasium have names of their own: see
            :class:`~torchrl_pool._workers.worker.InfoOptions`.

    Raises:
        TypeError: the env is none of these, has a batch, or has spaces that tensors cannot hold.
        ValueError: names of entries clash, or an info key was not found.
    """
    # A library that is not loaded cannot be this env's, and is not worth loading.
    if is_from("gymnasium", "Env", env):
        from torchrl_pool._workers.gymnasium_adapter import GymnasiumAdapter
        from torchrl_pool._workers.probe import told_in_steps

        if told is None:
            told = told_in_steps(env, info_keys)
        return GymnasiumAdapter(env, told, own_names)
    state: list[str] = []
    takes_turns = is_from("pettingzoo", "AECEnv", env)
    if takes_turns or is_from("pettingzoo", "ParallelEnv", env):
        from torchrl.envs import PettingZooWrapper

        state = [key for key in info_keys if key == "state"]
        info_keys = [key for key in info_keys if key != "state"]
        # The mask tells whose turn it is.
        env = PettingZooWrapper(env, use_mask=takes_turns, return_state=bool(state))
    if is_from("torchrl.envs", "EnvBase", env):
        if info_keys:
            raise TypeError(
                "info_keys: expected 'state' with an env of PettingZoo, and none with one of TorchRL, whose "
                f"observation_spec holds all, got {', '.join(map(repr, info_keys))}"
            )
        if env.batch_size:
            raise TypeError(
                f"expected an env without batch dimensions, got {type(env).__name__} "
                f"with batch_size {tuple(env.batch_size)}: pass a callable that makes one of its envs, and "
                "num_envs"
            )
        from torchrl_pool._workers.gym_env_adapter import GymEnvAdapter
        from torchrl_pool._workers.torchrl_adapter import TorchRLAdapter

        return GymEnvAdapter(env) if GymEnvAdapter.takes(env) else TorchRLAdapter(env, state)
    many = " of many envs; pass a callable that makes one" if hasattr(env, "num_envs") else ""
    raise TypeError(
        "expected a gymnasium.Env, a torchrl.envs.EnvBase, a pettingzoo.ParallelEnv or a pettingzoo.AECEnv, "
        f"got {type(env).__module__}.{type(env).__qualname__}{many}"
    )
