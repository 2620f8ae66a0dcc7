"""Whose step is next."""

from stenod.scheduler import LEAD_S, next_deadline


def test_the_first_step_is_due_now():
    assert next_deadline(100.0, 0.0, 0.4, waited=False) == 100.0


def test_a_speaker_in_real_time_is_due_when_the_audio_is_there():
    assert next_deadline(100.4, 100.0, 0.4, waited=False) == 100.4


def test_after_a_pause_nothing_is_late():
    assert next_deadline(130.0, 100.0, 0.4, waited=False) == 130.0


def test_lag_adds_up_when_every_step_takes_longer_than_its_audio():
    now = deadline = 100.0
    for _ in range(10):
        now += 0.6
        deadline = next_deadline(now, deadline, 0.4, waited=True)
    assert round(now - deadline, 6) == 2.0


def test_a_burst_is_owed_at_the_pace_of_real_time_and_is_no_lag():
    now, deadline = 100.0, next_deadline(100.0, 0.0, 0.5, waited=False)
    deadlines = [deadline]
    for _ in range(3):
        now += 0.01
        deadline = next_deadline(now, deadline, 0.5, waited=True)
        deadlines.append(deadline)
    assert deadlines == [100.0, 100.5, 101.0, 101.5]


def test_a_file_is_never_far_behind_those_who_speak():
    assert next_deadline(100.0, 500.0, 0.4, waited=True) == 100.0 + LEAD_S


def test_the_final_step_is_owed_at_once():
    assert next_deadline(100.2, 100.0, 0.0, waited=False) == 100.2
