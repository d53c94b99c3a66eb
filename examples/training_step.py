"""Scenario 8: a training step as a model: forward pass, loss, gradients, and the update by SGD or Adam.

The parameters and the state of the optimizer are inputs, and outputs after the update. ONNX Runtime then trains the
network without PyTorch: it feeds the outputs of each step to the next one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from scenario import Row, summary, table
from torch import nn
from torch.nn import functional as F

import opbridge
from opbridge.capture import Capture
from opbridge.runtime import run

STEPS = 50
Tensors = list[torch.Tensor]


# --8<-- [start:step]
class TrainingStep(nn.Module):
    """Returns the loss, the updated parameters and the updated state of the optimizer."""

    def __init__(
        self, network: nn.Module, update: Callable[[Tensors, Tensors, Tensors], tuple[Tensors, Tensors]]
    ) -> None:
        super().__init__()
        self.network = network
        self.names = [name for name, _ in network.named_parameters()]
        self.update = update

    def forward(
        self, x: torch.Tensor, target: torch.Tensor, parameters: Tensors, state: Tensors
    ) -> tuple[torch.Tensor, Tensors, Tensors]:
        def loss_of(named: dict[str, torch.Tensor]) -> torch.Tensor:
            scores = torch.func.functional_call(self.network, named, (x,))
            return F.cross_entropy(scores, target)

        named = dict(zip(self.names, parameters, strict=True))
        gradients, loss = torch.func.grad_and_value(loss_of)(named)
        return loss, *self.update(parameters, list(gradients.values()), state)


def sgd(parameters: Tensors, gradients: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
    """SGD with momentum, which is the state."""
    momenta = [0.9 * before + gradient for before, gradient in zip(state, gradients, strict=True)]
    return [p - 0.05 * momentum for p, momentum in zip(parameters, momenta, strict=True)], momenta


def adam(parameters: Tensors, gradients: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
    """Adam. The state is the number of steps, then the means of the gradients and of their squares."""
    count, means, squares = state[0] + 1, state[1::2], state[2::2]
    updated, after = [], [count]
    for parameter, gradient, mean, square in zip(parameters, gradients, means, squares, strict=True):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient * gradient
        scale = torch.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        updated.append(parameter - 0.01 * scale * mean / (square.sqrt() + 1e-8))
        after += [mean, square]
    return updated, after


# --8<-- [end:step]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Images with a bright band of rows; the class says which of three bands it is. The batches differ in size."""
    torch.manual_seed(1)
    made = []
    for step in range(STEPS):
        images = torch.randn(8 + step % 5, 1, 8, 8)
        classes = torch.randint(0, 3, images.shape[:1])
        for image, label in zip(images, classes, strict=True):
            image[:, 3 * label : 3 * label + 2] += 2
        made.append((images, classes))
    return made


def optimizer_of(name: str, parameters: Tensors) -> tuple[torch.optim.Optimizer, Tensors]:
    """PyTorch's own optimizer, and the state with which the exported one begins."""
    if name == "SGD":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9), [torch.zeros_like(p) for p in parameters]
    zeros = [torch.zeros_like(p) for p in parameters for _ in range(2)]
    return torch.optim.Adam(parameters, lr=0.01), [torch.tensor(0.0), *zeros]


# --8<-- [start:train]
def train(name: str, capture: Capture) -> Row:
    """Trains in ONNX Runtime, and the same network in PyTorch; compares the losses and the trained parameters."""
    step = TrainingStep(network(), {"SGD": sgd, "Adam": adam}[name])
    model = network()
    optimizer, state = optimizer_of(name, list(model.parameters()))
    parameters = [p.detach().clone() for p in model.parameters()]
    x, target = batches()[0]
    dynamic = {"x": {0: "batch"}, "target": {0: "batch"}, "parameters": None, "state": None}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.onnx"
        start = time.perf_counter()
        opbridge.export(step, (x, target, parameters, state), path, capture=capture, dynamic_shapes=dynamic)
        seconds = time.perf_counter() - start
        operators = [node.op_type for node in onnx.load(path).graph.node]
        session = opbridge.session(path)
    names = [value.name for value in session.get_inputs()]
    losses, expected = [], []
    for x, target in batches():
        loss, *results = run(session, dict(zip(names, (x, target, *parameters, *state), strict=True)))
        parameters, state = results[: len(parameters)], results[len(parameters) :]
        losses.append(loss.item())

        optimizer.zero_grad()
        of_batch = F.cross_entropy(model(x), target)
        of_batch.backward()
        optimizer.step()
        expected.append(of_batch.item())
    assert losses[-1] < 0.1 * losses[0], f"the loss went from {losses[0]} to {losses[-1]}"
    assert np.allclose(losses, expected, rtol=1e-3, atol=1e-4)
    difference = scale = 0.0
    for ours, theirs in zip(parameters, model.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)
        difference = max(difference, (ours - theirs).abs().max().item())
        scale = max(scale, theirs.abs().max().item())
    scenario = f"{STEPS} steps by {name}, {capture}"
    return Row(scenario, "none missing", summary(operators), difference, difference / scale, seconds)


# --8<-- [end:train]


def rows() -> list[Row]:
    captures: tuple[Capture, ...] = ("export", "trace")
    return [train(name, capture) for name in ("SGD", "Adam") for capture in captures]


if __name__ == "__main__":
    print(table(rows()))
