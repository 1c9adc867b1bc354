"""A model as users of Stable-Baselines3 know it, over the same runtime as the command line.

Where a model stands is on disk: its newest checkpoint in its run directory. ``learn`` is one run of ``train``; called
again, it goes on with that run as ``--resume`` does. Nothing of a run stays in memory between the calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import yaml

from unilab.api.acting import Acting
from unilab.api.env_name import name_env
from unilab.api.evaluation import Evaluation, evaluate_policy
from unilab.api.options import changed, new_config, plain_names
from unilab.api.untrained import untrained_state
from unilab.api.watching import Callback, Watch
from unilab.checkpoint import is_model_file, list_checkpoints, load_state, save_model
from unilab.config import TrainConfig, check, dump, overlay, parse_count
from unilab.errors import ConfigError, ResourceError, UnilabError, machine_trouble
from unilab.hooks import Hooks
from unilab.resume import FIXED, Resume, check_changes, open_resume, saved_config
from unilab.rundir import RunSummary
from unilab.train import train
from unilab.watchdog import raising_deadline

_POLICIES = ("MlpPolicy", "MultiInputPolicy")
SUFFIX = ".pt"


class Model:
    """An algorithm on an env; nothing starts before ``learn``.

    Args:
        env_id: a Gymnasium id, ``module:Id``, or an env class or factory that lies in a module; None: HalfCheetah-v5.
        more: nothing; Stable-Baselines3's ``("MlpPolicy", env)`` is taken too.
        env: another place for the env.
        seed: of every random stream.
        preset: "sb3" for Stable-Baselines3's hyperparameters; None: those of the command line.
        size: "small" or "paper" for algorithms that have these; "auto": small on a CPU, paper on a GPU.
        verbose: 1 prints what the command line prints, 0 nothing.
        fields: every option of the command line by its name with underscores; ``unilab train --help`` lists them.

    Raises:
        ConfigError: an unknown name (with the nearest known one), a bad value, or an env no other process can make.
    """

    algo: ClassVar[str]
    """Name in the algorithm registry."""

    def __init__(
        self,
        env_id: Any = None,
        /,
        *more: Any,
        env: Any = None,
        seed: int = 0,
        preset: str | None = None,
        size: str = "auto",
        verbose: int = 0,
        **fields: Any,
    ) -> None:
        env = _without_policy([word for word in (env_id, *more, env) if word is not None], fields)
        fields = fields | {"seed": seed} | _env_fields(env, fields)
        self._cfg = new_config(self.algo, preset, fields, size=size)
        self._verbose = verbose
        self._allowed: frozenset[str] = frozenset()  # what may differ from the run that goes on
        self._source: Path | None = None  # where it stands: run directory, checkpoint or saved file
        self._goes_on = False  # whether the source is a run that learn goes on with
        self._cached_state: Mapping[str, Any] | None = None
        self._cached_acting: Acting | None = None
        self.run_dir: Path | None = None
        """Of the newest run of this model; None before ``learn``."""
        self.summary: RunSummary | None = None
        """The outcome of the newest ``learn``."""

    @classmethod
    def load(cls, path: str | Path, env: Any = None, *, verbose: int = 0, **fields: Any) -> Self:
        """The model in a run directory, one of its checkpoints, or a file of ``save``.

        It learns on in that run, from there, if the path is of a run with its replay and the env is the same; else in
        a new run that starts with its networks.

        Args:
            path: of these; ``.pt`` may be left out.
            env: another one to learn in; None: its own.
            verbose: as in the constructor.
            fields: options that are to differ from those that it was saved with.

        Raises:
            ConfigError: there is none, it cannot be read, or another algorithm made it.
        """
        where = _existing(Path(path))
        state = load_state(where)
        saved = overlay(TrainConfig(), yaml.safe_load(state["config"]), str(where))
        if saved.algo != cls.algo:
            raise ConfigError(f"{where} holds a model of algo={saved.algo}; load it with {saved.algo.upper()}.load")
        model = cls.__new__(cls)
        Model.__init__(model, saved.env.env, verbose=verbose)
        named = _env_fields(env, fields)
        elsewhere = named.get("env", saved.env.env) != saved.env.env
        if elsewhere:  # the saved keyword arguments are those of the other env
            saved = dataclasses.replace(saved, env=dataclasses.replace(saved.env, env_kwargs={}))
        model._cfg = changed(saved, fields | named)
        model._allowed = frozenset(plain_names(fields))
        model._source, model._cached_state = where, state
        same = not elsewhere and ("env_kwargs" not in named or model._cfg.env.env_kwargs == saved.env.env_kwargs)
        model._goes_on = _is_of_run(where) and same
        if model._goes_on:
            model.run_dir = _run_of(where)
        return model

    def learn(
        self,
        total_timesteps: float,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        progress_bar: bool = False,
        reset_num_timesteps: bool | None = None,
        **others: Any,
    ) -> Self:
        """Train for so many env steps more, save, and return the model.

        The first call starts a run in a new run directory. A later one goes on with it in the same directory: learner,
        optimisers, replay, normaliser, counters and generators as they were, the total raised by ``total_timesteps``;
        there is no second prefill. Envs that cannot save their state start new episodes.

        Args:
            total_timesteps: env steps of this call, prefill included; rounded up to whole ticks.
            callback: called after each tick with a ``TickInfo``, or several; False ends the run, completed and saved.
            progress_bar: print the command line's lines, as ``verbose=1`` does.
            reset_num_timesteps: env steps are always counted on; True is refused where there are some.
            others: nothing; names of Stable-Baselines3 are explained.

        Raises:
            UnilabError: the run ended early; what was learnt is saved, ``run_dir`` says where.
            KeyboardInterrupt: Ctrl-C, once all is saved; the model stands where it was interrupted.
        """
        _refuse_others(others)
        watch = Watch(callback)
        if reset_num_timesteps and self.num_timesteps:
            raise ConfigError(
                "reset_num_timesteps=True: a run counts its env steps on; start a new one from these networks with "
                f"{type(self).__name__}(env, init_from={str(self._source)!r})"
            )
        cfg, resume = self._next_run(_count(total_timesteps))
        hooks = Hooks(
            stream=sys.stdout if self._verbose or progress_bar else None,
            opened=self._opened,
            tick_done=watch.tick_done,
            second_interrupt=_interrupt,
            deadline=raising_deadline,
        )
        before, self.run_dir = self.run_dir, None  # until it is opened: it may be refused
        try:
            with _plain_errors(), _own_threads():
                self.summary = train(cfg, resume, hooks)
        finally:
            self._settle(cfg, before)
        self._raise_outcome(self.summary)
        return self

    def predict(
        self, observation: Any, state: None = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, None]:
        """The action for an observation, in the env's own units; observations are normalised as in training.

        Args:
            observation: one, or a batch [n, ...]; for a Dict env a dict of these.
            state: None; policies here have no memory.
            episode_start: envs [n] whose episode has just begun; noise that repeats is drawn anew for them.
            deterministic: without the exploration that training acts with.

        Returns:
            Action or actions [n, ...], and None.

        Raises:
            EnvError: the observation has another shape than the env's.
            NonFinite: it holds a NaN or an infinity.
        """
        if state is not None:
            raise ConfigError("state would have no effect: policies here have no memory")
        return self._acting.predict(observation, episode_start, deterministic=deterministic), None

    def evaluate(self, episodes: int = 10) -> Evaluation:
        """Play episodes without exploration in this process, on the starts of the run's own evaluations."""
        return evaluate_policy(self._cfg, self._acting.spec, self._acting.policy, episodes)

    def save(self, path: str | Path) -> Path:
        """Write networks, optimisers, normaliser and config to one file, without the replay; returns its path.

        The run directory holds all that and the replay; this file is to give away. Before ``learn`` it holds what that
        begins with.

        Raises:
            ConfigError: the file cannot be written.
        """
        file = Path(path)
        file = file if file.suffix else file.with_suffix(SUFFIX)
        save_model(file, self._standing, config=dump(self._cfg), env_steps=self.num_timesteps)
        return file

    @property
    def num_timesteps(self) -> int:
        """Env steps that this model was trained for, prefill included."""
        state = self._state
        if state is None:
            return 0
        if "finished" not in state:  # of an evaluation's best weights, or a saved file
            return int(state["env_steps"])
        resume = Resume(Path(), Path(), state, (), ())
        return saved_config(resume).schedule().watermark(int(state["tick"]))

    @property
    def config(self) -> TrainConfig:
        """All options."""
        return self._cfg

    @property
    def _state(self) -> Mapping[str, Any] | None:
        if self._cached_state is None and self._source is not None:
            self._cached_state = load_state(self._source)
        return self._cached_state

    @property
    def _standing(self) -> Mapping[str, Any]:
        """What ``learn`` has left, or what it will begin with."""
        return untrained_state(self._cfg) if self._state is None else self._state

    @property
    def _acting(self) -> Acting:
        if self._cached_acting is None:
            self._cached_acting = Acting(self._cfg, self._standing)
        return self._cached_acting

    # ------------------------------------------------------------ learning

    def _next_run(self, steps: int) -> tuple[TrainConfig, Resume | None]:
        """The run that ``learn`` does, and what it goes on from."""
        if self._source is None:
            cfg, resume = dataclasses.replace(self._cfg, total_steps=steps), None
        elif self._goes_on:
            resume = open_resume(str(self._source), self._cfg.log_dir)
            saved = saved_config(resume)
            done = saved.schedule().watermark(int(resume.state["tick"]))
            replay = self._cfg.replay
            if "learning_starts" not in self._allowed:  # resolved by now, whatever the total is
                replay = dataclasses.replace(replay, learning_starts=saved.replay.learning_starts)
            cfg = dataclasses.replace(self._cfg, total_steps=done + steps, replay=replay)
            names = {key.rpartition(".")[2] for key in FIXED}
            check_changes(cfg, saved, self._allowed - names)
        else:
            cfg = dataclasses.replace(self._cfg, total_steps=steps, init_from=self._source, name=None)
            resume = None
        check(cfg)
        return cfg, resume

    def _opened(self, run_dir: Path) -> None:
        self.run_dir = run_dir.resolve()  # the program may go elsewhere

    def _settle(self, cfg: TrainConfig, before: Path | None) -> None:
        """Stand where the run ended, however it did; one that saved nothing leaves the model where it was."""
        if self.run_dir is None or not list_checkpoints(self.run_dir / "checkpoints"):
            self.run_dir = before
            return
        self._source, self._goes_on, self._cfg = self.run_dir, True, cfg
        self._allowed = frozenset()
        self._cached_state = self._cached_acting = None

    def _raise_outcome(self, summary: RunSummary) -> None:
        """What the command line says by its exit code."""
        if summary.status == "interrupted":
            # By now the program's own handler is back: Ctrl-C ends a loop over runs, SIGTERM the program.
            number = summary.exit_code - 128
            signal.raise_signal(number)
            if signal.getsignal(number) is signal.SIG_IGN:  # as in the background of a script, but it has come
                raise KeyboardInterrupt
        elif summary.exit_code:
            raise UnilabError(summary.reason)


def _without_policy(words: list[Any], fields: dict[str, Any]) -> Any:
    """The env out of ``(env)``, ``("MlpPolicy", env)`` or ``policy=``; takes the policy out of ``fields``."""
    if words and isinstance(words[0], str) and words[0].endswith("Policy"):
        fields.setdefault("policy", words.pop(0))
    policy = fields.pop("policy", None)
    if policy is not None and policy not in _POLICIES:
        raise ConfigError(f"policy={policy!r} is not there: networks are MLPs, of the widths in hidden; leave it out")
    if len(words) > 1:
        raise ConfigError(f"{words[1]!r} is one argument too many; give options by name, such as learning_rate=1e-3")
    return words[0] if words else None


def _env_fields(env: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that name an env; its own keyword arguments give way to those that are given."""
    if env is None:
        return {}
    name, kwargs = name_env(env)
    given = fields.get("env_kwargs") or {}
    return {"env": name} | ({"env_kwargs": kwargs | dict(given)} if kwargs else {})


def _existing(path: Path) -> Path:
    """The path, or with the suffix that ``save`` adds."""
    if not path.exists() and not path.suffix and path.with_suffix(SUFFIX).exists():
        path = path.with_suffix(SUFFIX)
    if not path.exists():
        raise ConfigError(f"{path} does not exist: name a run directory, a checkpoint or a saved model")
    return path.resolve()


def _run_of(where: Path) -> Path:
    """The run directory around a part of a run; the newest checkpoint of ``where`` is what counts."""
    while not (where / "config.yaml").is_file() and where != where.parent:
        where = where.parent
    return where


def _is_of_run(where: Path) -> bool:
    """Whether ``learn`` can go on there: a run, its ``checkpoints``, or a part of those; not ``best``."""
    if is_model_file(where):
        return False
    run = _run_of(where)
    return (run / "config.yaml").is_file() and (where == run or where.is_relative_to(run / "checkpoints"))


def _count(steps: Any) -> int:
    try:
        number = parse_count(str(steps))
    except ValueError as error:
        raise ConfigError(f"total_timesteps={steps!r}: {error}") from error
    if number < 1:
        raise ConfigError(f"total_timesteps={number} must be greater than 0")
    return number


def _refuse_others(names: Mapping[str, Any]) -> None:
    explained = {
        "log_interval": "give log_every, in env steps, to the constructor",
        "tb_log_name": "give name to the constructor: the name of the run directory",
        "eval_env": "every run evaluates in a process of its own: eval_every and eval_episodes, in the constructor",
        "eval_freq": "give eval_every, in env steps, to the constructor",
        "n_eval_episodes": "give eval_episodes to the constructor",
    }
    for name, value in names.items():
        raise ConfigError(f"learn({name}={value!r}): {explained.get(name, 'there is no such argument')}")


def _interrupt() -> None:
    """The second Ctrl-C: the workers are gone, the program, a notebook say, is not ours to end."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Trouble of the machine as an error of ours."""
    try:
        yield
    except OSError as error:
        if trouble := machine_trouble(error):
            raise ResourceError(trouble) from error
        raise


@contextlib.contextmanager
def _own_threads() -> Iterator[None]:
    """A run sets torch's threads; the program around it gets its own back."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
