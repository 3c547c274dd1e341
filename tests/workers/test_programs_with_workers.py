"""Workers of programs of all kinds: how they are started, and how they end."""

import os
import subprocess
import sys
import textwrap

import pytest
from cases import cases
from launched import FOLDER, eventually, parent_of, run


@pytest.mark.parametrize("how", cases(default=["SIGKILL", "SIGTERM"], also=["exit", "forked"]))
def test_a_pool_process_that_ends_takes_all_with_it(how):
    ended = run(
        f"""
        import os, signal, time
        from torchrl_pool._processes.launching import Launcher
        launcher = Launcher(lambda: 1)
        workers = [launcher.launch("worker_bodies:sleep") for _ in range(2)]
        from torchrl_pool._processes import launching
        print(launching._zygote.process.pid, *[worker.pid for worker in workers], flush=True)
        how = {how!r}
        if how == "forked" and not os.fork():  # a child that lives on must not keep them
            os.close(1), os.close(2)
            time.sleep(25)  # longer than their end is waited for
            os._exit(0)
        if how.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, how))
        """
    )
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(set(pids)) == 3, ended.stderr
    assert ended.stderr == ""
    eventually(lambda: not any(map(parent_of, pids)))


@pytest.mark.parametrize("ended", cases(["worker", "zygote"]))
def test_where_sigpipe_ends_programs_an_error_tells_of_an_end(ended):
    outcome = run(
        f"""
        import os, signal
        from torchrl_pool._processes import launching
        from worker_bodies import answering
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        launcher = launching.Launcher(lambda: 1)
        worker = answering(launcher)
        if {ended == "worker"}:
            worker.kill()
            assert worker.wait(20)
            try:
                while True:  # the process above it may have the channel, too, for a moment
                    worker.channel.send_bytes(b"1" * 100_000)
            except BrokenPipeError:
                print("told")
        else:
            zygote = launching._zygote
            zygote.process.kill()
            zygote.process.wait()
            try:
                zygote.ask([], [])
            except BrokenPipeError:
                print("told")
        """
    )
    assert (outcome.stdout, outcome.returncode) == ("told\n", 0), outcome.stderr


def test_a_request_to_end_that_all_processes_get_is_for_the_pools():
    """What a worker's env forks can be ended so, as ``multiprocessing`` does."""
    outcome = run(
        """
        import os, signal, time
        os.setpgid(0, 0)
        from torchrl_pool._processes import launching
        from worker_bodies import answering
        def forks():
            child = os.fork()
            if child == 0:
                time.sleep(60)
            os.kill(child, signal.SIGTERM)
            return os.WTERMSIG(os.waitpid(child, 0)[1])
        launcher = launching.Launcher(forks)
        worker = answering(launcher)
        signal.signal(signal.SIGTERM, lambda *_: None)
        os.killpg(0, signal.SIGTERM)
        time.sleep(0.2)
        other = answering(launcher)
        for one in (worker, other):
            one.channel.send("factories()")
            print(one.channel.recv())
        launcher.close()
        """
    )
    assert outcome.stdout.split() == ["15", "15"], outcome.stderr


@pytest.mark.parametrize("method", cases(["spawn", "forkserver"]))
def test_what_the_main_module_of_a_started_process_defines_is_taken_along(tmp_path, method):
    """multiprocessing gives it another name there."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing
            from torchrl_pool._processes.launching import Launcher
            from worker_bodies import answering

            def made():
                return "made"

            def use():
                launcher = Launcher([made, lambda: made() + " here"])
                worker = answering(launcher)
                worker.channel.send("[one() for one in factories]")
                print(worker.channel.recv(), flush=True)
                launcher.close()

            if __name__ == "__main__":
                process = multiprocessing.get_context({method!r}).Process(target=use)
                process.start()
                process.join()
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    outcome = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert "['made', 'made here']" in outcome.stdout, outcome.stderr


def test_files_of_the_current_folder_have_names_of_standard_modules(tmp_path):
    for name in ("json", "signal", "socket", "ctypes"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(3)\n")
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(
        f"import sys; sys.path.append({str(FOLDER)!r})\n"
        "from torchrl_pool._processes.launching import Launcher\n"
        "from worker_bodies import answering\n"
        "answering(Launcher(lambda: 1)).close()\n"
        "print('started')\n"
    )
    outcome = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert outcome.stdout == "started\n", outcome.stderr


def test_a_forked_child_has_a_zygote_of_its_own():
    ended = run(
        """
        import os
        from torchrl_pool._processes import launching
        from torchrl_pool._processes.launching import Launcher
        from worker_bodies import answering
        launcher = Launcher(lambda: 1)
        worker = answering(launcher)
        if not os.fork():
            try:
                answering(launcher)
            except RuntimeError as error:
                print(error, flush=True)  # os._exit does not
            launcher.close()
            own = Launcher(lambda: 2)
            channel = answering(own).channel
            channel.send("factories()")
            print(channel.recv(), flush=True)
            own.close()
            launching._end_zygote()
            os._exit(0)
        os.wait()
        assert not worker.wait(0)
        worker.channel.send("factories()")
        print(worker.channel.recv())
        """
    )
    assert ended.stderr == ""
    error, child, parent = ended.stdout.splitlines()
    assert "another process" in error
    assert (child, parent) == ("2", "1")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_program_without_standard_streams(tmp_path, closed):
    program = "\n".join(
        [
            "from pathlib import Path",
            "from torchrl_pool import PoolEnv",
            "pool = PoolEnv('gymnasium:CartPole-v1', 4, num_workers=2)",
            "pool.rollout(3)",
            "pool.close()",
            f"Path({str(tmp_path / 'done')!r}).touch()",
        ]
    )
    subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program], timeout=120, check=True
    )
    assert (tmp_path / "done").exists()


def test_what_main_defines_is_taken_along():
    ended = run(
        """
        from torchrl_pool._processes.launching import Launcher
        from worker_bodies import answering
        class Env:
            name = "of main"
        launcher = Launcher(lambda: Env())
        channel = answering(launcher).channel
        channel.send("factories().name")
        print(channel.recv())
        """
    )
    assert (ended.stdout, ended.stderr) == ("of main\n", "")
