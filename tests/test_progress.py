"""What is shown of work that takes long, on a terminal and elsewhere."""

import sys
import threading
import time

import pytest

from torchrl_pool import PoolEnv, _progress, build_plugin
from torchrl_pool._progress import Progress, shown_if_slow

ERASED = "\r\033[K"


def watch(monkeypatch):
    """In the test itself: each of its phases has a standard error of its own."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_slow_work_is_shown_and_its_line_goes_away(monkeypatch, capsys):
    watch(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.01)
    threads = threading.active_count()

    @shown_if_slow("looking for it")
    def fail():
        time.sleep(0.3)
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    shown = capsys.readouterr().err
    assert shown == f"{ERASED}looking for it: 0 s …{ERASED}"
    assert threading.active_count() == threads


def test_quick_work_is_not_shown(monkeypatch, capsys):
    watch(monkeypatch)
    with shown_if_slow("looking for it"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stderr", ["a file", None])
def test_nothing_counts_where_nobody_watches(stderr, monkeypatch, capsys):
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    if stderr is None:  # as under pythonw
        monkeypatch.setattr(sys, "stderr", None)
    threads = threading.active_count()
    with shown_if_slow("looking for it"):
        assert threading.active_count() == threads
    assert capsys.readouterr().err == ""


def test_a_line_is_no_longer_than_the_terminal(monkeypatch, capsys):
    watch(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    work = Progress("measuring all that there is")
    work.tell("round 1")
    work.close()
    assert {len(line) for line in capsys.readouterr().err.split(ERASED)} == {0, 19}


def test_creating_envs_and_compiling_are_shown(monkeypatch, capsys, tmp_path):
    watch(monkeypatch)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "nothing.cc").write_text("int nothing;\n")
    with pytest.raises(ValueError, match="plugin"):
        build_plugin(tmp_path / "nothing.cc")
    assert "compiling nothing.cc: 0 s …" in capsys.readouterr().err
    env = PoolEnv("ALE/Pong-v5", 8, num_threads=1)
    env.reset()
    env.close()
    assert "creating 8 envs: 0 s …" in capsys.readouterr().err
