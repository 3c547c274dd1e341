"""What the default run leaves to the long form, and that it does not grow unseen."""

import pytest
from long_form import ALLOWED, CASES, LONG, function_and_case, mark_slow

pytestmark = pytest.mark.repo


class Item:
    """What ``mark_slow`` sees of a test."""

    def __init__(self, nodeid):
        self.nodeid, self.markers = nodeid, []
        self.add_marker = self.markers.append


def test_a_function_runs_the_cases_behind_its_name_or_none_and_others_run_whole():
    names = ["some[0]", "some[1-a[b]]", "some[2]", "left_out[0]", "left_out", "new[0]", "new"]
    items = [Item(f"tests/folder/test_it.py::test_{name}") for name in names]
    some, left_out = (f"folder/test_it.py::test_{name}" for name in ("some", "left_out"))
    mark_slow(items, {some: {"0", "1-a[b]"}, left_out: set()})
    assert [item.nodeid.partition("::test_")[2] for item in items if not item.markers] == [
        "some[0]",
        "some[1-a[b]]",
        "new[0]",
        "new",
    ]


@pytest.fixture
def whole_run(request):
    if LONG or request.config.option.markexpr != "not slow" or request.config.args != ["tests"]:
        pytest.skip("not the whole default run")
    return request.session.items


def test_the_default_run_has_no_more_tests_than_were_chosen(whole_run):
    """Those that came since are allowed to be a twentieth: then .ci/choice/choose.py is to choose again."""
    assert len(whole_run) <= ALLOWED


def test_what_was_chosen_is_there(whole_run):
    names = {function_and_case(item) for item in whole_run}
    gone = [
        f"{function}[{case}]"
        for function, cases in CASES.items()
        for case in cases
        if (function, case) not in names
    ]
    assert len(gone) <= len(names) // 20, gone
