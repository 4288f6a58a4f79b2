"""A gated recurrent unit over sequences of different lengths, for training.

Same equations, order of gates and parameters as ``torch.nn.GRU`` (Cho et al. 2014)

    r = sigmoid(W_r x + U_r h + b_r),    z = sigmoid(W_z x + U_z h + b_z),
    n = tanh(W_n x + b_n + r (U_n h + c_n)),    h' = (1 - z) n + z h,

with h = 0 before the first step. The gradient is written out: on one core this takes a fraction of
the time of ``torch.nn.GRU``, since products with weights are made for all steps at once where that
is possible, and nothing is computed for steps that a sequence does not have.
"""

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
    memories: torch.Tensor = _Gated.apply(inputs, list(counts), *weights)  # type: ignore[no-untyped-call]
    return memories


class _Gated(torch.autograd.Function):
    """Memories of all rows, and their gradient.

    Of all rows r and z side by side, n, and ``proposed`` = U_n h + c_n are stored. What belongs to
    one step stays in the processor's cache while everything about this step is computed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        counts: list[int],
        weights: torch.Tensor,
        memory_weights: torch.Tensor,
        biases: torch.Tensor,
        memory_biases: torch.Tensor,
    ) -> torch.Tensor:
        """Return the memories, and store what the gradient needs."""
        hidden = memory_weights.shape[1]
        sizes = [2 * hidden, hidden]
        to_gates, to_new = (part.t() for part in torch.split(weights, sizes))
        back_to_gates, back_to_new = (part.t() for part in torch.split(memory_weights, sizes))
        of_gates, of_new = torch.split(biases, sizes)
        of_gates_back, of_proposed = torch.split(memory_biases, sizes)
        gates = torch.addmm(of_gates + of_gates_back, inputs, to_gates)
        news = torch.addmm(of_new, inputs, to_new)
        memories, proposed = torch.empty_like(news), torch.empty_like(news)
        arrays = gates, *torch.split(gates, hidden, 1), news, proposed, memories
        memory = inputs.new_zeros(counts[0], hidden)
        for gate, reset, update, new, past, after in _by_step(arrays, counts):
            memory = memory[: len(gate)]
            gate.addmm_(memory, back_to_gates).sigmoid_()
            torch.addmm(of_proposed, memory, back_to_new, out=past)
            new.addcmul_(reset, past).tanh_()
            memory = torch.lerp(new, memory, update, out=after)
        ctx.counts = counts
        ctx.save_for_backward(inputs, memories, gates, news, proposed, weights, memory_weights)
        return memories

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Return the gradients of the inputs and of all weights and biases."""
        inputs, memories, gates, news, proposed, weights, memory_weights = ctx.saved_tensors
        hidden = memory_weights.shape[1]
        sizes = [2 * hidden, hidden]
        back_to_gates, back_to_new = torch.split(memory_weights, sizes)
        before = _before(memories, ctx.counts)
        # Gradients of the arguments of sigmoid and tanh, and of ``proposed``.
        of_gates, of_news, of_proposed = (
            torch.empty_like(values) for values in (gates, news, proposed)
        )
        given = gradient, *torch.split(gates, hidden, 1), news, proposed, before
        made = of_gates, *torch.split(of_gates, hidden, 1), of_news, of_proposed
        later = gradient[:0]
        for step in reversed(_by_step((*given, *made), ctx.counts)):
            above, reset, update, new, past, memory = step[: len(given)]
            of_gate, of_reset, of_update, of_new, of_past = step[len(given) :]
            whole = above.clone()
            whole[: len(later)] += later
            kept = whole * update
            # The derivative of sigmoid is s - s s, that of tanh 1 - t t.
            torch.sub(memory, new, out=of_update).mul_(kept)
            of_update.addcmul_(of_update, update, value=-1.0)
            torch.sub(whole, kept, out=of_new)
            of_new.addcmul_(of_new, new.square(), value=-1.0)
            torch.mul(of_new, reset, out=of_past)
            torch.mul(of_past, past, out=of_reset)
            of_reset.addcmul_(of_reset, reset, value=-1.0)
            later = kept.addmm_(of_gate, back_to_gates).addmm_(of_past, back_to_new)
        enters = None
        if ctx.needs_input_grad[0]:
            to_gates, to_new = torch.split(weights, sizes)
            enters = torch.mm(of_gates, to_gates).addmm_(of_news, to_new)
        seen, back = (of_gates, of_news), (of_gates, of_proposed)
        products = [
            torch.cat([part.t() @ values for part in parts])
            for parts, values in ((seen, inputs), (back, before))
        ]
        sums = [torch.cat([part.sum(0) for part in parts]) for parts in (seen, back)]
        return enters, None, *products, *sums


def _by_step(arrays: Sequence[torch.Tensor], counts: list[int]) -> list[tuple[torch.Tensor, ...]]:
    """Return the rows of every step of some arrays."""
    return list(zip(*(torch.split(values, counts) for values in arrays), strict=True))


def _before(memories: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """Return the memories before every step, in the order of rows."""
    earlier = zip(torch.split(memories, counts), counts[1:], strict=False)
    nothing = torch.zeros_like(memories[: counts[0]])
    return torch.cat([nothing, *(memory[:count] for memory, count in earlier)])
