"""autograd.Functions with `symbolic` become single nodes in both captures, for every kind of kernel."""

import ctypes
import functools
import re

import onnx
import pytest
import torch
from torch import nn

import opbridge.capture
from checking.runtime import run_plain
from opbridge import UnsupportedError
from opbridge.capture.autograd_function.calls import SizeArgument, TensorArgument


@pytest.fixture(params=["export", "trace"])
def capture(request):
    return functools.partial(opbridge.capture.capture, how=request.param)


def through_pointers(*tensors):
    """2a + b, computed in raw memory, which no tracer can follow."""
    result = torch.zeros_like(tensors[0])
    size = tensors[0].numel()
    a, b, out = (
        (ctypes.c_float * size).from_address(tensor.data_ptr())
        for tensor in (tensors[0].contiguous(), tensors[-1].contiguous(), result)
    )
    for i in range(size):
        out[i] = 2 * a[i] + b[i]
    return result


class MyAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return 2 * a + b

    @staticmethod
    def symbolic(g, a, b):
        return g.op("custom::my_add", a, b)


class RawAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return through_pointers(a, b)

    @staticmethod
    def symbolic(g, a, b):
        return g.op("custom::my_add", a, b)


class Halves(torch.autograd.Function):
    """The newer style, with arguments of other kinds and two outputs."""

    @staticmethod
    def forward(x, axis, names, scale=1.0):
        left, right = torch.chunk(through_pointers(x), 2, axis)
        return left * scale, torch.cat([right, right], axis)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.axis = inputs[1]

    @staticmethod
    def symbolic(g, x, axis, names, scale=1.0):
        return g.op("custom::halves", x, outputs=2)


my_add, raw_add, halves = MyAdd.apply, RawAdd.apply, Halves.apply  # bound before the capture, as extensions do


@pytest.mark.parametrize("add", [my_add, raw_add])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("axes", [None, {"input": {0: "n"}}])
def test_a_function_is_one_node(capture, add, batch, axes):
    class Inner(nn.Module):
        def forward(self, x):
            return add(x, x + 1)

    program = capture(nn.Sequential(Inner(), nn.ReLU()), (torch.rand(batch, 2),), dynamic_axes=axes)
    name = "MyAdd" if add is my_add else "RawAdd"
    call = f"autograd_function::{name}(tensors=[%input, %add], sizes=[], call=0)  # 0"
    assert f": float32[{'n' if axes else batch}, 2] = {call}" in str(program.graph)
    assert program.graph.node_count == 3
    assert program.calls[0].function is (MyAdd if add is my_add else RawAdd)
    assert program.calls[0].arguments == [TensorArgument(0), TensorArgument(1)]
    assert not program.calls[0].returns_tuple


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}])
def test_other_arguments_and_several_outputs(capture, axes):
    class Model(nn.Module):
        def forward(self, x):
            left, right = halves(x, 1, ["a", None], 2.5)
            return right + 1, left

    program = capture(Model(), (torch.rand(2, 4),), dynamic_axes=axes)
    size = "n" if axes else 2
    text = str(program.graph)
    assert f"%autograd_function.0: float32[{size}, 2], %autograd_function.1: float32[{size}, 4] =" in text
    assert program.calls[0].arguments == [TensorArgument(0), 1, ["a", None], 2.5]
    assert program.calls[0].returns_tuple


def test_sizes_are_arguments_of_their_own(capture):
    class Repeat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, count):
            return through_pointers(x).repeat(count)

        @staticmethod
        def symbolic(g, x, count):
            return g.op("custom::repeat", x)

    class Model(nn.Module):
        def forward(self, x, y):
            return Repeat.apply(x, y.shape[0])

    program = capture(Model(), (torch.rand(3), torch.rand(4)), dynamic_axes={"y": {0: "n"}})
    call = "autograd_function::Repeat(tensors=[%x], sizes=[n], call=0)"
    assert f": float32[3*n] = {call}" in str(program.graph)
    assert program.calls[0].arguments == [TensorArgument(0), SizeArgument(0)]


def test_sizes_follow_several_symbols(capture):
    class Join(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return torch.cat([through_pointers(x), through_pointers(y), x])

        @staticmethod
        def symbolic(g, x, y):
            return g.op("custom::join", x, y)

    class Model(nn.Module):
        def forward(self, x, y):
            return Join.apply(x, y)

    axes = {"x": {0: "n"}, "y": {0: "m"}}
    text = str(capture(Model(), (torch.rand(3), torch.rand(3)), dynamic_axes=axes).graph)
    assert re.search(r"float32\[(2\*n \+ m|m \+ 2\*n)\] = autograd_function", text)


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def symbolic(g, x, y):
        return g.op("Add", x, y)


def test_sizes_that_are_equal_by_chance_have_their_own_symbols(capture):
    """The last sizes must be equal, the first two need not be."""
    axes = {"x": {0: "a", 1: "b", 2: "c"}, "y": {0: "d"}}

    class Model(nn.Module):
        def forward(self, x, y):
            return Sum.apply(x, y)

    for middle in (1, 2):
        with pytest.warns(UserWarning, match="must be equal"):
            program = capture(Model(), (torch.rand(2, middle, 5), torch.rand(5)), dynamic_axes=axes)
        assert "%autograd_function.0: float32[a, b, c] = " in str(program.graph)


@pytest.mark.parametrize("axes", [{2: "h"}, {2: "h", 3: "w"}])
@pytest.mark.parametrize("strides", [(2,), (2, 2, 2), (4, 2)])
def test_sizes_follow_those_of_strided_convolutions(strides, axes, tmp_path, capture):
    """Each call gets sizes that are not a linear function of the model's; the last call gets two such sizes at once."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = nn.ModuleList(nn.Conv2d(2, 2, 3, stride, padding=1) for stride in strides)

        def forward(self, x):
            levels = []
            for stage in self.stages:
                x = stage(x)
                x = Sum.apply(x, x)
                levels.append(x.flatten(2))
            return Cat.apply(levels[0], levels[-1])

    class Cat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return torch.cat([x, y, x], -1)

        @staticmethod
        def symbolic(g, x, y):
            return g.op("Concat", x, y, x, axis_i=2)

    model, path = Model().eval(), tmp_path / "m.onnx"
    x = torch.rand(1, 2, 32, 24)
    opbridge.export(model, (x,), path, capture=capture.keywords["how"], dynamic_shapes=[axes])
    for height, width in ((32, 24), (35, 18), (1, 2)):
        x = torch.rand(1, 2, height, width if 3 in axes else 24)
        torch.testing.assert_close(torch.from_numpy(run_plain(path, x)[0]), model(x).detach())


def test_sizes_that_differ_only_by_how_they_are_written(tmp_path, capture):
    """torch does not know that (n - 3) // 2 + 1 is (n - 1) // 2, nor that 2 * n * m**2 // (2 * m**2) is n."""

    class Model(nn.Module):
        def forward(self, x):
            size = (x.shape[0] - 1) // 2
            rows = torch.ones(2 * x.shape[0] * (size + 1) ** 2 // ((size + 1) * (2 * size + 2)))
            pooled = nn.functional.avg_pool1d(x[None], 3, 2)[0]
            return Sum.apply(pooled, torch.ones(size)), Sum.apply(x, rows)

    path = tmp_path / "model.onnx"
    opbridge.export(Model(), (torch.rand(9),), path, dynamic_axes={"x": {0: "n"}}, capture=capture.keywords["how"])
    for size in (9, 4, 12):
        opbridge.verify(path, Model(), (torch.rand(size),))


def test_a_function_that_takes_no_other_sizes_is_refused_with_its_line(capture):
    class OfThree(Sum):
        @staticmethod
        def forward(ctx, x, y):
            if len(x) != 3:
                raise ValueError
            return x + y

    class Model(nn.Module):
        def forward(self, x):
            return OfThree.apply(x, x)

    with pytest.raises(UnsupportedError, match=r"(?s)OfThree.forward, .* at too few.*OfThree.apply"):
        capture(Model(), (torch.rand(3),), dynamic_axes={"x": {0: "n"}})


def test_sizes_that_are_products_are_those_of_the_result(capture):
    class Model(nn.Module):
        def forward(self, x):
            return Sum.apply(x[:, ::2].flatten(), x[:, ::2].flatten())

    program = capture(Model(), (torch.rand(3, 8),), dynamic_axes={"x": {0: "n", 1: "m"}})
    assert re.search(r"%autograd_function\.0: float32\[\S.*\] = autograd", str(program.graph))


@pytest.mark.parametrize("selected", [slice(None, None, 2), slice(2)], ids=["half", "at most two"])
def test_sizes_that_are_not_linear_are_refused(capture, selected):
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return through_pointers(x)[selected].clone()

        @staticmethod
        def symbolic(g, x):
            return g.op("custom::half", x)

    class Model(nn.Module):
        def forward(self, x):
            return Half.apply(x)

    with pytest.raises(UnsupportedError, match=r"Half\.forward.*linear function"):
        capture(Model(), (torch.rand(4),), dynamic_axes={"x": {0: "n"}})
    assert ": float32[2] = autograd_function::Half" in str(capture(Model(), (torch.rand(4),)).graph)


def test_a_function_that_works_in_place_is_refused(capture):
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.add_(1)

        @staticmethod
        def symbolic(g, x):
            return g.op("custom::in_place", x)

    class Model(nn.Module):
        def forward(self, x):
            return InPlace.apply(x + 1)

    with pytest.raises(UnsupportedError, match="in place"):
        capture(Model(), (torch.rand(2),))


def test_functions_without_symbolic_are_seen_through(capture):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

    class Model(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    assert "aten::mul.Tensor(self=%x, other=%x)" in str(capture(Model(), (torch.rand(2),)).graph)


def test_the_classes_are_as_before_afterwards(capture):
    before = {cls: dict(vars(cls)) for cls in (MyAdd, RawAdd, Halves)}
    with pytest.raises(Exception, match="of the model's own"):
        capture(Failing(), (torch.rand(2),))
    assert {cls: dict(vars(cls)) for cls in before} == before
    assert torch.equal(raw_add(torch.ones(2), torch.ones(2)), torch.full((2,), 3.0))


class Failing(nn.Module):
    def forward(self, x):
        raise KeyError("of the model's own")


def test_memory_filled_behind_the_tracers_back_is_refused():
    class Model(nn.Module):
        def forward(self, x):
            return through_pointers(x) + 1

    with pytest.raises(UnsupportedError, match=r"C\+\+ extension") as error:
        opbridge.capture.capture(Model(), (torch.rand(2),), how="trace")
    assert "test_capture_functions.py" in error.value.where
    with pytest.raises(UnsupportedError, match=r"C\+\+ extension"):
        opbridge.capture.capture(lambda x: through_pointers(x), (torch.rand(2),), how="trace")


def test_what_has_the_shape_of_a_new_tensor_is_not_taken_for_it():
    def model(x):
        ones, new = x.new_ones(3), x.new_empty(3)
        return x + torch.arange(3).expand_as(ones) * ones + torch.zeros_like(new) + new.new_ones(3)

    opbridge.capture.capture(model, (torch.rand(3),), how="trace")


def test_new_tensors_that_operators_fill_are_fine():
    class Model(nn.Module):
        def forward(self, x):
            buffer = torch.empty(2, 3)
            buffer[0] = x
            buffer[1].copy_(x)
            return buffer + torch.zeros(3)

    assert "aten::copy_" in str(opbridge.capture.capture(Model(), (torch.rand(3),), how="trace").graph)


def test_a_class_made_during_the_call_is_kept_whole(capture):
    def model(x):
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return through_pointers(x, x) - x

            @staticmethod
            def symbolic(g, x):
                return g.op("custom::doubled", x)

        return Doubled.apply(x) + 1

    assert "autograd_function::Doubled(tensors=[%x]" in str(capture(model, (torch.rand(3),)).graph)


class Cubed(torch.autograd.Function):
    """A function whose gradient is not that of its operators."""

    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    @staticmethod
    def backward(ctx, gradient):
        return 5 * gradient * ctx.saved_tensors[0]

    @staticmethod
    def symbolic(g, x):
        return g.op("custom::cubed", x)


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def vjp(ctx, gradient):
        return 7 * gradient * ctx.saved_tensors[0]

    @staticmethod
    def symbolic(g, x):
        return g.op("custom::exponential", x)


@pytest.mark.parametrize("function", [Cubed, Exponential])
def test_the_gradient_of_a_function_is_its_own(function, tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                y = function.apply(self.linear(x))
                (gradient,) = torch.autograd.grad(y.sum(), x)
            return gradient, MyAdd.apply(gradient, y.detach())

    program = opbridge.capture.capture(Model(), (torch.rand(2, 3),), how="trace")
    assert [call.function for call in program.calls] == [MyAdd]
    opbridge.export(Model(), (torch.rand(2, 3),), tmp_path / "m.onnx", capture="trace")
    assert {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node} >= {"my_add"}
    assert [call.function for call in opbridge.capture.capture(Model(), (torch.rand(2, 3),)).calls] == [MyAdd]

    class Gradient(Model):
        def forward(self, x):
            return super().forward(x)[0]

    opbridge.export(Gradient(), (torch.rand(2, 3),), tmp_path / "m.onnx", capture="trace", verify=True)


class Levels(torch.autograd.Function):
    """Sums the elements of each level; ``shapes`` are the heights and widths of the levels."""

    @staticmethod
    def forward(ctx, values, shapes, starts):
        parts = [
            values[:, start : start + height * width] for (height, width), start in zip(shapes, starts, strict=True)
        ]
        return torch.stack([part.sum(1) for part in parts], 1) if parts[-1].numel() else None

    @staticmethod
    def symbolic(g, values, shapes, starts):
        return g.op("custom::Levels", values, shapes, starts)


class OfBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shapes", torch.tensor([[4, 4], [2, 2]]))
        self.starts = torch.tensor([0, 16])

    def forward(self, values):
        return Levels.apply(values, self.shapes, self.starts)


class OfNumbers(nn.Module):
    def forward(self, values):
        shapes = torch.as_tensor([(4, 4), (2, 2)], device=values.device)
        return Levels.apply(values, shapes, torch.cat([shapes.new_zeros(1), shapes.prod(1).cumsum(0)[:-1]]))


class OfWrittenNumbers(nn.Module):
    def forward(self, values):
        shapes, starts = torch.tensor([[4, 4], [4, 4]]), torch.tensor([0, 0])
        shapes[1], starts[1] = 2, 16
        return Levels.apply(values, shapes, starts)


@pytest.mark.parametrize("dynamic_shapes", [None, ({0: "batch"},)])
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("model", [OfBuffers, OfNumbers, OfWrittenNumbers])
def test_forward_reads_the_values_of_constants(model, capture, dynamic_shapes):
    program = opbridge.export(model(), (torch.rand(3, 20, 8),), capture=capture, dynamic_shapes=dynamic_shapes)
    (shape,) = (output.type.tensor_type.shape for output in program.model_proto.graph.output)
    assert [size.dim_param or size.dim_value for size in shape.dim] == ["batch" if dynamic_shapes else 3, 2, 8]


class OfDoubledBuffer(OfBuffers):
    def forward(self, values):
        self.shapes.mul_(2)
        return Levels.apply(values, self.shapes, self.starts)


def test_the_value_of_a_written_buffer_is_not_taken_for_the_constant():
    with pytest.raises(opbridge.UnsupportedError, match=r"Levels\.forward"):
        opbridge.export(OfDoubledBuffer(), (torch.rand(3, 80, 8),), capture="export", mutations_as_outputs=True)


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        return x[mask]

    @staticmethod
    def symbolic(g, x, mask):
        return g.op("Compress", x, mask, axis_i=0)


@pytest.mark.parametrize("dynamic", [None, ({0: "n"}, {0: "n"})], ids=["constant", "dynamic"])
@pytest.mark.parametrize("how", ["export", "trace"])
def test_sizes_that_depend_on_data(how, dynamic, tmp_path):
    def model(x, mask):
        kept = Kept.apply(x, mask)
        return kept.mean(0), kept[:2], kept.shape[0] * torch.ones(2)

    x = torch.rand(5, 3)
    mask = torch.tensor([True, False, True, True, False])
    opbridge.export(model, (x, mask), tmp_path / "m.onnx", capture=how, dynamic_shapes=dynamic)
    for each in (mask, ~mask, torch.ones_like(mask)):
        opbridge.verify(tmp_path / "m.onnx", model, (x, each))


class Found(torch.autograd.Function):
    """Like functions in detectors: ``forward`` returns zeros during the export, and only the runtime finds boxes."""

    @staticmethod
    def forward(ctx, boxes, scores):
        return torch.zeros(20, 3, dtype=torch.int64)

    @staticmethod
    def symbolic(g, boxes, scores):
        return g.op("NonMaxSuppression", boxes, scores, g.op("Constant", value_t=torch.tensor([9])))


@pytest.mark.parametrize("how", ["export", "trace"])
def test_sizes_that_forward_makes_up_depend_on_data(how, tmp_path):
    def model(boxes, scores):
        found = Found.apply(boxes, scores)
        return boxes[0, found[:, 2]], torch.ones(2) * found.shape[0]

    program = opbridge.export(model, (BOXES, torch.rand(1, 1, 6)), tmp_path / "m.onnx", capture=how)
    assert [dim.dim_value for dim in program.model_proto.graph.output[0].type.tensor_type.shape.dim] == [0, 4]
    boxes, count = program(BOXES, torch.rand(1, 1, 6))
    assert boxes.shape == (6, 4)
    assert count.tolist() == [6, 6]


def test_sizes_that_forward_makes_up_are_told(tmp_path):
    """torch.export refuses the branch if the size depends on data."""

    def model(boxes, scores):
        found = Found.apply(boxes, scores)
        return found if found.shape[0] > 9 else found + 1

    with pytest.warns(opbridge.TraceWarning, match=r"nodes of Found\.symbolic .* forward returns a constant one"):
        opbridge.export(model, (BOXES, torch.rand(1, 1, 6)), tmp_path / "m.onnx")


BOXES = torch.arange(6.0).repeat(4, 1).T[None] * 10 + torch.tensor([0.0, 0, 1, 1])
