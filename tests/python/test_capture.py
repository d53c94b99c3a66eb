"""The graph of a captured model, which is the same for both captures."""

import functools

import pytest
import torch
from torch import nn

import opbridge.capture
from opbridge import InvalidArgumentError, UnsupportedError


@pytest.fixture(params=["export", "trace"])
def capture(request):
    return functools.partial(opbridge.capture.capture, how=request.param)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.tied = self.first
        self.block = nn.Sequential(nn.Conv1d(3, 6, 3), nn.ReLU())
        self.scale = torch.full((5,), 2.0)
        self.register_buffer("shift", torch.zeros(5), persistent=False)

    def forward(self, x):
        y = self.first(x) * self.scale + self.shift
        y = self.tied(y[..., :4])
        return self.block(y)


def lines_of(graph, text):
    return [line.strip() for line in str(graph).splitlines() if text in line]


def body_of(graph):
    return [line for line in str(graph).splitlines() if " = " in line]


def test_operators_have_named_arguments_and_types(capture):
    graph = capture(Net(), (torch.rand(2, 3, 4),)).graph
    assert lines_of(graph, "aten::linear")[0] == (
        "%linear: float32[2, 3, 5] = aten::linear(input=%x, weight=%first.weight, bias=%first.bias)  # first"
    )
    conv = lines_of(graph, "aten::conv1d")[0]
    assert "input=%linear_1, weight=%block.0.weight, bias=%block.0.bias" in conv
    assert conv.endswith("# block.0")


def test_weights_are_named_by_the_modules_and_tied_ones_are_one(capture):
    weights = lines_of(capture(Net(), (torch.rand(2, 3, 4),)).graph, "weight %")
    names = [line.split("%")[1].split(":")[0] for line in weights]
    assert len(names) == len(set(names)) == 6
    assert {"block.0.weight", "block.0.bias", "shift", "scale"} < set(names)
    assert sum("[5, 4]" in line for line in weights) == 1


def test_each_node_knows_the_users_line(capture):
    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1

    lines = capture(Model(), (torch.rand(2),)).graph.source_lines
    assert len(lines) == 2
    assert lines[0].startswith("test_capture.py:")
    assert lines[0].endswith("in forward: return torch.relu(x) + 1")


def doubled(x):
    return x + x


def test_a_line_is_that_of_the_innermost_function_of_the_user(capture):
    class Model(nn.Module):
        def forward(self, x):
            return doubled(x)

    assert capture(Model(), (torch.rand(2),)).graph.source_lines[0].endswith("in doubled: return x + x")
    assert capture(doubled, (torch.rand(2),)).graph.source_lines[0].endswith("in doubled: return x + x")


def test_a_line_inside_torch_gives_way_to_the_line_that_called_it(capture):
    line = capture(Net(), (torch.rand(2, 3, 4),)).graph.source_lines[0]
    assert line.endswith("in forward: y = self.first(x) * self.scale + self.shift")


def test_outputs_of_a_list_are_values_of_their_own(capture):
    class Model(nn.Module):
        def forward(self, x):
            first, second = torch.split(x, [1, 3], dim=1)
            return first, second

    text = str(capture(Model(), (torch.rand(2, 4),)).graph)
    assert "getitem" not in text
    assert "%split_with_sizes.0: float32[2, 1], %split_with_sizes.1: float32[2, 3] = " in text
    assert "return %split_with_sizes.0, %split_with_sizes.1" in text


class Sizes(nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0] * 2, -1)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    "dynamic",
    [
        {"dynamic_axes": {"x": {0: "batch"}}},
        {"dynamic_axes": {"images": {0: "batch"}}, "input_names": ["images"]},
        {"dynamic_shapes": {"x": {0: torch.export.Dim("batch")}}},
        {"dynamic_shapes": {"x": {0: "batch"}}},
        {"dynamic_shapes": ({0: "batch"},)},
        {"dynamic_shapes": {"x": ("batch", None)}},
    ],
)
def test_sizes_are_expressions_with_the_users_names(capture, batch, dynamic):
    graph = capture(Sizes(), (torch.rand(batch, 4),), **dynamic).graph
    assert "main(%x: float32[batch, 4])" in str(graph)
    assert body_of(graph) == ["  %reshape: float32[2*batch, 2] = aten::reshape(self=%x, shape=[2*batch, -1])"]


def test_unnamed_dynamic_axes_are_named_by_input_and_axis(capture):
    graph = capture(Sizes(), (torch.rand(2, 4),), dynamic_axes={"x": [0]}).graph
    assert "%x: float32[x_dim_0, 4]" in str(graph)


def test_a_size_that_the_model_fixes_is_refused(capture):
    class Model(nn.Module):
        def forward(self, x):
            return x + torch.zeros(3, 4)

    with pytest.raises(UnsupportedError, match="3"):
        capture(Model(), (torch.rand(3, 4),), dynamic_axes={"x": {0: "batch"}})


def test_dynamic_axes_of_an_unknown_input_are_refused(capture):
    with pytest.raises(InvalidArgumentError, match=r"'y'.*input"):
        capture(Sizes(), (torch.rand(2, 4),), dynamic_axes={"y": {0: "batch"}})


def test_equal_names_are_equal_sizes(capture):
    class Model(nn.Module):
        def forward(self, x, mask):
            return x.sum(-1) + mask

    axes = {"x": {0: "batch"}, "mask": {0: "batch"}}
    graph = capture(Model(), (torch.rand(2, 4), torch.rand(2)), dynamic_axes=axes).graph
    assert "%x: float32[batch, 4], %mask: float32[batch]" in str(graph)


def test_numbers_are_returned_as_tensors_and_none_not_at_all(capture):
    class Model(nn.Module):
        def forward(self, x):
            return {"y": x + 1, "size": x.shape[0], "none": None}

    text = str(capture(Model(), (torch.rand(2, 3),), dynamic_axes={"x": {0: "n"}}).graph)
    assert "%number_1: int64[] = aten::scalar_tensor(s=n, dtype=int64)" in text
    assert "return %add, %number_1" in text


def test_the_transformer_is_captured_operator_by_operator(capture):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    text = str(capture(nn.TransformerEncoder(layer, 1), (torch.rand(2, 3, 8),)).graph)
    assert "_transformer_encoder_layer_fwd" not in text
    assert "aten::scaled_dot_product_attention" in text
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_model_in_training_is_captured_in_evaluation_and_stays_in_training(capture):
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4))
    graph = capture(model, (torch.rand(2, 4),)).graph
    assert "train=False" in lines_of(graph, "aten::dropout")[0]
    assert "training=False" in lines_of(graph, "aten::batch_norm")[0]
    assert all(module.training for module in model.modules())


def test_models_know_that_they_are_exported(capture):
    class Model(nn.Module):
        def forward(self, x):
            return x + 1 if torch.onnx.is_in_onnx_export() else x - 1

    assert "aten::add" in str(capture(Model(), (torch.rand(2),)).graph)
    assert not torch.onnx.is_in_onnx_export()


def test_keyword_arguments_come_in_the_models_order(capture):
    class Model(nn.Module):
        def forward(self, x, *, second, first):
            return x + first - second

    x, first, second = torch.rand(1), torch.rand(2), torch.rand(3, 1)
    for args, kwargs in [
        ((x,), {"first": first, "second": second}),
        ((x, {"first": first, "second": second}), None),
    ]:
        text = str(capture(Model(), args, kwargs).graph)
        assert "main(%x: float32[1], %second: float32[3, 1], %first: float32[2])" in text


def test_functions_are_models_and_autocast_is_refused(capture):
    assert "aten::sin" in str(capture(lambda x: torch.sin(x), (torch.rand(2),)).graph)
    with torch.autocast("cpu"), pytest.raises(UnsupportedError, match="autocast"):
        capture(nn.Linear(2, 2), (torch.rand(1, 2),))


def test_inputs_that_do_not_fit_are_refused(capture):
    with pytest.raises(InvalidArgumentError, match=r"do not fit Linear\.forward"):
        capture(nn.Linear(2, 2), (torch.rand(1, 2), torch.rand(1)))
