"""mpe2's scenarios, bit for bit, with the entries of TorchRL's PettingZooWrapper: see mpe_child.py."""

import pytest
from cases import LONG, cases
from child import PLAIN_NUMPY, Child
from torchrl.envs import MarlGroupMapType

from torchrl_pool import EnvFailure, PoolEnv, list_tasks, task_info

TASKS = list_tasks("mpe")
CONTINUOUS = {"continuous_actions": True}
# Of the constructors: pictures, and values that TorchRL's wrapper passes over.
LEFT_OUT = {"render_mode", "benchmark_data"}
OWN = {"group_map"}
FAR = {"max_cycles": 120}
OPTIONS = [
    ("simple_spread_v3", {"N": 1}),
    ("simple_spread_v3", {"N": 5, "local_ratio": 0.3, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}),
    ("simple_spread_v3", {"N": 2, "num_agent_neighbors": 4, "num_landmark_neighbors": 4, **CONTINUOUS}),
    ("simple_adversary_v3", {"N": 1}),
    ("simple_adversary_v3", {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 6, **FAR}),
    ("simple_tag_v3", {"num_good": 2, "num_adversaries": 4, "num_obstacles": 0, **FAR}),
    ("simple_tag_v3", {"num_good": 3, "num_agent_neighbors": 4, "num_landmark_neighbors": 1, **FAR}),
    ("simple_tag_v3", {"num_agent_neighbors": 7, "num_landmark_neighbors": 3}),
    ("simple_tag_v3", {"num_good": 0}),
    ("simple_tag_v3", {"num_adversaries": 0}),
    (
        "simple_world_comm_v3",
        {"num_good": 3, "num_adversaries": 1, "num_obstacles": 0, "num_food": 1, "num_forests": 0},
    ),
    (
        "simple_world_comm_v3",
        {"num_good": 2, "num_adversaries": 6, "num_obstacles": 2, "num_food": 4, "num_forests": 5, **FAR},
    ),
    ("simple_formation_v1", {"N": 9, **FAR}),
    ("simple_line_v1", {"N": 10, **CONTINUOUS}),
    ("collect_treasure_v1", {"num_collectors": 10, "num_deposits": 6, "num_treasures": 12, **FAR}),
    ("collect_treasure_v1", {"num_collectors": 1, "num_deposits": 1, "num_treasures": 1, **FAR}),
    ("simple_reference_v3", {"local_ratio": 1.0, **CONTINUOUS}),
    ("simple_world_comm_v3", {"group_map": "one_group_per_agent"}),
]
# By themselves agents reach such an end sooner or later.
SUCCESS = [
    ("simple_spread_v3", {"N": 1}),
    ("simple_tag_v3", {"num_adversaries": 6}),
    ("simple_formation_v1", {"N": 1}),
    ("simple_line_v1", {"N": 1}),
]
# What of NumPy's elementary functions has kernels of its own on some processors.
WITH_KERNELS = ["simple_tag_v3", "simple_world_comm_v3", "simple_formation_v1", "simple_line_v1"]


def children(settings):
    @pytest.fixture(scope="module")
    def child():
        pytest.importorskip("mpe2", reason="mpe2 is not installed")
        one = Child("mpe_child.py", settings)
        yield one
        one.close()

    return child


plain = children(PLAIN_NUMPY)
with_kernels = children({})


def assert_same(child, task, steps=80, **arguments):
    steps *= 5 if LONG else 1
    different, counts = child.ask("compared", task=task, steps=steps, **arguments)
    assert not different
    return counts


def test_family_is_complete_and_has_the_options(plain):
    reference = plain.ask("constructors")
    assert sorted(reference) == TASKS
    for task, parameters in reference.items():
        options = {option.name: option.default for option in task_info(task).options}
        expected = {name: default for name, default in parameters.items() if name not in LEFT_OUT}
        assert {name: default for name, default in options.items() if name not in OWN} == expected, task


@pytest.mark.parametrize("options", [{}, CONTINUOUS], ids=["choices", "numbers"])
@pytest.mark.parametrize(
    "task",
    cases(
        default=[
            "mpe2/simple_crypto_v3",
            "mpe2/simple_push_v3",
            "mpe2/simple_speaker_listener_v4",
            "mpe2/simple_v3",
            "mpe2/simple_world_comm_v3",
        ],
        also=TASKS,
    ),
)
def test_equals_mpe2(task, options, plain):
    counts = assert_same(plain, task, options=options, toward=0.5, spread=0.3 if options else 0)
    assert counts["truncated"] >= 9


@pytest.mark.parametrize(("task", "options"), OPTIONS)
def test_options_act_as_there(task, options, plain):
    assert_same(plain, f"mpe2/{task}", 130, options=options, toward=0.8)


@pytest.mark.parametrize(("task", "options"), SUCCESS)
def test_episodes_that_end_in_success(task, options, plain):
    options = {**options, "terminate_on_success": True, "max_cycles": 50}
    counts = assert_same(plain, f"mpe2/{task}", 150, options=options, num_envs=12, toward=0.6)
    assert counts["terminated"] > 0


@pytest.mark.parametrize(
    ("task", "options", "ends"),
    [
        ("simple_tag_v3", {}, "truncated"),
        ("simple_tag_v3", {"group_map": "one_group_per_agent", "max_cycles": 5}, "truncated"),
        ("simple_spread_v3", {"N": 1, "terminate_on_success": True}, "terminated"),
    ],
)
def test_a_limit_acts_as_step_counter(task, options, ends, plain):
    """On the flags of agents, too."""
    arguments = {"task": f"mpe2/{task}", "options": options, "limit": 9, "steps": 250}
    different, counts = plain.ask("different_with_limit", **arguments)
    assert not different
    assert counts[ends] > 1


@pytest.mark.parametrize("task", cases(["simple_spread_v3", "simple_tag_v3"]))
def test_a_curriculum_stays_in_its_first_stage(task, plain):
    """As in mpe2 1.1.1, whatever it is told."""
    assert_same(plain, f"mpe2/{task}", 120, options={"curriculum": True}, advance_at=30)


@pytest.mark.parametrize(
    "task",
    cases(
        default=["mpe2/simple_push_v3"],
        also=[task for task in TASKS if task.removeprefix("mpe2/") not in WITH_KERNELS],
    ),
)
def test_bits_that_no_processor_changes(task, with_kernels):
    assert_same(with_kernels, task)


@pytest.mark.parametrize("task", cases(default=["mpe2/simple_world_comm_v3"], also=TASKS))
def test_specs_and_groups_equal_pettingzoo_wrappers(task, plain):
    for options in ({}, CONTINUOUS, {"group_map": "one_group_per_agent"}):
        assert plain.ask("different_specs", task=task, options=options) == []


def test_groups_are_named_as_torchrl_names_them():
    own = PoolEnv("mpe2/simple_tag_v3", 1, group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT)
    agents = ["adversary_0", "adversary_1", "adversary_2", "agent_0"]
    assert own.group_map == MarlGroupMapType.ONE_GROUP_PER_AGENT.get_group_map(agents)


@pytest.mark.parametrize("options", [{}, {"dynamic_rescaling": False, **CONTINUOUS}], ids=["grow", "stay"])
@pytest.mark.parametrize("task", cases(default=["mpe2/simple_world_comm_v3"], also=TASKS))
def test_pictures_equal_mpe2s_but_for_words(task, options, plain):
    different, num_pictures = plain.ask("different_pictures", task=task, options=options)
    assert not different
    assert num_pictures > (2 if "crypto" in task else 50)  # there nobody moves


@pytest.mark.parametrize(
    ("task", "options", "message"),
    cases(
        default=[
            ("simple_spread_v3", {"N": 0}, "N"),
            ("simple_tag_v3", {"group_map": MarlGroupMapType.ALL_IN_ONE_GROUP}, "expected one of 'by_name'"),
        ],
        also=[
            (
                "simple_tag_v3",
                {"num_good": 0, "num_adversaries": 0},
                "expected prey or predators, got neither",
            ),
            ("simple_spread_v3", {"local_ratio": 1.5}, "local_ratio"),
            ("collect_treasure_v1", {"num_deposits": 7}, "num_deposits"),
            ("simple_tag_v3", {"group_map": {"all": ["agent_0"]}}, "expected one of 'by_name'"),
        ],
    ),
)
def test_what_does_not_fit_is_refused(task, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PoolEnv(f"mpe2/{task}", 1, **options)


def test_states_of_other_envs_are_refused():
    small, large = PoolEnv("mpe2/simple_spread_v3", 1), PoolEnv("mpe2/simple_spread_v3", 1, N=4)
    small.reset()
    large.reset()
    with pytest.raises((ValueError, EnvFailure)):
        large.set_state(small.get_state())
