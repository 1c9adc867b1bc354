"""QuadrupedVelocity with everything on: saved and restored, on any threads, under wild actions."""

import numpy as np
import pytest
from quadruped_env import EVERYTHING, quadruped, some_actions

N = 4


def play(env, actions):
    """Every array of the steps, as bytes."""
    out = []
    for action in actions:
        step = env.step(action)
        arrays = [*step.obs.values(), *step.next_obs.values(), step.reward, step.terminated, step.truncated]
        out.append([array.tobytes() for array in (*arrays, *step.metrics.values())])
    return out


def test_delays_histories_commands_levels_and_robots_continue_from_a_saved_state():
    env = quadruped(N, seed=1, max_episode_steps=13, **EVERYTHING)
    env.reset()
    actions = some_actions(N, 60)
    play(env, actions[:20])
    env.sim.memory["level"][:] = [0.3, 0.5, 0.7, 1.0]
    state = {name: array.copy() for name, array in env.state().items()}
    names = {name.partition(".")[2] for name in state if name.startswith(("memory.", "model."))}
    assert names >= {"key", "action", "air_s", "frame", "history", "command", "next_command", "level", "tracked"}
    assert names >= {"delay", "parameters", "next_push", "geom_friction", "body_mass", "actuator_gainprm"}
    straight = play(env, actions[20:])

    other = quadruped(N, seed=2, threads=2, max_episode_steps=13, **EVERYTHING)
    other.reset()
    play(other, actions[:31])
    other.restore(state)
    assert play(other, actions[20:]) == straight
    assert play(quadruped_restored(state), actions[20:]) == straight


def quadruped_restored(state):
    env = quadruped(N, seed=9, max_episode_steps=13, **EVERYTHING)
    env.restore(state)
    return env


@pytest.mark.parametrize("name", ["delay", "history", "next_command", "level", "next_push", "key", "air_s"])
def test_each_part_of_the_memory_matters_for_what_follows(name):
    env = quadruped(N, seed=1, max_episode_steps=13, **EVERYTHING)
    env.reset()
    actions = some_actions(N, 60)
    play(env, actions[:20])
    env.sim.memory["tracked"][:] = 5, 10  # neither good nor bad: the level stays
    state = {key: array.copy() for key, array in env.state().items()}
    straight = play(env, actions[20:])

    changed = state | {f"memory.{name}": state[f"memory.{name}"] + 1}
    if name == "delay":
        changed["memory.delay"] = 5 - state["memory.delay"]
    assert play(quadruped_restored(changed), actions[20:]) != straight


@pytest.mark.parametrize("robot_options", [{}, EVERYTHING])
def test_the_same_seed_gives_the_same_bits_on_one_thread_and_on_two(robot_options):
    actions = some_actions(N, 80)
    runs = []
    for threads in (1, 2):
        env = quadruped(N, seed=5, threads=threads, max_episode_steps=30, **robot_options)
        first = {name: rows.tobytes() for name, rows in env.reset().items()}
        runs.append((first, play(env, actions)))
    assert runs[0] == runs[1]
    env = quadruped(N, seed=6, max_episode_steps=30, **robot_options)
    env.reset()
    assert play(env, actions) != runs[0][1]


def test_an_env_does_not_depend_on_those_beside_it():
    alone, beside = quadruped(1, seed=5, **EVERYTHING), quadruped(N, seed=5, **EVERYTHING)
    np.testing.assert_array_equal(alone.reset()["obs"][0], beside.reset()["obs"][0])
    for action in some_actions(N, 40):
        one, all_of_them = alone.step(action[:1]), beside.step(action)
        np.testing.assert_array_equal(one.next_obs["critic"][0], all_of_them.next_obs["critic"][0])
        assert one.reward[0] == all_of_them.reward[0]


def test_wild_actions_with_everything_on_give_finite_numbers():
    env = quadruped(16, **EVERYTHING)
    obs = env.reset()
    rng = np.random.default_rng(0)
    for _ in range(150):
        step = env.step(rng.choice(np.float32([-1e6, -1, 1, 1e6]), (16, 12)))
        for rows in (*step.obs.values(), *step.next_obs.values(), step.reward):
            assert np.isfinite(rows).all()
        obs = step.obs
    assert np.abs(obs["critic"]).max() < 1000
