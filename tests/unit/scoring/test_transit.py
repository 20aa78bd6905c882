"""Plans on a transit map: reading, correctness and detail."""

import pytest

from mmrl.scoring.transit import Leg, Ride, detail, is_correct, read_plan

RIDE = Ride("Park", "Port", 1, {"Red": ("Park", "Hall", "Mill"), "Blue": ("Mill", "Port")})
RIGHT = (Leg("red", "park", "mill"), Leg("blue", "mill", "port"))


def leg(line, departure, arrival):
    return f"Route Name: {line}\n**Departure Stop: {departure}**\nArrival Stop:  {arrival} "


def test_plans_are_read():
    text = f"{leg('Red', 'Park', 'Mill')}\n--\n{leg('BLUE', 'Mill', 'Port')}"
    assert read_plan(text) == RIGHT
    assert read_plan("Route Name: Red") is None
    assert read_plan(f"{leg('Red', 'Park', 'Mill')}\n{leg('Red', 'Park', 'Mill')}") is None
    assert read_plan("") is None
    assert read_plan("\n--\n".join([leg("Red", "Park", "Mill")] * 101)) is None


@pytest.mark.parametrize(
    ("legs", "correct", "credit", "official"),
    [
        (RIGHT, True, 9, 4),
        ((RIGHT[0], Leg("red", "mill", "mill"), RIGHT[1]), True, 7, 2),  # a leg too many
        ((Leg("red", "park", "hall"), RIGHT[1]), False, 8, 3),  # legs do not meet
        ((RIGHT[1], RIGHT[0]), False, 0, 0),
        ((Leg("red", "park", "port"),), False, 5, 5),
    ],
)
def test_detail(legs, correct, credit, official):
    assert is_correct(legs, RIDE) is correct
    assert detail(legs, RIDE) == credit
    assert detail(legs, RIDE, official=True) == official
