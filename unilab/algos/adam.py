"""Adam as one step, on gradients handed over rather than left in ``.grad``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from unilab.algos.base import LearnerConfig
from unilab.algos.schedule import LearningRate

_EPSILON = 1e-8


class Adam(nn.Module):
    """The numbers of ``torch.optim.AdamW(fused=True)``, without its bookkeeping.

    Gradients are computed of ``parameters`` only (the actor's loss leaves none with the critics), and there
    is nothing to zero: that saves 6 % of a SAC update of 2 x 256 units on one core. The moments are buffers,
    so they are saved and restored as a network's are.

    Args:
        parameters: changed in place, so their data may lie in a block that is published.
        rate: step size, which may change from update to update.
        betas: decay of the first and of the second moment.
        weight_decay: share of ``rate`` by which parameters shrink at each step, apart from the gradient; 0: none.
        max_grad_norm: gradients longer than this, all parameters taken together, are scaled down to it; 0: never.

    Source: Kingma and Ba 2015, arXiv:1412.6980; Loshchilov and Hutter 2019, arXiv:1711.05101 (decay).
    """

    steps: Tensor  # [] float32 as the kernel wants it; a count that no longer rises at 2^24 corrects no bias

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: LearningRate,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        max_grad_norm: float = 0.0,
    ) -> None:
        super().__init__()
        self._targets: list[Tensor] = list(parameters)  # not registered: they are the network's to save
        self._rate = rate
        self._betas = betas
        self._weight_decay = weight_decay
        self._max_grad_norm = max_grad_norm
        self.register_buffer("steps", torch.zeros((), device=self._targets[0].device))
        for i, parameter in enumerate(self._targets):
            self.register_buffer(f"first_{i}", torch.zeros_like(parameter))
            self.register_buffer(f"second_{i}", torch.zeros_like(parameter))
        count = range(len(self._targets))
        self._first: list[Tensor] = [self.get_buffer(f"first_{i}") for i in count]
        self._second: list[Tensor] = [self.get_buffer(f"second_{i}") for i in count]

    def descend(self, loss: Tensor) -> None:
        """One step down the gradient of ``loss``, [] float32, which every parameter must have part in."""
        gradients = torch.autograd.grad(loss, self._targets)
        with torch.no_grad():
            if self._max_grad_norm:
                gradients = _clipped(gradients, self._max_grad_norm)
            self.steps += 1
            # A compiler fuses plain operations into the update; run one by one they take ten times the kernel's time.
            if torch.compiler.is_compiling():
                self._spelled_out(gradients)
            else:
                self._fused(gradients)

    def _fused(self, gradients: Sequence[Tensor]) -> None:
        torch._fused_adamw_(
            self._targets,
            # The kernel walks memory: a transposed gradient would be read in the wrong order.
            [gradient.contiguous() for gradient in gradients],
            self._first,
            self._second,
            [],
            [self.steps] * len(self._targets),
            lr=self._rate.value,
            beta1=self._betas[0],
            beta2=self._betas[1],
            weight_decay=self._weight_decay,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def _spelled_out(self, gradients: Sequence[Tensor]) -> None:
        beta1, beta2 = self._betas
        # In float64: 1 - 0.999 is off in the fifth digit in float32. By exp and not by expm1, which the compiler would
        # work out again for every few elements of every parameter.
        steps = self.steps.double()
        rate = self._rate.tensor
        step_size = (rate / (1.0 - torch.exp(steps * math.log(beta1)))).float() if beta1 else rate.float()
        correction = (
            torch.rsqrt(1.0 - torch.exp(steps * math.log(beta2))).float() if beta2 else torch.ones_like(step_size)
        )
        shrink = (1.0 - rate * self._weight_decay).float()
        for parameter, gradient, first, second in zip(self._targets, gradients, self._first, self._second, strict=True):
            first.lerp_(gradient, 1.0 - beta1)
            second.mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
            if self._weight_decay:
                parameter.mul_(shrink)
            parameter.sub_(step_size * first / (second.sqrt() * correction + _EPSILON))


def make_adam(parameters: Iterable[nn.Parameter], cfg: LearnerConfig, rate: LearningRate) -> Adam:
    """The optimiser of a network, as the config describes it."""
    return Adam(
        parameters,
        rate,
        betas=cfg.adam_betas,
        weight_decay=cfg.weight_decay,
        max_grad_norm=cfg.max_grad_norm,
    )


def _clipped(gradients: Sequence[Tensor], longest: float) -> tuple[Tensor, ...]:
    """Scaled together so that their common norm is at most ``longest``; as ``clip_grad_norm_`` does it."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    scale = (longest / (norm + 1e-6)).clamp(max=1.0)
    return tuple(gradient * scale for gradient in gradients)
