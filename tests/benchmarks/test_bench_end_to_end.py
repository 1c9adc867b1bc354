import pytest
from bench_end_to_end import CASES, Row, peer_of, read_rows, speed_of, unilab_words

from unilab.cli import parse


def test_the_speed_of_a_turn_leaves_out_the_rows_that_may_have_the_hold_in_them():
    rows = [Row(100, 40.0, 5), Row(200, 30.0, 5), Row(300, 1.0, 10), Row(400, 3.0, 30)]

    assert speed_of(rows) == (50.0, 10.0)
    assert speed_of(rows[:3]) is None
    assert speed_of([]) is None


def test_rows_of_progress_become_seconds_and_updates_and_half_a_row_waits(tmp_path):
    file = tmp_path / "progress.csv"
    assert read_rows(file) == []
    file.write_text("env_steps,time/fps,perf/updates_per_s\n64,,\n128,32.0,16.0\n192,64.0,64.0\n25")

    assert read_rows(file) == [Row(128, 2.0, 32.0), Row(192, 1.0, 64.0)]


@pytest.mark.parametrize("name", sorted(CASES))
def test_all_run_the_same_recipe(name, tmp_path):
    case = CASES[name]
    cfg = parse(unilab_words(case, "bf16", tmp_path)[2:])

    for library in ("sb3", "sbx"):
        peer = peer_of(library, case)
        assert cfg.env.num_envs == peer.num_envs
        assert cfg.pacing.utd * cfg.env.num_envs == peer.settings["gradient_steps"]
        assert cfg.replay.batch_size == peer.settings["batch_size"]
        assert cfg.replay.learning_starts == peer.settings["learning_starts"]
        assert list(cfg.learner.hidden) == peer.policy["net_arch"]
        assert (cfg.learner.policy_delay, cfg.learner.critic_hidden, cfg.sac.critic_layer_norm) == (1, (), False)
