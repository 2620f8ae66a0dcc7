"""The token-and-duration transducer's loss, by a forward and backward pass over the lattice in numba."""

import math
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

NEVER = -1e30


@numba.njit(cache=True)
def _add(total: float, value: float) -> float:
    """log(exp(total) + exp(value))."""
    if value <= NEVER / 2:
        return total
    if total <= NEVER / 2:
        return value
    high, low = (total, value) if total > value else (value, total)
    return high + math.log1p(math.exp(low - high))


@numba.njit(cache=True)
def _lattice(blank, label, duration, frames, tokens, durations, by_blank, by_label, by_duration, losses):  # type: ignore[no-untyped-def]
    """Fills in each loss, and how often an utterance's paths take each arc: blank or label, by duration."""
    for b in range(len(frames)):
        end, last = frames[b], tokens[b]
        forward = np.full((end, last + 1), NEVER)
        backward = np.full((end + 1, last + 1), NEVER)
        forward[0, 0] = 0.0
        for t in range(end):
            for u in range(last + 1):
                for i in range(len(durations)):
                    before = t - durations[i]
                    if before < 0:
                        continue
                    if durations[i] > 0:
                        arc = blank[b, before, u] + duration[b, before, u, i]
                        forward[t, u] = _add(forward[t, u], forward[before, u] + arc)
                    if u > 0:
                        arc = label[b, before, u - 1] + duration[b, before, u - 1, i]
                        forward[t, u] = _add(forward[t, u], forward[before, u - 1] + arc)
        backward[end, last] = 0.0
        for t in range(end - 1, -1, -1):
            for u in range(last, -1, -1):
                for i in range(len(durations)):
                    after = t + durations[i]
                    if after > end:
                        continue
                    if durations[i] > 0:
                        arc = blank[b, t, u] + duration[b, t, u, i]
                        backward[t, u] = _add(backward[t, u], backward[after, u] + arc)
                    if u < last and after < end:
                        arc = label[b, t, u] + duration[b, t, u, i]
                        backward[t, u] = _add(backward[t, u], backward[after, u + 1] + arc)
        total = backward[0, 0]
        if total <= NEVER / 2:
            continue
        losses[b] = -total
        for t in range(end):
            for u in range(last + 1):
                if forward[t, u] <= NEVER / 2:
                    continue
                for i in range(len(durations)):
                    after = t + durations[i]
                    if after > end:
                        continue
                    here = forward[t, u] + duration[b, t, u, i] - total
                    if durations[i] > 0 and backward[after, u] > NEVER / 2:
                        share = math.exp(here + blank[b, t, u] + backward[after, u])
                        by_blank[b, t, u] += share
                        by_duration[b, t, u, i] += share
                    if u < last and after < end and backward[after, u + 1] > NEVER / 2:
                        share = math.exp(here + label[b, t, u] + backward[after, u + 1])
                        by_label[b, t, u] += share
                        by_duration[b, t, u, i] += share


class _Tdt(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        logits: Tensor,
        targets: Tensor,
        frames: Tensor,
        tokens: Tensor,
        durations: tuple[int, ...],
        sigma: float,
    ) -> Tensor:
        blank = logits.shape[-1] - len(durations) - 1
        batch, times, places, _ = logits.shape
        symbol = torch.log_softmax(logits[..., : blank + 1], -1)
        length = torch.log_softmax(logits[..., blank + 1 :], -1)
        following = functional.pad(targets, (0, 1))[:, None, :].expand(batch, times, places)[..., None]
        blank_score = symbol[..., blank] - sigma
        label_score = symbol.gather(-1, following)[..., 0] - sigma
        by_blank, by_label = (torch.zeros(batch, times, places) for _ in range(2))
        by_duration = torch.zeros(batch, times, places, len(durations))
        losses = torch.zeros(batch)
        arrays = (blank_score, label_score, length, frames, tokens)
        _lattice(
            *(array.contiguous().numpy() for array in arrays),
            np.array(durations),
            by_blank.numpy(),
            by_label.numpy(),
            by_duration.numpy(),
            losses.numpy(),
        )
        visits = (by_blank + by_label)[..., None]
        gradient = torch.empty_like(logits)
        chosen = symbol.exp_().mul_(visits)
        chosen[..., blank] -= by_blank
        chosen.scatter_add_(-1, following, -by_label[..., None])
        gradient[..., : blank + 1] = chosen
        gradient[..., blank + 1 :] = length.exp() * visits - by_duration
        context.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(context: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = context.saved_tensors
        return gradient * upstream[0][:, None, None, None], None, None, None, None, None


def tdt_loss(
    logits: Tensor,
    targets: Tensor,
    frames: Tensor,
    tokens: Tensor,
    durations: tuple[int, ...],
    sigma: float = 0.02,
) -> Tensor:
    """[batch]: minus the log probability of each utterance's tokens; 0 where no path exists.

    `logits` is [batch, frames, tokens + 1, vocabulary + 1 + durations], float32; `targets` [batch, tokens];
    `frames` and `tokens` are their lengths; `sigma` is taken off every symbol's score (undernormalisation).
    """
    return _Tdt.apply(logits, targets, frames, tokens, durations, sigma)  # type: ignore[no-untyped-call, no-any-return]
