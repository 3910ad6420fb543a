import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.unit_vectors import round_to_grid


def unit_rows(seed: int, count: int, dimensions: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dimensions))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40), dimensions=st.integers(1, 512))
def test_float32_dot_products_equal_integer_arithmetic(seed: int, count: int, dimensions: int) -> None:
    vectors = round_to_grid(unit_rows(seed, count, dimensions))
    integers = np.rint(vectors.astype(np.float64) * 2**11).astype(np.int64)
    expected = (integers @ integers.T) / 2**22

    assert vectors.dtype == np.float32
    assert np.array_equal(vectors @ vectors.T, expected)  # any order of summation gives the same bits
    assert np.array_equal(vectors @ vectors[0], expected[:, 0])
    assert np.array_equal(np.ascontiguousarray(vectors[:, ::-1]) @ vectors[0, ::-1], expected[:, 0])


def test_a_cosine_moves_by_far_less_than_it_means() -> None:
    rows = unit_rows(7, 200, 256).astype(np.float64)
    moved = np.abs(round_to_grid(rows) @ round_to_grid(rows).T - rows @ rows.T)
    assert moved.std() < 3e-4
    assert moved.max() < 2e-3


def test_coordinates_go_to_the_nearest_multiple() -> None:
    assert round_to_grid(np.array([[0.0, 1.0, -0.5, 0.3]])).tolist() == [[0.0, 1.0, -0.5, 614 / 2048]]
