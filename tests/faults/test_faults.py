"""Envs that go wrong in every way: who is told, who goes on unharmed, and how the culprit comes back.

Each fault is injected into one env of a pool, and the trajectories of the others are compared, bit for bit,
with those of a pool without the fault.
"""

import time

import pytest
import torch
from building import load_fault_plugin
from cases import cases
from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv

from torchrl_pool import EnvFailure, PoolEnv, fuse

N, VICTIM, STEPS = 5, 2, 8
OTHERS = torch.arange(N) != VICTIM
# A thread of a busy machine is kept from running for a while, too.
TIMEOUT = 1.0

# What each fault is called in the error.
MESSAGES = {
    "throw": "the simulator broke",
    "sleep": "it has not come back within 1 s",
    "nan": "the env wrote nan to 'observation'",
}


@pytest.fixture(scope="module", autouse=True)
def _fault_plugin():
    load_fault_plugin()


def test_a_message_that_is_cut_inside_a_character_is_passed_on():
    pool = make_pool("words", at=1)
    root = pool.rand_action(pool.reset())
    with pytest.raises(EnvFailure, match=f"env {VICTIM} .*failed in step 1: é{{400,512}}$"):
        pool.step(root)
    pool.close()


def make_pool(fault=None, at=0, seconds=2 * TIMEOUT, **kwargs):
    options = [{} for _ in range(N)]
    if fault is not None:
        options[VICTIM] = {"fault": fault, "at": at, "seconds": seconds}
    if fault == "sleep":
        kwargs["step_timeout"] = TIMEOUT
    return PoolEnv("Fault-v0", N, env_options=options, refuse_nan=True, **kwargs)


def actions():
    return torch.rand(STEPS, N, 2, generator=torch.Generator().manual_seed(1)) * 0.8 - 0.4


def trajectory(env, road):
    """The observations and rewards of all envs, ``[STEPS, N, 3]``: what failed or was left out is NaN.

    ``road`` makes one step: it gets the env, a root with its action, and which envs shall move.
    """
    rows = torch.full((STEPS, N, 3), torch.nan)
    failures = []
    moving = torch.ones(N, dtype=torch.bool)
    root = env.reset(seed=0)
    for t, action in enumerate(actions()):
        try:
            indices, after = road(env, root.clone().set("action", action), moving)
        except EnvFailure as failure:
            failures.append(failure)
            indices, after = failure.survivors, failure.after
            moving = moving & ~torch.isin(torch.arange(N), torch.tensor(failure.env_index))
        rows[t, indices] = torch.cat([after["observation"], after["reward"]], -1)
    return rows, failures


def by_step(env, root, moving):
    """``step``, with a mask where some envs are left out."""
    indices = moving.nonzero().flatten()
    try:
        after = env._step(root if moving.all() else root.set("_step", moving))
    except EnvFailure as failure:
        failure.survivors = [i for i in indices.tolist() if i not in failure.env_index]
        failure.after = failure.tensordict[failure.survivors]
        raise
    return indices, after[indices]


def by_step_and_maybe_reset(env, root, moving):
    """One visit for step and reset; the plain road once some envs are left out."""
    if not moving.all():
        return by_step(env, root, moving)
    try:
        return moving.nonzero().flatten(), env.step_and_maybe_reset(root)[0]["next"]
    except EnvFailure as failure:
        failure.survivors = [i for i in range(N) if i not in failure.env_index]
        failure.after = failure.tensordict[failure.survivors]
        raise


def by_async_step(env, root, moving):
    """All envs in flight; what is ready is received one by one."""
    indices = moving.nonzero().flatten()
    env.async_step_send(root[indices], indices)
    caught, ready = None, {}
    outstanding = len(indices)
    while outstanding:
        try:
            received = env.async_step_recv(1)
        except EnvFailure as failure:
            caught = failure
            outstanding -= len(failure.env_index)
        else:
            outstanding -= len(received)
            for row, index in zip(received["next"], received["env_index"].tolist(), strict=True):
                ready[index] = row
    after = torch.stack([ready[i] for i in sorted(ready)])
    if caught is not None:
        caught.survivors, caught.after = sorted(ready), after
        raise caught
    return indices, after


ROADS = [by_step, by_step_and_maybe_reset, by_async_step]


@pytest.mark.parametrize("num_threads", [3, 1])
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize(
    ("fault", "at"), cases(default=[("throw", 5), ("nan", 3)], also=[("throw", 2), ("sleep", 4)])
)
def test_a_fault_in_a_step(fault, at, road, num_threads):
    whole, no_failures = trajectory(make_pool(num_threads=num_threads), road)
    assert no_failures == []
    assert whole.isfinite().all()
    env = make_pool(fault, at, num_threads=num_threads)
    rows, (failure,) = trajectory(env, road)

    assert failure.env_index == [VICTIM]
    assert failure.steps == [at]
    assert failure.hung == ([VICTIM] if fault == "sleep" else [])
    assert str(failure) == f"env {VICTIM} (Fault-v0) failed in step {at}: {MESSAGES[fault]}"
    if road is not by_async_step:
        assert not failure.tensordict[VICTIM]["observation"].any()  # and not what came before the fault
    assert torch.equal(rows[:, OTHERS], whole[:, OTHERS])
    assert torch.equal(rows[: at - 1, VICTIM], whole[: at - 1, VICTIM])
    assert rows[at - 1 :, VICTIM].isnan().all()

    with pytest.raises(RuntimeError, match=rf"env {VICTIM} has failed and must be reset .*{MESSAGES[fault]}"):
        env.step(env.full_done_spec.zero().set("action", actions()[0]))
    root = revive(env)
    root = env.step(root.set("action", actions()[0]))["next"]
    assert root["observation"][:, 1].tolist() == [STEPS + 1 if i != VICTIM else 1 for i in range(N)]
    env.close()


def revive(env):
    """Resets the victim alone, as soon as it can be."""
    only = env.full_done_spec.zero().set("_reset", ~OTHERS)
    deadline = time.monotonic() + 60
    while True:
        try:
            return env.reset(only.clone())
        except RuntimeError as error:
            if f"env {VICTIM} hangs" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("fault", cases(default=["throw", "nan"], also=MESSAGES))
def test_a_fault_in_a_reset(fault):
    env, twin = make_pool(fault, 0), make_pool()
    env.reset(seed=0), twin.reset(seed=0)
    with pytest.raises(EnvFailure, match=f"failed in a reset: {MESSAGES[fault]}") as caught:
        env.reset()
    assert (caught.value.env_index, caught.value.steps) == ([VICTIM], [0])
    root, expected = caught.value.tensordict, twin.reset()
    assert (root[OTHERS] == expected[OTHERS]).all()
    root = env._step(root.set("action", actions()[0]).set("_step", OTHERS))
    expected = twin.step(expected.set("action", actions()[0]))["next"]
    assert (root[OTHERS] == expected[OTHERS]).all()
    env.close()


@pytest.mark.parametrize("fault", cases(default=["throw", "nan"], also=MESSAGES))
def test_a_fault_in_the_reset_that_follows_a_last_step(fault):
    env, twin = make_pool(fault, 0, max_episode_steps=1), make_pool(max_episode_steps=1)
    root = env.reset(seed=0).set("action", actions()[0])
    expected = twin.step(twin.reset(seed=0).set("action", actions()[0]))["next"]
    with pytest.raises(EnvFailure, match=f"failed in (a reset|step 1): {MESSAGES[fault]}") as caught:
        env.step_and_maybe_reset(root)
    # The step itself went well; of one that hangs nothing is known.
    sound = OTHERS if fault == "sleep" else torch.ones(N, dtype=torch.bool)
    assert (caught.value.tensordict[sound] == expected[sound]).all()
    env.close()


@pytest.mark.parametrize("num_threads", cases([1, 3]))
def test_faults_before_and_after_transforms(num_threads):
    def make(*faults):
        options = [{"fault": "throw", "at": at} for at in faults]
        pool = PoolEnv("Fault-v0", N, env_options=options, num_threads=num_threads, max_episode_steps=1)
        env = fuse(TransformedEnv(pool, Compose(StepCounter(), RewardSum())))
        return env, env.reset(seed=0).set("action", actions()[0])

    never, reset = 9, 0
    env, root = make(reset, never, 1, never, reset)
    twin, expected = make(*[never] * N)
    with pytest.raises(EnvFailure) as caught:
        env.step_and_maybe_reset(root)
    assert dict(zip(caught.value.env_index, caught.value.steps, strict=True)) == {0: 0, 2: 1, 4: 0}
    after = twin.step_and_maybe_reset(expected)[0]["next"]
    sound = [0, 1, 3, 4]  # whose step went well
    assert (after[sound]["step_count"] == 1).all()
    for key, value in caught.value.tensordict.items():
        assert torch.equal(value[sound], after[key][sound]), key
    assert not caught.value.tensordict[2]["observation"].any()
    env.close()


@pytest.mark.parametrize("fault", cases(["throw", "sleep"]))
def test_a_fault_at_creation(fault):
    env = make_pool(fault, -1)  # built for its specs: fine
    for _ in range(2):
        with pytest.raises(EnvFailure, match=f"failed when it was created: {MESSAGES[fault]}") as caught:
            env.reset()
        assert (caught.value.env_index, caught.value.steps) == ([VICTIM], [-1])
    env.close()
    with pytest.raises(RuntimeError, match="was closed"):
        env.get_state()


def test_nan_is_passed_on_where_it_is_not_refused():
    options = [{"fault": "nan", "at": 1}, {}]
    env = PoolEnv("Fault-v0", 2, env_options=options)
    root = env.step(env.reset().set("action", torch.zeros(2, 2)))
    assert root["next", "observation"].isnan().tolist() == [[True, False], [False, False]]


def test_what_the_error_holds_is_not_written_later():
    """Nor is what later calls return, when the env that hung comes back."""
    env = make_pool("sleep", 1, num_threads=2)
    root = env.reset(seed=0).set("action", actions()[0])
    with pytest.raises(EnvFailure) as caught:
        env.step(root)
    kept = [caught.value.tensordict]
    for action in actions():
        following = env._step(root.clone().set("action", action).set("_step", OTHERS))
        kept.append(following)
    before = [td.clone() for td in kept]
    revive(env)
    for now, then in zip(kept, before, strict=True):
        assert (now == then).all()
    env.close()


@pytest.mark.parametrize(
    ("timeout", "error"),
    cases(default=[(0, ValueError), (float("nan"), ValueError), ("1", TypeError)], also=[(-1.0, ValueError)]),
)
def test_timeouts_that_are_none(timeout, error):
    with pytest.raises(error, match="step_timeout: expected seconds"):
        PoolEnv("CartPole-v1", 1, step_timeout=timeout)


def test_a_timeout_changes_no_result():
    pools = [PoolEnv("CartPole-v1", 16, seed=0, step_timeout=timeout) for timeout in (None, 30, float("inf"))]
    rollouts = []
    for pool in pools:
        torch.manual_seed(0)
        rollouts.append(pool.rollout(100, break_when_any_done=False))
    assert (rollouts[0] == rollouts[1]).all()
    assert (rollouts[0] == rollouts[2]).all()


# Gymnasium's own loops, which bring an angle back into one turn, never end so far out.
@pytest.mark.parametrize(
    "options", cases(default=[{"low": 1e9, "high": 2e9}, {"dt": 1e5}], also=[{"low": -1e30, "high": -1e29}])
)
def test_angles_out_of_range_fail(options):
    env = PoolEnv("Acrobot-v1", 2, step_timeout=20.0, env_options=[options, {}])
    with pytest.raises(EnvFailure, match=r"env 0 \(Acrobot-v1\) failed in step 1: .*an angle left its range"):
        env.rollout(1)
    env.close()


@pytest.mark.parametrize("angle", cases([1e300, -1e300, 1e16]))
def test_a_state_with_angles_out_of_range_fails(angle):
    env = PoolEnv("Acrobot-v1", 2, step_timeout=20.0)
    root = env.rand_action(env.reset())
    state = env.get_state(1)[0]
    angles_and_velocities = torch.tensor([angle, 0, 0, 0], dtype=torch.float64).numpy().tobytes()
    env.set_state(state[:-33] + angles_and_velocities + state[-1:], 1)  # a flag is behind them
    with pytest.raises(EnvFailure, match=r"env 1 \(Acrobot-v1\) failed in step 1: .*an angle left its range"):
        env.step(root)
    env.close()
