"""Training of the multi-layer perceptron with torch.

Equal inputs and seeds give equal weights, bit for bit: every random number comes from one
generator, and training runs on one thread, since the order of floating-point sums depends on the
number of threads. One thread also keeps within any CPU quota, and for matrices of this size it is
the fastest choice.
torch's global state (threads, random numbers, gradient mode) is as before afterwards.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from justitia.predictor.features import FloatArray
from justitia.predictor.network import Network

BATCH_ROWS = 32
CHECK_STEPS = 10
"""Steps between two looks at the validation loss."""
PATIENCE_CHECKS = 25
"""Checks without improvement after which training stops."""
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1.0
DROPOUT = 0.3

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8

# torch keeps the number of threads per process: two trainings must not restore each other's value.
_one_thread_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Dense features (rows x features) and the standardised log costs to learn."""

    features: FloatArray
    targets: FloatArray


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A trained network and the number of steps after which it was at its best."""

    network: Network
    num_steps: int


def fit(
    rows: Rows,
    *,
    validation: Rows | None,
    widths: tuple[int, ...],
    max_steps: int,
    seed: int,
    on_step: Callable[[int], None],
) -> Fit:
    """Train a network of these widths.

    With ``validation`` training stops early and the best weights are kept; without it all
    ``max_steps`` are taken. ``on_step`` hears the number of steps taken, every `CHECK_STEPS`; what
    it raises ends the training.
    """
    with _own_torch_state():
        return _Trainer(rows, widths, seed).run(validation, max_steps, on_step)


@contextmanager
def _own_torch_state() -> Iterator[None]:
    with _one_thread_lock, torch.inference_mode(mode=False), torch.enable_grad():
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(num_threads)


class _Trainer:
    """AdamW over the layers' parameters.

    Written out because ``torch.optim`` imports torch's compiler on its first step, which takes
    longer than a whole training, and because ``torch.nn`` modules draw their first weights from the
    global generator.
    """

    def __init__(self, rows: Rows, widths: tuple[int, ...], seed: int) -> None:
        self._generator = torch.Generator(device="cpu").manual_seed(seed)
        self._features = _tensor(rows.features)
        self._targets = _tensor(rows.targets)
        shapes = list(pairwise(widths))
        first = [self._first_weight(*shape) for shape in shapes]
        # One flat tensor: an update is then a handful of operations, whatever the number of layers.
        self._flat = torch.cat([*first, torch.zeros(sum(widths[1:]), dtype=torch.float32)])
        self._flat.requires_grad_()
        self._sizes = [*(rows * columns for rows, columns in shapes), *widths[1:]]
        self._shapes = shapes
        self._mean = torch.zeros_like(self._flat)
        self._square = torch.zeros_like(self._flat)
        self._num_steps = 0

    def run(self, validation: Rows | None, max_steps: int, on_step: Callable[[int], None]) -> Fit:
        best, best_loss, best_steps = self._network(), float("inf"), 0
        for batch in self._batches(max_steps):
            self._step(batch)
            if self._num_steps % CHECK_STEPS == 0:
                on_step(self._num_steps)
                if validation is None:
                    continue
                loss = self._validation_loss(validation)
                if loss < best_loss:
                    best, best_loss, best_steps = self._network(), loss, self._num_steps
                elif self._num_steps - best_steps >= PATIENCE_CHECKS * CHECK_STEPS:
                    break
        if best_steps == 0:
            return Fit(network=self._network(), num_steps=self._num_steps)
        return Fit(network=best, num_steps=best_steps)

    def _first_weight(self, num_inputs: int, num_outputs: int) -> Tensor:
        weight = torch.empty(num_inputs, num_outputs, dtype=torch.float32, device="cpu")
        weight.normal_(0.0, (2.0 / num_inputs) ** 0.5, generator=self._generator)
        return weight.flatten()

    def _batches(self, max_steps: int) -> Iterator[Tensor]:
        num_rows = len(self._targets)
        while True:
            order = torch.randperm(num_rows, generator=self._generator, device="cpu")
            for start in range(0, num_rows, BATCH_ROWS):
                if self._num_steps >= max_steps:
                    return
                yield order[start : start + BATCH_ROWS]

    def _step(self, batch: Tensor) -> None:
        output = self._forward(self._features[batch], is_training=True)
        loss = functional.smooth_l1_loss(output, self._targets[batch])
        (gradient,) = torch.autograd.grad(loss, [self._flat])
        self._num_steps += 1
        with torch.no_grad():
            self._update(gradient)

    def _update(self, gradient: Tensor) -> None:
        self._mean.lerp_(gradient, 1 - _BETA_1)
        self._square.mul_(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        correction = 1 - _BETA_2**self._num_steps
        denominator = (self._square / correction).sqrt_().add_(_EPSILON)
        rate = LEARNING_RATE / (1 - _BETA_1**self._num_steps)
        self._flat.mul_(1 - LEARNING_RATE * WEIGHT_DECAY)
        self._flat.addcdiv_(self._mean, denominator, value=-rate)

    def _layers(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return weights and biases as views of the flat tensor."""
        parts = torch.split(self._flat, self._sizes)
        weights = [part.view(shape) for part, shape in zip(parts, self._shapes, strict=False)]
        return weights, list(parts[len(weights) :])

    def _forward(self, features: Tensor, *, is_training: bool) -> Tensor:
        hidden = features
        for index, (weight, bias) in enumerate(zip(*self._layers(), strict=True)):
            if index > 0:
                hidden = torch.relu(hidden)
                if is_training:
                    hidden = self._dropped(hidden)
            hidden = torch.addmm(bias, hidden, weight)
        return hidden.squeeze(1)

    def _dropped(self, hidden: Tensor) -> Tensor:
        kept = torch.rand(hidden.shape, generator=self._generator, device="cpu") >= DROPOUT
        return hidden * kept / (1 - DROPOUT)

    def _validation_loss(self, validation: Rows) -> float:
        with torch.no_grad():
            output = self._forward(_tensor(validation.features), is_training=False)
            return float(functional.smooth_l1_loss(output, _tensor(validation.targets)))

    def _network(self) -> Network:
        weights, biases = self._layers()
        return Network(
            weights=tuple(weight.detach().numpy().copy() for weight in weights),
            biases=tuple(bias.detach().numpy().copy() for bias in biases),
        )


def _tensor(array: FloatArray) -> Tensor:
    return torch.from_numpy(array)
