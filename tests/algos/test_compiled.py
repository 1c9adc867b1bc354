"""The compiled update computes what the eager one does. Each case compiles for half a minute; caches make it less."""

import dataclasses
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest
import torch
from toy_learners import ALGOS, SMALL, env_spec, flat, learner, minibatch, returns, same_state

from unilab.algos import compiled
from unilab.algos.compiled import Compute, prepare
from unilab.nets.batch_norm import BatchRenorm
from unilab.weights import FlatState

CFG = dataclasses.replace(SMALL, norm_obs=True, norm_reward=True, max_grad_norm=1.0, lr_schedule="linear")
DELAYED = dataclasses.replace(CFG, policy_delay=2)  # two graphs: with an actor step and without
SHALLOW = dataclasses.replace(CFG, hidden=(16,))  # compiles in half of the time
CPU = torch.device("cpu")
CASES = [*((algo, {}) for algo in ALGOS), ("td3", {"privileged_encoder": (8, 2)})]
compiles = pytest.mark.skipif(compiled.no_compiler(CPU) is not None, reason="there is no C++ compiler")


def trained(algo, compute, updates=4, **changes):
    env = env_spec(critic_dim=7 if changes else 0)
    cfg = dataclasses.replace(DELAYED if algo == "sac" else SHALLOW, **changes)
    made = learner(algo, cfg, env=env, compute=compute)
    metrics = []
    for seed in range(updates):
        rows = minibatch(seed, rows=64, env=env)
        made.observe(rows.obs, rows.critic_obs if changes else None)
        made.observe_returns(returns(seed))
        metrics.append(made.update(rows))
    return made, metrics


@compiles
@pytest.mark.parametrize(("algo", "changes"), CASES)
def test_a_compiled_update_is_the_eager_one_to_rounding(algo, changes):
    said: list[str] = []
    one, metrics = trained(algo, Compute(compiled=True, say=said.append), **changes)
    eager, expected = trained(algo, Compute(), **changes)

    assert said == ["compiling the update: half a minute or more the first time, then it is in a cache"]
    got, wanted = flat(one.state_dict()), flat(eager.state_dict())
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        # Adam's second moment of a gradient near 0 divides rounding by rounding.
        torch.testing.assert_close(got[name], value, rtol=1e-3, atol=2e-5, msg=name)
    for ours, theirs in zip(metrics, expected, strict=True):
        assert {k: v.item() for k, v in ours.items()} == pytest.approx({k: v.item() for k, v in theirs.items()}, 1e-4)


@compiles
@pytest.mark.parametrize("algo", ["sac", "crossq"])  # what a compiler makes of the others is made in the same way
def test_compiled_again_it_gives_the_same_bits(algo):
    one, same = (trained(algo, Compute(compiled=True))[0] for _ in range(2))

    assert same_state(one.state_dict(), same.state_dict())


def test_products_in_bfloat16_differ_by_their_rounding_and_parameters_stay_float32():
    eager, exact = trained("sac", Compute(), 2)
    rounded, rough = trained("sac", Compute(precision="bf16"), 2)

    assert {tensor.dtype for tensor in rounded.policy_module.parameters()} == {torch.float32}
    assert not same_state(eager.state_dict(), rounded.state_dict())
    for name in exact[0]:
        assert rough[0][name].dtype == torch.float32
        assert rough[0][name].item() == pytest.approx(exact[0][name].item(), rel=0.02, abs=0.02)


@compiles
def test_steps_of_the_same_code_keep_their_own_tensors_and_other_shapes_are_compiled_anew():
    def adding(total):
        def step(amount, _):
            total.add_(amount.sum())
            return {"total": total.clone()}

        return prepare(step, Compute(compiled=True), CPU)

    one, other = adding(torch.zeros(())), adding(torch.full((), 100.0))

    got = [step(torch.ones(rows), True)["total"].item() for rows in (2, 3) for step in (one, other)]

    assert got == [2.0, 102.0, 5.0, 105.0]


@compiles
def test_a_module_whose_state_is_published_is_compiled_with_its_counter():
    said: list[str] = []
    net = BatchRenorm((1, 64), momentum=0.9, warmup=None)
    FlatState(net)  # as in a run: all in one buffer, int64 beside float32

    def step(rows, _):
        loss = net.learn(rows).square().mean()
        for parameter, slope in zip(net.parameters(), torch.autograd.grad(loss, [*net.parameters()]), strict=True):
            parameter.detach().sub_(slope)
        return {"loss": loss.detach()}

    ready = prepare(step, Compute(compiled=True, say=said.append), CPU)
    for _ in range(2):
        ready(torch.ones(8, 64), True)

    assert len(said) == 1, said
    assert net.batches.item() == 2
    assert torch.allclose(net.mean, torch.full((1, 64), 1.0 - 0.9**2))


def unsupported(total):
    torch._dynamo.graph_break()
    return total


def test_what_cannot_be_compiled_runs_as_it_is_and_says_why():
    said: list[str] = []
    total = torch.zeros(())

    def step(amount, _):
        total.add_(amount)
        return {"total": unsupported(total).clone()}

    ready = prepare(step, Compute(compiled=True, say=said.append), CPU)

    assert [ready(torch.ones(()), acts)["total"].item() for acts in (True, False, True)] == [1.0, 2.0, 3.0]
    assert said[1].startswith("warning: the update is not compiled, it runs slower: ")
    assert len(said) == 2


def test_the_cause_is_told_where_torch_has_a_line_before_it():
    from torch._dynamo.exc import BackendCompilerFailed

    said: list[str] = []
    ready = prepare(lambda x, _: {"y": x.sin()}, Compute(compiled=True, say=said.append), CPU)

    def failing(*_, **__):
        raise BackendCompilerFailed(failing, AssertionError("views with different dtypes"), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda *_, **__: failing)
        assert torch.equal(ready(torch.ones(3), True)["y"], torch.ones(3).sin())

    assert said[1].endswith("raised: AssertionError: views with different dtypes")


def test_a_compiler_that_fails_costs_speed_and_not_the_run(tmp_path, monkeypatch):
    import torch._inductor.config as inductor

    said: list[str] = []
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    ready = prepare(lambda x, _: {"y": (x * 2.0).sin()}, Compute(compiled=True, say=said.append), CPU)

    with inductor.patch({"cpp.cxx": ("/no/such/compiler",), "force_disable_caches": True}):
        y = ready(torch.ones(3), True)["y"]

    assert torch.equal(y, torch.full((3,), 2.0).sin())
    assert said[1].startswith("warning: the update is not compiled, it runs slower: ")
    assert "/no/such/compiler" in said[1]


def test_there_is_no_compiler_without_a_program_that_is_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "C++ compiler" in str(compiled.no_compiler(CPU))
    assert compiled.no_compiler(torch.device("cuda")) is None


def test_the_compiler_is_imported_while_something_else_lasts():
    code = (
        "import sys, torch\n"
        "from unilab.algos.compiled import loading_compiler\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "with loading_compiler(torch.device('cuda')):\n"
        "    pass\n"
        "assert {'torch._dynamo', 'torch._inductor.compile_fx', 'torch._inductor.codegen.cpp'} <= sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@compiles
def test_the_cpp_compiler_gets_ready_behind_the_import(tmp_path):
    code = (
        "import sys, threading, torch\n"
        "from unilab.algos.compiled import loading_compiler\n"
        "with loading_compiler(torch.device('cpu')):\n"
        "    pass\n"
        "loaded = set(sys.modules)\n"
        "[ready] = [thread for thread in threading.enumerate() if thread.name == 'c++']\n"
        "assert ready.daemon, 'a run that ends early would wait for it'\n"
        "ready.join(120)\n"
        # What this thread imports, the compiler might import at that moment too.
        "print(*sorted(name for name in set(sys.modules) - loaded if not name.endswith('.kernel')))\n"
    )
    cache = tmp_path / "cache"
    environ = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache)}

    run = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True)

    assert run.stdout.split() == []
    assert list(cache.rglob("*.main.so")), "the empty kernel was not built"


def test_a_cpp_compiler_that_fails_is_not_the_loaders_business():
    import torch._inductor.config as inductor
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    with inductor.patch({"cpp.cxx": ("/no/such/compiler",)}):
        with pytest.raises(Exception, match="/no/such/compiler"):
            CppPythonBindingsCodeCache.load_pybinding([], compiled._EMPTY_KERNEL)
        compiled._warm_up()


def test_a_compiler_that_cannot_be_imported_is_not_the_loaders_business(monkeypatch):
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # as where the import fails

    with compiled.loading_compiler(CPU):
        pass

    assert raised == []


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_garbage_is_looked_for_as_before_once_the_update_is_compiled(monkeypatch, collecting, fails):
    seen: list[bool] = []

    def graph(x: torch.Tensor, _: bool) -> dict[str, torch.Tensor]:
        seen.append(gc.isenabled())
        if fails:
            raise TypeError("cannot be compiled")
        return {"y": x}

    monkeypatch.setattr(torch, "compile", lambda *_, **__: graph)
    try:
        if not collecting:
            gc.disable()
        prepare(lambda x, _: {"y": x}, Compute(compiled=True), CPU)(torch.ones(2), True)
        after = gc.isenabled()
    finally:
        gc.enable()

    assert seen == [False]
    assert after == collecting


def test_what_is_broken_off_leaves_no_compiler_queued():
    import torch._inductor.config as inductor
    from torch._inductor.async_compile import AsyncCompile

    ran: list[int] = []
    running: list[Future[bool]] = []
    queued: list[Future[None]] = []
    busy, go_on = threading.Event(), threading.Event()

    def work() -> bool:
        busy.set()
        return go_on.wait(60)

    def broken_off() -> None:
        with compiled._compiler(Compute(compiled=True, compilers=2), CPU):
            assert inductor.compile_threads == 2
            pool = AsyncCompile.pool()
            running.extend(pool.submit(work) for _ in range(2))
            queued.extend(pool.submit(ran.append, i) for i in range(5))
            busy.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    go_on.set()

    assert all(future.cancelled() for future in queued)
    assert running[0].result(60)
    assert ran == []
    assert AsyncCompile.pool.cache_info().currsize == 0
