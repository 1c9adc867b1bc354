"""The main loop."""

from __future__ import annotations

from unilab.config import TrainConfig
from unilab.hooks import Hooks
from unilab.resume import Resume
from unilab.rundir import RunSummary
from unilab.runtime import open_runtime


def train(cfg: TrainConfig, resume: Resume | None = None, hooks: Hooks | None = None) -> RunSummary:
    """Run ticks until ``cfg.total_steps``: one batch, its updates, one weight publication each.

    Raises:
        UnilabError: the run ended early; what was learnt is saved and ``summary.json`` says why.
    """
    with open_runtime(cfg, resume, hooks) as rt:  # shared memory, workers, telemetry; closed in reverse order
        tick = rt.start()  # fresh: prefill, version 0, chunk 1 granted; resumed: where it stood

        while tick < rt.total_ticks and not rt.done:
            tick += 1
            with rt.trace.span("tick", tick=tick):
                batch = rt.take(tick)  # raises WorkerDied instead of hanging

                # From here env stepping and the next pack overlap with the updates below: the slot comes before the
                # grant, because the collector packs. The last tick grants nothing: the run ends with the env steps
                # that were asked for.
                if tick < rt.total_ticks:
                    rt.pipeline.prefetch(tick + 1)
                    rt.grant(tick + 1)

                for minibatch in batch.split(cfg.replay.batch_size):
                    with rt.trace.span("update", tick=tick):
                        rt.update(minibatch)

                rt.pipeline.release(batch)  # its slot may be overwritten from now on
                rt.learnt(tick)
                rt.publish(tick)

            rt.tick_done(tick, batch)
            if rt.due_save(tick):
                rt.save(tick)  # parks the collector first
        rt.finish(tick)
    return rt.summary
