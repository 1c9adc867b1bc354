"""An update as one compiled graph: forward passes, gradients, optimisers and targets together.

Eager torch goes back to Python between any two kernels and writes every intermediate to memory. Compiled, a small
update takes three quarters of that time, with products in bfloat16 half of it (docs/tuning.md has figures). What runs
is decided before the first update and never changes within a run: it changes the last bits.
"""

from __future__ import annotations

import gc
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from unilab.errors import Stopped

Step = Callable[..., dict[str, Tensor]]
Precision = Literal["fp32", "bf16"]


def _quiet(*_: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Compute:
    """How updates are computed."""

    compiled: bool = False
    precision: Precision = "fp32"  # of matrix products; parameters, sums and losses are float32 in both
    say: Callable[[str], None] = _quiet  # what a user should know while it lasts
    stoppable: Callable[[], AbstractContextManager[None]] = nullcontext  # around compiling; may raise Stopped
    on_compiled: Callable[[], None] = _quiet  # after each compiling, within the update that had to wait for it
    compilers: int = 1  # C++ compilers at once, each a process of its own while it works

    def __str__(self) -> str:
        return f"{'compiled' if self.compiled else 'eager'}, {self.precision} products"


EAGER = Compute()

_EMPTY_KERNEL = """#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel() { using Vector = at::vec::Vectorized<float>; }
"""


def prepare(step: Step, compute: Compute, device: torch.device) -> Step:
    """``step`` as ``compute`` asks; called for the first time, it compiles.

    Args:
        step: changes tensors in place and returns scalars. What it reads beside its arguments stays where it is and,
            but for what tensors hold, as it is: nothing looks again. For arguments that are no tensors, and for other
            shapes, it is compiled anew.
        compute: how.
        device: of the tensors.

    Returns:
        The same function, faster. Where it cannot be compiled it runs as it is, and ``compute.say`` says why.
    """

    def in_precision(*args: Any) -> dict[str, Tensor]:
        with _autocast(compute.precision, device):
            return step(*args)

    return _Compiled(in_precision, compute, device) if compute.compiled else in_precision


class _Compiled:
    """A graph for each value of the last argument, made at its first call."""

    def __init__(self, step: Step, compute: Compute, device: torch.device) -> None:
        self._step = step
        self._compute = compute
        self._device = device
        self._graphs: dict[object, Step] = {}
        self._eager = False

    def __call__(self, *args: Any) -> dict[str, Tensor]:
        graph = self._graphs.get(args[-1])
        return self._first(*args) if graph is None else graph(*args)

    def _first(self, *args: Any) -> dict[str, Tensor]:
        if self._eager:
            return self._step(*args)
        if not self._graphs:
            self._compute.say("compiling the update: half a minute or more the first time, then it is in a cache")
        try:
            graph: Step = torch.compile(  # type: ignore[call-overload]  # its overloads leave one argument out
                self._step,
                fullgraph=True,
                dynamic=False,
                options={"guard_filter_fn": _of_arguments},
                isolate_recompiles=True,
            )
            with self._compute.stoppable(), _compiler(self._compute, self._device), _garbage_kept():
                metrics = graph(*args)
        except Stopped:
            raise
        except Exception as error:  # whatever a compiler may run into; nothing has been computed yet
            self._eager = True
            self._graphs.clear()
            self._compute.say(f"warning: the update is not compiled, it runs slower: {_cause(error)}")
            return self._step(*args)
        self._graphs[args[-1]] = graph
        self._compute.on_compiled()
        # What a compiler leaves stays: the collector of garbage need not go through it in the middle of a run.
        gc.collect()
        gc.freeze()
        return metrics


@contextmanager
def loading_compiler(device: torch.device) -> Iterator[None]:
    """Import torch's compiler meanwhile, in a thread of its own: for a block that waits for two seconds or more.

    The block itself imports nothing of torch, nor runs what might: modules that two threads import in opposite orders
    meet half made. Whatever hinders the import hinders compiling too, which says so. For a CPU the C++ compiler gets
    ready as well, which goes on behind the block.
    """

    def load() -> None:
        with suppress(Exception):
            import torch._dynamo
            import torch._inductor.codegen.cpp
            import torch._inductor.compile_fx
            import torch._inductor.select_algorithm
            import torch.utils.cpp_extension  # noqa: F401

            if device.type == "cpu":
                threading.Thread(target=_warm_up, name="c++", daemon=True).start()

    loader = threading.Thread(target=load, name="compiler", daemon=True)
    loader.start()
    try:
        yield
    finally:
        loader.join()


def _warm_up() -> None:
    """Build an empty kernel: torch looks for vector instructions and precompiles its headers before the first one.

    On a fresh machine that takes 14 s of a compiler, in which the update can be traced. Compiling waits for the rest.
    """
    with suppress(Exception):  # as for the import
        from torch._inductor.codecache import CppPythonBindingsCodeCache

        CppPythonBindingsCodeCache.load_pybinding([], _EMPTY_KERNEL)


def no_compiler(device: torch.device) -> str | None:
    """Why updates cannot be compiled on this machine; None where they can."""
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "there is no C++ compiler (g++ or clang++)"
    return None


def fast_bf16(device: torch.device) -> bool:
    """Whether products of bfloat16 have instructions of their own here."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _autocast(precision: Precision, device: torch.device) -> Any:
    # Without its cache of weights: they change within an update.
    if precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
    return nullcontext()


@contextmanager
def _compiler(compute: Compute, device: torch.device) -> Iterator[None]:
    """Torch's compiler, set so that the same program always gives the same code.

    No pool of compile workers is left behind: C++ compilers are started by threads, and a GPU's kernels, which would
    have such a pool, are compiled one by one. On the CPU, bfloat16 products come from inductor's own template, which
    leaves activation and casts in the product's loop (1.35 times as fast as the library on two threads, slower than it
    in float32); the choice is not left to a measurement, which would change the bits from run to run.
    """
    import torch._dynamo.config as dynamo  # heavy: only where it is used
    import torch._inductor.config as inductor
    from torch._inductor import select_algorithm

    settings: dict[str, Any] = {"compile_threads": compute.compilers if device.type == "cpu" else 1}
    if device.type == "cpu" and compute.precision == "bf16":
        settings |= {"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP,ATEN"}
        select_algorithm.add_preprocessing_fn(_template_first)
    try:
        with dynamo.patch(trace_autograd_ops=True), inductor.patch(settings):
            yield
    except BaseException:
        _forget_queued()
        raise
    finally:
        select_algorithm.clear_preprocessing_fns(clear_defaults=False)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Look for no garbage: what a compiler builds lives as long as it works, and each look goes through all of it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _forget_queued() -> None:
    """Drop the C++ files that wait for a compiler: the end of the process would wait for every one of them."""
    from torch._inductor.async_compile import AsyncCompile

    if AsyncCompile.pool.cache_info().currsize:  # it is made when it is asked for
        AsyncCompile.pool().shutdown(wait=False, cancel_futures=True)
        AsyncCompile.pool.cache_clear()


def _template_first(choices: list[Any]) -> list[Any]:
    return [choice for choice in choices if "CppTemplate" in type(choice).__name__][:1] or choices[:1]


def _of_arguments(assumptions: Sequence[Any]) -> list[bool]:
    """Which of the compiler's assumptions are checked at each call: those on the arguments.

    All else that a step reads keeps its place, type and shape while the step lives, and a graph belongs to one step.
    """
    return [assumption.name.startswith("args") for assumption in assumptions]


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    first, *others = str(error).strip().splitlines() or [""]
    # Torch wraps what its compiler ran into: "backend='inductor' raised:", the error in the next line.
    cause = " ".join((first, *others[:1])) if first.endswith(":") else first
    return f"{type(error).__name__}: {cause}"
