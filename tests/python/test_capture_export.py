"""capture="export": behaviour that is specific to torch.export."""

import pytest
import torch
from torch import nn

import opbridge
from opbridge.capture import capture


def test_an_exported_program_is_taken_as_it_is():
    model, args = nn.Sequential(nn.Linear(4, 2), nn.ReLU()).eval(), (torch.rand(3, 4),)
    exported = torch.export.export(model, args)
    assert str(capture(exported).graph) == str(capture(model, args).graph)


def test_a_functional_program_writes_back_what_it_changes():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return x * self.count

    exported = torch.export.export(Counter(), (torch.rand(2),)).run_decompositions({})
    assert "aten::copy_(self=%count, src=%add)" in str(capture(exported).graph)


def test_regions_without_gradients_are_flattened():
    class Model(nn.Module):
        def forward(self, x):
            with torch.enable_grad():
                y = x * 2
            with torch.no_grad():
                return y + x

    text = str(capture(Model(), (torch.rand(2),)).graph)
    assert "wrap_with" not in text
    assert "%mul: float32[2] = aten::mul.Tensor(self=%x, other=2)" in text
    assert "%add: float32[2] = aten::add.Tensor(self=%mul, other=%x)" in text


def test_a_number_read_from_a_tensor_is_a_node_and_names_a_size():
    class Model(nn.Module):
        def forward(self, x, n):
            count = n.item()
            torch._check(count >= 0)
            return torch.zeros(count) + x.sum()

    text = str(capture(Model(), (torch.rand(2), torch.tensor(3))).graph)
    assert "%item: int64 u0 = aten::item(self=%n)" in text
    assert "aten::zeros(size=[u0]" in text
    assert "_assert" not in text
    assert "_operator::ge" not in text


def test_branches_are_graphs_of_their_own():
    class Model(nn.Module):
        def forward(self, x):
            def double(x):
                return torch.cond(x.max() > 5, lambda x: x * 3, lambda x: x * 2, (x,))

            return torch.cond(x.sum() > 0, double, lambda x: x - x.shape[0], (x,))

    text = str(capture(Model(), (torch.rand(3),), dynamic_axes={"x": {0: "n"}}).graph)
    call = "%cond.0: float32[n] = higher_order::cond(arg0=%gt, arg1=graph main, arg2=graph main, arg3=[%x])"
    assert text.count(call) == 2
    assert "      %sub: float32[n] = aten::sub.Tensor(self=%x, other=n)\n" in text


def test_a_branch_on_data_is_refused_with_its_line():
    class Until(nn.Module):
        def forward(self, x):
            for _ in range(3):
                x = x * 2
                if [*filter(None, (row > 9 for row in x.unbind()))]:
                    break
            return x

    with pytest.raises(opbridge.UnsupportedError, match="branches on a tensor") as caught:
        capture(Until(), (torch.rand(2),))
    assert caught.value.where.endswith("in forward: if [*filter(None, (row > 9 for row in x.unbind()))]:")
    assert "Caused by" not in caught.value.message


def test_modes_see_functions_after_a_refusal():
    """An error in a guard of Dynamo, by which torch.cond traces, turns that off in torch."""

    class Seeing(torch.overrides.TorchFunctionMode):
        seen = False

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Seeing.seen = True
            return func(*args, **(kwargs or {}))

    class Cond(nn.Module):
        def forward(self, x):
            found = x[x[:, 0] > 0]
            return torch.cond(found.shape[0] == 4, lambda y: y.reshape(4, 3).sum(0), lambda y: y.sum(0), (found,))

    with pytest.raises(opbridge.UnsupportedError):
        capture(Cond(), (torch.rand(8, 3),), dynamic_shapes=({0: "n"},))
    with Seeing():
        torch.ones(2).sum()
    assert Seeing.seen


def test_an_error_of_a_module_may_be_caught():
    """As where some of the layers in a row take the lengths of the sequences."""

    class Scaling(nn.Module):
        def forward(self, x, lengths):
            return x * lengths

    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Scaling(), nn.Sequential(nn.ReLU(), nn.Linear(3, 3)), Scaling()])

        def forward(self, x):
            for layer in self.layers:
                try:
                    x = layer(x, lengths=x.sum(1, keepdim=True))
                except TypeError:
                    x = layer(x)
            return x

    opbridge.export(Rows(), (torch.rand(2, 3),), verify=True)
