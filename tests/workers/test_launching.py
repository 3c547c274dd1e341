"""Processes of workers: what they are given, how they end, and that nothing stays behind."""

import contextlib
import importlib
import importlib.util
import io
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from functools import partial
from pathlib import Path

import gymnasium
import pytest
from cases import cases
from launched import eventually, open_files
from processes import descendants

from torchrl_pool import PoolEnv
from torchrl_pool._processes import children, launching, preloading
from torchrl_pool._processes.launching import Launcher
from torchrl_pool._processes.zygote import ONE_THREAD

ANSWER = "worker_bodies:answer"


@pytest.fixture(scope="module", autouse=True)
def _workers_that_begin_with_nothing():
    """Though other tests have needed torch there."""
    launching._end_zygote()


@pytest.fixture
def launcher():
    launcher = Launcher([lambda: "an env"])
    yield launcher
    launcher.close()


def asked(worker, *questions):
    """What the worker evaluates these expressions to."""
    worker.wait_until_loaded()
    answers = []
    for question in questions:
        worker.channel.send(question)
        assert worker.channel.poll(60)
        answers.append(worker.channel.recv())
    return answers[0] if len(answers) == 1 else answers


def asked_of_new(factories, *questions, count=1):
    """So many workers with these factories, and what each of them answers."""
    with contextlib.closing(Launcher(factories)) as launcher:
        workers = [launcher.launch(ANSWER) for _ in range(count)]
    return *workers, [asked(worker, *questions) for worker in workers]


def test_a_worker_has_the_factories_its_arguments_and_descriptors(launcher):
    reading, writing = os.pipe()
    worker = launcher.launch(ANSWER, "one", {"two": 2}, fds=[writing])
    assert asked(worker, "factories[0]()", "arguments") == ["an env", ("one", {"two": 2})]
    asked(worker, "os.write(fds[0], b'hello')")
    assert os.read(reading, 5) == b"hello"
    assert asked(worker, "os.getpid()") == worker.pid
    worker.close()
    os.close(reading)
    os.close(writing)


def test_a_worker_ends_when_its_channel_closes(launcher):
    worker, other = launcher.launch(ANSWER), launcher.launch(ANSWER)
    worker.channel.close()
    assert worker.wait(20)
    assert worker.how_it_ended() == "ended with exit code 0"
    assert not other.wait(0)


@pytest.mark.parametrize(
    ("how", "words"),
    cases(
        default=[("raise", "ended with exit code 1"), ("crash", "was killed by signal 11 (SIGSEGV)")],
        also=[
            (0, "ended with exit code 0"),
            (3, "ended with exit code 3"),
            ("kill", "was killed by signal 9 (SIGKILL)"),
        ],
    ),
)
def test_it_is_told_how_a_worker_ended(launcher, how, words):
    worker = launcher.launch("worker_bodies:end", how)
    worker.wait_until_loaded()
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

    launcher = Launcher(only_here.make)
    worker = launcher.launch(ANSWER)
    names = ["OF_THE_POOL", "MKL_NUM_THREADS", "OMP_NUM_THREADS"]
    assert asked(worker, f"[os.environ[name] for name in {names}]") == ["here", "3", "1"]
    assert asked(worker, "os.getcwd()", "factories()", "sys.argv") == [str(tmp_path), "made", sys.argv]
    assert asked(worker, "os.kill(os.getpid(), signal.SIGINT)") is None
    assert asked(worker, "os.system('kill -INT $$')") == signal.SIGINT
    assert asked(worker, "signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL")
    assert asked(worker, "os.read(0, 1)") == b""
    launcher.close()


def test_workers_may_use_the_processors_of_the_pool_process(launcher):
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(all_of_them)])
    try:
        pinned = Launcher([])
    finally:
        os.sched_setaffinity(0, all_of_them)
    assert asked(pinned.launch(ANSWER), "os.sched_getaffinity(0)") == {min(all_of_them)}
    assert asked(launcher.launch(ANSWER), "os.sched_getaffinity(0)") == all_of_them
    pinned.close()


def test_workers_begin_with_what_each_needs_and_without_torch(launcher):
    """They are forked from a process that has loaded it once."""
    worker = launcher.launch(ANSWER)
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


def test_output_goes_where_the_pool_process_writes_now(capfd):
    with contextlib.closing(Launcher([])) as launcher:
        assert launcher.launch("worker_bodies:write").wait(20)
    assert capfd.readouterr().out == "from the worker\n"


def make_known(monkeypatch, name):
    monkeypatch.setitem(preloading._SLOW, name, {name: (name,)})
    monkeypatch.setattr(preloading, "_PACKAGES", (*preloading._PACKAGES, name))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a package that stands in for one which takes long to import."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def write(body, name="takes_long", is_known=True):
        if is_known:
            make_known(monkeypatch, name)
        monkeypatch.delitem(sys.modules, name, raising=False)
        (folder / f"{name}.py").write_text("import os\ndef make():\n    return here\n")
        module = importlib.import_module(name)
        (folder / f"{name}.py").write_text(
            f"import os\nhere = os.getpid()\n{body}\ndef make():\n    return here\n"
        )
        return module

    return write


def test_a_known_package_is_imported_once_for_all_pools(package, tmp_path, monkeypatch, capfd):
    """Whoever names it: what makes the envs, a module that this is of, or an import in a function."""
    known = package("print('imported', end='')")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text("import takes_long\ndef make():\n    return takes_long.here\n")
    import mine

    def imports():
        import takes_long

        return takes_long.here

    makers = [known.make, mine.make, lambda: known.here, imports, partial(known.make)]
    found = [asked_of_new(make, "factories()", count=2)[-1] for make in makers]
    assert found == [[launching._zygote.process.pid] * 2] * len(makers)
    assert capfd.readouterr().out == "imported"
    assert asked_of_new(lambda: 1, "'takes_long' in sys.modules")[-1] == [True]
    launching._end_zygote()
    assert asked_of_new(lambda: 1, "'takes_long' in sys.modules")[-1] == [False]


@pytest.mark.parametrize("where", cases(["installed", "own"]))
def test_all_else_is_imported_by_each_worker(package, tmp_path, monkeypatch, where):
    other = package("", "not_known", is_known=False)
    if where == "own":
        monkeypatch.syspath_prepend(tmp_path)
        make_known(monkeypatch, "not_known")  # it has the name of a known package
        (tmp_path / "site-packages/not_known.py").rename(tmp_path / "not_known.py")
        monkeypatch.delitem(sys.modules, "not_known")
        import not_known as other
    (one, another, answers) = asked_of_new(other.make, "factories()", count=2)
    assert answers == [one.pid, another.pid]


def test_imports_see_the_environment_of_their_pool(package, monkeypatch):
    known = package("here = os.environ.get('READ_AT_IMPORT')")
    plain, _ = asked_of_new(lambda: 1, "1")
    first, answers = asked_of_new(known.make, "factories()")
    before = launching._zygote.process
    monkeypatch.setenv("READ_AT_IMPORT", "now")
    second, more = asked_of_new(known.make, "factories()")
    assert answers + more == [None, "now"]
    assert asked(first, "factories()") is None
    assert before.poll() is None
    for worker in (first, plain):
        worker.close()
    del first, plain, worker
    before.wait(20)
    assert asked(second, "factories()") == "now"


def test_plain_pools_share_one_zygote_whatever_the_environment(monkeypatch):
    launching._end_zygote()
    asked_of_new(lambda: 1, "1")
    zygote = launching._zygote
    monkeypatch.setenv("ANYTHING", "else")
    assert asked_of_new(lambda: 1, "os.environ['ANYTHING']")[-1] == ["else"]
    assert launching._zygote is zygote


def test_threads_of_libraries_are_as_many_as_the_user_has_set(monkeypatch):
    """They are counted as a library is loaded, before workers are forked."""

    def threads():
        import torch

        return torch.get_num_threads()

    assert asked_of_new(threads, "factories()")[-1] == [1]
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    assert asked_of_new(threads, "factories()")[-1] == [2]


@pytest.mark.parametrize("name", cases(["gymnasium", "stable_baselines3"]))
def test_a_package_of_the_users_own_is_not_taken_from_elsewhere(tmp_path, monkeypatch, name):
    """Though this program has loaded the installed one, or none."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)

    def where():
        return importlib.import_module(name).__file__

    assert asked_of_new(where, "factories()")[-1] == [str(tmp_path / name / "__init__.py")]


def test_what_cannot_be_looked_into_is_left_alone(tmp_path, monkeypatch):
    """A module that is switched off, and one that would be loaded by a look."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lazy.py").write_text("raise AssertionError('it was loaded')\n")
    spec = importlib.util.find_spec("lazy")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    monkeypatch.setitem(sys.modules, "switched_off", None)
    monkeypatch.setitem(sys.modules, "mine", types.ModuleType("mine"))
    sys.modules["mine"].lazy = lazy
    assert preloading.needed_by({"switched_off", "mine", "lazy"}) == []


@pytest.mark.parametrize(
    ("line", "is_needed"),
    cases(
        [
            ("from torchrl_pool import PoolEnv", True),
            ("from torchrl_pool import decode_text, list_tasks", False),
            ("import torchrl_pool", False),
        ]
    ),
)
def test_torchrl_is_imported_once_for_modules_that_take_from_this_package(monkeypatch, line, is_needed):
    """Which would import it in each worker."""
    mine = types.ModuleType("mine")
    exec(line, vars(mine))
    monkeypatch.setitem(sys.modules, "mine", mine)
    assert ("torchrl.envs" in preloading.needed_by({"mine"})) == is_needed


def test_programs_of_envs_end_though_the_zygote_is_not_needed_any_more(monkeypatch):
    worker, (program,) = asked_of_new(lambda: 1, "os.posix_spawn('/bin/sleep', ['sleep', '4321'], {})")
    eventually(lambda: b"4321" in command_of(program))
    monkeypatch.setattr(launching, "_zygote", None)  # as where another pool has another environment
    worker.kill()
    worker.close()
    del worker
    eventually(lambda: b"4321" not in command_of(program))


def command_of(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.mark.parametrize("is_waited_for", cases([True, False]))
def test_a_process_that_cannot_be_forked_is_told_to_whoever_waits(monkeypatch, is_waited_for):
    reading, writing = os.pipe()
    if not is_waited_for:
        os.close(reading)

    def full():
        raise BlockingIOError("the machine is full")

    monkeypatch.setattr(os, "fork", full)
    children.Children.fork(None, lambda: None, writing)
    monkeypatch.undo()
    if is_waited_for:
        assert os.read(reading, 100) == b"BlockingIOError: the machine is full"
        os.close(reading)


def test_known_packages_may_wait_for_programs_as_they_are_imported(package):
    known = package("here = os.waitstatus_to_exitcode(os.system('exit 3'))")
    assert asked_of_new(known.make, "factories()")[-1] == [3]


@pytest.mark.parametrize(
    "body", ["os._exit(1)", "import time; time.sleep(1000)", "raise SystemExit", "1 / 0"]
)
def test_a_known_package_that_cannot_be_imported_harms_no_others(package, monkeypatch, body):
    other, _ = asked_of_new(lambda: 1, "1")
    known = package(body)
    monkeypatch.setattr(launching, "STARTING_SECONDS", 1.0)
    with pytest.raises(RuntimeError, match=r"has ended|did not answer|SystemExit|ZeroDivisionError"):
        asked_of_new(known.make, "1")
    monkeypatch.undo()
    assert asked_of_new(lambda: 2, "factories()")[-1] == [2]
    if body != "os._exit(1)":
        assert asked(other, "factories()") == 1


def test_known_packages_begin_no_threads_and_no_streams():
    """So that they may be imported before processes are forked."""
    program = """if True:
        import gc, importlib, itertools, os, random
        import numpy as np
        from torchrl_pool._processes.preloading import _OF_ALL, _SLOW
        for module in {*_OF_ALL, *itertools.chain(*_SLOW.values())}:
            importlib.import_module(module)
        print(len(os.listdir("/proc/self/task")))
        streams = np.random.Generator, np.random.RandomState, random.Random
        import sympy.core.random  # which TorchRL brings along, with streams for itself
        known = [np.random.mtrand._rand, random._inst, *vars(sympy.core.random).values(), sympy.Dummy._prng]
        known = [id(one) for one in known]
        print([one for one in gc.get_objects() if isinstance(one, streams)
               and id(one) not in known and not isinstance(one, random.SystemRandom)])
    """
    lines = [sys.executable, "-c", program]
    ended = subprocess.run(lines, capture_output=True, text=True, check=True, env=os.environ | ONE_THREAD)
    assert ended.stdout == "1\n[]\n", ended.stderr


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Log:
    """What programs put in the terminal's place."""

    getvalue = str

    def write(self, text):
        raise AssertionError("it was written to")


@pytest.mark.parametrize("is_terminal", cases([True, False, None]))
def test_a_terminal_is_told_what_is_waited_for(package, monkeypatch, tmp_path, is_terminal):
    known = package("import time; time.sleep(0.3)")
    launching._end_zygote()
    monkeypatch.setattr(launching, "TELLING_SECONDS", 0.05)
    shown = {True: Terminal, False: io.StringIO, None: Log}[is_terminal]()
    monkeypatch.setattr(sys, "stderr", shown)

    def slow():
        time.sleep(0.3)
        return gymnasium.make("CartPole-v1")

    asked_of_new(known.make, "1")
    PoolEnv(slow, 1, num_workers=1).close()
    lines = shown.getvalue().splitlines()
    assert (
        "torchrl_pool: waiting for the import of gymnasium, takes_long …" in lines
        if is_terminal
        else not lines
    )
    assert not is_terminal or lines[-1] == "torchrl_pool: waiting for the first environment to be made …"


STREAMS = {
    "np.random": "np.random.random()",
    "random": "random.random()",
    "torch": "torch.rand(1).item()",
    "default_rng of the module": "GENERATOR.random()",
    "RandomState of the module": "LEGACY.random_sample()",
    "random.Random of the module": "PYTHON.random()",
    "torch.Generator of the module": "torch.rand(1, generator=NOISE).item()",
    "default argument": "noisy()",
    "of a class": "Level.own.random()",
    "of Gymnasium": "Level.shared.random()",
}


def test_random_streams_that_are_begun_at_import_differ_between_workers(tmp_path, monkeypatch):
    """As in processes that are started; what was seeded on purpose stays alike."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "random_levels.py").write_text(
        "import random, torch, numpy as np\n"
        "from gymnasium.utils import seeding\n"
        "GENERATOR, LEGACY, PYTHON = np.random.default_rng(), np.random.RandomState(), random.Random()\n"
        "SEEDED = np.random.default_rng(3), np.random.RandomState(3), random.Random(3), torch.Generator()\n"
        "NOISE = torch.Generator()\nNOISE.seed()\n"
        "def noisy(rng=np.random.default_rng()):\n    return rng.random()\n"
        "class Level:\n    own, (shared, _) = np.random.default_rng(), seeding.np_random()\n"
        f"def make():\n    return {', '.join(STREAMS.values())}\n"
        "def seeded():\n    return *(one.random() for one in SEEDED[:3:2]), SEEDED[1].random_sample()\n"
    )
    import random_levels

    *_, answers = asked_of_new(
        [random_levels.make, random_levels.seeded], "factories[0]()", "factories[1]()", count=3
    )
    for kind, draws in zip(STREAMS, zip(*(drawn for drawn, _ in answers), strict=True), strict=True):
        assert len(set(draws)) == 3, kind
    assert len({seeded for _, seeded in answers}) == 1


@pytest.mark.parametrize("library", ["torch.manual_seed", "np.random.seed", "random.seed"])
def test_global_streams_that_a_module_seeds_stay_so(tmp_path, monkeypatch, library):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"seeds_{library.replace('.', '_')}"
    (tmp_path / f"{name}.py").write_text(
        f"import random, torch, numpy as np\n{library}(3)\n"
        "def make():\n    return np.random.random(), random.random(), torch.rand(1).item()\n"
    )
    module = importlib.import_module(name)
    *_, answers = asked_of_new(module.make, "factories()", count=2)
    assert sum(len(set(draws)) == 1 for draws in zip(*answers, strict=True)) == 1


def test_factories_that_start_threads_are_loaded_by_each_worker(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "with_threads.py").write_text(
        "import os, threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "here = os.getpid()\n"
        "def make():\n    return here, threading.active_count()\n"
    )
    import with_threads

    launcher = Launcher(with_threads.make)
    for worker in [launcher.launch(ANSWER), launcher.launch(ANSWER)]:
        assert asked(worker, "factories()") == (worker.pid, 2)
    launcher.close()


@pytest.mark.parametrize(
    ("body", "error", "message"),
    cases(
        default=[
            ("raise ValueError('not today')", RuntimeError, "ValueError: not today"),
            ("import os; os._exit(3)", RuntimeError, "which ended with exit code 3 meanwhile"),
            ("import sys; sys.exit(1)", RuntimeError, "SystemExit"),
        ],
        also=[
            ("import a_module_that_is_not_there", ImportError, "a_module_that_is_not_there"),
            ("raise KeyboardInterrupt", RuntimeError, "KeyboardInterrupt"),
        ],
    ),
)
def test_factories_that_cannot_be_loaded_say_why(tmp_path, monkeypatch, body, error, message):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"fails_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text("def make(): pass\n")
    module = __import__(name)
    (tmp_path / f"{name}.py").write_text(body + "\n")
    other = asked_of_new(lambda: 1, "factories()")[0]
    files, processes, zygote = open_files(), descendants(os.getpid()), launching._zygote
    with contextlib.closing(Launcher(module.make)) as launcher:
        worker = launcher.launch(ANSWER)
        with pytest.raises(error, match=message):
            worker.wait_until_loaded()
        worker.close()
    assert open_files() == files
    eventually(lambda: descendants(os.getpid()) <= processes)
    assert launching._zygote is zygote  # which goes on, and so do others' workers
    assert asked(other, "factories()") == 1


def test_what_cannot_be_pickled_is_refused():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be pickled"):
        Launcher(lambda: lock)


def test_a_zygote_that_was_killed_is_replaced(launcher):
    worker = launcher.launch("worker_bodies:sleep")
    old = launching._zygote.process
    old.kill()
    assert worker.wait(20)
    assert worker.how_it_ended() == "ended, with what had started it"
    assert asked(launcher.launch(ANSWER), "factories[0]()") == "an env"
    assert launching._zygote.process is not old


def interrupt_soon():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize("how", cases(["late", "interrupted"]))
def test_a_zygote_that_does_not_answer_is_given_up(launcher, monkeypatch, how):
    """What it has started goes on, and ends it in the end."""
    monkeypatch.setattr(launching, "ENDING_SECONDS", 0.5)
    worker, old = launcher.launch(ANSWER), launching._zygote.process
    old.send_signal(signal.SIGSTOP)
    if how == "late":
        with monkeypatch.context() as now:
            now.setattr(launching, "STARTING_SECONDS", 0.3)
            with pytest.raises(RuntimeError, match="did not answer"):
                launcher.launch(ANSWER)
    else:
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            launcher.launch(ANSWER)
    assert asked(launcher.launch(ANSWER), "factories[0]()") == "an env"
    assert asked(worker, "factories[0]()") == "an env"
    assert old.poll() is None
    worker.close()
    del worker
    launching._end_zygote()  # as at the end of the program
    assert old.returncode == -signal.SIGKILL


def test_an_import_that_hangs_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hangs.py").write_text("def make(): pass\n")
    import hangs

    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(1000)\n")
    files, processes = open_files(), descendants(os.getpid())
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        PoolEnv(hangs.make, 2, num_workers=2)
    assert open_files() <= files + 1  # the zygote's
    eventually(lambda: len(descendants(os.getpid()) - processes) <= 1)


def test_nothing_stays_behind():
    asked_of_new([], "1")[0].close()
    files, processes = open_files(), descendants(os.getpid())
    for _ in range(20):
        launcher = Launcher([])
        workers = [launcher.launch(ANSWER) for _ in range(2)]
        workers[0].kill()
        assert workers[0].wait(20)
        workers[0].how_it_ended()
        launcher.close()
        workers[1].channel.close()
        for worker in workers:
            assert worker.wait(20)
            worker.close()
    assert open_files() == files
    eventually(lambda: descendants(os.getpid()) <= processes)


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
        launcher = Launcher(make)
        worker = launcher.launch(ANSWER)
    finally:
        socket.setdefaulttimeout(None)
    time.sleep(0.1)
    assert asked(worker, "factories()") == 1
    launcher.close()


def test_a_worker_for_which_there_is_no_descriptor_leaves_none(launcher):
    before, limits = open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)
    launcher.launch(ANSWER).close()
    for free in range(5):  # it takes five while it starts
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(100)]  # so that no lower number is free
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, limits[1]))
        try:
            for fd in held[:free]:
                os.close(fd)
            with pytest.raises(OSError, match="Too many open files"):
                launcher.launch(ANSWER)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for fd in held[free:]:
                os.close(fd)
    launcher.launch(ANSWER).close()
    assert open_files() == before
