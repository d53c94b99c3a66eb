"""Loss functions, with each reduction."""

import functools
import math
import pathlib

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge

REDUCTIONS = ["none", "mean", "sum"]


def with_reductions(functions):
    return {
        f"{name}, {reduction}": functools.partial(function, reduction=reduction)
        for name, function in functions.items()
        for reduction in REDUCTIONS
    }


ELEMENTWISE = with_reductions(
    {
        "mse": F.mse_loss,
        "l1": F.l1_loss,
        "smooth_l1": F.smooth_l1_loss,
        "smooth_l1, beta": functools.partial(F.smooth_l1_loss, beta=0.3),
        "smooth_l1, beta 0": functools.partial(F.smooth_l1_loss, beta=0.0),
        "huber": functools.partial(F.huber_loss, delta=0.7),
        "poisson_nll": F.poisson_nll_loss,
        "poisson_nll, full": functools.partial(F.poisson_nll_loss, log_input=False, full=True),
        "bce": lambda x, t, reduction: F.binary_cross_entropy(x.sigmoid(), t.sigmoid(), reduction=reduction),
        "bce at the ends": lambda x, t, reduction: F.binary_cross_entropy(
            (x > 0).to(x.dtype), t.sigmoid(), reduction=reduction
        ),
        "bce, weight": lambda x, t, reduction: F.binary_cross_entropy(
            x.sigmoid(), t.sigmoid(), weight=t[0], reduction=reduction
        ),
        "bce of logits": lambda x, t, reduction: F.binary_cross_entropy_with_logits(
            x * 40, t.sigmoid(), weight=t[0], pos_weight=t[1] + 1, reduction=reduction
        ),
        "kl_div": F.kl_div,
        "kl_div of zero": lambda x, t, reduction: F.kl_div(x, t.round(), reduction=reduction),
        "kl_div of logarithms": functools.partial(F.kl_div, log_target=True),
        "soft_margin": F.soft_margin_loss,
        "hinge_embedding": lambda x, t, reduction: F.hinge_embedding_loss(
            x, t.round().clamp(0, 1) * 2 - 1, reduction=reduction
        ),
        "multilabel_soft_margin": F.multilabel_soft_margin_loss,
    }
)
OF_VECTORS = with_reductions(
    {
        "cosine_embedding": lambda a, b, c, reduction: F.cosine_embedding_loss(
            a, b, (c[:, 0] > 0) * 2 - 1, margin=0.2, reduction=reduction
        ),
        "margin_ranking": lambda a, b, c, reduction: F.margin_ranking_loss(
            a, b, c.sign(), margin=0.2, reduction=reduction
        ),
        "triplet_margin": F.triplet_margin_loss,
        "triplet_margin, swap": functools.partial(F.triplet_margin_loss, swap=True, p=1.0, margin=0.5),
    }
)
OF_CLASSES = with_reductions(
    {
        "nll": lambda x, t, w, reduction: F.nll_loss(x, t, reduction=reduction),
        "nll, weight": lambda x, t, w, reduction: F.nll_loss(x, t, w, ignore_index=1, reduction=reduction),
        "cross_entropy": lambda x, t, w, reduction: F.cross_entropy(x, t, reduction=reduction),
        "cross_entropy, weight": lambda x, t, w, reduction: F.cross_entropy(
            x, t, w, ignore_index=2, reduction=reduction
        ),
        "cross_entropy, smoothing": lambda x, t, w, reduction: F.cross_entropy(
            x, t, w, ignore_index=2, label_smoothing=0.2, reduction=reduction
        ),
        "cross_entropy of probabilities": lambda x, t, w, reduction: F.cross_entropy(
            x, x.softmax(1), w, label_smoothing=0.1, reduction=reduction
        ),
    }
)
MARGINS = with_reductions(
    {
        "multi_margin": lambda x, t, w, reduction: F.multi_margin_loss(x, t, reduction=reduction),
        "multi_margin, squares": lambda x, t, w, reduction: F.multi_margin_loss(
            x, t, p=2, margin=0.5, weight=w, reduction=reduction
        ),
    }
)


def positive(*dims, dtype=torch.float32):
    return torch.rand(*dims, dtype=dtype) + 0.1


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_elementwise(opset):
    torch.manual_seed(0)
    rows = torch.export.Dim("rows")
    check(
        ELEMENTWISE,
        torch.randn(3, 4).abs(),
        positive(3, 4) * 2,
        opset=opset,
        dynamic=[{0: rows}, {0: rows}],
        also=[(torch.randn(6, 4).abs(), positive(6, 4))],
    )


def test_elementwise_float64():
    torch.manual_seed(0)
    check(ELEMENTWISE, positive(3, 4, dtype=torch.float64), positive(3, 4, dtype=torch.float64))


def test_vectors():
    torch.manual_seed(0)
    check(OF_VECTORS, torch.randn(5, 4), torch.randn(5, 4), torch.randn(5, 4))


def test_margin_ranking_of_unsigned_integers():
    def ranked(a: torch.Tensor, b: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.margin_ranking_loss(a, b, target, reduction="none")

    a, b = torch.tensor([0, 7, 255], dtype=torch.uint8), torch.tensor([1, 3, 0], dtype=torch.uint8)
    check({"int64": ranked}, a, b, torch.tensor([1, -1, 1]))
    check({"uint8": ranked}, a, b, torch.tensor([1, 255, 2], dtype=torch.uint8))


@pytest.mark.parametrize("opset", [13, 21])
def test_classes(opset):
    torch.manual_seed(0)
    target, weight = torch.tensor([0, 2, 1, 4, 2]), positive(5)
    rows = torch.export.Dim("rows")
    check(
        OF_CLASSES | MARGINS,
        torch.randn(5, 5),
        target,
        weight,
        opset=opset,
        dynamic=[{0: rows}, {0: rows}, {}],
        also=[(torch.randn(2, 5), target[:2].clone(), weight)],
    )


def test_classes_of_pixels():
    torch.manual_seed(0)
    check(OF_CLASSES, torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5)), positive(3))


def test_classes_of_one_sample():
    torch.manual_seed(0)
    check(
        {k: f for k, f in OF_CLASSES.items() if "prob" not in k} | MARGINS, torch.randn(4), torch.tensor(3), positive(4)
    )


def test_all_ignored():
    check(OF_CLASSES, torch.randn(2, 3), torch.tensor([2, 2]), positive(3))


@pytest.mark.parametrize(("kind", "ignored"), [("nll, weight", 1), ("entropy, weight", 2), ("entropy, smoothing", 2)])
def test_all_ignored_without_classes(kind, ignored):
    functions = {name: f for name, f in OF_CLASSES.items() if kind in name}
    assert len(functions) == 3
    check(functions, torch.zeros(2, 0), torch.tensor([ignored, ignored]), torch.zeros(0))


def test_multilabel_margin():
    functions = with_reductions({"multilabel_margin": F.multilabel_margin_loss})
    target = torch.tensor([[1, 0, -1, 2], [3, -1, 1, 0], [-1, 0, 0, 0]])
    check(functions, torch.randn(3, 4), target)
    check(functions, torch.randn(4), target[0].clone())


def test_broadcast():
    check({"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.huber_loss}, torch.randn(3, 4), torch.randn(4))


def test_empty():
    functions = {name: f for name, f in ELEMENTWISE.items() if name.startswith(("mse", "l1", "kl_div,"))}
    check(functions, torch.zeros(0, 4), torch.zeros(0, 4))


@pytest.mark.skipif(not hasattr(F, "linear_cross_entropy"), reason="torch 2.15 has it first")
def test_linear_cross_entropy_in_chunks():
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2) if hasattr(F, "linear_cross_entropy") else None
    torch.manual_seed(0)
    functions = {
        reduction: lambda x, w, t, reduction=reduction: F.linear_cross_entropy(
            x, w, t, reduction=reduction, ignore_index=2, options=options
        )
        for reduction in ("mean", "sum", "none")
    }
    check(functions, torch.randn(5, 3), torch.randn(4, 3), torch.tensor([0, 2, 1, 3, 3]))


def test_one_sample_whose_target_is_a_vector(tmp_path):
    class Losses(torch.nn.Module):
        def forward(self, x, target):
            return F.nll_loss(x, target), F.cross_entropy(x, target), F.multi_margin_loss(x, target, reduction="none")

    opbridge.export(
        Losses(), (torch.randn(3), torch.tensor([2])), tmp_path / "model.onnx", capture="trace", verify=True
    )


def test_margins_that_are_not_a_number_do_not_count():
    x = torch.randn(3, 4)
    x[0, 1] = x[2, 3] = torch.nan
    functions = {
        "multi_margin": lambda x, t: F.multi_margin_loss(x, t[:, 0], reduction="none"),
        "multilabel_margin": lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"),
    }
    check(functions, x, torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0], [0, 1, 2, -1]]))


def test_cosine_embedding_loss_of_integers_that_wrap() -> None:
    x, y = torch.tensor([[255, 3], [16, 1]], dtype=torch.uint8), torch.tensor([[1.0, 0.5], [2.0, -1.0]])
    check(F.cosine_embedding_loss, x, y, torch.tensor([1, -1]))
    check(F.cosine_embedding_loss, x, x.flip(0), torch.tensor([1, -1]))


@pytest.mark.parametrize("margin", [1.0, 1.5, -2.5])
def test_hinge_embedding_loss_of_integers_that_wrap(margin: float) -> None:
    x, kinds = torch.tensor([-32768, 5, 32767, -5], dtype=torch.int16), torch.tensor([0, 1, -1, 1], dtype=torch.int16)
    loss = functools.partial(F.hinge_embedding_loss, margin=margin, reduction="none")
    check(lambda x, t: (loss(x, t), loss(x, t / 2 + 0.75)), x, kinds)


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_hinge_embedding_loss_of_bytes(reduction: str) -> None:
    x, kinds = torch.tensor([9, 1, 0, 255], dtype=torch.uint8), torch.tensor([0, 1, -1, 3])
    check(functools.partial(F.hinge_embedding_loss, reduction=reduction), x, kinds)


def test_soft_margin_loss_overflows_as_pytorch() -> None:
    x, kinds = torch.tensor([9826.5, -80.0, 80.0, 100.0, 0.0]), torch.tensor([-1.5, 1.0, 1.0, -1.0, -1.0])
    check(lambda x, t: F.soft_margin_loss(x, t, reduction="none"), x, kinds)


def test_multi_margin_loss_of_one_sample_with_a_number_for_its_class() -> None:
    loss = functools.partial(F.multi_margin_loss, reduction="none")
    check(loss, torch.tensor([[1.0, 0.5, 2.0]]), torch.tensor(1))


def test_poisson_nll_loss_of_integers_that_wrap() -> None:
    x, targets = torch.tensor([-9223372036854775808, 2, 5]), torch.tensor([4, 3, 1])
    check({str(full): lambda x, t, f=full: F.poisson_nll_loss(x, t, full=f) for full in (False, True)}, x, targets)


def test_multi_margin_loss_of_large_scores() -> None:
    """PyTorch subtracts the score of the target from the margin first."""
    x = torch.tensor([[3e38, 3e38, 3e38], [1e9, 1e9 + 64, 2.0], [-math.inf, 1.0, 2.0]])
    check(functools.partial(F.multi_margin_loss, reduction="none"), x, torch.tensor([0, 0, 1]))


def test_sums_of_integers_that_wrap() -> None:
    x = torch.tensor([[2**62, 2**62, 7], [2**62 + 1, 5, 2]])
    functions = {
        "l1": lambda x: F.l1_loss(x, x * 0, reduction="sum"),
        "hinge": lambda x: F.hinge_embedding_loss(x, x * 0 + 1, reduction="sum"),
    }
    check(functions, x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_differences_of_integers_that_wrap_before_they_are_summed(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.max, limits.min, 3], dtype=dtype)
    other = torch.tensor([limits.min, 1, limits.max, 7], dtype=dtype)
    check(lambda x: (F.l1_loss(x, other, reduction="sum"), F.l1_loss(x, other, reduction="none")), x)


def test_the_weight_of_an_ignored_target_does_not_count() -> None:
    weight = torch.tensor([math.nan, 1.0, 2.0])
    for target in (torch.tensor([1, 1]), torch.tensor([2, 1])):
        check({"sum": lambda x, t: torch.ops.aten.nll_loss_forward(x, t, weight, 2, 1)}, torch.rand(2, 3), target)


def test_weights_of_images_may_have_any_shape(tmp_path: pathlib.Path) -> None:
    """PyTorch's kernel does not check it, the rule of fake tensors does."""
    x, t, weight = torch.rand(2, 3, 1, 2), torch.tensor([[[0, 1]], [[2, 0]]]), torch.tensor([[1.0, 2.0, 3.0]])
    for function in (
        torch.ops.aten.nll_loss2d.default,
        lambda x, t, w: torch.ops.aten.nll_loss2d_forward(x, t, w, 1, -100),
        torch.ops.aten.cross_entropy_loss.default,
    ):
        opbridge.export(function, (x, t, weight), tmp_path / "model.onnx", capture="trace")
        opbridge.verify(tmp_path / "model.onnx", function, (x, t, weight))
