"""Processes of workers: what they are given, how they end, and that nothing stays behind."""

import contextlib
import os
import resource
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from launched import eventually, open_files

from torchrl_pool import PoolEnv
from torchrl_pool._workers import launching
from torchrl_pool._workers.launching import Template

ANSWER = "worker_bodies:answer"


@pytest.fixture(scope="module", autouse=True)
def _workers_that_begin_with_nothing(plain_boot):
    """As they are outside of tests."""
    launching._end_zygote()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "_BOOT", plain_boot)
        yield
    launching._end_zygote()


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
    assert first.wait(20)
    second = template.launch(ANSWER)
    assert asked(second, "factories[0]()") == "an env"
    assert not second.wait(0)
    assert second.how_it_ended() == "is running"


def test_a_worker_ends_when_its_channel_closes(template):
    worker, other = template.launch(ANSWER), template.launch(ANSWER)
    worker.channel.close()
    assert worker.wait(20)
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
    assert worker.wait(20)
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


def test_workers_begin_with_what_each_needs_and_without_torch(template):
    """They are forked from a process that has loaded it once."""
    worker = template.launch(ANSWER)
    names = ["torch", "numpy", "gymnasium", "torchrl_pool._workers.worker_process"]
    assert asked(worker, f"[name in sys.modules for name in {names}]") == [False, True, True, True]
    assert asked(worker, "threading.active_count(), len(os.listdir('/proc/self/task'))") == (1, 1)


def test_what_a_worker_imports():
    """Gymnasium's envs are stepped without torch."""
    pool = PoolEnv("gymnasium:CartPole-v1", 2, num_workers=2)
    pool.reset()
    for worker in pool._source.workers._workers:
        libraries = Path(f"/proc/{worker.pid}/maps").read_text()
        assert "numpy" in libraries
        assert "libtorch" not in libraries
    pool.close()


def test_workers_draw_different_numbers(template):
    drawn = [asked(template.launch(ANSWER), "(random.random(), np.random.random())") for _ in range(3)]
    assert len({number for pair in drawn for number in pair}) == 6


def test_output_goes_where_the_pool_process_writes_now(capfd):
    template = Template([])
    worker = template.launch("worker_bodies:write")
    assert worker.wait(20)
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


def test_what_cannot_be_pickled_is_refused():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be pickled"):
        Template(lambda: lock)


def test_a_template_that_was_killed_is_told_and_its_workers_are_gone(template):
    worker = template.launch("worker_bodies:sleep")
    os.kill(template._process.pid, signal.SIGKILL)
    assert worker.wait(20)
    with pytest.raises(RuntimeError, match="has ended"):
        template.launch(ANSWER)
    assert worker.how_it_ended() == "ended, with what had started it"


def test_a_closed_template_ends_its_workers_and_starts_no_more(template):
    workers = [template.launch("worker_bodies:sleep") for _ in range(3)]
    template.close()
    assert all(worker.wait(20) for worker in workers)
    with pytest.raises(RuntimeError, match="closed"):
        template.launch(ANSWER)
    template.close()


def test_a_zygote_that_was_killed_is_replaced(template):
    worker = template.launch("worker_bodies:sleep")
    old = launching._zygote.process
    old.kill()
    assert worker.wait(20)
    new = Template([])
    assert asked(new.launch(ANSWER), "factories") == []
    assert launching._zygote.process is not old
    new.close()


@pytest.mark.parametrize("stopped", ["template", "zygote"])
def test_a_process_that_does_not_answer_is_not_waited_for_forever(template, monkeypatch, stopped):
    worker = template.launch(ANSWER)
    monkeypatch.setattr(launching, "ANSWERING_SECONDS", 0.3)
    monkeypatch.setattr(launching, "ENDING_SECONDS", 0.3)
    process = template._process.pid if stopped == "template" else launching._zygote.process.pid
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match="did not answer"):
        template.launch(ANSWER) if stopped == "template" else Template([])
    template.close()
    with contextlib.suppress(ProcessLookupError):  # killed by then
        os.kill(process, signal.SIGCONT)
    assert worker.wait(20)


def test_nothing_stays_behind():
    Template([]).close()
    files, processes = open_files(), descendants()
    for _ in range(20):
        template = Template([])
        workers = [template.launch(ANSWER) for _ in range(2)]
        workers[0].kill()
        assert workers[0].wait(20)
        workers[0].how_it_ended()
        template.close()
        for worker in workers:
            assert worker.wait(20)
            worker.close()
    assert open_files() == files
    eventually(lambda: descendants() <= processes)


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


def test_a_worker_for_which_there_is_no_descriptor_leaves_none(template):
    before, limits = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    template.launch(ANSWER).close()
    for free in range(4):  # it takes four while it starts
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]  # so that no lower number is free
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, limits[1]))
        try:
            for fd in held[:free]:
                os.close(fd)
            with pytest.raises(OSError, match="Too many open files"):
                template.launch(ANSWER)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for fd in held[free:]:
                os.close(fd)
    assert open_files() == before
