"""Programs that envs start do not outlive the process that they were started for, however that ends."""

import signal
from functools import partial

import pytest
from engines import Engines, kept, pids, result, shared_files
from launched import eventually, killed, parent_of, run

from torchrl_pool import EnvFailure, PoolEnv

PROGRAM = """
import os, signal, sys, time
from functools import partial
from engines import Engines, pids
from torchrl_pool._workers.wishes import Wishes
from torchrl_pool._workers.worker_set import WorkerSet

folder, how = sys.argv[1:]
if how.startswith("all"):
    os.setpgid(0, 0)
workers = WorkerSet(partial(Engines, folder), 1, 1, False, Wishes(), False)
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


@pytest.mark.parametrize("how", HOWS)
def test_a_program_that_ends_takes_them_with_it(tmp_path, how):
    """Its envs are closed first, if they are at rest."""
    ended = run(PROGRAM, str(tmp_path), how)
    found = pids(tmp_path, 1)
    assert found, ended.stderr
    eventually(lambda: not any(map(parent_of, found)))
    assert (tmp_path / "closed").exists()
    eventually(lambda: not shared_files(tmp_path))
    kept(tmp_path).unlink(), result(tmp_path).unlink()


@pytest.mark.parametrize("how", ["close", "kill", "template", "fail"])
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
        assert len(shared_files(one)) == len(shared_files(other)) == 8
        if how == "close":
            pool.close()
        elif how == "template":
            killed(parent_of(first[0]))
        else:
            killed(first[0], signal.SIGKILL if how == "kill" else signal.SIGSEGV)
            with pytest.raises(EnvFailure):
                pool.rollout(2, auto_reset=False, tensordict=root)  # a reset would start another worker
        eventually(lambda: not any(map(parent_of, first)) and not shared_files(one))
        eventually(lambda: kept(one).exists() == (how == "close"))
        if how in ("kill", "fail"):
            assert all(map(parent_of, second))
            assert len(shared_files(other)) == 8
            pool.reset()
        else:
            eventually(lambda: not any(map(parent_of, second)) and not shared_files(other))
    finally:
        pool.close()
        for folder in (one, other):
            assert kept(folder).exists() == (how != "template")
            kept(folder).unlink(missing_ok=True), result(folder).unlink()


def test_what_a_module_starts_as_it_is_imported_lives_as_long_as_the_pool(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "with_server.py").write_text(
        "server = None\ndef make():\n    return server.poll(), server.pid\n"
    )
    import with_server

    (tmp_path / "with_server.py").write_text(
        "import subprocess\nserver = subprocess.Popen(['sleep', '100'])\ndef make():\n    return server.pid\n"
    )
    from test_launching import ANSWER, asked

    from torchrl_pool._workers.launching import Template

    template = Template(with_server.make)
    first, second = template.launch(ANSWER), template.launch(ANSWER)
    server = asked(second, "factories()")
    first.kill()
    assert first.wait(20)
    assert asked(template.launch(ANSWER), "factories()") == server
    assert parent_of(server)
    template.close()
    eventually(lambda: not parent_of(server))
