"""Parallel envs of mpe2 and of PettingZoo's SISL, as TorchRL wraps them, beside the pool."""

import importlib
from functools import partial

import pygame
import torch
from child import serve
from pettingzoo.utils.env_logger import EnvLogger
from torchrl.envs import MarlGroupMapType, PettingZooWrapper, SerialEnv, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv

EnvLogger.suppress_output()  # it warns of each action that is clipped


def make_twin(task, options, **others):
    module = importlib.import_module(task.replace("sisl/", "pettingzoo.sisl/").replace("/", "."))
    options = dict(options)
    per_agent = options.pop("group_map", "by_name") == "one_group_per_agent"
    done_on_any = options.pop("done_on_any", True)
    return PettingZooWrapper(
        module.parallel_env(**options, **others),
        return_state=has_state(task, options),
        group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT if per_agent else None,
        use_mask=not done_on_any,
        done_on_any=done_on_any,
    )


def has_state(task, options):
    """Of multiwalker state() raises once a walker has been taken away."""
    return "multiwalker" not in task or not options.get("remove_on_fall", True)


def make_pool(task, num_envs, options, **others):
    keys = [*(["state"] if has_state(task, options) else []), *(["step_count"] if others else [])]
    return PoolEnv(
        task,
        num_envs,
        device="cpu",
        categorical_action_encoding=True,
        info_keys=keys,
        **options,
        **others,
    )


def tasks():
    from mpe2.all_modules import mpe_environments

    return [name.replace("mpe/", "mpe2/") for name in mpe_environments]


def constructors():
    """What the constructors take, with the defaults."""
    import inspect

    found = {}
    for task in tasks():
        module = importlib.import_module(task.replace("/", "."))
        signature = inspect.signature(module.raw_env.__init__)
        found[task] = {name: p.default for name, p in signature.parameters.items() if name != "self"}
    return found


def different_specs(task, options):
    """Entries whose specs differ, and whether the groups do."""
    twin, pool = make_twin(task, options), make_pool(task, 2, options)
    different = [] if pool.group_map == twin.group_map else ["group_map"]
    for name in ("full_action_spec", "full_observation_spec", "full_reward_spec", "full_done_spec"):
        theirs = dict(getattr(twin, name).items(True, True))
        ours = dict(getattr(pool, name).items(True, True))
        different += [str(key) for key in {*theirs, *ours} if key not in theirs or key not in ours]
        different += [
            str(key) for key in theirs if key in ours and ours[key] != theirs[key].expand(ours[key].shape)
        ]
    return different


def is_equal(a, b):
    if a.dtype is not b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def compared(task, steps, options=None, num_envs=3, seed=0, advance_at=None, spread=0.0, toward=0.0):
    """The entries that differ, where they first did, and how often which flag was set.

    Args:
        advance_at: at which step the twins are told to begin the next stage of their curriculum.
        spread: how far continuous actions leave their bounds.
        toward: how many of the steps keep the action of the step before, so that agents get somewhere.
    """
    options = options or {}
    pool, twins = make_pool(task, num_envs, options), [make_twin(task, options) for _ in range(num_envs)]
    counts = {"terminated": 0, "truncated": 0, "some are done": 0}
    root = pool.reset(seed=seed)
    roots = [twin.reset(seed=seed + i) for i, twin in enumerate(twins)]
    held = None

    def differences(ours, theirs, what):
        found = []
        for i, expected in enumerate(theirs):
            keys = set(map(str, expected.keys(True, True))) ^ set(map(str, ours.keys(True, True)))
            found += [f"{what}: {key} is missing" for key in keys]
            for key, value in expected.items(True, True):
                if str(key) not in keys and not is_equal(ours[key][i], value):
                    found.append(f"{what}, env {i}: {key} is {ours[key][i].tolist()}, not {value.tolist()}")
        return found

    different = differences(root, roots, "reset")
    for t in range(steps):
        if t == advance_at:
            for twin in twins:
                twin.unwrapped.advance_curriculum()
        if held is None or torch.rand(()) >= toward:
            held = pool.rand_action().select(*pool.action_keys)
            if spread:
                held.apply_(lambda action: (action - 0.5) * (1 + 2 * spread) + 0.5)
        root.update(held.clone())
        root, following = pool.step_and_maybe_reset(root)
        after = []
        for i, twin in enumerate(twins):
            step = twin.step(roots[i].update(held[i].clone()))["next"]
            after.append(step)
            roots[i] = twin.reset() if step["done"] else twin.step_mdp(roots[i])
            roots[i] = roots[i].exclude(*pool.action_keys, *pool.reward_keys)
            counts["terminated"] += int(step["terminated"])
            counts["truncated"] += int(step["truncated"])
            flags = torch.cat([step[key].flatten() for key in twin.done_keys if key[-1] == "done"])
            counts["some are done"] += bool(flags.any() and not flags.all())
        different += differences(root["next"], after, f"step {t}")
        root = following.exclude(*pool.action_keys)
        different += differences(root, roots, f"root after step {t}")
        if different:
            break
    pool.close()
    return different[:5], counts


def different_with_limit(task, options, limit, steps):
    """Where a pool with max_episode_steps differs from SerialEnv with StepCounter, and flags of that."""
    pool = make_pool(task, 3, options, max_episode_steps=limit)
    serial = TransformedEnv(SerialEnv(3, partial(make_twin, task, options)), StepCounter(limit))
    rollouts = []
    for env in (pool, serial):
        env.set_seed(0)
        torch.manual_seed(0)
        policy = lambda tensordict: tensordict.update(pool.full_action_spec.rand())  # noqa: E731
        rollouts.append(env.rollout(steps, policy, break_when_any_done=False))
    data, expected = rollouts
    different = [str(key) for key, value in expected.items(True, True) if not is_equal(data[key], value)]
    counts = {name: int(expected["next", name].sum()) for name in ("terminated", "truncated")}
    return different, counts


class Silence:
    """In the place of a font: words of agents, and numbers of them, are not in the pool's pictures."""

    def render_to(self, *arguments):
        pass

    def render(self, *arguments):
        return pygame.Surface((0, 0))


def different_pictures(task, options, steps=60):
    """Which pictures of episodes and their ends differ in how many pixels, and how many pictures there were.

    The window is black before each: where nothing is drawn, PettingZoo leaves what it showed before.
    """
    pool, twin = make_pool(task, 1, options), make_twin(task, options, render_mode="rgb_array")
    pygame.font.SysFont = lambda *arguments: Silence()
    twin.unwrapped.game_font = Silence()
    found, shown = [], set()

    def compare(what):
        if window := pygame.display.get_surface():
            window.fill((0, 0, 0))
        expected, pixels = torch.from_numpy(twin.render()), pool.render()[0]
        shown.add(expected.numpy().tobytes())
        found.extend([] if pixels.shape == expected.shape else [f"shape {tuple(pixels.shape)}"])
        differing = (pixels != expected).any(-1)
        found.extend([f"{what}: {int(differing.sum())} pixels"] if differing.any() else [])

    root, twins_root = pool.reset(seed=0), twin.reset(seed=0)
    for t in range(steps):
        compare(f"before step {t}")
        root = pool.step(pool.rand_action(root))
        step = twin.step(twins_root.update(root.select(*pool.action_keys)[0].clone()))["next"]
        if step["done"]:
            compare(f"end in step {t}")
        root = pool.maybe_reset(pool.step_mdp(root))
        twins_root = twin.reset() if step["done"] else twin.step_mdp(twins_root)
        twins_root = twins_root.exclude(*pool.action_keys, *pool.reward_keys)
    pool.close()
    return found[:5], len(shown)


serve(globals())
