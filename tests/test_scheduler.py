"""Whose step is next."""

from stenod.scheduler import LEAD_S, next_deadline


def test_the_first_step_is_due_now():
    assert next_deadline(100.0, 0.0, 0.4) == 100.0


def test_a_speaker_in_real_time_is_due_when_the_audio_is_there():
    assert next_deadline(100.4, 100.0, 0.4) == 100.4


def test_steps_that_fall_behind_keep_the_pace_of_real_time():
    assert next_deadline(100.1, 100.0, 0.4) == 100.4


def test_a_burst_is_owed_at_the_pace_of_real_time_and_is_no_lag():
    now, deadline = 100.0, 0.0
    deadlines = []
    for _ in range(4):
        deadline = next_deadline(now, deadline, 0.5)
        deadlines.append(deadline)
        now += 0.01
    assert deadlines == [100.0, 100.5, 101.0, 101.5]


def test_a_file_is_never_far_behind_those_who_speak():
    assert next_deadline(100.0, 500.0, 0.4) == 100.0 + LEAD_S


def test_the_final_step_is_owed_at_once():
    assert next_deadline(100.2, 100.0, 0.0) == 100.2
