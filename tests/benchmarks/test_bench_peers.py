"""What a peer's snapshot plays is what the peer plays; needs the extra ``bench``."""

import numpy as np
import pytest
from judge import Judge
from peers import Peer, Player, build, write_snapshot

SMALL = {"batch_size": 16}
EARLY = SMALL | {"learning_starts": 20, "buffer_size": 1000}
PEERS = {
    "sb3 SAC": Peer(library="sb3", algo="SAC", num_envs=2, settings=EARLY, policy={"net_arch": [16, 16]}),
    "sb3 PPO": Peer(
        library="sb3",
        algo="PPO",
        num_envs=2,
        normalize=True,
        relu=True,
        settings=SMALL | {"n_steps": 16, "n_epochs": 1},
    ),
    "sbx SAC": Peer(library="sbx", algo="SAC", settings=EARLY, policy={"layer_norm": True, "net_arch": [16, 16]}),
    "sbx CrossQ": Peer(library="sbx", algo="CrossQ", settings=EARLY, policy={"net_arch": [16, 16]}),
}


# SBX compiles for a while.
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * n.startswith("sbx")) for n in PEERS])
def test_a_snapshot_acts_as_the_model_did_when_it_was_taken(name, tmp_path):
    peer = PEERS[name]
    pytest.importorskip("stable_baselines3" if peer.library == "sb3" else "sbx", reason="needs the extra bench")
    model = build(peer, "Pendulum-v1", 1)
    model.learn(40)
    raw = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    normalizer = model.get_vec_normalize_env()
    expected = model.predict(normalizer.normalize_obs(raw) if normalizer else raw, deterministic=True)[0]
    write_snapshot(model, peer, tmp_path, 40)
    before = Player(peer, "Pendulum-v1")  # other weights until it loads

    act = before.load(tmp_path / "40.pickle")

    np.testing.assert_allclose(act(raw), expected, rtol=1e-5, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["40.pickle"]


def test_the_judge_gives_the_same_returns_each_time_and_other_starts_with_another_seed(tmp_path):
    pytest.importorskip("stable_baselines3", reason="needs the extra bench")
    peer = PEERS["sb3 SAC"]
    write_snapshot(build(peer, "Pendulum-v1", 1), peer, tmp_path, 0)
    snapshot = tmp_path / "0.pickle"

    first, same = Judge("Pendulum-v1", 3, 7, peer), Judge("Pendulum-v1", 3, 7, peer)
    returns = first.returns(snapshot)

    assert returns.shape == (3,)
    assert len(set(returns)) == 3
    np.testing.assert_array_equal(first.returns(snapshot), returns)
    np.testing.assert_array_equal(same.returns(snapshot), returns)
    assert (Judge("Pendulum-v1", 3, 8, peer).returns(snapshot) != returns).all()
