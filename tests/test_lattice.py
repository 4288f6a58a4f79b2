"""Lattice: barriers from the geometry, connected parts and distances against scipy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from coopbench_envs.pathfinding import geodesics, lattice
from coopbench_envs.pathfinding.maps.common import ABSENT, cell_centres

SIDE = 0.2
worlds = st.tuples(
    st.integers(1, 7), st.integers(2, 7), st.integers(0, 25), st.integers(0, 2**32 - 1)
)


def drawn(world):
    """Centres, columns, discs, least and largest reach, and the barriers that follow from them."""
    rows, columns, discs, seed = world
    rng = np.random.default_rng(seed)
    centres = cell_centres(rows, columns, SIDE)
    edge = 0.6 * SIDE * np.array([columns, rows])
    landmarks = rng.uniform(-edge, edge, (1, discs + 1, 2))
    landmarks[0, 0] = ABSENT
    landmark_rad, rad = rng.uniform(0.02, 0.12), rng.uniform(0.02, 0.08, (1, 3))
    barriers = np.zeros((1, len(centres)), np.int32)
    lattice.mark_barriers(barriers, 0, centres, columns, landmarks, landmark_rad, rad)
    reach = landmark_rad + np.array([rad.min(), rad.max()])
    return centres, columns, landmarks[0, 1:], reach, barriers, rng


def within(points, landmarks, reach):
    """Which landmarks (points, landmarks) have a point in reach."""
    return np.linalg.norm(points[:, None] - landmarks, axis=-1) < reach * (1 - 1e-9)


def line(start, end, count=2001):
    return start + np.linspace(0, 1, count)[:, None] * (end - start)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(worlds)
def test_barriers_follow_from_the_geometry(world):
    centres, columns, landmarks, (least, reach), barriers, rng = drawn(world)
    for k, centre in enumerate(centres):
        shift = rng.uniform(-0.45, 0.45, 2) * SIDE
        assert lattice.cell_at(centres, columns, *(centre + shift)) == k
        touched = within(centre[None], landmarks, reach).any()
        assert (barriers[0, k] & lattice._MIDDLE != 0) == touched
        for upwards, ahead in ((False, np.array([SIDE, 0.0])), (True, np.array([0.0, SIDE]))):
            way = within(line(centre, centre + ahead), landmarks, reach).any()
            ours = lattice.has_way(barriers, 0, k, upwards)
            # Sampling can miss a touch by a hair, but never sees one that is not there.
            assert not (ours and way)
            if not (ours or way):
                assert within(line(centre, centre + ahead), landmarks, reach * (1 + 1e-4)).any()
            aside = 0.5 * ahead[::-1]
            ends = line(centre + 0.5 * ahead - aside, centre + 0.5 * ahead + aside, 5)
            quarters = [within(ends[q : q + 2], landmarks, least).all(0).any() for q in range(4)]
            assert lattice.is_side_open(barriers, 0, k, upwards) != all(quarters)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(worlds)
def test_parts_are_those_of_scipy(world):
    centres, columns, _, _, barriers, _ = drawn(world)
    cells = len(centres)
    floor, queue = np.zeros((2, 1, cells), np.int32)
    best = lattice.label(barriers, floor, 0, columns, queue)
    steps = np.zeros((cells, cells))
    for k in range(cells):
        if (k + 1) % columns and lattice.has_way(barriers, 0, k, False):
            steps[k, k + 1] = 1
        if k + columns < cells and lattice.has_way(barriers, 0, k, True):
            steps[k, k + columns] = 1
    free = barriers[0] & lattice._MIDDLE == 0
    _, parts = connected_components(csr_array(steps), directed=False)
    assert ((floor[0] > 0) == free).all()
    pairs = set(zip(floor[0, free].tolist(), parts[free].tolist(), strict=True))
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
    if free.any():
        assert (floor[0] == best).sum() == np.bincount(parts[free]).max()
    else:
        assert best == 0


def searched(moves, columns, lengths, goal, target, margin=0):
    """Distances of all cells from a goal, and up to which sum of distance and estimate they are."""
    distance = np.zeros(len(moves), np.uint16)
    links = np.zeros((len(moves) + geodesics.BUCKETS, 2), np.int32)
    ends = (goal, target)
    most = geodesics.search(moves, distance, links, ends, lengths, margin, columns)
    return np.where(distance == geodesics.UNREACHED, np.inf, distance), most


def least_moves(barriers, columns, goal, target):
    """Least number of moves over open sides between two cells."""
    moves = np.zeros((1, 2, barriers.shape[1]), np.uint8)
    geodesics.list_moves(barriers, moves, 0, columns)
    found, _ = searched(moves[0, geodesics.SIDES], columns, (1, 1), goal, target, -1)
    return found[target]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(worlds)
def test_moves_are_those_inside_blocks(world):
    """Moves by a search over all blocks of 2 x 2 cells, each closed under its open sides."""
    centres, columns, _, _, barriers, rng = drawn(world)
    cells, rows = len(centres), len(centres) // columns
    linked = np.zeros((cells, cells))
    for row in range(rows):
        for column in range(columns):
            block = [
                r * columns + q
                for r in (row, row + 1)
                for q in (column, column + 1)
                if r < rows and q < columns
            ]
            sides = np.zeros((cells, cells))
            for k in block:
                if k + 1 in block and (k + 1) % columns:
                    sides[k, k + 1] = lattice.is_side_open(barriers, 0, k, False)
                if k + columns in block:
                    sides[k, k + columns] = lattice.is_side_open(barriers, 0, k, True)
            _, parts = connected_components(csr_array(sides), directed=False)
            for k in block:
                for other in block:
                    linked[k, other] = linked[k, other] or parts[k] == parts[other]
    goal = rng.integers(cells)
    theirs = dijkstra(csr_array(linked), indices=goal, unweighted=True)
    ours = [least_moves(barriers, columns, goal, target) for target in range(cells)]
    np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1), st.booleans())
def test_distances_are_shortest_however_ways_wind(rows, columns, seed, is_winding):
    """On moves that no geometry would give, and in a corridor that fills the map."""
    cells, rng = rows * columns, np.random.default_rng(seed)
    moves, lengths = np.zeros((1, 2, cells), np.uint8), np.zeros((cells, cells))
    for k in range(cells):
        for d, (across, along) in enumerate(((1, 0), (0, 1), (1, 1), (-1, 1))):
            other, row = k + along * columns + across, k // columns
            turn = columns - 1 if row % 2 == 0 else 0
            is_open = rng.random() < 0.4
            if is_winding:
                is_open = d == 0 or (d == 1 and k % columns == turn)
            if 0 <= k % columns + across < columns and row + along < rows and is_open:
                geodesics.link(moves, 0, 0, k, other, d)
                lengths[k, other] = lengths[other, k] = 5 + 2 * (d >= 2)
    goal, target = rng.integers(cells, size=2)
    theirs = dijkstra(csr_array(lengths), indices=goal)
    margin = int(rng.integers(20))
    ours, most = searched(moves[0, 0], columns, (5, 7), goal, target, margin)
    across, along = (
        abs(part - part[target])
        for part in (np.arange(cells) % columns, np.arange(cells) // columns)
    )
    sums = theirs + 5 * np.maximum(across, along) + 2 * np.minimum(across, along)
    assert most == theirs[target] + margin or np.isinf(theirs[target])
    np.testing.assert_array_equal(ours[sums <= most], theirs[sums <= most])
    assert (ours >= theirs).all()


def test_distances_beyond_the_largest_are_cut():
    moves = np.zeros((1, 1, 13_200), np.uint8)
    for k in range(13_199):
        geodesics.link(moves, 0, 0, k, k + 1, 0)
    ours, _ = searched(moves[0, 0], 13_200, (5, 7), 0, 13_199)
    expected = 5.0 * np.arange(13_200)
    np.testing.assert_array_equal(ours, np.where(expected < geodesics.UNREACHED, expected, np.inf))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(worlds)
def test_no_way_is_shorter_than_its_moves(world):
    """Neither a straight one, nor one around corners that touches nothing."""
    centres, columns, landmarks, (least, _), barriers, rng = drawn(world)
    place = np.zeros((2, 1, 1, 2))
    place[:, 0, 0] = (
        centres[rng.integers(len(centres), size=2)] + rng.uniform(-0.5, 0.5, (2, 2)) * SIDE
    )
    one, other = place
    cells = [lattice.cell_at(centres, columns, *point[0, 0]) for point in place]
    moves = least_moves(barriers, columns, cells[1], cells[0])
    straight = np.linalg.norm(one - other)
    if lattice.is_straight_open(barriers, 0, centres, columns, one, other, 0):
        assert (moves - 1) * SIDE <= straight + 1e-9
    if not within(line(one[0, 0], other[0, 0]), landmarks, least).any():
        assert (moves - 1) * SIDE <= straight + 1e-9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(worlds, st.floats(1.0, 30.0))
def test_ways_from_and_to_points_beyond_the_map_come_to_an_end(world, far):
    centres, columns, _, _, barriers, rng = drawn(world)
    one, other = rng.normal(0, far * SIDE, (2, 1, 1, 2))
    open_ = lattice.is_straight_open(np.zeros_like(barriers), 0, centres, columns, one, other, 0)
    cells = [lattice.cell_at(centres, columns, *point[0, 0]) for point in (one, other)]
    assert open_ or cells[0] != cells[1]
