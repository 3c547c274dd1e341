"""The contract of a pool, whatever its envs are: checks that make pools of one kind and compare them.

A check returns whether it applies to these envs, and raises AssertionError where they break the contract.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.collectors import Collector
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs

from torchrl_pool._collecting import PoolCollector
from torchrl_pool._env.errors import EnvFailure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool.testing._pools import (
    History,
    Pools,
    action_of,
    copy_of,
    require_equal,
    require_same_history,
)


def _specs(pools: Pools) -> bool:
    # With a limit of 2, so that its three steps see an episode end.
    for limit in ({}, {"max_episode_steps": 2}):
        for encoding in pools.encodings:
            check_env_specs(pools(**limit, **encoding))
    return True


def _seeds(pools: Pools) -> bool:
    first, second = pools(), pools()
    history = pools.play(first, first.reset(seed=3))
    again = pools.play(second, second.reset(seed=3), history)
    require_same_history(history, again, "two pools with one seed")
    again = pools.play(second, second.reset(seed=3), history)
    require_same_history(history, again, "one pool that is seeded again")
    first.set_seed(5)
    second.set_seed(5)
    root = first.reset()
    require_equal(root, second.reset(), "two pools after set_seed")
    made = pools(seed=5)
    require_equal(root, made.reset(), "pools seeded by set_seed and by the constructor")
    return True


def _independence(pools: Pools) -> bool:
    """An env depends on its seed and its actions only, not on its index or on its neighbours."""
    together = pools()
    history = pools.play(together, together.reset(seed=7))
    for i in range(pools.num_envs):
        alone = pools(1)
        mine = [td[i : i + 1] for td in history]
        again = pools.play(alone, alone.reset(seed=7 + i), mine)
        require_same_history(mine, again, f"env {i} among others and alone")
    return True


def _placements(pools: Pools) -> bool:
    """An env depends neither on its thread nor on its process."""
    first, *others = pools.placements
    env = pools(**first)
    history = pools.play(env, env.reset(seed=1))
    for other in others:
        env = pools(**other)
        require_same_history(history, pools.play(env, env.reset(seed=1), history), f"{first} and {other}")
    return bool(others)


def _infos(pools: Pools) -> bool:
    """Asking for infos changes nothing else: a native task gets null pointers for those not asked for."""
    asked, plain = pools(), pools(info_keys=())
    keys = [len(set(env.observation_spec.keys(True, True))) for env in (asked, plain)]
    if keys[0] > keys[1]:
        history = pools.play(asked, asked.reset(seed=9))
        again = pools.play(plain, plain.reset(seed=9), history)
        require_same_history(again, history, "envs without infos and with them")
    return keys[0] > keys[1]


def _auto_reset(pools: Pools) -> bool:
    """``step_and_maybe_reset`` is TorchRL's step, then its reset."""
    one, other = pools(), pools()
    a, b = one.reset(seed=2), other.reset(seed=2)
    for t in range(pools.steps):
        a = one.rand_action(a)
        b.update(action_of(one, a))
        a, following = one.step_and_maybe_reset(a)
        b, plain = EnvBase.step_and_maybe_reset(other, b)
        require_equal(a, b, f"step_and_maybe_reset and step, step {t}")
        require_equal(following, plain, f"the root after step {t}")
        a, b = following, plain
    return True


def _limits(pools: Pools) -> bool:
    """``max_episode_steps`` truncates an episode and changes nothing before."""
    limit, steps = 3, 7
    short, whole = pools(max_episode_steps=limit), pools()
    history = pools.play(short, short.reset(seed=10))[:-1][:steps]
    roots = whole.reset(seed=10)
    lengths = torch.zeros(pools.num_envs, dtype=torch.int64)
    goes_on = torch.ones(pools.num_envs, dtype=torch.bool)
    flags = [key for key in short.done_keys if key[-1:] != ("terminated",) and key != "terminated"]
    for t, td in enumerate(history):
        lengths += 1
        if goes_on.any():
            step, roots = whole.step_and_maybe_reset(roots.update(action_of(whole, td)))
            same = td["next"].exclude(*flags)[goes_on]
            require_equal(same, step["next"][goes_on], f"with and without a limit, step {t}")
        done = _ends(short, td["next"])
        if not done[lengths == limit].all():
            raise AssertionError(f"a step at the limit of {limit} is not done: {done.tolist()}, step {t}")
        lengths[done] = 0
        goes_on &= ~done
    return True


def _ends(env: Any, following: TensorDictBase) -> torch.Tensor:
    """Whether an env's episode has ended: bool ``[num_envs]``."""
    done = following.get("done", None)
    if done is None:  # each group of agents has its own
        done = torch.stack([following[key].flatten(1).all(1) for key in env.done_keys]).any(0)
    ends: torch.Tensor = done.flatten(1).any(1).cpu()
    return ends


def _masks(pools: Pools) -> bool:
    """Rows that a mask leaves out do not move."""
    masked, whole = pools(), pools()
    mask = torch.arange(pools.num_envs) % 2 == 0
    left = masked.rand_action(masked.reset(seed=4))
    right = whole.reset(seed=4).update(action_of(masked, left))
    before = copy_of(left)
    partly = masked.step(left.set("_step", mask))["next"]
    fully = whole.step(right)["next"]
    require_equal(partly[mask], fully[mask], "stepped envs beside others that wait")
    seen = [key for key in partly.keys(True, True) if key in before.keys(True, True)]
    seen = [key for key in seen if key not in masked.reward_keys]
    require_equal(partly.select(*seen)[~mask], before[~mask], "entries of envs that wait")
    for key in masked.reward_keys:
        if partly[key][~mask].any():
            raise AssertionError(f"{key!r} of envs that wait: {partly[key][~mask]}, expected zeros")
    # The envs that waited take the step now.
    rest = before.exclude(*masked.reward_keys).set("_step", ~mask)
    caught_up = masked.step(rest)["next"]
    require_equal(caught_up[~mask], fully[~mask], "envs that waited for a step")
    none = caught_up.exclude(*masked.reward_keys).update(action_of(masked, left))
    seen = [*masked.observation_keys, *masked.done_keys]
    skipped = masked.step(none.set("_step", torch.zeros_like(mask)))["next"]
    require_equal(skipped.select(*seen), caught_up.select(*seen), "a step of none")
    # A reset of some leaves the others where they are.
    mask |= _ends(whole, fully)
    roots = [td.exclude(*masked.reward_keys) for td in map(copy_of, (caught_up, fully))]
    kept = copy_of(fully.select(*masked.observation_keys))
    start, again = (env.reset(td.set("_reset", mask)) for env, td in zip((masked, whole), roots, strict=True))
    require_equal(start[mask], again[mask], "envs that are reset")
    require_equal(kept[~mask], start[~mask], "envs beside others that are reset")
    none = copy_of(start).set("_reset", torch.zeros_like(mask))
    require_equal(start, masked.reset(none), "a reset of none")
    action = masked.rand_action()
    after = [
        env.step(root.exclude(*env.action_keys).update(action.clone()))["next"]
        for env, root in ((masked, start), (whole, again))
    ]
    require_equal(after[0], after[1], "a step after a reset of some")
    return True


def _states(pools: Pools) -> bool:
    """An env whose state is restored goes on bit for bit, in its pool and in another."""
    env, other = pools(), pools()
    root = pools.play(env, env.reset(seed=6))[-1]
    try:
        states = env.get_state()
    except NotImplementedError:
        return False
    history = pools.play(env, root.clone())
    env.set_state(states)
    again = pools.play(env, root.clone(), history)
    require_same_history(history, again, "an env whose state is restored")
    other.reset(seed=99)
    other.set_state(states)
    again = pools.play(other, root.clone(), history)
    require_same_history(history, again, "a pool that takes over another's states")
    return True


def _moved_states(pools: Pools) -> bool:
    """A state goes on in any place of a pool; states come, and are set, in the order of ``env_index``."""
    env = pools()
    root = env.reset(seed=6)
    order = list(reversed(range(pools.num_envs)))
    try:
        states, reversed_states = env.get_state(), env.get_state(order)
    except NotImplementedError:
        return False
    history = pools.play(env, root.clone())
    rows = torch.tensor(order)
    moved = [td[rows] for td in history]
    for given in ((reversed_states,), (states, order)):
        env.set_state(*given)
        again = pools.play(env, root[rows].clone(), moved)
        require_same_history(moved, again, "envs that have changed places")
    return True


def _ownership(pools: Pools) -> bool:
    """Tensors that a call returned are never written or read again."""
    env, twin = pools(), pools()
    expected = pools.play(twin, twin.reset(seed=8))
    held = pools.play(env, env.reset(seed=8), expected)
    copies = [copy_of(td) for td in held]
    pools.play(env, held[-1].clone())
    for t, (returned, kept) in enumerate(zip(held, copies, strict=True)):
        require_equal(returned, kept, f"what step {t} returned, and the same later")
    root = env.reset(seed=8)
    for t, td in enumerate(expected[:-1]):
        own = root.clone().update(action_of(env, td))
        _overwrite(root)
        data, root = env.step_and_maybe_reset(own)
        require_equal(td["next"], data["next"], f"results whose earlier ones were overwritten, step {t}")
        seen = root.exclude(*env.action_keys)
        require_equal(seen, expected[t + 1], f"the root after step {t}")
        root = root.clone()
        _overwrite(data)
    env.close()
    for t, (returned, kept) in enumerate(zip(held, copies, strict=True)):
        require_equal(returned, kept, f"what step {t} returned, and the same after close")
    return True


def _overwrite(td: TensorDictBase) -> None:
    for tensor in td.values(True, True):
        tensor.fill_(1)


def _async_calls(pools: Pools) -> bool:
    """Envs in flight in any grouping give what they give together."""
    together, apart = pools(), pools()
    if not isinstance(apart, PoolEnv):
        return False
    together.set_seed(13)
    apart.set_seed(13)
    history = pools.play(together, together.reset())
    apart.async_reset_send()
    roots = apart.async_reset_recv(pools.num_envs)
    waiting = [roots[row] for row in range(pools.num_envs)]
    taken, in_flight = [0] * pools.num_envs, 0
    while min(taken) < pools.steps:
        order = torch.randperm(len(waiting)).tolist()
        count = int(torch.randint(0 if in_flight else 1, len(waiting) + 1, ()))
        chosen, waiting = [waiting[i] for i in order[:count]], [waiting[i] for i in order[count:]]
        for rows in _parts(chosen):
            sent = []
            for root in rows:
                i = int(root["env_index"])
                expected = history[taken[i]][i]
                require_equal(root.exclude("env_index"), expected, f"the root of env {i}, step {taken[i]}")
                sent.append(root.update(action_of(apart, expected)))
            apart.async_step_and_maybe_reset_send(torch.stack(sent))
        in_flight += count
        least = int(torch.randint(1, in_flight + 1, ()))
        most = least if torch.rand(()) < 0.5 else None
        data, roots = apart.async_step_and_maybe_reset_recv(least, max_get=most)
        in_flight -= len(data)
        received = data["env_index"].tolist()
        if received != sorted(set(received)) or received != roots["env_index"].tolist():
            raise AssertionError(f"env_index is {received}, expected ascending numbers")
        for row, i in enumerate(received):
            expected = history[taken[i]][i]
            require_equal(data[row]["next"], expected["next"], f"env {i} in flight, step {taken[i]}")
            taken[i] += 1
            if taken[i] < pools.steps:
                waiting.append(roots[row].exclude(*apart.action_keys))
    return True


def _parts(rows: list[TensorDictBase]) -> Iterator[list[TensorDictBase]]:
    """The rows, in one or two sends."""
    cut = int(torch.randint(len(rows) + 1, ()))
    yield from filter(None, (rows[:cut], rows[cut:]))


def _collectors(pools: Pools) -> bool:
    """PoolCollector's batches are those of TorchRL's Collector."""
    batches: list[History] = []
    frames = pools.num_envs * max(pools.steps // 2, 1)
    kind: Any
    for kind in (Collector, PoolCollector):
        env = pools()
        if "collector" in env.full_observation_spec.keys():  # noqa: SIM118
            return False  # where TorchRL's Collector writes the ids of trajectories
        env.set_seed(14)
        torch.manual_seed(14)
        collector = kind(env, None, frames_per_batch=frames, total_frames=2 * frames)
        batches.append([batch.exclude("collector").clone() for batch in collector])
        collector.shutdown()
    theirs, ours = batches
    require_same_history(theirs, ours, "the batches of Collector and PoolCollector")
    require_same_history(ours, theirs, "the batches of PoolCollector and Collector")
    return True


def _pictures(pools: Pools) -> bool:
    """Pictures show an env and leave it as it is."""
    drawn, plain = pools(), pools()
    root = drawn.reset(seed=15)
    try:
        first = drawn.render()
    except NotImplementedError:
        return False
    history = pools.play(plain, plain.reset(seed=15))
    for t, td in enumerate(history[:-1][:3]):  # to draw takes long without a GPU
        pictures = drawn.render()
        if (
            pictures.dtype != torch.uint8
            or pictures.shape[::4] != (pools.num_envs,)
            or pictures.shape[3] != 3
        ):
            raise AssertionError(
                f"pictures are {pictures.dtype} {[*pictures.shape]}, expected uint8 [n, H, W, 3]"
            )
        order = list(reversed(range(pools.num_envs)))
        if not torch.equal(drawn.render(order), pictures[order]):
            raise AssertionError(f"pictures of the same envs differ before step {t}")
        data, root = drawn.step_and_maybe_reset(root.update(action_of(drawn, td)))
        require_equal(td["next"], data["next"], f"envs that are drawn and envs that are not, step {t}")
    drawn.reset(seed=15)
    if not torch.equal(drawn.render(), first):
        raise AssertionError("pictures of the first step differ after a reset with the same seed")
    return True


# A call, and what is wrong with it.
_REFUSED: dict[str, Callable[[Any, TensorDictBase], Any]] = {
    "a step without its action": lambda env, root: env.step(root.exclude(*env.action_keys)),
    "a step of an action of another shape": lambda env, root: env.step(_reshaped(root, env.action_keys[0])),
    "a step with a mask of another shape": lambda env, root: env.step(root.set("_step", _wide_mask(root))),
    "a reset with a mask of another shape": lambda env, root: env.reset(root.set("_reset", _wide_mask(root))),
    "a reset of agents": lambda env, root: env.reset(root.set("_reset", root.select())),
    "a seed that is none": lambda env, root: env.reset(seed="one"),
}


def _reshaped(root: TensorDictBase, key: Any) -> TensorDictBase:
    return root.set(key, torch.stack([root[key]] * 3, -1))


def _wide_mask(root: TensorDictBase) -> torch.Tensor:
    return torch.ones(*root.batch_size, 2, dtype=torch.bool)


def _refusals(pools: Pools) -> bool:
    """A refused call raises and changes nothing."""
    env, twin = pools(), pools()
    root, expected = env.rand_action(env.reset(seed=16)), twin.reset(seed=16)
    for what, call in _REFUSED.items():
        try:
            call(env, root.clone())
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            if isinstance(error, EnvFailure):
                raise AssertionError(f"{what} fails an env: {error}") from error
        else:
            raise AssertionError(f"{what} is taken")
    expected = twin.step(expected.update(action_of(env, root)))["next"]
    require_equal(env.step(root)["next"], expected, "a step after refused calls")
    return True


def _closing(pools: Pools) -> bool:
    """A closed pool refuses steps, and its next reset is its first one again."""
    env = pools(seed=12)
    first = env.reset()
    root = env.rand_action(first.clone())
    env.close()
    if not env.is_closed:
        raise AssertionError("a closed pool says that it is open")
    _require_error(RuntimeError, lambda: env.step(root), "a closed pool steps")
    require_equal(env.reset(), first, "the first resets before and after close")
    env.close()
    env.close(raise_if_closed=False)
    return True


def _copies(pools: Pools) -> bool:
    """A copy of a pool that does not run is a pool with the same seeds; a running one is not copied."""
    env = pools(seed=17)
    env.set_seed(18)
    twin = copy.deepcopy(env)
    pools.open.append(twin)
    if type(twin) is not type(env) or twin.specs != env.specs:
        raise AssertionError(f"a copy is {twin}, expected {env}")
    history = pools.play(env, env.reset())
    require_same_history(history, pools.play(twin, twin.reset(), history), "a pool and its copy")
    _require_error(TypeError, lambda: copy.deepcopy(env), "a running pool is copied")
    return True


def _require_error(kind: type[Exception], call: Callable[[], Any], what: str) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(what)


CHECKS: dict[str, Callable[[Pools], bool]] = {
    "specs": _specs,
    "seeds": _seeds,
    "independence": _independence,
    "placements": _placements,
    "infos": _infos,
    "auto-reset": _auto_reset,
    "limits": _limits,
    "masks": _masks,
    "states": _states,
    "moved states": _moved_states,
    "ownership": _ownership,
    "async calls": _async_calls,
    "collectors": _collectors,
    "pictures": _pictures,
    "refusals": _refusals,
    "closing": _closing,
    "copies": _copies,
}


def check_pool(
    make: Callable[..., Any],
    *,
    num_envs: int = 4,
    steps: int = 50,
    encodings: Sequence[Mapping[str, Any]] = ({},),
    placements: Sequence[Mapping[str, Any]] = ({},),
    checks: Collection[str] | None = None,
) -> list[str]:
    """Checks that pools of one kind keep the contract: of a MuJoCo model, of Python envs, of any transforms.

    Runs TorchRL's ``check_env_specs``; compares runs with equal seeds, of the same envs at other places in
    the batch, on other threads or in other processes, by ``step_and_maybe_reset`` and by ``step`` and
    ``reset``, in asynchronous calls, and in collectors; steps and resets some envs only; saves and restores
    states; draws; looks for returned tensors that change later, for calls that should be refused, and for
    what closed and copied pools do.

    Args:
        make: makes a pool: ``make(num_envs, **options)``, where the options are ``seed``,
            ``max_episode_steps``, ``info_keys``, and those of ``encodings`` and ``placements``, as of
            :class:`~torchrl_pool.PoolEnv`. With its own infos where ``info_keys`` is not given.

    Keyword Args:
        num_envs: envs in the pools that are compared.
        steps: steps to compare; enough of them for some episodes to end by themselves is best.
        encodings: options of the constructor with each of which specs are checked.
        placements: options of the constructor that change nothing but where envs run.
        checks: the names of some checks; ``None``: all.

    Returns:
        The names of the checks, without those that do not apply (to envs without states, say).

    Raises:
        AssertionError: a pool breaks the contract; the message names the check and the entry.
        KeyError: there is no check of a name.

    Examples:
        >>> from functools import partial
        >>> from torchrl_pool import PoolEnv
        >>> from torchrl_pool.testing import check_pool
        >>> check_pool(partial(PoolEnv, "gymnasium:CartPole-v1"), num_envs=2, steps=10, checks=["masks"])
        ['masks']
    """
    pools = Pools(make, num_envs, steps, encodings, placements)
    chosen = CHECKS if checks is None else {name: CHECKS[name] for name in checks}
    return run_checks({name: partial(pools.run, check) for name, check in chosen.items()})


def run_checks(checks: Mapping[str, Callable[[], bool]], of: str = "") -> list[str]:
    """The names of those that apply; their random numbers are their own."""
    done = []
    for name, check in checks.items():
        try:
            with torch.random.fork_rng(devices=()):
                torch.manual_seed(0)
                applies = check()
        except (AssertionError, EnvFailure) as error:
            raise AssertionError(f"{of}{name}: {error}") from error
        if applies:
            done.append(name)
    return done
