"""capture="trace": the effects of recording one run."""

import math
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch_versions import since_torch_2_14

import opbridge
from opbridge import InvalidArgumentError, TraceWarning, UnsupportedError
from opbridge.capture import capture


def operators_of(graph):
    return re.findall(r" = ([\w:.]+)\(", str(graph))


class Branch(nn.Module):
    def forward(self, x):
        return torch.sin(x) if x.sum() > 0 else torch.cos(x)


def test_a_branch_on_data_goes_the_way_of_the_run_and_warns():
    with pytest.warns(TraceWarning, match=r"test_capture_trace\.py.*x\.sum\(\) > 0"):
        graph = capture(Branch(), (torch.ones(2),), how="trace").graph
    assert operators_of(graph)[-1] == "aten::sin"
    with pytest.warns(TraceWarning):
        graph = capture(Branch(), (-torch.ones(2),), how="trace").graph
    assert operators_of(graph)[-1] == "aten::cos"


def test_a_branch_on_a_constant_does_not_warn():
    class Model(nn.Module):
        def forward(self, x):
            return x + 1 if torch.ones(2).sum().item() > 0 else x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capture(Model(), (torch.ones(2),), how="trace")


def test_a_branch_on_data_follows_the_run_with_dynamic_sizes_too():
    axes = {"x": {0: "n"}}
    with pytest.warns(TraceWarning):
        graph = capture(Branch(), (-torch.ones(2),), how="trace", dynamic_axes=axes).graph
    assert operators_of(graph)[-1] == "aten::cos"
    assert "%x: float32[n]" in str(graph)


def test_a_branch_on_a_number_is_a_branch_with_dynamic_sizes_too():
    class Model(nn.Module):
        def forward(self, x):
            return torch.sin(x) if x.sum() else torch.cos(x) if (x > 0).to(torch.uint8).any() else x

    for x, operator in ((torch.ones(2), "sin"), (torch.tensor([1.0, -1.0]), "cos")):
        with pytest.warns(TraceWarning, match="was read as the number"):
            graph = capture(Model(), (x,), how="trace", dynamic_axes={"x": {0: "n"}}).graph
        assert operators_of(graph)[-1] == f"aten::{operator}"


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float64])
def test_the_number_of_an_input_without_axes_depends_on_data(dtype):
    class Reads(nn.Module):
        def forward(self, x, number):
            return x.unsqueeze(int(number.item()))

    class Branches(nn.Module):
        def forward(self, x, number):
            return torch.sin(x) if number.item() > 0 else torch.cos(x)

    inputs, axes = (torch.ones(2), torch.tensor(1, dtype=dtype)), {"x": {0: "n"}}
    assert "higher_order::cond" in str(capture(Branches(), inputs, how="trace").graph)
    for model, dynamic_axes in ((Reads(), None), (Branches(), axes)):
        with pytest.warns(TraceWarning, match="was read as (the number 1|True)"):
            capture(model, inputs, how="trace", dynamic_axes=dynamic_axes)
    with pytest.raises(opbridge.UnsupportedError, match=r"depends on data .* is needed as a Python number"):
        capture(Reads(), inputs, how="trace", dynamic_axes=axes)


def test_what_the_run_overwrites_is_as_before():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))
            self.steps = [torch.zeros(1)]

        def forward(self, x):
            self.count += 1
            self.steps[0].add_(5)
            x[0].mul_(2)
            return x + self.count + self.steps[0]

    model, x = Model(), torch.ones(2, 2)
    text = str(capture(model, (x,), how="trace").graph)
    assert "aten::add_.Tensor(self=%count" in text
    assert torch.equal(x, torch.ones(2, 2))
    assert torch.equal(model.count, torch.zeros(2))
    assert torch.equal(model.steps[0], torch.zeros(1))


def test_tensors_made_from_python_numbers_are_constants():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = torch.ones(2)

        def forward(self, x):
            return x * torch.tensor([1.0, 2.0]) + self.plain

    for axes in (None, {"x": {0: "n"}}):
        text = str(capture(Model(), (torch.rand(3, 2),), how="trace", dynamic_axes=axes).graph)
        assert "weight %constant: float32[2]" in text
        assert "weight %plain: float32[2]" in text


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}])
def test_data_is_the_tensor_itself(axes):
    class Model(nn.Module):
        def forward(self, x):
            y = x + 1
            return y.data * 2

    text = str(capture(Model(), (torch.rand(3),), how="trace", dynamic_axes=axes).graph)
    assert "aten::mul.Tensor(self=%add, other=2)" in text


def test_memory_that_comes_back_from_numpy_is_refused():
    class Model(nn.Module):
        def forward(self, x):
            return torch.from_numpy((x + 1).numpy()[::2]) * 2

    with pytest.warns(TraceWarning, match="read into Python"), pytest.raises(UnsupportedError, match="numpy"):
        capture(Model(), (torch.rand(4),), how="trace")
    assert "numpy" not in vars(torch.Tensor)


def test_what_numpy_computes_is_a_constant_and_warned_of():
    class Model(nn.Module):
        def forward(self, x):
            return x + float(np.asarray(x).max()) + sum(x.tolist())

    with pytest.warns(TraceWarning, match="read into Python") as caught:
        capture(Model(), (torch.rand(4),), how="trace")
    assert len(caught) == 2


def test_a_number_read_from_a_tensor_is_a_symbol_where_sizes_are_dynamic():
    class Model(nn.Module):
        def forward(self, x, n):
            count = n.item()
            torch._check(count >= 0)
            return torch.zeros(count) + x.sum()

    args = (torch.rand(3), torch.tensor(3))
    text = str(capture(Model(), args, how="trace", dynamic_axes={"x": {0: "length"}}).graph)
    symbol = re.search(r"%item: int64 (\w+) = aten::item\(self=%n\)", text).group(1)
    assert symbol != "length"
    assert f"aten::zeros(size=[{symbol}]" in text


def test_float_numbers_made_of_sizes_are_nodes():
    class Model(nn.Module):
        def forward(self, x):
            return x * (x.shape[0] / 3) + x.shape[0] ** 0.5

    text = str(capture(Model(), (torch.rand(4, 2),), how="trace", dynamic_axes={"x": {0: "n"}}).graph)
    assert "%truediv: float64 = _operator::truediv(arg0=n, arg1=3)" in text
    assert "aten::mul.Tensor(self=%x, other=%truediv)" in text


def test_a_size_made_a_number_is_refused():
    class Model(nn.Module):
        def forward(self, x):
            return x.reshape(len(bytes(x.shape[0])) * 2, -1)

    with pytest.raises(UnsupportedError, match="axis 0 of the input 'x' was to be dynamic"):
        capture(Model(), (torch.rand(4, 2),), how="trace", dynamic_axes={"x": {0: "n"}})


def test_an_axis_that_may_be_dynamic_and_is_fixed_by_the_model_is_so_in_the_graph():
    class Model(nn.Module):
        def forward(self, x):
            return x.sum(1) / math.sinh(x.shape[1])

    auto = torch.export.Dim.AUTO
    text = str(capture(Model(), (torch.rand(4, 2),), how="trace", dynamic_shapes=({0: auto, 1: auto},)).graph)
    assert "%x: float32[x_dim_0, 2]" in text


def test_sizes_that_are_equal_in_the_example_alone_stay_apart():
    class Model(nn.Module):
        def forward(self, x, y):
            return torch.cat([x, y])

    axes = {"x": {0: "n"}, "y": {0: "m"}}
    text = str(capture(Model(), (torch.rand(3), torch.rand(3)), how="trace", dynamic_axes=axes).graph)
    assert "main(%x: float32[n], %y: float32[m])" in text


def test_sizes_of_one_name_must_be_equal_in_the_example():
    class Model(nn.Module):
        def forward(self, x, y):
            return x.sum() + y.sum()

    axes = {"x": {0: "n"}, "y": {0: "n"}}
    text = str(capture(Model(), (torch.rand(3), torch.rand(3)), how="trace", dynamic_axes=axes).graph)
    assert "main(%x: float32[n], %y: float32[n])" in text
    with pytest.raises(InvalidArgumentError, match="'n' differ"):
        capture(Model(), (torch.rand(3), torch.rand(2)), how="trace", dynamic_axes=axes)


def test_the_model_is_no_longer_watched_after_an_error():
    class Model(nn.Module):
        def forward(self, x):
            raise KeyError("of the model's own")

    with pytest.raises(KeyError):
        capture(Model(), (torch.rand(2),), how="trace")
    assert "aten::relu" in str(capture(nn.ReLU(), (torch.rand(2),), how="trace").graph)
    assert torch.rand(2).add(1).shape == (2,)


def test_both_captures_agree():
    models = [
        (nn.LSTM(4, 5, num_layers=2, bidirectional=True), (torch.rand(3, 2, 4),)),
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (torch.rand(2, 3, 8),)),
        (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
            (torch.rand(1, 3, 8, 8),),
        ),
    ]
    for model, args in models:
        exported = operators_of(capture(model, args).graph)
        assert operators_of(capture(model, args, how="trace").graph) == exported


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}])
def test_sizes_that_depend_on_data_are_symbols(axes):
    class Model(nn.Module):
        def forward(self, x):
            return x[x > 0] * 2, x.sum(1).nonzero()

    x = torch.tensor([[1.0, -1.0], [2.0, 3.0], [0.0, 0.0]])
    text = str(capture(Model(), (x,), how="trace", dynamic_axes=axes).graph)
    assert re.search(r"float32\[u\d+\] = aten::index", text)
    assert re.search(r"int64\[u\d+, 1\] = aten::nonzero", text)


def test_sizes_that_depend_on_constants_alone_are_those_of_the_run():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.times = torch.tensor([9, 5, 3, 1])

        def forward(self, x):
            step = (self.times == 3).nonzero().numpy()[0, 0]
            return x[int(step)], self.times[self.times > x.shape[0]]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = str(capture(Model(), (torch.rand(4),), how="trace").graph)
    assert "int64[2] = aten::index" in text
    assert re.search(r"aten::select\.int\(.*index=2", text)


def test_sizes_that_depend_on_random_numbers_are_symbols():
    for draw in (lambda x: torch.rand(4), lambda x: torch.empty(4).uniform_()):
        text = str(capture(lambda x, draw=draw: x[draw(x) > 0.5], (torch.rand(4),), how="trace").graph)
        assert re.search(r"float32\[u\d+\] = aten::index", text)


def test_a_branch_by_how_many_there_are_of_what_torch_types_wrongly():
    """torch's fake kernel of signbit, which floor division uses, declares an integer result."""

    class Model(nn.Module):
        def forward(self, x, i):
            thirds = i[x > 0] // 3
            return thirds if thirds.numel() == 0 else thirds + 1

    with pytest.warns(TraceWarning, match="branch"):
        graph = capture(Model(), (torch.tensor([1.0, -1.0, 2.0]), torch.arange(3)), how="trace").graph
    assert operators_of(graph)[-1] == "aten::add.Tensor"


def saved_by_autograd(x):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(torch.exp(-x).sum(), x)[0]


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}])
@pytest.mark.parametrize(
    "function",
    [
        saved_by_autograd,
        lambda x: x + (torch.round(x) - x).data,
        lambda x: (x * 2).t().data + (x * 2)[:1].data.sum(),
        lambda x: torch.nn.functional.linear(x, nn.Parameter(x * 2)),
    ],
)
def test_memory_that_outlives_its_tensor_is_no_constant(tmp_path, function, axes):
    path = tmp_path / "model.onnx"
    opbridge.export(function, (torch.randn(2, 3),), path, capture="trace", dynamic_axes=axes, input_names=["x"])
    x = torch.randn(2, 3)
    result = opbridge.session(path).run(None, {"x": x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(result), function(x).detach())


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["constant", "dynamic"])
def test_data_of_a_tensor_whose_memory_is_read_otherwise_too(axes, tmp_path):
    def function(x):
        y = x * 2
        z = torch.complex(x, y)
        bits, conjugated = y.view(torch.int32), z.conj()
        return (
            bits + 1,
            y.data * 3,
            bits.data + 2,
            torch.view_as_real(z.data * 2),
            torch.view_as_real(conjugated.data * 2),
        )

    path = tmp_path / "model.onnx"
    opbridge.export(function, (torch.randn(2, 3),), path, capture="trace", dynamic_axes=axes, input_names=["x"])
    opbridge.verify(path, function, (torch.randn(2, 3),))


def test_indices_that_are_no_masks_keep_the_run_real():
    class Model(nn.Module):
        def forward(self, x, i):
            return x[i] if x.sum() > 0 else x

    with pytest.warns(TraceWarning):
        graph = capture(Model(), (torch.ones(4), torch.tensor([0, 2])), how="trace").graph
    assert "float32[2] = aten::index" in str(graph)


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}], ids=["constant", "dynamic"])
def test_types_and_sizes_are_no_numbers_of_the_run(axes):
    class Model(nn.Module):
        def forward(self, x):
            x = x.to(torch.result_type(x, torch.zeros(1, dtype=torch.float64)))
            return x * x.dense_dim() if x.is_same_size(x) else x

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        graph = capture(Model(), (torch.rand(2, 2),), how="trace", dynamic_axes=axes).graph
    assert "other=2" in str(graph)


def test_autocast_within_the_model():
    class Model(nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return x @ x

    for how in ("trace", "export"):
        assert "dtype=bfloat16" in str(capture(Model(), (torch.rand(2, 2),), how=how).graph)


def test_a_tensor_made_of_sizes():
    class Model(nn.Module):
        def forward(self, x):
            return torch.tensor([x.shape[0], 2]) * 3

    text = str(capture(Model(), (torch.rand(4),), how="trace", dynamic_axes={"x": {0: "n"}}).graph)
    assert "aten::scalar_tensor(s=n" in text


def test_cond_is_the_branch_that_the_run_takes():
    class Model(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with pytest.warns(TraceWarning):
        graph = capture(Model(), (torch.ones(2),), how="trace").graph
    assert operators_of(graph)[-1] == "aten::sin"


@pytest.mark.parametrize("axes", [None, {"x": {0: "n"}}])
def test_attributes_that_the_run_assigns_are_taken_back(axes):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2))
            self.last = None

        def forward(self, x):
            self.count += 1
            self.last = x + self.count
            self.extra = x * 2
            return self.last + self.extra

    model = Model()
    count = model.count
    text = str(capture(model, (torch.rand(3, 2),), how="trace", dynamic_axes=axes).graph)
    assert "aten::add_.Tensor(self=%count" in text
    assert model.count is count
    assert torch.equal(count, torch.zeros(2))
    assert model.last is None
    assert not hasattr(model, "extra")


def test_names_are_unique():
    class Model(nn.Module):
        def forward(self, add_1):
            return ((add_1 + 1) + 2) + 3

    names = re.findall(r"%(\w+): float32", str(capture(Model(), (torch.rand(2),), how="trace").graph))
    assert names == ["add_1", "add", "add_2", "add_3"]


def test_float_numbers_are_returned_as_tensors():
    class Model(nn.Module):
        def forward(self, x):
            return x + 1, x.shape[0] / 2

    for how in ("export", "trace"):
        text = str(capture(Model(), (torch.rand(4),), how=how, dynamic_axes={"x": {0: "n"}}).graph)
        assert "%number_1: float32[] = aten::scalar_tensor(s=%truediv, dtype=float32)" in text


@pytest.mark.parametrize("dynamic", [None, ({0: torch.export.Dim.DYNAMIC},)])
def test_what_a_model_keeps_in_dicts_and_lists_is_taken_back(dynamic, tmp_path):
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.randn(4))
            self.cache, self.seen = {"of": {}}, [1]

        def forward(self, x):
            if "cpu" not in self.cache["of"]:
                self.cache["of"]["cpu"] = self.bias.exp()
            self.seen.append(x)
            return x + self.cache["of"]["cpu"]

    model = Caching()
    x = torch.randn(3, 4)
    opbridge.export(model, (x,), tmp_path / "model.onnx", capture="trace", dynamic_shapes=dynamic)
    assert model.cache == {"of": {}}
    assert model.seen == [1]
    assert type(model(x)) is torch.Tensor


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "rows"}}])
def test_tensors_are_printed(dynamic, tmp_path):
    def model(x):
        print(x * 2, str(x))
        return x * 2

    opbridge.export(
        model, (torch.ones(2, 3),), tmp_path / "m.onnx", capture="trace", dynamic_shapes=dynamic, verify=True
    )
    assert torch.ones(2).sum() == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor([x[0, 0], x[1, 1]]),
        lambda x: torch.as_tensor([x.sum(), x.mean()]),
        lambda x: x.new_tensor([x.sum(), 1.0]),
    ],
)
def test_tensors_made_of_numbers_that_are_read_are_told(make, tmp_path):
    with pytest.warns(UserWarning, match="was read into Python"):
        opbridge.export(make, (torch.ones(2, 3),), tmp_path / "m.onnx", capture="trace")


class InAPool(nn.Module):
    def forward(self, x):
        with ThreadPoolExecutor(1) as pool:
            return sum(pool.map(torch.sin, [x, x * 2]))


class InAThread(nn.Module):
    def forward(self, x):
        made = []
        thread = threading.Thread(target=lambda: made.append(x.sum(0)))
        thread.start()
        thread.join()
        return x * made[0]


class InAnOlderPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(1)
        self.pool.submit(print).result()

    def forward(self, x):
        return self.pool.submit(torch.sin, x).result()


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
@pytest.mark.parametrize("model", [InAPool, InAThread, InAnOlderPool])
def test_a_model_that_computes_in_another_thread_is_refused(model, dynamic):
    with pytest.raises(UnsupportedError, match=r"in another thread[^:]*test_capture_trace\.py"):
        capture(model(), (torch.ones(2, 3),), how="trace", dynamic_axes=dynamic)


def test_a_thread_that_computes_nothing_is_no_matter():
    class Model(nn.Module):
        def forward(self, x):
            thread = threading.Thread(target=lambda: len(x.shape))
            thread.start()
            thread.join()
            return torch.sin(x)

    assert operators_of(capture(Model(), (torch.ones(2),), how="trace").graph) == ["aten::sin"]


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
def test_a_search_for_an_element_is_a_branch(dynamic):
    class Model(nn.Module):
        def forward(self, x):
            return x * 2 if 1.0 in x else x

    with pytest.warns(TraceWarning, match=r"read as"):
        capture(Model(), (torch.ones(2),), how="trace", dynamic_axes=dynamic)


def written_through_data(x):
    new = torch.zeros(2)
    new.data[0] = 5
    return x + new


def data_of_a_written_tensor(x):
    new = torch.zeros(2)
    new[:1] = x[0]
    return x + new.data


@pytest.mark.parametrize("function", [written_through_data, data_of_a_written_tensor])
def test_data_of_a_new_tensor_is_the_same_memory(tmp_path, function):
    path, x = tmp_path / "model.onnx", torch.tensor([1.0, 2.0])
    program = opbridge.export(function, (x,), path, capture="trace", mutations_as_outputs=True)
    other = torch.tensor([3.0, 4.0])
    (result,) = program(other)
    torch.testing.assert_close(result, function(other))


def doubled_up_to_nine(x):
    x, step = x * 1, torch.tensor(0)
    while (step < 3) & (x.sum() < 9):
        x, step = x * 2, step + 1
    return x


def test_a_branch_by_a_sum_along_an_axis_of_size_1_in_the_example_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.warns(TraceWarning), pytest.raises(UnsupportedError, match=r"is 1 in the example.*True, True, False"):
        opbridge.export(doubled_up_to_nine, (torch.tensor([3.0]),), path, capture="trace", dynamic_axes={"x": {0: "n"}})


def test_a_branch_by_a_maximum_along_an_axis_of_size_1_is_that_of_the_example(tmp_path):
    def function(x):
        return x * 2 if x.max() > 2 else x

    for value in (1.0, 3.0):
        with pytest.warns(TraceWarning):
            program = opbridge.export(
                function, (torch.tensor([value]),), tmp_path / "m.onnx", capture="trace", dynamic_axes={"x": {0: "n"}}
            )
        x = torch.full((3,), value)
        torch.testing.assert_close(program(x)[0], function(x))


def _farthest(x):
    """Farthest point sampling."""
    chosen = torch.zeros(3, dtype=torch.long)
    distances = ((x - x[0]) ** 2).sum(-1)
    last = torch.zeros((), dtype=torch.long)
    for i in range(3):
        chosen[i] = last
        distances = torch.minimum(distances, ((x - x[last]) ** 2).sum(-1))
        last = distances.argmax()
    return x[chosen], chosen


def _write(x):
    y = x * 1
    y[x[:, 0].argmax()] += 2
    y[:, x[0].argmin()] = -1
    return y


def _scale(x):
    return x * (x.max().item() + 1) + x.argmax().item() / 2


@pytest.mark.parametrize(
    "function",
    [
        _farthest,
        pytest.param(_write, marks=since_torch_2_14("the index of a write is read as a number")),
        _scale,
        lambda x: x[:, : x.argmax().item() % 2 + 1].sum(),
    ],
)
def test_numbers_read_from_tensors_are_not_those_of_the_example(function, tmp_path):
    torch.manual_seed(0)
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(function, (torch.rand(5, 3),), path, capture="trace")
    for _ in range(4):
        opbridge.verify(path, function, (torch.rand(5, 3),))


def test_a_loop_over_a_number_read_from_a_tensor_is_a_loop(tmp_path):
    def function(x):
        for _ in range(int(x.max())):
            x = x + 1
        return x

    program = opbridge.export(function, (torch.full((2,), 3.0),), tmp_path / "m.onnx", capture="trace", verify=True)
    for value in (0.0, 5.0):
        x = torch.full((2,), value)
        torch.testing.assert_close(program(x)[0], function(x))
