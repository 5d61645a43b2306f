"""Bugs of particles that rest at points."""

from __future__ import annotations

from .names import FLIGHT, POTENTIAL, SAME_EVENTS, Bug, Edit, engine

POINTS = "piecewise/points.py"

BUGS: tuple[Bug, ...] = (
    Bug(
        "N1",
        "coordinates leave points at a rate that does not depend on their speed",
        (Edit(POINTS, "* mean / abs(speed) if", "* mean if"),),
        (engine("law::test_rates", "points"), engine("points::test_rests_are_exponential", "2")),
    ),
    Bug(
        "N2",
        "the rate of leaving a point has its mass upside down",
        (Edit(POINTS, "exp(view.way_out[row])", "exp(-view.way_out[row])"),),
        (engine("law::test_final_state", "spike-slab"),),
    ),
    Bug(
        "N3",
        "velocities of coordinates at points are reflected",
        (
            Edit(
                FLIGHT,
                "    n, along, square, before, after = moving(flight.points, y.size)",
                "    n = y.size\n    n, along, square, before, after = n",
            ),
            Edit(FLIGHT, "g[i] = flight.slope[i] * flight.F[i]", "g[i] = max(flight.slope[i], 0.7) * flight.F[i]"),
        ),
        (engine("law::test_rates", "spike-slab"),),
    ),
    Bug(
        "N4",
        "the time at a point at which a sweep ends is not counted",
        (
            Edit(
                FLIGHT,
                "    leave_cells(recorder, flight.row)\n",
                "    for k in range(flight.points.number[0], flight.points.order.size):\n"
                "        recorder.entered_cell[flight.points.order[k]] = sweep_time\n"
                "    leave_cells(recorder, flight.row)\n",
            ),
        ),
        (engine("law::test_time_in_cells", "points"),),
    ),
    Bug(
        "N5",
        "coordinates leave points to the side that they came from",
        (
            Edit(
                FLIGHT,
                "            events[FLIPS] += _meet_wall(",
                "            if place < 0:\n                flight.v[i] = -flight.v[i]\n"
                "            events[FLIPS] += _meet_wall(",
            ),
        ),
        (engine("points::test_coordinates_leave_in_the_direction_of_their_velocity"),),
    ),
    Bug(
        "N6",
        "coordinates never turn at a point between unequal densities",
        (Edit(FLIGHT, "jump -= view.way_out[row]", "jump = 0.0"),),
        (engine("law::test_final_state", "points"),),
    ),
    Bug(
        "N7",
        "the rate of leaving a point is that of the lower density beside it",
        (Edit(POINTS, "np.fmin(up, down)", "np.fmax(up, down)"),),
        (engine("law::test_final_state", "points"),),
    ),
    Bug(
        "N8",
        "coordinates at points do not notice that their speeds have changed",
        (Edit(FLIGHT, "    change_speeds(flight.points, view, flight.row, old, v, now, flight.rng)\n", ""),),
        (engine(SAME_EVENTS, "points"),),
    ),
    Bug(
        "N9",
        "the next refreshment does not notice that more or fewer coordinates move",
        (Edit(FLIGHT, "(leg[T_REFRESH] - t) * (pace / _pace(flight))", "(leg[T_REFRESH] - t)"),),
        (engine("law::test_rates", "points"), engine(SAME_EVENTS, "points")),
    ),
    Bug(
        "N10",
        "times of leaving count from the sweep in which they were drawn",
        (Edit(POINTS, "points.due[points.order[k]] -= sweep_time", "pass"),),
        (engine(SAME_EVENTS, "points"),),
    ),
    Bug(
        "N11",
        "times of leaving are not restored",
        (
            Edit(POINTS, '"order", "number", "due",\n', '"order", "number",\n'),
            Edit(POINTS, '        "due": lambda points: (-1.0, inf),\n', ""),
        ),
        (engine("flight::test_a_restored_state_continues_with_the_same_bytes", "spike-slab"),),
    ),
    Bug(
        "N12",
        "times of leaving are kept where the target has changed",
        (
            Edit(FLIGHT, "    place_points(flight.points, view, flight.row, flight.v, flight.rng)\n", ""),
            Edit(
                FLIGHT,
                "        leg[T_REFRESH] = _time_to_refresh(flight)\n        leg",
                "        place_points(flight.points, view, flight.row, flight.v, flight.rng)\n"
                "        leg[T_REFRESH] = _time_to_refresh(flight)\n        leg",
            ),
        ),
        (engine("points::test_a_rest_follows_the_target"),),
    ),
    Bug(
        "N13",
        "coordinates pay a toll to come to a point",
        (Edit(FLIGHT, "            jump = 0.0\n", "            jump += 0.0\n"),),
        (engine("law::test_final_state", "points"),),
    ),
    Bug(
        "N16",
        "values that round beside a point are taken for a jump",
        (Edit(POTENTIAL, "_jump(x, size, cells.first)", "_jump(x, np.abs(x), cells.first)"),),
        (engine("points::test_points_are_told_from_intervals"),),
    ),
)
