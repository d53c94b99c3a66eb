// A hand-written kernel for 2a + b in PyTorch: the baseline for operators/my_add.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

static at::Tensor my_add(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes() && a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat);
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  at::Tensor out = at::empty_like(x);
  const float* const p = x.const_data_ptr<float>();
  const float* const q = y.const_data_ptr<float>();
  float* const r = out.mutable_data_ptr<float>();
  at::parallel_for(0, x.numel(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) r[i] = 2 * p[i] + q[i];
  });
  return out;
}

TORCH_LIBRARY_FRAGMENT(byhand, m) { m.def("my_add(Tensor a, Tensor b) -> Tensor"); }
TORCH_LIBRARY_IMPL(byhand, CPU, m) { m.impl("my_add", my_add); }
