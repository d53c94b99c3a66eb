"""Functionalized programs with views and in-place operators, against PyTorch."""

import re
import subprocess
import warnings

import onnx
import pytest
import torch
from command import OPBRIDGE
from functionalize_check import Model, check
from torch import nn

import opbridge
import opbridge.capture
from checking.models import compare, loaded
from opbridge import TraceWarning, UnsupportedError, _core
from opbridge.runtime import run, session


# torchvision's swin_t marks its shifted windows so.
def windows(x, y):
    mask = x.new_zeros((4, 4))
    for count, (rows, columns) in enumerate([((0, 2), (0, 2)), ((0, 2), (2, 4)), ((2, 4), (0, 2)), ((2, 4), (2, 4))]):
        mask[rows[0] : rows[1], columns[0] : columns[1]] = count
    return mask.view(2, 2, 2, 2).permute(0, 2, 1, 3).reshape(4, 4)


def assignments(x, y):
    z = x * 1
    z[:, 0] = y
    z[1:3, ::2] = 5
    z[..., -1] += 1
    z[z > 2] -= 1
    z[z < 0] = 0
    z.masked_fill_(z == 0, -1)
    z[1] = z[2].clone()
    return z


def views_before_and_after(x, y):
    z = x + 1
    rows, flat, turned = z[1:3], z.view(-1), z.t()
    z.add_(1)
    rows.mul_(2)
    turned[0].neg_()
    flat[:3] = 9
    return rows, flat, turned, z


def parts(x, y):
    z = x * 1
    first, second = z.split([1, 3])
    second.mul_(2)
    columns = z.unbind(1)
    columns[1].copy_(columns[2])
    z.chunk(2)[1].neg_()
    z.tensor_split(3)[0].fill_(4)
    z.narrow(0, -2, 2).sub_(1)
    return first, second, columns[2], z


def arrangements(x, y):
    z = (x * 1).reshape(2, 2, 3)
    a, b, c, d = z.permute(2, 0, 1), z.movedim(0, -1), z.transpose(0, 2), z.mT
    a[1] = 7
    b.add_(1)
    c[0, 1] = -1
    d.mul_(2)
    z.unflatten(2, (3, 1)).squeeze(3).unsqueeze(0)[0, 0].neg_()
    return z, a, b, c, d


def rearranged_in_place(x, y):
    z = x * 1
    turned = z.t()
    z.t_()
    z.unsqueeze_(0)
    z[0, 0] = 5
    turned.add_(1)
    z.squeeze_().transpose_(0, 1)
    return z, turned


def other_types(x, y):
    z = x * 1
    z.add_(y[:3].double()).copy_(torch.ones(3, dtype=torch.int64)).gt_(0).div_(torch.full((), 2, dtype=torch.float64))
    i = torch.arange(3)
    i.copy_(y[:3] * 2)
    i.mul_(True)
    flags = x > 0
    flags &= x < 2
    return z, i, flags


def out_arguments(x, y):
    total, largest, where = torch.empty(4, 3), torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.mul(x, 2, out=total)
    torch.max(x, 1, out=(largest, where))
    turned = torch.empty(3, 4)
    torch.sub(x, 1, out=turned.t())
    wide = torch.empty(4, 3, dtype=torch.float64)
    torch.add(x, x, out=wide)
    return total, largest, where, turned, wide


def out_arguments_by_other_names(x, y):
    values, where = torch.empty(4, 3), torch.empty(4, 3, dtype=torch.int64)
    torch.cummax(x, 1, out=(values, where))
    least, greatest = torch.empty(()), torch.empty(())
    torch.aminmax(x, out=(least, greatest))
    q, r = torch.empty(4, 3), torch.empty(3, 3)
    torch.linalg.qr(x * x + torch.eye(4, 3), out=(q, r))
    return values, where, least, greatest, q, r


def out_arguments_of_another_type(x, y):
    root, points = torch.empty(4, 3, dtype=torch.float64), torch.empty(5, dtype=torch.float64)
    torch.sqrt(x.abs(), out=root)
    torch.logspace(0, 1, 5, out=points)
    return root, points


def out_arguments_of_copied_views(x, y):
    buffers = torch.zeros(4, 2, 4, 3)
    copying = torch.alias_copy, torch.detach_copy, torch.conj_physical, torch.ops.aten.clone.out
    for copy, buffer in zip(copying, buffers, strict=True):
        copy(x, out=buffer[1]).add_(1)
    flipped = x.clone()
    flipped[1:].conj_physical_()
    return buffers, flipped, x


def views_of_results(x, y):
    results = torch.special.erfcx(x), x.cumprod(1), torch.logaddexp(x, x.clone()), torch.randint_like(x, 1, 2)
    for each in results:
        each.reshape(-1).add_(1)
    return results


def special_names(x, y):
    z = x * 1
    z.pow_(2)
    z **= y[:3]
    z.floor_divide_(3)
    z.ldexp_(torch.full((), 2))
    u = torch.arange(6)
    u <<= 1
    u //= 3
    return z, u


def copies(x, y):
    z = torch.zeros(4, 3)
    views = z.reshape(-1), z[:2].reshape(6), z.contiguous(), z.view(3, 4).reshape(3, 2, 2), z.detach()
    others = z.t().reshape(-1), z[:, :2].reshape(-1), z.t().contiguous(), z.clone(), z.double().float()
    for i, each in enumerate(views + others):
        each.add_(i)
    return z, *views, *others


def dropout(x, y):
    z = x + 0
    torch.nn.functional.dropout(z, 0.5, training=False).add_(1)
    torch.nn.functional.dropout(z, 0.5, training=False, inplace=True)
    return z


PATTERNS = [
    windows,
    assignments,
    views_before_and_after,
    parts,
    arrangements,
    rearranged_in_place,
    other_types,
    out_arguments,
    out_arguments_by_other_names,
    out_arguments_of_another_type,
    out_arguments_of_copied_views,
    views_of_results,
    special_names,
    copies,
    dropout,
]


@pytest.mark.parametrize("how", ["export", "trace"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern(pattern, how):
    check(pattern, torch.arange(-4.0, 8.0).reshape(4, 3), torch.tensor([1.0, 2.0, 3.0, 0.0]), how=how)


@pytest.mark.parametrize("how", ["export", "trace"])
def test_patterns_in_onnx_runtime(how, tmp_path):
    inputs = torch.arange(-4.0, 8.0).reshape(4, 3), torch.tensor([1.0, 2.0, 3.0, 0.0])
    for pattern in PATTERNS:
        opbridge.export(Model(pattern), inputs, tmp_path / "model.onnx", capture=how, verify=True)


def test_mutated_buffers_and_inputs_are_refused():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    graph = opbridge.capture.capture(Counts(), (torch.ones(2),)).graph
    with pytest.raises(UnsupportedError, match=r"add_.*writes to the buffer or parameter %seen(?s:.*)self.seen \+= 1"):
        _core.functionalize(graph)
    graph = opbridge.capture.capture(Model(lambda x: x[0].zero_()), (torch.ones(2),)).graph
    with pytest.raises(UnsupportedError, match="zero_ writes to the input %"):
        _core.functionalize(graph)


@pytest.mark.parametrize("how", ["export", "trace"])
def test_out_arguments_that_are_refused(how):
    def in_list(x):
        parts = torch.zeros(1, 3), torch.zeros(3, 3)
        torch.split_with_sizes_copy(x, [1, 3], out=parts)
        return parts

    def strided(x):
        return torch.as_strided_copy(x, (2, 2), (1, 3), out=torch.zeros(2, 2))

    for function, reason in ((in_list, "writes to a list of tensors"), (strided, "reads elements by their place")):
        graph = opbridge.capture.capture(Model(function), (torch.ones(4, 3),), how=how).graph
        with pytest.raises(UnsupportedError, match=reason):
            _core.functionalize(graph)


def test_an_empty_out_argument_of_the_caller_is_refused(tmp_path):
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.empty(0))

        def forward(self, x):
            return torch.sin(x, out=self.kept) + 1

    def given(x, out):
        return torch.sin(x, out=out) + 1

    for model, args, owner in (
        (Kept(), (torch.rand(3),), "buffer or parameter %kept"),
        (given, (torch.rand(3), torch.empty(0)), "input %out"),
    ):
        with pytest.raises(UnsupportedError, match=f"sin.out changes the shape or element type of the {owner}"):
            opbridge.export(model, args, tmp_path / "model.onnx", capture="trace", mutations_as_outputs=True)


@pytest.mark.parametrize("how", ["export", "trace"])
def test_mutations_as_outputs(how, tmp_path):
    class Updates(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x, y):
            self.seen[1:] += x.sum(0)[1:]
            x[:, 0].mul_(2)
            y.add_(self.seen)
            return x + self.seen, y

    path = tmp_path / "model.onnx"
    inputs = torch.rand(4, 3), torch.rand(3)
    opbridge.export(Updates(), inputs, path, capture=how, mutations_as_outputs=True)
    names = [output.name for output in onnx.load(path).graph.output[2:]]
    assert names == ["seen_out", "x_out", "y_out"]
    assert len(opbridge.verify(path, Updates(), inputs).outputs) == 5


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_reshape_alias(capture, tmp_path):
    alias = torch.ops.aten._reshape_alias

    def views(x):
        ours = x * 1
        rows = alias(ours, [x.shape[0] * 2, 6], [6, 1])
        rows[:, 0] = 5
        alias(ours.t(), [2, 6, x.shape[0], 1], [6, 1, 12, 7])[1].add_(1)
        alias(ours[1:], [x.shape[0] - 1, 12], [12, 1]).mul_(2)
        return ours, rows, alias(x[:, :0], [0, 3], [3, 1])

    path = tmp_path / "model.onnx"
    x = torch.rand(3, 12)
    sizes = ({0: torch.export.Dim("n", min=2)},)
    opbridge.export(views, (x,), path, capture=capture, dynamic_shapes=sizes, verify=True)
    opbridge.verify(path, views, (torch.rand(5, 12),))
    opbridge.export(lambda x: alias(x, [2, 18], [18, 1]), (x,), path, capture=capture, verify=True)
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Reshape"]

    for function in (
        lambda x: alias(x, [12, 3], [1, 12]) + 1,
        lambda x: alias(x.t(), [12, 3], [3, 1]) + 1,
        lambda x: alias(x, [3, 12], [0, 1]) + 1,
        lambda x: alias(x.t() * torch.rand(12, 3), [12, 3], [1, 12]) + 1,  # the product has an unknown layout
    ):
        with pytest.raises(UnsupportedError, match=r"_reshape_alias with strides that may not be"):
            opbridge.export(function, (x,), path, capture=capture)


@pytest.mark.parametrize("pool", [torch.nn.functional.adaptive_avg_pool2d, torch.nn.functional.adaptive_avg_pool3d])
def test_decomposed_pools_of_channels_last_images(pool, tmp_path):
    def function(x):
        return pool(x.movedim(-1, 1), 1).flatten(1)

    x = torch.rand(2, 5, 6, 3) if "2d" in pool.__name__ else torch.rand(2, 4, 5, 6, 3)
    program = torch.export.export(Model(function), (x,)).run_decompositions()
    opbridge.export(program, (x,), tmp_path / "model.onnx")
    got = run(session(tmp_path / "model.onnx"), {"args_0": x})[0]
    torch.testing.assert_close(got, function(x))


class OfLayout(nn.Module):
    """A reshape copies the memory or not, depending on the strides of an input or a parameter."""

    def __init__(self, stored):
        super().__init__()
        self.weight = nn.Parameter(stored, requires_grad=False)

    def forward(self, x):
        x, weight = x.mul_(2), self.weight * 1
        flat, rows, whole = x.flatten(), self.weight.reshape(-1), x.contiguous()
        flat[0] = 9.0
        whole.view(-1)[1] = 7.0
        return x + 1, flat, rows + 1, weight


LAYOUTS = {
    "permuted": lambda x: x.reshape(4, 2, 3).permute(1, 2, 0),
    "channels last": lambda x: x.reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "sliced": lambda x: x.reshape(2, 3, 4)[:, :2, ::2],
    "of ones": lambda x: x.reshape(2, 3, 1, 4).permute(0, 2, 1, 3),
    "contiguous": lambda x: x.reshape(2, 3, 4),
}


@pytest.mark.parametrize("how", ["export", "trace", "saved"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reshapes_of_memory_that_is_not_contiguous(layout, how, tmp_path):
    make = LAYOUTS[layout]
    path, model, x = tmp_path / "model.onnx", OfLayout(make(torch.rand(24))), make(torch.arange(24.0))
    given = make(torch.arange(24.0))
    if how == "saved":
        torch.export.save(torch.export.export(model, (given,)), tmp_path / "model.pt2")
        given, model = make(torch.arange(24.0)), OfLayout(model.weight)
        command = [OPBRIDGE, "convert", "--mutations-as-outputs", tmp_path / "model.pt2", path]
        subprocess.run(command, check=True)
    else:
        opbridge.export(model, (given,), path, capture=how, mutations_as_outputs=True)
    running = session(path)
    got = run(running, {running.get_inputs()[0].name: x})
    with torch.no_grad():
        expected = [*model(given), given]
    for ours, wanted in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, wanted)


ALIASES = {
    "type_as": lambda x: x.type_as(x),
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "sum_to_size": lambda x: x.sum_to_size(2, 3),
    "to": lambda x: x.to(torch.float32),
    "reshape": lambda x: x.reshape(3, 2),
}


@pytest.mark.parametrize("alias", ALIASES)
def test_writes_to_aliases_beside_vmap(alias, tmp_path):
    """torch decomposes such a program, and does not know that some operators return views."""

    def function(x):
        y = torch.vmap(lambda row: row * 2)(x)
        ALIASES[alias](x).add_(1)
        return x * 1, y

    path, x = tmp_path / "model.onnx", torch.rand(2, 3)
    opbridge.export(function, (x.clone(),), path, mutations_as_outputs=True)
    running, given = session(path), x.clone()
    expected = [*function(given), given]
    for got, wanted in zip(run(running, {running.get_inputs()[0].name: x}), expected, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)], ids=["fixed", "dynamic"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.expand(2, -1, -1),
        lambda x: x[:, :1].expand_as(x),
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.unfold(1, 2, 3),
    ],
)
def test_writes_to_shared_elements_beside_vmap_are_refused(view, dynamic, capture, tmp_path):
    """torch adds the new elements up."""

    def function(x):
        y = x * 2
        view(y)[view(y) > -1] = 1
        return y, torch.vmap(lambda row: row * 2)(y)

    with pytest.raises(UnsupportedError, match="share memory"):
        opbridge.export(function, (torch.rand(2, 3),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_writes_to_expanded_results_are_refused(capture, tmp_path):
    def function(x):
        rows = torch.meshgrid(x * 2, torch.arange(3.0), indexing="ij")[1]
        rows[:1] = rows.sum(0, keepdim=True)
        return rows

    with pytest.raises(UnsupportedError, match="several elements of which may share memory"):
        opbridge.export(function, (torch.rand(3),), tmp_path / "model.onnx", capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_scattering_of_its_own_elements_is_refused(capture, tmp_path):
    def masked(x):
        x = x * 1
        return x.masked_scatter_(x > 0, x[:2])

    def accumulated(x):
        x = x.permute(2, 0, 1) * 1
        return x.index_put_((torch.tensor([0, 0]),), x[0], accumulate=True)

    def one_number(x):
        x = x * 1
        x[x > 0] = x[0, 0]
        return x

    path = tmp_path / "model.onnx"
    for function, example in ((masked, torch.linspace(-2, 1, 15).view(5, 3)), (accumulated, torch.randn(3, 2, 4))):
        with pytest.raises(UnsupportedError, match="reads a view of the tensor that it writes to"):
            opbridge.export(function, (example,), path, capture=capture)
    opbridge.export(one_number, (torch.randn(5, 3),), path, capture=capture, verify=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("returned", [lambda x: x.type_as(x), lambda x: x.to("cpu")])
def test_the_shape_of_what_may_be_an_input_is_not_changed(returned, capture, tmp_path):
    def model(x):
        x[0] -= 1.5
        y = returned(x)
        y.transpose_(0, 1)
        return y

    with pytest.raises(opbridge.UnsupportedError, match="chang"):
        opbridge.export(model, (torch.randn(2, 3),), tmp_path / "m.onnx", capture=capture, mutations_as_outputs=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_result_that_may_be_another_tensor_is_rearranged(capture, tmp_path):
    def model(x):
        y = (x * 2).to("cpu")
        y.transpose_(0, 1)
        return y.unsqueeze_(0) + 1

    def read_afterwards(x):
        y = x * 2
        z = y.to("cpu")
        z.transpose_(0, 1)
        return y + 1

    x, path = torch.randn(2, 3), tmp_path / "m.onnx"
    for each in (model, read_afterwards):
        opbridge.export(each, (x,), path, capture=capture)
        compare(each, loaded(path), [(x,)])


def _shift(to, of):
    def write(x):
        x[to] = x[of]

    return write


def _add(to, of):
    return lambda x: x[to].add_(x[of])


ALL, UP_TO, FROM, BOTH = slice(None), slice(None, -1), slice(1, None), slice(0, 2)
# PyTorch reads these elements before it writes to them, or writes what they already are.
ORDERED_WRITES = {
    "shift back": _shift((ALL, UP_TO), (ALL, FROM)),
    "add the next": _add((ALL, UP_TO), (ALL, FROM)),
    "shift back by one and forth by one": _shift((ALL, UP_TO, FROM), (ALL, FROM, UP_TO)),
    "halves": _shift((..., slice(0, 2)), (..., slice(2, 4))),
    "later half": _shift((..., slice(2, 4)), (..., slice(0, 2))),
    "every other": _add((..., slice(1, None, 2)), (..., slice(0, None, 2))),
    "one row for all": _shift((ALL, ALL, BOTH), (ALL, slice(0, 1), BOTH)),
    "selected row": _shift((ALL, FROM), (ALL, slice(0, 1))),
    "rows of one": _shift((0, FROM), (1, UP_TO)),
    "itself": _add((ALL, FROM), (ALL, FROM)),
    "a number of it": lambda x: x[..., :3].masked_fill_(x[..., :3] > 0, x[0, 0, 0]),
    "parts": lambda x: x.split(2, -1)[1].add_(x.split(2, -1)[0]),
    "elements": lambda x: x.unbind(1)[2].copy_(x.select(1, 1)),
    "last of all": _shift(-1, 0),
    "last of all, kept": _add((slice(-1, None),), (slice(0, 1),)),
}
CHANGED_BEFORE_READ = {
    "shift forth": _shift((ALL, FROM), (ALL, UP_TO)),
    "add the last": _add((ALL, FROM), (ALL, UP_TO)),
    "columns": _shift((..., FROM), (..., UP_TO)),
    "forth by one and back by one": _shift((ALL, FROM, UP_TO), (ALL, UP_TO, FROM)),
    "one row to all": _add((ALL, ALL, BOTH), (ALL, slice(0, 1), BOTH)),
    "transposed": lambda x: x[0, :3, :3].add_(x[0, :3, :3].t()),
    "narrow": lambda x: x.narrow(1, 1, 3).mul_(x.narrow(1, 0, 3)),
    "out": lambda x: torch.add(x[:, :-1], 1, out=x[:, 1:]),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)], ids=["fixed", "dynamic"])
def test_a_tensor_may_be_written_from_another_part_of_it(dynamic, capture, tmp_path):
    def write(x):
        copies = [x.clone() for _ in ORDERED_WRITES]
        for write, copy in zip(ORDERED_WRITES.values(), copies, strict=True):
            write(copy)
        return copies

    path, x = tmp_path / "model.onnx", torch.randn(2, 5, 4)
    opbridge.export(write, (x,), path, capture=capture, dynamic_shapes=dynamic)
    running = session(path)
    for name, got, wanted in zip(
        ORDERED_WRITES, run(running, {running.get_inputs()[0].name: x}), write(x), strict=True
    ):
        torch.testing.assert_close(got, wanted, msg=name)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [None, ({0: "n", 1: "m"},)], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("write", CHANGED_BEFORE_READ)
def test_a_write_that_changes_what_it_is_to_read_is_refused(write, dynamic, capture, tmp_path):
    """PyTorch reads the new elements; ONNX would read the old ones."""

    def model(x):
        x = x.clone()
        CHANGED_BEFORE_READ[write](x)
        return x

    with pytest.raises(UnsupportedError, match=r"reads a view of the tensor that it writes to; pass a copy"):
        opbridge.export(model, (torch.randn(3, 5, 4),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_flatten_that_joins_no_dims_is_the_tensor_itself(capture, tmp_path):
    def turned(x):
        x.flatten(1, -1).t_()
        return x + 1

    with pytest.raises(UnsupportedError, match="changes the shape"):
        opbridge.export(turned, (torch.rand(2, 3),), tmp_path / "model.onnx", capture=capture)

    def joined(x):
        flat = (x * 2).flatten()
        flat.unsqueeze_(0)
        return flat + 1, x.sum().flatten()

    opbridge.export(joined, (torch.rand(2, 3),), tmp_path / "model.onnx", capture=capture, verify=True)


class WritesToReshape(nn.Module):
    def forward(self, x):
        flat = x.flatten()
        x.mul_(2)
        return flat + 1


class ReadsReshapeFirst(nn.Module):
    def forward(self, x):
        flat = x.flatten() + 1
        x.mul_(2)
        return flat, x.flatten()


class WritesToPermuted(nn.Module):
    def forward(self, x):
        flat = x.permute(0, 2, 3, 1).flatten()
        flat[0] = 7.0
        return x + 1


class WritesToPermutedAndReadsItAlone(nn.Module):
    def forward(self, x):
        flat = x.clone().permute(0, 2, 3, 1).flatten()
        flat[0] = 7.0
        return flat, x


class WritesToContiguous(nn.Module):
    def forward(self, x):
        whole = x.contiguous()
        whole += 1
        return x * 2


IMAGE = torch.arange(24.0).reshape(1, 2, 3, 4)


@pytest.mark.parametrize("how", ["export", "trace"])
@pytest.mark.parametrize(
    ("model", "is_told"),
    [
        (WritesToReshape, "aten::mul_.Tensor at .* does not change %flatten only because of the memory layout"),
        (WritesToPermuted, "changes %x only because of the memory layout of an input"),
        (WritesToContiguous, "does not change %x only because of the memory layout"),
        (ReadsReshapeFirst, None),
        (WritesToPermutedAndReadsItAlone, None),
    ],
)
def test_a_write_that_hangs_on_the_layout_of_the_example_is_told(model, is_told, how, tmp_path):
    for layout in (torch.channels_last, torch.contiguous_format):
        x = IMAGE.to(memory_format=layout)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            opbridge.export(model(), (x,), tmp_path / "m.onnx", capture=how, mutations_as_outputs=True, verify=True)
        told = [str(warning.message) for warning in caught if warning.category is TraceWarning]
        assert len(told) == (1 if is_told and layout is torch.channels_last else 0)
        assert not told or re.search(is_told, told[0])
