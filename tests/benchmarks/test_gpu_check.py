import gpu_check
import pytest
import torch
from gpu_check import BF16, EAGER, agreed, columns, main, rows_packed, twins


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so_and_is_content(capsys):
    assert main() == 0
    assert capsys.readouterr().out == "gpu_check: torch finds no CUDA device here; nothing was checked\n"


def test_a_check_that_fails_is_counted_and_the_others_run_on(monkeypatch, capsys, tmp_path):
    for name, value in {"is_available": True, "get_device_name": "a GPU"}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(gpu_check.harness, "RESULTS", tmp_path)
    for name in ("page_locked", "slow_consumer", "speeds", "overlap", "traced"):
        monkeypatch.setattr(gpu_check, name, lambda: {"x": 1.0})
    monkeypatch.setattr(gpu_check, "twins", lambda *_: [[{"loss": 1.0}], [{"loss": 1.01}]])

    assert main() == 2  # 1 % is too much for two of the three comparisons
    assert capsys.readouterr().out.count("  ok    ") == 6
    assert (tmp_path / "gpu_check.json").exists()


def test_the_same_updates_agree_and_those_of_another_precision_nearly():
    assert agreed(twins("td3", ("cpu", EAGER), ("cpu", EAGER), updates=2), 0.0)["largest_difference"] == 0.0
    near = agreed(twins("sac", ("cpu", EAGER), ("cpu", BF16), updates=2), 5e-2)
    assert 0.0 < near["largest_difference"] < 5e-2


def test_scalars_that_differ_are_told_by_how_much():
    with pytest.raises(AssertionError, match=r"differ by 0\.5, allowed 0\.1"):
        agreed([[{"loss": 4.0, "alpha": 0.2}], [{"loss": 2.0, "alpha": 0.2}]], 0.1)


def test_random_rows_have_the_columns_of_a_ring():
    packed = rows_packed(5, 0)
    batch = columns(packed)

    assert batch.action.abs().max() < 1
    assert not batch.terminated.any()
    assert torch.equal(batch.reward, packed[:, 23])
