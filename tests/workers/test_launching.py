"""Processes of workers: what they are given, how they end, and that nothing stays behind."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from torchrl_pool.workers import launching
from torchrl_pool.workers.launching import Template

FOLDER = Path(__file__).parent
ANSWER = "worker_bodies:answer"


@pytest.fixture
def template():
    template = Template([lambda: "an env"])
    yield template
    template.close()


def asked(worker, *questions):
    """What the worker evaluates these expressions to."""
    answers = []
    for question in questions:
        worker.channel.send(question)
        assert worker.channel.poll(60)
        answers.append(worker.channel.recv())
    return answers[0] if len(answers) == 1 else answers


def eventually(condition, seconds=1.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def parent_of(pid):
    """None where there is no such process, or only what is left of one that has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(parent) if state != "Z" else None


def descendants():
    """Those that have ended but were not waited for too."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parents[int(pid)] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {os.getpid()}


def open_files():
    return len(os.listdir("/proc/self/fd"))


def run(program, *arguments):
    """A program that prints the ids of processes that it leaves behind: they must end."""
    lines = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(lines, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)


def test_a_worker_has_the_factories_its_arguments_and_descriptors(template):
    reading, writing = os.pipe()
    worker = template.launch(ANSWER, "one", {"two": 2}, fds=[writing])
    assert asked(worker, "factories[0]()", "arguments") == ["an env", ("one", {"two": 2})]
    asked(worker, "os.write(fds[0], b'hello')")
    assert os.read(reading, 5) == b"hello"
    assert asked(worker, "os.getpid()") == worker.pid
    worker.close()
    os.close(reading)
    os.close(writing)


def test_workers_come_later_and_after_others_have_ended(template):
    first = template.launch(ANSWER)
    first.kill()
    assert first.wait(5)
    second = template.launch(ANSWER)
    assert asked(second, "factories[0]()") == "an env"
    assert not second.wait(0)
    assert second.how_it_ended() == "is running"


def test_a_worker_ends_when_its_channel_closes(template):
    worker, other = template.launch(ANSWER), template.launch(ANSWER)
    worker.channel.close()
    assert worker.wait(5)
    assert worker.how_it_ended() == "ended with exit code 0"
    assert not other.wait(0)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        ("raise", "ended with exit code 1"),
        ("crash", "was killed by signal 11 (SIGSEGV)"),
        ("kill", "was killed by signal 9 (SIGKILL)"),
    ],
)
def test_it_is_told_how_a_worker_ended(template, how, words):
    worker = template.launch("worker_bodies:end", how)
    if how == "kill":
        worker.kill()
        worker.kill()
    else:
        worker.channel.send("now")
    assert worker.wait(5)
    assert [worker.how_it_ended(), worker.how_it_ended()] == [words, words]
    worker.close()
    worker.close()
    worker.kill()
    assert worker.how_it_ended() == words


def test_a_worker_lives_in_the_pool_process_surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("OF_THE_POOL", "here")
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "only_here.py").write_text("def make():\n    return 'made'\n")
    import only_here

    template = Template(only_here.make)
    worker = template.launch(ANSWER)
    names = ["OF_THE_POOL", "MKL_NUM_THREADS", "OMP_NUM_THREADS"]
    assert asked(worker, f"[os.environ[name] for name in {names}]") == ["here", "3", "1"]
    assert asked(worker, "os.getcwd()", "factories()", "sys.argv") == [str(tmp_path), "made", sys.argv]
    assert asked(worker, "os.kill(os.getpid(), signal.SIGINT)") is None
    assert asked(worker, "os.system('kill -INT $$')") == signal.SIGINT
    assert asked(worker, "signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL")
    assert asked(worker, "os.read(0, 1)") == b""
    template.close()


def test_workers_may_use_the_processors_of_the_pool_process(template):
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(all_of_them)])
    try:
        pinned = Template([])
    finally:
        os.sched_setaffinity(0, all_of_them)
    assert asked(pinned.launch(ANSWER), "os.sched_getaffinity(0)") == {min(all_of_them)}
    assert asked(template.launch(ANSWER), "os.sched_getaffinity(0)") == all_of_them
    pinned.close()


def test_workers_load_no_torch(template):
    worker = template.launch(ANSWER)
    assert asked(worker, "[name in sys.modules for name in ['torch', 'numpy', 'gymnasium']]") == [
        False,
        True,
        True,
    ]
    assert asked(worker, "threading.active_count(), len(os.listdir('/proc/self/task'))") == (1, 1)


def test_workers_draw_different_numbers(template):
    drawn = [asked(template.launch(ANSWER), "(random.random(), np.random.random())") for _ in range(3)]
    assert len({number for pair in drawn for number in pair}) == 6


def test_output_goes_where_the_pool_process_writes_now(capfd):
    template = Template([])
    worker = template.launch("worker_bodies:write")
    assert worker.wait(5)
    template.close()
    assert capfd.readouterr().out == "from the worker\n"


def test_factories_that_start_threads_are_loaded_by_each_worker(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "with_threads.py").write_text(
        "import os, threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "here = os.getpid()\n"
        "def make():\n    return here, threading.active_count()\n"
    )
    import with_threads

    template = Template(with_threads.make)
    for worker in [template.launch(ANSWER), template.launch(ANSWER)]:
        assert asked(worker, "factories()") == (worker.pid, 2)
    template.close()


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("raise ValueError('not today')", RuntimeError, "ValueError: not today"),
        ("import a_module_that_is_not_there", ImportError, "a_module_that_is_not_there"),
        ("import os; os._exit(1)", RuntimeError, "has ended while it unpickled the factories"),
        ("import sys; sys.exit(1)", RuntimeError, "SystemExit"),
    ],
)
def test_factories_that_cannot_be_loaded_say_why(tmp_path, monkeypatch, body, error, message):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"fails_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text("def make(): pass\n")
    module = __import__(name)
    (tmp_path / f"{name}.py").write_text(body + "\n")
    files, processes = open_files(), descendants()
    with pytest.raises(error, match=message):
        Template(module.make)
    assert open_files() == files
    eventually(lambda: descendants() <= processes)


def test_what_cannot_be_pickled_is_refused(monkeypatch):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be pickled"):
        Template(lambda: lock)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match="cloudpickle"):
        Template(lambda: 1)
    Template(time.time).close()


def test_a_template_that_was_killed_is_told_and_its_workers_are_gone(template):
    worker = template.launch("worker_bodies:sleep")
    os.kill(parent_of(worker.pid), signal.SIGKILL)
    assert worker.wait(1)
    with pytest.raises(RuntimeError, match="has ended"):
        template.launch(ANSWER)
    assert worker.how_it_ended() == "ended, with all that was forked from the same process"


def test_a_closed_template_ends_its_workers_and_starts_no_more(template):
    workers = [template.launch("worker_bodies:sleep") for _ in range(3)]
    template.close()
    assert all(worker.wait(1) for worker in workers)
    with pytest.raises(RuntimeError, match="closed"):
        template.launch(ANSWER)
    template.close()


def test_a_zygote_that_was_killed_is_replaced(template):
    worker = template.launch("worker_bodies:sleep")
    old = launching._zygote.process
    old.kill()
    assert worker.wait(1)
    new = Template([])
    assert asked(new.launch(ANSWER), "factories") == []
    assert launching._zygote.process is not old
    new.close()


@pytest.mark.parametrize("stopped", ["template", "zygote"])
def test_a_process_that_does_not_answer_is_not_waited_for_forever(template, monkeypatch, stopped):
    worker = template.launch(ANSWER)
    monkeypatch.setattr(launching, "ANSWERING_SECONDS", 0.3)
    monkeypatch.setattr(launching, "ENDING_SECONDS", 0.3)
    process = parent_of(worker.pid)
    if stopped == "zygote":
        process = parent_of(process)
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="did not answer"):
        template.launch(ANSWER) if stopped == "template" else Template([])
    template.close()
    with contextlib.suppress(ProcessLookupError):  # killed by then
        os.kill(process, signal.SIGCONT)
    assert worker.wait(1)


def test_nothing_stays_behind():
    Template([]).close()
    files, processes = open_files(), descendants()
    for _ in range(20):
        template = Template([])
        workers = [template.launch(ANSWER) for _ in range(2)]
        workers[0].kill()
        assert workers[0].wait(5)
        workers[0].how_it_ended()
        template.close()
        for worker in workers:
            assert worker.wait(1)
            worker.close()
    assert open_files() == files
    eventually(lambda: descendants() == processes)


def test_defaults_for_sockets_are_for_other_sockets(tmp_path, monkeypatch):
    """Neither the pool's process nor what makes the envs changes the lines between them."""
    monkeypatch.syspath_prepend(tmp_path)
    body = "import socket\ndef make():\n    return 1\n"
    (tmp_path / "impatient.py").write_text(body)
    from impatient import make

    (tmp_path / "impatient.py").write_text(body + "socket.setdefaulttimeout(0.01)\n")
    launching._end_zygote()
    socket.setdefaulttimeout(0.01)
    try:
        template = Template(make)
        worker = template.launch(ANSWER)
    finally:
        socket.setdefaulttimeout(None)
    time.sleep(0.1)
    assert asked(worker, "factories()") == 1
    template.close()


def test_threads_launch_at_the_same_time(template):
    workers = []

    def launch():
        for _ in range(4):
            workers.append(template.launch(ANSWER, threading.get_ident()))

    threads = [threading.Thread(target=launch) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len({asked(worker, "os.getpid()") for worker in workers}) == 16


def test_what_is_started_twice_starts_in_parallel(template):
    began = time.perf_counter()
    workers = [template.launch(ANSWER) for _ in range(8)]
    [asked(worker, "1") for worker in workers]
    print(f"8 workers: {1000 * (time.perf_counter() - began):.0f} ms")


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "exit", "forked"])
def test_a_pool_process_that_ends_takes_all_with_it(how):
    ended = run(
        f"""
        import os, signal, time
        from torchrl_pool.workers.launching import Template
        template = Template(lambda: 1)
        workers = [template.launch("worker_bodies:sleep") for _ in range(2)]
        from torchrl_pool.workers import launching
        print(launching._zygote.process.pid, *(worker.pid for worker in workers), flush=True)
        how = {how!r}
        if how == "forked" and not os.fork():  # a child that lives on must not keep them
            os.close(1), os.close(2)
            time.sleep(5)
            os._exit(0)
        if how.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, how))
        """
    )
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 3, ended.stderr
    assert ended.stderr == ""
    eventually(lambda: not any(map(parent_of, pids)))


@pytest.mark.parametrize("ended", ["worker", "template"])
def test_where_sigpipe_ends_programs_an_error_tells_of_an_end(ended):
    outcome = run(
        f"""
        import os, signal
        from torchrl_pool.workers import launching
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        template = launching.Template(lambda: 1)
        worker = template.launch("worker_bodies:answer")
        if {ended == "worker"}:
            worker.kill()
            assert worker.wait(5)
            try:
                worker.channel.send_bytes(b"1" * 100_000)
            except BrokenPipeError:
                print("told")
        else:
            launching._kill(template._pidfd)
            assert template.has_ended()
            try:
                template.launch("worker_bodies:answer")
            except RuntimeError as error:
                print("told" if "has ended" in str(error) else error)
        """
    )
    assert (outcome.stdout, outcome.returncode) == ("told\n", 0), outcome.stderr


def test_a_request_to_end_that_all_processes_get_is_for_the_pools():
    """What a worker's env forks can be ended so, as ``multiprocessing`` does."""
    outcome = run(
        """
        import os, signal, time
        os.setpgid(0, 0)
        from torchrl_pool.workers import launching
        def forks():
            child = os.fork()
            if child == 0:
                time.sleep(60)
            os.kill(child, signal.SIGTERM)
            return os.WTERMSIG(os.waitpid(child, 0)[1])
        template = launching.Template(forks)
        worker = template.launch("worker_bodies:answer")
        signal.signal(signal.SIGTERM, lambda *_: None)
        os.killpg(0, signal.SIGTERM)
        time.sleep(0.2)
        other = template.launch("worker_bodies:answer")
        for one in (worker, other):
            one.channel.send("factories()")
            print(one.channel.recv())
        template.close()
        """
    )
    assert outcome.stdout.split() == ["15", "15"], outcome.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_what_the_main_module_of_a_started_process_defines_is_taken_along(tmp_path, method):
    """multiprocessing gives it another name there."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing
            from torchrl_pool.workers.launching import Template

            def made():
                return "made"

            def use():
                template = Template([made, lambda: made() + " here"])
                worker = template.launch("worker_bodies:answer")
                worker.channel.send("[one() for one in factories]")
                print(worker.channel.recv(), flush=True)
                template.close()

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
        "from torchrl_pool.workers.launching import Template\nTemplate(lambda: 1).close()\nprint('started')\n"
    )
    outcome = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert outcome.stdout == "started\n", outcome.stderr


def test_a_worker_for_which_there_is_no_descriptor_leaves_none(template, monkeypatch):
    before = open_files()

    def dup(fd):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", dup)
    with pytest.raises(OSError, match="Too many open files"):
        template.launch(ANSWER)
    assert open_files() == before


def test_a_forked_child_has_a_zygote_of_its_own():
    ended = run(
        """
        import os
        from torchrl_pool.workers import launching
        from torchrl_pool.workers.launching import Template
        template = Template(lambda: 1)
        worker = template.launch("worker_bodies:answer")
        if not os.fork():
            try:
                template.launch("worker_bodies:answer")
            except RuntimeError as error:
                print(error, flush=True)  # os._exit does not
            template.close()
            own = Template(lambda: 2)
            channel = own.launch("worker_bodies:answer").channel
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
        from torchrl_pool.workers.launching import Template
        class Env:
            name = "of main"
        template = Template(lambda: Env())
        channel = template.launch("worker_bodies:answer").channel
        channel.send("factories().name")
        print(channel.recv())
        """
    )
    assert (ended.stdout, ended.stderr) == ("of main\n", "")
