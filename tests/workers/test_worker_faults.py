"""Envs of Python that fail, hang, or take their process with them."""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from launched import killed, open_files
from python_envs import WHERE, Sampled, Scripted, Sleeping

from torchrl_pool import EnvFailure, PoolEnv
from torchrl_pool._processes import launching
from torchrl_pool._workers.worker import report_of

NUM_ENVS = 4
SICK = 2  # the env with the script


def factories(script):
    return [partial(Scripted, script if env == SICK else None) for env in range(NUM_ENVS)]


@pytest.fixture
def make_pool():
    pools = []

    def make(script, **options):
        pools.append(PoolEnv(factories(script), NUM_ENVS, **{"num_workers": 2, **options}))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def step(pool, root):
    root = root.clone()
    root["action"] = pool.full_action_spec["action"].rand()
    return pool.step_and_maybe_reset(root)


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
@pytest.mark.parametrize(
    ("event", "report"),
    cases(
        default=[
            ("raise", "ValueError: as the script says in step 3"),
            ("shape", r"entry 'observation': expected float32 \[3\], got float32 \[4\]"),
        ],
        also=[("dtype", r"entry 'observation': expected float32 \[3\], got <U1 \[3\]")],
    ),
)
def test_a_step_that_fails(make_pool, event, report, where):
    """The failure names env and step and has its traceback; the others move; a reset revives it."""
    pool = make_pool({3: event}, **where)
    _, root = step(pool, pool.reset())
    _, root = step(pool, root)
    with pytest.raises(EnvFailure, match=report) as raised:
        step(pool, root)
    failure = raised.value
    assert (failure.env_index, failure.steps) == ([SICK], [3])
    assert ("in step" in failure.messages[0].partition("Traceback")[2]) == (event == "raise")
    observation = failure.tensordict["observation"][:, 0]
    assert torch.equal(observation, torch.tensor([0.03, 0.03, 0, 0.03]))
    with pytest.raises(RuntimeError, match="env 2 has failed and must be reset"):
        step(pool, root)
    mask = torch.arange(NUM_ENVS) == SICK
    again = pool.reset(failure.tensordict.exclude("reward").set("_reset", mask))
    observation = step(pool, again)[0]["next", "observation"][:, 0]
    assert observation.tolist() == pytest.approx([0.04, 0.04, 0.01, 0.04])


def test_a_reset_that_fails(make_pool):
    pool = make_pool({0: "raise"})
    with pytest.raises(EnvFailure, match="as the script says in step 0") as raised:
        pool.reset()
    assert (raised.value.env_index, raised.value.steps) == ([SICK], [0])
    pool.reset(options={"script": {}})


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
@pytest.mark.parametrize("sick", cases(default=[1, 2], also=[0]))
def test_an_env_that_cannot_be_made(where, sick):
    def broken():
        raise OSError("no such thing")

    makers = [broken if env == sick else Sampled for env in range(3)]
    before = open_files()
    with pytest.raises(EnvFailure, match="OSError: no such thing"):
        PoolEnv(makers, 3, **where).reset()
    assert open_files() <= before + 3  # the processes that start others stay


def test_envs_that_do_not_fit_together():
    from gymnasium import spaces

    other = partial(Sampled, spaces.Box(-1, 1, (5,)))
    pool = PoolEnv([Sampled, other], 2, num_workers=1)
    with pytest.raises(EnvFailure, match=r"env 0 has the observation 'observation', float32 \[3\]"):
        pool.reset()
    with pytest.raises((TypeError, EnvFailure), match=r"expected a gymnasium\.Env"):
        PoolEnv(dict, 2)


@pytest.mark.parametrize("where", cases(WHERE.values()), ids=WHERE)
def test_one_env_for_many_is_refused(where):
    env = Sampled()
    for makers in (lambda: env, [lambda: env, lambda: env, Sampled, Sampled]):
        pool = PoolEnv(makers, 4, **{**where, "num_workers": min(1, where["num_workers"])})
        with pytest.raises(EnvFailure, match=r"expected a new env from each call .* got the one that is env"):
            pool.reset()
        pool.close()


def test_a_list_with_an_env_that_ends_or_hangs_as_it_is_made():
    """It is told by the reset, as an exception of its constructor is."""
    for sick, report in ((partial(os._exit, 3), "exit code 3"), (partial(time.sleep, 60), "within 1 s")):
        pool = PoolEnv([Sampled, sick, Sampled], 3, num_workers=3, step_timeout=1.0)
        with pytest.raises(EnvFailure, match=report) as raised:
            pool.reset()
        assert raised.value.env_index == [1]
        pool.close()


def test_close_that_fails():
    class Clinging(Sampled):
        def close(self):
            raise RuntimeError("it does not close")

    pool = PoolEnv(Clinging, 3, num_workers=2)
    pool.reset()
    with pytest.raises(EnvFailure, match="it does not close"):
        pool.close()
    pool.reset()
    with pytest.raises(EnvFailure, match="it does not close"):
        pool.close()


@pytest.mark.parametrize(
    ("event", "report"),
    cases([("exit", "ended with exit code 3"), ("crash", r"was killed by signal 11 \(SIGSEGV\)")]),
)
def test_a_worker_that_ends(make_pool, event, report):
    """Its envs fail, those of other workers go on, and a reset has it started anew."""
    pool = make_pool({2: event})
    _, root = step(pool, pool.reset())
    with pytest.raises(EnvFailure, match=f"its worker process {report}") as raised:
        step(pool, root)
    assert raised.value.env_index == [2, 3]
    assert raised.value.tensordict["observation"][:2, 0].tolist() == pytest.approx([0.02, 0.02])
    mask = torch.tensor([False, False, True, True])
    root = pool.reset(raised.value.tensordict.exclude("reward").set("_reset", mask))
    data, _ = step(pool, root)
    assert data["next", "observation"][:, 0].tolist() == pytest.approx([0.03, 0.03, 0.01, 0.01])


def test_a_worker_killed_at_rest_is_noticed(make_pool):
    pool = make_pool({})
    _, root = step(pool, pool.reset())
    pid = pool.call("get_wrapper_attr", "unwrapped", env_index=0) and pool._source.workers._workers[0].pid
    killed(pid)
    with pytest.raises(EnvFailure, match="SIGKILL") as raised:
        step(pool, root)
    assert raised.value.env_index == [0, 1]
    with pytest.raises(EnvFailure, match="SIGKILL"):
        pool.get_attr("steps", env_index=1)
    pool.reset()
    step(pool, pool.reset())


@pytest.mark.parametrize("after", ["reset", "close", "respawn"])
def test_what_starts_workers_killed_at_rest(make_pool, after):
    """All workers are gone with it; a reset starts others, and closing just closes."""
    pool = make_pool({}, respawn=after == "respawn")
    _, root = step(pool, pool.reset())
    workers = pool._source.workers
    os.kill(launching._zygote.process.pid, signal.SIGKILL)
    assert all(worker.wait(20) for worker in workers._workers)
    if after == "reset":
        with pytest.raises(EnvFailure, match="its worker process ended, with what"):
            step(pool, root)
        step(pool, pool.reset())
    elif after == "respawn":
        data, root = step(pool, root)
        assert data["next", "respawned"].all()
        step(pool, root)
    pool.close()
    step(pool, pool.reset())


def test_a_worker_that_cannot_be_replaced_fails_with_a_sentence(make_pool, monkeypatch, capfd):
    pool = make_pool({}, respawn=True)
    _, root = step(pool, pool.reset())

    def launch(index):
        raise RuntimeError("the machine is full")

    monkeypatch.setattr(pool._source.workers, "_launch", launch)
    killed(pool._source.workers._workers[0].pid)
    with pytest.raises(
        EnvFailure,
        match=r"was killed by signal 9 \(SIGKILL\); no other process could be started: the machine is full",
    ) as raised:
        step(pool, root)
    assert raised.value.env_index == [0, 1]
    monkeypatch.undo()
    step(pool, pool.reset())
    assert capfd.readouterr().err == ""


class EndsItsProcess(Sampled):
    """Each time that it is reset, once there is a file of this name."""

    def __init__(self, file):
        super().__init__()
        self._file = file

    def reset(self, **kwargs):
        return os._exit(3) if self._file.exists() else super().reset(**kwargs)


def test_a_worker_that_ends_as_soon_as_it_is_replaced_fails(tmp_path):
    """It is not replaced for ever."""
    pool = PoolEnv(partial(EndsItsProcess, tmp_path / "now"), 2, num_workers=1, respawn=True)
    _, root = step(pool, pool.reset())
    (tmp_path / "now").touch()
    killed(pool._source.workers._workers[0].pid)
    with pytest.raises(EnvFailure, match="its worker process ended with exit code 3"):
        step(pool, root)
    (tmp_path / "now").unlink()
    step(pool, pool.reset())
    pool.close()


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def test_closing_a_pool_of_the_parents():
    """It does nothing in a forked child: the parent goes on."""
    pool = PoolEnv(Sampled, 4, num_workers=2)
    _, root = step(pool, pool.reset())
    if not (child := os.fork()):
        code = 1
        try:
            pool.close()
            pool.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    step(pool, root)
    pool.close()


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("has_run", cases([False, True]))
def test_a_pool_that_does_not_run_is_used_on_both_sides_of_a_fork(num_workers, has_run):
    pool = PoolEnv(Sampled, 4, num_workers=num_workers)
    if has_run:
        pool.rollout(2)
        pool.close()
    pool.set_seed(3)
    if not (child := os.fork()):
        code = 1
        try:
            expected = PoolEnv(Sampled, 4, num_workers=0, seed=3).rollout(5)
            code = int(not torch.equal(pool.rollout(5)["observation"], expected["observation"]))
            pool.close()
        finally:
            os._exit(code)
    for _ in range(50):  # while the child uses its own
        assert pool.rollout(5).shape == (4, 5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pool.close()


def test_only_the_envs_that_are_reset_revive(make_pool):
    """The others of that worker still have to be reset."""
    pool = make_pool({2: "exit"})
    _, root = step(pool, pool.reset())
    with pytest.raises(EnvFailure) as raised:
        step(pool, root)
    mask = torch.tensor([False, False, True, False])
    root = pool.reset(raised.value.tensordict.exclude("reward").set("_reset", mask))
    with pytest.raises(RuntimeError, match="env 3 has failed and must be reset"):
        step(pool, root)


@pytest.mark.parametrize("road", cases(["step_and_maybe_reset", "step"]))
@pytest.mark.parametrize("event", ["exit", 60.0])
def test_respawn(make_pool, road, event):
    """No error: rows of what was lost are truncated and flagged, and their envs begin anew."""
    pool = make_pool({2: event}, respawn=True, step_timeout=1.0 if event != "exit" else None)
    root = pool.reset()
    assert not root["respawned"].any()
    _, root = step(pool, root)
    if road == "step":
        root["action"] = pool.full_action_spec["action"].rand()
        data = pool.step(root)
        following = pool.maybe_reset(data["next"].exclude("reward"))
    else:
        data, following = step(pool, root)
    lost = [False, False, True, True]
    for key in ("respawned", "truncated", "done"):
        assert data["next", key].flatten().tolist() == lost, key
    assert not data["next", "terminated"].any()
    assert following["respawned"].flatten().tolist() == [False] * 4
    assert following["observation"][:, 0].tolist() == pytest.approx([0.02, 0.02, 0, 0])
    data, following = step(pool, following)
    assert data["next", "observation"][:, 0].tolist() == pytest.approx([0.03, 0.03, 0.01, 0.01])


@pytest.mark.parametrize("event", cases(["exit", 60.0]))
def test_respawn_in_the_middle_of_a_workers_envs(event):
    """Those that had finished keep their results and begin anew in the next step; the rest begins now."""
    limit = 1.0 if event != "exit" else None
    pool = PoolEnv(factories({2: event}), NUM_ENVS, num_workers=1, respawn=True, step_timeout=limit)
    root, lost, seen = pool.reset(), [], []
    for _ in range(3):
        data, root = step(pool, root)
        lost.append(data["next", "respawned"].flatten().tolist())
        seen.append(data["next", "observation"][:, 0].mul(100).round().tolist())
    assert lost == [[False] * 4, [False, False, True, True], [True, True, False, False]]
    assert seen == [[1, 1, 1, 1], [2, 2, 0, 0], [0, 0, 1, 1]]
    pool.close()


class Overwrites(gymnasium.Wrapper):
    """Its third step fills all memory that the worker shares with its pool, and hangs."""

    def __init__(self):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 3:
            with open("/proc/self/maps") as maps:
                shared = [line.split()[0].split("-") for line in maps if "memfd:torchrl_pool" in line]
            for start, end in shared:
                ctypes.memset(int(start, 16), 0xFF, int(end, 16) - int(start, 16))
            time.sleep(1000)
        return self.env.step(action)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no /proc/self/maps")
def test_an_env_that_overwrites_the_shared_memory_is_given_up():
    pool = PoolEnv([Overwrites, partial(gymnasium.make, "CartPole-v1")], 2, num_workers=2)
    with pytest.raises(EnvFailure, match="something in it has overwritten memory that it shares"):
        pool.rollout(3)
    with contextlib.suppress(EnvFailure):  # of the other worker, whose mailbox was overwritten too
        pool.reset()
    pool.rollout(2)
    pool.close()


class Stubborn(np.ndarray):
    """Stays what it is."""

    def astype(self, *args, **kwargs):
        return self


class ShowsStubborn(gymnasium.Wrapper):
    def step(self, action):
        observation, *rest = self.env.step(action)
        return observation.astype(np.float64).view(Stubborn), *rest


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_array_that_cannot_be_cast_is_its_envs_failure(num_workers):
    pool = PoolEnv(lambda: ShowsStubborn(gymnasium.make("CartPole-v1")), 2, num_workers=num_workers)
    with pytest.raises(EnvFailure, match="entry 'observation': expected float32"):
        pool.rollout(3)
    pool.close()


def test_a_hang_is_given_up(make_pool):
    pool = make_pool({2: 60.0}, step_timeout=1.0)
    _, root = step(pool, pool.reset())
    start = time.monotonic()
    with pytest.raises(EnvFailure, match=r"it has not come back within 1 s") as raised:
        step(pool, root)
    assert 1.0 <= time.monotonic() - start < 30
    assert SICK in raised.value.env_index
    step(pool, pool.reset())


def test_results_of_others_while_one_hangs(make_pool):
    """Asynchronously, whoever is ready is received; the one that hangs fails."""
    pool = make_pool({1: 60.0}, step_timeout=3, num_workers=4)
    root = pool.reset()
    root["action"] = pool.full_action_spec["action"].rand()
    pool.async_step_send(root, range(4))
    assert sorted(pool.async_step_recv(3)["env_index"]) == [0, 1, 3]
    with pytest.raises(EnvFailure) as raised:
        pool.async_step_recv(1)
    assert raised.value.env_index == [SICK]


@pytest.mark.parametrize("respawn", [False, True])
@pytest.mark.parametrize("error", cases(default=[SystemExit, GeneratorExit], also=[KeyboardInterrupt]))
def test_what_would_end_a_program_is_an_envs_failure_in_a_worker(make_pool, error, respawn):
    """The worker lives on, with its other envs; each reset revives the env."""
    pool = make_pool({1: error("no licence")}, respawn=respawn)
    root = pool.reset()
    pid = pool._source.workers._workers[1].pid
    for _ in range(5):
        with pytest.raises(EnvFailure, match=f"{error.__name__}: no licence") as raised:
            step(pool, root)
        assert raised.value.env_index == [SICK]
        root = pool.reset()
    assert pool._source.workers._workers[1].pid == pid

    def cannot():
        raise error("no licence")

    with pytest.raises(EnvFailure, match=f"{error.__name__}: no licence"):
        PoolEnv(cannot, 2, num_workers=1)
    pool.set_attr("end", cannot)
    with pytest.raises(EnvFailure, match=f"{error.__name__}: no licence"):
        pool.call("end")
    pool.reset()


def test_interrupts_of_an_env_in_this_process():
    """Its KeyboardInterrupt is the caller's, and the pool can be used again."""
    last = NUM_ENVS - 1
    pool = PoolEnv(
        [partial(Scripted, {2: "interrupt"} if env == last else None) for env in range(NUM_ENVS)],
        NUM_ENVS,
        num_workers=0,
    )
    _, root = step(pool, pool.reset())
    with pytest.raises(KeyboardInterrupt):
        step(pool, root)
    pool.reset()
    _, root = step(pool, pool.reset())
    pool.close()


def test_nothing_is_left(make_pool):
    """Descriptors, processes and shared memory, after pools that were closed, dropped, and killed."""

    def use(how):
        pool = PoolEnv(Sampled, 4, num_workers=2)
        step(pool, pool.reset())
        pids = [worker.pid for worker in pool._source.workers._workers]
        if how == "kill":
            os.kill(pids[0], signal.SIGKILL)
        if how != "drop":
            pool.close()
        return pids

    use("close")
    before = open_files()
    pids = [pid for how in ("close", "drop", "kill") * 3 for pid in use(how)]
    gc.collect()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in pids):
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert open_files() <= before
    assert not [name for name in os.listdir("/dev/shm") if "torchrl_pool" in name]


class WithHelper(Sampled):
    """It has a daemonic process, and never tells it to end."""

    def __init__(self):
        super().__init__()
        self.helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
        self.helper.start()
        self.pid = self.helper.pid


def test_daemonic_processes_of_envs_end_with_their_pool():
    pool = PoolEnv(WithHelper, 2, num_workers=2)
    pool.reset()
    pids = pool.get_attr("pid")
    pool.close()
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_idle_pools_use_no_processor():
    pool = PoolEnv(Sleeping, 4, num_workers=2)
    pool.reset()

    def used():
        return sum(
            sum(map(int, open(f"/proc/{worker.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))
            for worker in pool._source.workers._workers
        )

    time.sleep(0.2)
    before = used()
    time.sleep(1.0)
    assert used() - before <= 5  # hundredths of a second
    pool.close()


def test_an_env_that_closes_all_descriptors():
    """Its worker cannot be talked to any more: it ends, or is ended, whoever sees it first."""

    class Closing(Sampled):
        def step(self, action):
            os.closerange(3, 256)
            return super().step(action)

    pool = PoolEnv(Closing, 2, num_workers=1)
    pool.rollout(1)
    with pytest.raises(EnvFailure, match=r"its worker process (was ended, for its channel is closed|ended)"):
        pool.get_attr("episode")
    pool.reset()
    pool.rollout(1)
    pool.close()


def raised(error, note=""):
    try:
        if note:
            error.add_note(note)
        raise error
    except BaseException as caught:
        return report_of(caught).splitlines()


@pytest.mark.parametrize(
    ("lines", "first"),
    cases(
        default=[
            (raised(ValueError("before\0after")), r"ValueError: before\x00after"),
            (raised(ValueError("one\ntwo")), "ValueError: one"),
            (raised(SyntaxError("wrong", ("file.py", 3, 1, "a b"))), "SyntaxError: wrong"),
        ],
        also=[
            (raised(ValueError("the cart broke"), "see the manual"), "ValueError: the cart broke"),
            (raised(ExceptionGroup("two", [ValueError("a"), ValueError("b")])), "ExceptionGroup: two (2 sub"),
            (raised(ValueError("x" * 5_000_000)), "ValueError: xxx"),
        ],
    ),
)
def test_first_lines_of_failures(lines, first):
    assert lines[0].startswith(first)
    assert lines[2] == "Traceback (most recent call last):" or "Exception Group" in lines[2]
    assert len("\n".join(lines).encode()) < 16_384


@pytest.mark.parametrize(
    ("value", "report"),
    cases(
        [
            (2.5, r"entry 'score': expected int64 \[\], got float: 'float' object"),
            (1 << 70, r"entry 'score': expected int64 \[\], got int: .* too (big|large)"),
            (None, None),
        ]
    ),
)
def test_infos_that_change_their_kind(make_pool, value, report):
    class Scored(Sampled):
        def step(self, action):
            *step, _ = super().step(action)
            self.score = getattr(self, "score", 0) + 1
            return (*step, {"score": 1 if self.score < 3 else value})

    pool = PoolEnv(Scored, 1, num_workers=0, info_keys=["score"])
    if report is None:
        assert (
            pool.rollout(4, break_when_any_done=False)["next", "score"] == torch.tensor([1, 0, 0, 0])
        ).all()
    else:
        with pytest.raises(EnvFailure, match=report):
            pool.rollout(4, break_when_any_done=False)
    pool.close()


@pytest.mark.parametrize(
    ("key", "message"),
    cases([("winner", "or it was None; there is 'deep/x'"), ("deep", "a dict; in it there is 'deep/x'")]),
)
def test_info_keys_that_cannot_be(key, message):
    class Telling(Sampled):
        def step(self, action):
            *step, _ = super().step(action)
            return (*step, {"winner": None, "deep": {"x": 1}})

    with pytest.raises(EnvFailure, match=message):
        PoolEnv(Telling, 1, num_workers=0, info_keys=[key])
