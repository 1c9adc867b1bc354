"""Columns of a row, counted by hand."""

import pickle

import pytest

from unilab.replay import RowLayout


def test_columns_without_a_critic_group():
    layout = RowLayout(obs_dim=3, action_dim=2)

    assert layout.columns == {
        "obs": slice(0, 3),
        "action": slice(3, 5),
        "reward": slice(5, 6),
        "next_obs": slice(6, 9),
        "terminated": slice(9, 10),
        "truncated": slice(10, 11),
    }
    assert layout.width == 11


def test_columns_of_a_critic_group_come_last():
    layout = RowLayout(obs_dim=2, action_dim=1, critic_dim=4)

    assert layout.columns["truncated"] == slice(7, 8)
    assert layout.columns["critic_obs"] == slice(8, 12)
    assert layout.columns["next_critic_obs"] == slice(12, 16)
    assert layout.width == 16


def test_the_steps_of_a_row_are_its_last_column_where_they_can_be_more_than_one():
    assert RowLayout(obs_dim=3, action_dim=2, n_step=1) == RowLayout(obs_dim=3, action_dim=2)
    assert RowLayout(obs_dim=3, action_dim=2, n_step=3).columns["steps"] == slice(11, 12)
    assert RowLayout(obs_dim=2, action_dim=1, critic_dim=4, n_step=2).columns["steps"] == slice(16, 17)


@pytest.mark.parametrize(
    "dims", [(1, 1, 0), (17, 6, 0), (376, 17, 0), (1, 1, 1), (5, 3, 60), (5, 3, 60, 3), (1, 1, 0, 2)]
)
def test_columns_fill_the_row_without_a_gap_or_an_overlap(dims):
    layout = RowLayout(*dims)
    columns = list(layout.columns.values())

    assert [c.start for c in columns] == [0] + [c.stop for c in columns[:-1]]
    assert columns[-1].stop == layout.width


def test_a_layout_travels_to_a_process_and_stays_equal():
    layout = RowLayout(3, 2, 1)
    _ = layout.columns, layout.width

    assert pickle.loads(pickle.dumps(layout)) == layout
    assert layout != RowLayout(3, 2)
