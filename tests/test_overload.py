"""The overload ladder: up at once, down one rung at a time after a calm while, every change told."""

from stenod.overload import CALM_S, LADDER, Ladder


def test_partials_go_first_then_the_grid_then_new_sessions():
    """field-failures: degrades in a bounded way: fewer partials first, finals never dropped."""
    assert [rung.grid for rung in LADDER] == sorted(rung.grid for rung in LADDER)
    first = LADDER[1]
    assert (first.partials, first.grid, first.refusing) == ("newest", 1, False)
    assert [rung.refusing for rung in LADDER] == [False] * (len(LADDER) - 1) + [True]


def test_no_lag_tells_nothing():
    ladder = Ladder()
    assert all(ladder.update(0.1, now) is None for now in range(100))


def test_a_small_lag_means_fewer_partials_and_is_told_once():
    ladder = Ladder()
    told = [ladder.update(1.2, now) for now in range(20)]
    assert [event.action for event in told if event] == ["fewer_partials"]


def test_a_great_lag_climbs_at_once():
    ladder = Ladder()
    event = ladder.update(9.0, 0.0)
    assert event is not None
    assert (event.action, event.lag_s) == ("refusing_sessions", 9.0)
    assert ladder.rung.refusing


def test_recovery_goes_down_rung_by_rung_and_ends_with_recovered():
    ladder = Ladder()
    ladder.update(9.0, 0.0)
    actions = []
    for tick in range(1, 100):
        if event := ladder.update(0.0, tick * CALM_S / 4):
            actions.append(event.action)
    assert actions == ["no_partials", "fewer_partials", "fewer_partials", "recovered"]
    assert ladder.rung == LADDER[0]


def test_where_nobody_is_served_any_more_it_is_over_at_once():
    ladder = Ladder()
    ladder.update(9.0, 0.0)
    event = ladder.update(0.0, 0.1, idle=True)
    assert event is not None
    assert event.action == "recovered"
    assert ladder.update(0.0, 0.2, idle=True) is None


def test_a_lag_that_comes_back_before_the_calm_is_over_keeps_the_rung():
    ladder = Ladder()
    ladder.update(2.5, 0.0)
    for now in range(1, 40):
        assert ladder.update(1.5 if now % 3 == 0 else 0.0, float(now)) is None
