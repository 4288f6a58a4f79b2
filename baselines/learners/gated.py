"""A gated recurrent unit over sequences of different lengths, for training.

Same equations, order of gates and parameters as ``torch.nn.GRU`` (Cho et al. 2014)

    r = sigmoid(W_r x + U_r h + b_r),    z = sigmoid(W_z x + U_z h + b_z),
    n = tanh(W_n x + b_n + r (U_n h + c_n)),    h' = (1 - z) n + z h,

with h = 0 before the first step. The gradient is written out: on one core this takes a fraction of
the time of ``torch.nn.GRU``, since products with weights are made for all steps at once where that
is possible, and nothing is computed for steps that a sequence does not have.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["remember"]

_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of torch.nn.GRU


def remember(module: torch.nn.Module, inputs: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
    """Return the memory after every step, (rows, hidden), from inputs (rows, inputs).

    Rows are the first steps of all sequences, then their second steps, and so on. ``counts`` says
    how many sequences have each step; it never rises, since the longest sequences come first.
    """
    weights = [module.get_parameter(f"{name}_l0") for name in _WEIGHTS]
    memories: torch.Tensor = _Gated.apply(inputs, counts, *weights)  # type: ignore[no-untyped-call]
    return memories


class _Gated(torch.autograd.Function):
    """Memories of all rows, and their gradient.

    Of all rows the gates r, z and n side by side, and ``proposed`` U_n h + c_n, are stored.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        counts: Sequence[int],
        weights: torch.Tensor,
        memory_weights: torch.Tensor,
        biases: torch.Tensor,
        memory_biases: torch.Tensor,
    ) -> torch.Tensor:
        """Return the memories, and store what the gradient needs."""
        hidden = memory_weights.shape[1]
        gates = torch.addmm(biases, inputs, weights.t())
        memories = inputs.new_empty(len(inputs), hidden)
        proposed = torch.empty_like(memories)
        turned, memory, begin = memory_weights.t(), inputs.new_zeros(counts[0], hidden), 0
        for count in counts:
            rows = slice(begin, begin + count)
            gate, memory = gates[rows], memory[:count]
            past = torch.addmm(memory_biases, memory, turned)
            gate[:, : 2 * hidden].add_(past[:, : 2 * hidden]).sigmoid_()
            proposed[rows] = past[:, 2 * hidden :]
            new = gate[:, 2 * hidden :]
            new.addcmul_(gate[:, :hidden], past[:, 2 * hidden :]).tanh_()
            memory = torch.lerp(new, memory, gate[:, hidden : 2 * hidden], out=memories[rows])
            begin += count
        ctx.counts = counts
        ctx.save_for_backward(inputs, memories, gates, proposed, weights, memory_weights)
        return memories

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Return the gradients of the inputs and of all weights and biases."""
        inputs, memories, gates, proposed, weights, memory_weights = ctx.saved_tensors
        hidden = memory_weights.shape[1]
        before = _before(memories, ctx.counts)
        reset, update, new = torch.split(gates, hidden, dim=1)
        of_new = (1.0 - update) * (1.0 - new * new)
        of_update = (before - new) * update * (1.0 - update)
        of_reset = proposed * reset * (1.0 - reset)
        # The gradients of W x + b and of U h + c, in the order of the gates.
        seen, past = torch.empty_like(gates), torch.empty_like(gates)
        end, later = len(gates), gradient[:0]
        for count in reversed(ctx.counts):
            rows = slice(end - count, end)
            memory = gradient[rows].clone()
            memory[: len(later)] += later
            step, third = seen[rows], seen[rows, 2 * hidden :]
            torch.mul(memory, of_new[rows], out=third)
            torch.mul(memory, of_update[rows], out=step[:, hidden : 2 * hidden])
            torch.mul(third, of_reset[rows], out=step[:, :hidden])
            past[rows, : 2 * hidden] = step[:, : 2 * hidden]
            torch.mul(third, reset[rows], out=past[rows, 2 * hidden :])
            later = torch.addmm(memory.mul_(update[rows]), past[rows], memory_weights)
            end -= count
        enters = seen @ weights if ctx.needs_input_grad[0] else None
        products = seen.t() @ inputs, past.t() @ before
        return enters, None, *products, seen.sum(0), past.sum(0)


def _before(memories: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
    """Return the memories before every step, in the order of rows."""
    parts, begin = [torch.zeros_like(memories[: counts[0]])], 0
    for count, following in itertools.pairwise(counts):
        parts.append(memories[begin : begin + following])
        begin += count
    return torch.cat(parts)
