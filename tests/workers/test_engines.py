"""What envs start does not outlive their worker, however that ends; and files of others are left alone."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from cases import cases
from engines import Background, Chained, Engines, Forking, Sharing, pids, started_with
from launched import eventually, killed, parent_of, run

from torchrl_pool import EnvFailure, PoolEnv

PROGRAM = """
import os, signal, sys, time
from functools import partial
from engines import Engines, pids
from torchrl_pool._workers.worker import InfoOptions
from torchrl_pool._workers.worker_set import WorkerSet

folder, how = sys.argv[1:]
if how.startswith("all"):
    os.setpgid(0, 0)
workers = WorkerSet(partial(Engines, folder), 1, 1, InfoOptions(), False)
end = time.monotonic() + 20
while not pids(folder, 1):
    assert time.monotonic() < end
    time.sleep(0.01)
if how.endswith("open"):
    workers.open()
    how = how.split()[0]
match how.split():
    case ["SIGKILL" | "SIGTERM" | "SIGHUP" | "SIGQUIT"]:
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(60)
    case ["all", name]:
        os.killpg(0, getattr(signal, name))
        time.sleep(60)
    case ["raise"]:
        raise SystemExit(3)
"""
HOWS = [
    "SIGKILL",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "all SIGTERM",
    "all SIGHUP",
    "all SIGQUIT",
    "raise",
    "exit",
    "SIGKILL open",
]


@pytest.mark.parametrize("how", cases(default=["SIGHUP", "all SIGHUP"], also=HOWS))
def test_a_program_that_ends_takes_them_with_it(tmp_path, how):
    """Its envs are closed first, if they are at rest."""
    ended = run(PROGRAM, str(tmp_path), how)
    found = pids(tmp_path, 1)
    assert found, ended.stderr
    eventually(lambda: not any(map(parent_of, found)))
    assert (tmp_path / "closed").exists()


@pytest.mark.parametrize("how", ["close", "kill", "fail"])
def test_a_worker_that_ends_takes_them_with_it(tmp_path, how):
    """Those of other workers live on."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    pool = PoolEnv([partial(Engines, one), partial(Engines, other)], 2, num_workers=2)
    try:
        root = pool.reset()
        eventually(lambda: pids(one, 1) and pids(other, 1))
        first, second = pids(one, 1), pids(other, 1)
        assert all(map(parent_of, first + second))
        if how == "close":
            pool.close()
        else:
            killed(first[0], signal.SIGKILL if how == "kill" else signal.SIGSEGV)
            with pytest.raises(EnvFailure):
                pool.rollout(2, auto_reset=False, tensordict=root)  # a reset would start another worker
        eventually(lambda: not any(map(parent_of, first)))
        if how in ("kill", "fail"):
            assert all(map(parent_of, second))
            pool.reset()
        else:
            eventually(lambda: not any(map(parent_of, second)))
    finally:
        pool.close()


@pytest.mark.parametrize("how", cases(["close", "kill"]))
def test_what_goes_on_in_ever_new_processes_ends_with_its_worker(make_pool, tmp_path, how):
    """Though no look at the processes that there are sees all of them."""
    pool = make_pool(partial(Chained, str(tmp_path)), 1)
    pool.reset()
    eventually(lambda: started_with(str(tmp_path)))
    if how == "close":
        pool.close()
    else:
        killed(pool.call("pid")[0])
    eventually(lambda: not any(started_with(str(tmp_path)) for _ in range(5)))


def test_what_runs_in_the_background_is_no_child_of_the_worker(make_pool):
    """So it becomes no zombie, and an env that waits for any child sees its own alone."""
    pool = make_pool(Background, 1)
    root = pool.reset()
    for _ in range(5):
        _, root = pool.step_and_maybe_reset(pool.rand_action(root))
    eventually(lambda: pool.call("children") == [0])


@pytest.mark.parametrize("how", cases(["exit", "raise", "return"]))
@pytest.mark.parametrize("call", ["reset", "step", "think"])
def test_a_child_that_an_env_forks_is_no_worker(make_pool, capfd, call, how):
    """It ends where it leaves the env's call: the env goes on alone."""
    pool = make_pool(Forking, 1, info_keys=["steps"])
    root = pool.reset()
    pool.set_attr("how", [how])
    if call == "reset":
        root = pool.reset()
    if call == "think":
        assert pool.call("think") == ["thought"]
    if call != "step":
        assert pool.get_attr("ended") == [{"exit": 3, "raise": 1, "return": 0}[how]]
        pool.set_attr("how", [""])
    seen = []
    for _ in range(3):
        data, root = pool.step_and_maybe_reset(pool.rand_action(root))
        seen.append(data["next", "reward"].item())
    assert seen == [1, 2, 3]
    assert pool.get_attr("ended") == [{"exit": 3, "raise": 1, "return": 0}[how]]
    assert ("ValueError: in the child" in capfd.readouterr().err) == (how == "raise")


def test_files_that_envs_share_are_left(make_pool):
    """Nobody but who has made them knows whether they are still wanted."""
    name = f"/dev/shm/torchrl-pool-test-{os.getpid()}"
    read, alike, created = (f"{name}-{kind}-levels.npy" for kind in ("read", "alike", "created"))
    pool = make_pool(Sharing, 2)
    try:
        pool.reset()
        np.save(read, np.arange(10))
        pool.call("create", created, env_index=0)
        np.save(alike, np.arange(10))
        assert pool.call("share", read) == [45, 45]
        killed(pool.call("pid")[0])
        pool.reset()
        pool.close()
        assert all(map(os.path.exists, (read, alike, created)))
    finally:
        for path in (read, alike, created):
            if os.path.exists(path):
                os.unlink(path)


def test_what_a_module_starts_as_it_is_imported_lives_as_long_as_its_worker(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "with_server.py").write_text(
        "server = None\ndef make():\n    return server.poll(), server.pid\n"
    )
    import with_server

    (tmp_path / "with_server.py").write_text(
        "import subprocess\nserver = subprocess.Popen(['sleep', '100'])\ndef make():\n    return server.pid\n"
    )
    from test_launching import ANSWER, asked

    from torchrl_pool._processes.launching import Launcher

    launcher = Launcher(with_server.make)
    first, second = launcher.launch(ANSWER), launcher.launch(ANSWER)
    launcher.close()
    servers = [asked(worker, "factories()") for worker in (first, second)]
    first.kill()
    eventually(lambda: not parent_of(servers[0]))
    assert parent_of(servers[1])
    second.channel.close()
    eventually(lambda: not parent_of(servers[1]))
