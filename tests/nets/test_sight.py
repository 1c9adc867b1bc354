import numpy as np
import torch

from unilab.nets.sight import SeesAll, SeesObs

OBS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
CRITIC = torch.tensor([[10.0, 20.0, 5.0, 6.0], [30.0, 40.0, 7.0, 8.0]])  # obs in the first two, without noise say
GROUPS = {"obs": OBS.numpy(), "critic": CRITIC.numpy()}


def test_without_an_encoder_an_actor_sees_obs():
    assert SeesObs(2)(OBS, CRITIC) is OBS
    assert np.shares_memory(SeesObs(2).of_groups(GROUPS).numpy(), GROUPS["obs"])


def test_with_one_it_sees_obs_and_the_columns_behind_those_of_obs():
    expected = [[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]

    assert SeesAll(4, 2)(OBS, CRITIC).tolist() == expected
    assert SeesAll(4, 2).of_groups(GROUPS).tolist() == expected
