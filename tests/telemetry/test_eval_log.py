import json
import os

import pytest

from unilab.telemetry.eval_log import EvalLog


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_evaluation_is_one_line_at_once(tmp_path):
    log = EvalLog(tmp_path / "eval.jsonl")
    log.write(100, {"mean_reward": 1.5, "returns": [1.0, 2.0]})
    log.write(200, {"mean_reward": 2.5})

    assert lines(tmp_path / "eval.jsonl") == [
        {"env_steps": 100, "mean_reward": 1.5, "returns": [1.0, 2.0]},
        {"env_steps": 200, "mean_reward": 2.5},
    ]
    log.close()
    log.close()


def test_a_run_that_goes_on_keeps_what_came_before_its_start(tmp_path):
    path = tmp_path / "eval.jsonl"
    path.write_text('{"env_steps": 100}\n{"env_steps": 200}\n{"env_steps": 300}\n{"env_ste')
    log = EvalLog(path, start_steps=200)
    log.write(250, {})
    log.close()

    assert [line["env_steps"] for line in lines(path)] == [100, 200, 250]
    assert os.listdir(tmp_path) == ["eval.jsonl"]


def test_a_new_run_begins_an_empty_file(tmp_path):
    (tmp_path / "eval.jsonl").write_text('{"env_steps": 100}\n')
    EvalLog(tmp_path / "eval.jsonl").close()

    assert lines(tmp_path / "eval.jsonl") == []


def test_a_file_that_was_removed_is_an_error(tmp_path):
    log = EvalLog(tmp_path / "eval.jsonl")
    (tmp_path / "eval.jsonl").unlink()

    with pytest.raises(FileNotFoundError, match=r"eval\.jsonl was removed"):
        log.write(1, {})
    log.close()


def test_a_value_that_json_has_no_number_for_is_refused(tmp_path):
    log = EvalLog(tmp_path / "eval.jsonl")

    with pytest.raises(ValueError, match="JSON"):
        log.write(1, {"mean_reward": float("nan")})
    log.close()
