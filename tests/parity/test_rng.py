"""The C++ streams against NumPy's, draw by draw and bit for bit."""

import itertools
import random
import struct

import numpy as np
import pytest
from cases import cases

from torchrl_pool._core import LegacyRng, Rng

SEEDS = [
    0,
    1,
    42,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**32 + 1,
    2**63,
    2**64 - 1,
    2**64,
    2**64 + 5,
    2**96,
    0x0123456789ABCDEF_FEDCBA9876543210,
    2**128 - 1,
    2**128,
    2**160 + 3,
    2**200,
    2**200 - 1,
    *(seed * 7919 for seed in range(1, 40)),
]

# Both ends of [low, high), around every special case of NumPy's bounded integers.
RANGES = [
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 10),
    (1, 31),
    (0, 13),
    (0, 2**8),
    (0, 2**16),
    (0, 2**16 + 1),
    (0, 2**31 - 1),
    (0, 2**31),
    (0, 2**31 + 1),
    (0, 3 * 2**30),
    (0, 2**32 - 1),
    (0, 2**32),
    (0, 2**32 + 1),
    (0, 2**33),
    (0, 3 * 2**61),
    (0, 2**62 + 1),
    (0, 2**63 - 1),
    (-1, 0),
    (-1, 1),
    (-5, 3),
    (-(2**31), 2**31),
    (-(2**31), 2**31 - 1),
    (-(2**32), -(2**31)),
    (-(2**62), 2**62),
    (-(2**63), 0),
    (-(2**63), 2**63 - 1),
    (-(2**63), -(2**63) + 5),
    (2**63 - 3, 2**63 - 1),
]


def words(seed):
    result = []
    while True:
        result.append(seed & 0xFFFFFFFF)
        seed >>= 32
        if not seed:
            return result


def generators(seed):
    return Rng(words(seed)), np.random.Generator(np.random.PCG64(seed))


def bits(number):
    return struct.pack("<d", number)


def test_leading_zero_words_change_nothing_up_to_the_pool_size():
    """SeedSequence pads its entropy to four words with zeros."""
    assert Rng([5]).random() == Rng([5, 0, 0, 0]).random()
    assert Rng([5]).random() != Rng([5, 0, 0, 0, 0]).random()
    numpys = np.random.Generator(np.random.PCG64(np.random.SeedSequence([5, 0, 0, 0, 0])))
    assert Rng([5, 0, 0, 0, 0]).random() == numpys.random()


@pytest.mark.parametrize(
    ("low", "high"),
    cases(
        default=[(-1e308, 7e307), (1e-310, 3e-310), (0.1, 0.1 + 2**-56)],
        also=[(0.0, 1.0), (-0.05, 0.05), (-0.6, -0.4), (-np.pi, np.pi), (0.0, 0.0), (-1e-3, 1e9)],
    ),
)
def test_uniform(low, high):
    for seed in SEEDS[:20]:
        ours, numpys = generators(seed)
        for _ in range(100):
            assert bits(ours.uniform(low, high)) == bits(numpys.uniform(low, high))


def test_integers():
    for (low, high), seed in itertools.product(RANGES, SEEDS[:12]):
        ours, numpys = generators(seed)
        for _ in range(101):
            assert ours.integers(low, high) == numpys.integers(low, high)
        assert bits(ours.random()) == bits(numpys.random())  # as many draws were made


@pytest.mark.parametrize("size", cases(default=[3, 4, 13], also=[1, 2, 7, 100, 2**20 + 1]))
def test_choice(size):
    sequence = range(size) if size < 1_000 else size
    for seed in SEEDS[:12]:
        ours, numpys = generators(seed)
        for _ in range(30):
            assert ours.choice(size) == numpys.choice(sequence)
        assert bits(ours.random()) == bits(numpys.random())


@pytest.mark.parametrize("size", cases(default=[1, 2, 4], also=[0, 3, 7, 8, 100, 1000]))
def test_permutation(size):
    for seed in SEEDS[:12]:
        ours, numpys = generators(seed)
        assert ours.permutation(size) == numpys.permutation(size).tolist()
        items = list(range(size))
        numpys.shuffle(items)
        assert ours.permutation(size) == items
        assert bits(ours.random()) == bits(numpys.random())


@pytest.mark.parametrize("seed", cases(SEEDS[:3], also=SEEDS[3:20]), ids=hex)
def test_standard_normal(seed):
    """Enough of them that the ziggurat's wedges and its tail come up: 0.7 and 0.03 percent."""
    ours, numpys = generators(seed)
    expected = numpys.standard_normal(20_000)
    assert [ours.standard_normal() for _ in range(20_000)] == expected.tolist()
    assert (np.abs(expected) > 3.6541528853610088).any()  # drawn from the tail


@pytest.mark.parametrize(
    ("mean", "deviation"), cases(default=[(0.0, 1.0), (-3.0, 1e6), (0.1, 0.0)], also=[(1.5, 0.1)])
)
def test_normal(mean, deviation):
    for seed in SEEDS[:10]:
        ours, numpys = generators(seed)
        for _ in range(200):
            assert bits(ours.normal(mean, deviation)) == bits(numpys.normal(mean, deviation))


def test_half_a_word_waits_for_the_next_32_bit_draw():
    ours, numpys = generators(9)
    raw = np.random.PCG64(9).random_raw(3).tolist()
    assert ours.next_uint32() == raw[0] & 0xFFFFFFFF
    assert ours.random() == (raw[1] >> 11) * 2.0**-53
    assert ours.next_uint32() == raw[0] >> 32
    assert ours.next_uint32() == raw[2] & 0xFFFFFFFF
    # NumPy agrees on what is left over.
    assert numpys.integers(0, 2**32) == raw[0] & 0xFFFFFFFF
    assert numpys.random() == (raw[1] >> 11) * 2.0**-53
    assert numpys.integers(0, 2**32) == raw[0] >> 32


@pytest.mark.parametrize("seed", cases(SEEDS[:3], also=SEEDS[3:]), ids=hex)
def test_all_kinds_of_draws_mixed(seed):
    ours, numpys = generators(seed)
    chooser = random.Random(seed)
    for _ in range(400):
        match chooser.randrange(7):
            case 0:
                assert bits(ours.random()) == bits(numpys.random())
            case 1:
                low = chooser.uniform(-5, 5)
                high = low + chooser.uniform(0, 5)
                assert bits(ours.uniform(low, high)) == bits(numpys.uniform(low, high))
            case 2:
                low, high = chooser.choice(RANGES)
                assert ours.integers(low, high) == numpys.integers(low, high)
            case 3:
                size = chooser.randrange(1, 20)
                assert ours.choice(size) == numpys.choice(size)
            case 4:
                assert bits(ours.standard_normal()) == bits(numpys.standard_normal())
            case 5:
                assert bits(ours.normal(0.5, 2.0)) == bits(numpys.normal(0.5, 2.0))
            case 6:
                assert ours.permutation(9) == numpys.permutation(9).tolist()


def test_bad_arguments_are_refused():
    rng = Rng([0])
    with pytest.raises(ValueError, match="at least one word"):
        Rng([])
    with pytest.raises(ValueError, match="low < high"):
        rng.integers(3, 3)
    with pytest.raises(ValueError, match="at least 1"):
        rng.choice(0)
    for seed_words in ([-1], [2**32], [0.5]):
        with pytest.raises(TypeError):
            Rng(seed_words)
    assert rng.random() == np.random.Generator(np.random.PCG64(0)).random()


@pytest.mark.parametrize(
    "seed", cases(default=[42, [1], list(range(700))], also=[0, 1, 2**31, 2**32 - 1, [0, 0], [1, 2, 3]])
)
def test_legacy_stream(seed):
    """A number, or an array of words; a single word stands for the number."""
    ours = LegacyRng(seed if isinstance(seed, list) else [seed])
    numpys = np.random.RandomState(seed[0] if seed == [1] else seed)
    draws = {
        "random": lambda: (ours.random(), numpys.random_sample()),
        "uniform": lambda: (ours.uniform(-0.3, 2), numpys.uniform(-0.3, 2)),
        "normal": lambda: (ours.standard_normal(), numpys.randn()),
        "integer": lambda: (ours.integer(5), numpys.randint(5)),
        "one": lambda: (ours.integer(1), numpys.randint(1)),
        "large": lambda: (ours.integer(2**32 - 2), numpys.randint(2**32 - 2)),
    }
    names = random.Random(0).choices(sorted(draws), k=3000)
    for name in names:
        one, other = draws[name]()
        assert one == other, name
