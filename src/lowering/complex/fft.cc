// Fourier transforms. Complex tensors are pairs in a last dim (see complex.h), as in ONNX's DFT. A DFT in
// float32 may have errors that grow with the length, beyond 0.1 for a thousand elements; so the input is cast
// to float64.
#include <cmath>

#include "lowering/add.h"
#include "lowering/common.h"
#include "lowering/complex/complex.h"
#include "lowering/nn/window.h"

namespace opbridge::lowering {
namespace {

using Norm = std::optional<std::string>;
using Sizes = std::optional<std::vector<Dim>>;
using Axes = std::optional<std::vector<int64_t>>;

// The input and output of a transform. `half` is the half spectrum that determines a real signal.
enum class Form { complex, real_to_half, half_to_real };

struct Transform {
  Form form;
  bool forward;
};

constexpr ElementType wide_type = ElementType::float64;

// The signal as float64: (…, 2) for a complex tensor, (…, 1) for a real one.
Value as_signal(GraphBuilder& g, Value self, std::string_view argument) {
  Value wide = g.cast(self, wide_type);
  return is_in_pairs(g, argument) ? wide : g.unsqueeze(wide, {-1});
}

// Truncates the axis, or pads it with zeros.
Value resize(GraphBuilder& g, Value x, int64_t axis, const Dim& size) {
  if (x.dim(axis) == size) return x;
  const auto rank = static_cast<size_t>(x.rank()), index = static_cast<size_t>(axis);
  std::vector<Dim> dims = x.dims();
  const Dim missing = max(size - dims[index], Dim(0));
  if (!missing.is(0)) {
    std::vector<Dim> pads(2 * rank, Dim(0));
    pads[rank + index] = missing;
    dims[index] = dims[index] + missing;
    x = g.op("Pad", x, g.sizes(pads));
  }
  if (dims[index] == size) return x;
  dims[index] = size;
  return g.typed(g.slice(x, axis, g.ints({0}), g.size(size)), dims);
}

Value dft(GraphBuilder& g, Value x, int64_t axis, bool inverse, bool onesided) {
  // Before opset 20, ONNX requires a batch dim.
  if (x.rank() == 2) return g.squeeze(dft(g, g.unsqueeze(x, {0}), axis + 1, inverse, onesided), {0});
  std::vector<Dim> dims = x.dims();
  dims.back() = Dim(2);
  if (onesided) dims.at(axis) = floor_div(dims.at(axis), Dim(2)) + Dim(1);
  const Attr way = attr("inverse", inverse), half = attr("onesided", onesided);
  if (g.opset() < 20) return g.typed(g.op("DFT", x, way, half, attr("axis", axis)), std::move(dims));
  return g.typed(g.op("DFT", x, std::nullopt, g.scalar(axis, ElementType::int64), way, half),
                 std::move(dims));
}

Value conjugate(GraphBuilder& g, Value x) {
  if (x.dim(-1).is(1)) return x;
  const double signs[] = {1, -1};
  return g.op("Mul", x, g.constant(ir::Weight::of(std::span<const double>(signs), {2})));
}

// The whole spectrum of length `size` from its first half `x`: x[size - k] is the conjugate of x[k].
Value whole_spectrum(GraphBuilder& g, Value x, int64_t axis, const Dim& size) {
  const Dim rest = size - x.dim(axis);
  std::vector<Dim> dims = x.dims();
  dims.at(axis) = rest;
  Value mirrored = g.typed(g.slice(x, axis, g.size(rest), g.scalar(0, ElementType::int64), -1), dims);
  return g.concat({x, conjugate(g, mirrored)}, axis);
}

// The spectrum of a real signal is real at 0 and at half of the length along every axis. A DFT has a rounding
// error there, by which an angle of pi becomes -pi.
Value real_where_own_mirror(GraphBuilder& g, Value x, const std::vector<int64_t>& axes,
                            const std::vector<Dim>& lengths) {
  const bool parts[] = {false, true};
  Value imaginary = g.constant(ir::Weight::of(std::span<const bool>(parts), {2}));
  Value real = g.scalar(0, wide_type);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim size = x.dim(axes[i]);
    Value rest = g.op("Mod", arithmetic(g, 0, 2, size), g.size(lengths[i]));
    std::vector<Dim> shape(static_cast<size_t>(x.rank() - axes[i]), Dim(1));
    shape.front() = size;
    Value is_mirror = g.reshape(g.op("Equal", rest, g.scalar(0, ElementType::int64)), shape);
    if (i == 0) is_mirror = g.op("And", is_mirror, imaginary);
    real = g.typed(g.op("Where", is_mirror, real, x), x.dims());
  }
  return real;
}

Value times(GraphBuilder& g, Value x, const Dim& factor) {
  return factor.is(1) ? x : g.op("Mul", x, g.scalar(factor, wide_type));
}

// Applies the norm. `divided` is the factor by which the inverse DFT has already divided.
Value normalize(GraphBuilder& g, Value x, const Dim& count, const Dim& divided, bool forward,
                const Norm& norm) {
  const std::string name = norm.value_or("backward");
  if (name == "ortho") {
    if (count.is_static() && divided.is_static()) {
      const double factor =
          static_cast<double>(divided.value()) / std::sqrt(static_cast<double>(count.value()));
      return g.op("Mul", x, g.scalar(factor, wide_type));
    }
    return g.op("Div", times(g, x, divided), g.op("Sqrt", g.scalar(count, wide_type)));
  }
  const bool whole = name == (forward ? "backward" : "forward");
  if (whole) return times(g, x, divided);
  return divided == count ? x : g.op("Div", times(g, x, divided), g.scalar(count, wide_type));
}

Value transform(GraphBuilder& g, Value self, Transform kind, const Sizes& sizes, const Axes& dims,
                const Norm& norm) {
  Value x = as_signal(g, self, "self");
  const int64_t rank = x.rank() - 1;
  std::vector<int64_t> axes;
  if (dims) {
    axes = wrap_axes(*dims, rank);
  } else {
    const int64_t count = sizes ? static_cast<int64_t>(sizes->size()) : rank;
    if (count > rank) g.refuse("more sizes are given than the tensor has dims");
    for (int64_t axis = rank - count; axis < rank; ++axis) axes.push_back(axis);
  }
  if (axes.empty() && kind.form != Form::complex) g.refuse("the transform has no axis; pass dim");
  const bool to_real = kind.form == Form::half_to_real;
  std::vector<Dim> lengths;
  Dim count(1), divided(1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& had = x.dim(axes[i]);
    const bool given = sizes && !sizes->at(i).is(-1);
    const bool halved = to_real && i + 1 == axes.size();
    lengths.push_back(given ? sizes->at(i) : halved ? Dim(2) * (had - Dim(1)) : had);
    count = count * lengths[i];
  }
  const bool is_real = x.dim(-1).is(1) && !to_real && !axes.empty();
  const bool inverse = !kind.forward && !is_real;  // that of a real signal is the conjugate of its transform
  auto step = [&](int64_t axis, const Dim& length, bool onesided = false) {
    x = dft(g, resize(g, x, axis, length), axis, inverse, onesided);
    if (inverse) divided = divided * length;
  };

  if (is_real) step(axes.back(), lengths.back(), kind.form == Form::real_to_half);
  const size_t others = is_real || to_real ? axes.size() - 1 : axes.size();
  for (size_t i = 0; i < others; ++i) step(axes[i], lengths[i]);
  if (to_real) {
    const Dim& length = lengths.back();
    x = resize(g, x, axes.back(), floor_div(length, Dim(2)) + Dim(1));
    x = whole_spectrum(g, x, axes.back(), length);
    step(axes.back(), length);
    x = g.gather(x, g.scalar(0, ElementType::int64), -1);
  } else if (x.dim(-1).is(1)) {  // no dim to transform
    x = resize(g, x, rank, Dim(2));
  } else if (is_real) {
    const bool is_conjugate = !kind.forward, has_negative_zeros = axes.size() == 1;
    if (is_conjugate && !has_negative_zeros) x = conjugate(g, x);
    x = real_where_own_mirror(g, x, axes, lengths);
    if (is_conjugate && has_negative_zeros) x = conjugate(g, x);
  }
  return g.cast(normalize(g, x, count, divided, kind.forward, norm), part_type(g.result().element_type));
}

// Rolls each dim by half of its size.
Value shifted(GraphBuilder& g, Value self, const Axes& dims, bool inverse) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < self.rank(); ++axis) axes.push_back(axis);
  if (dims) axes = wrap_axes(*dims, self.rank());
  for (int64_t axis : axes) {
    const Dim size = self.dim(axis), half = floor_div(size, Dim(2));
    Value cut = g.size(inverse ? half : size - half);
    const std::vector<Dim> all = self.dims();
    Value head = g.slice(self, axis, g.scalar(0, ElementType::int64), cut);
    Value tail = g.slice(self, axis, cut, g.size(size));
    self = g.typed(g.concat({tail, head}, axis), all);
  }
  return self;
}

// The index in the signal of each element of each frame, (frames, length).
Value frame_indices(GraphBuilder& g, const Dim& frames, int64_t hop, int64_t length) {
  Value starts = g.unsqueeze(arithmetic(g, 0, hop, frames), {1});
  return g.op("Add", starts, arithmetic(g, 0, 1, length));
}

struct Frames {
  int64_t length, hop;
  Value window;  // (length); empty if it is all ones

  Frames(GraphBuilder& g, int64_t n_fft, std::optional<int64_t> hop_length, std::optional<int64_t> win_length,
         std::optional<Value> given)
      : length(n_fft), hop(hop_length.value_or(n_fft / 4)) {
    if (is_in_pairs(g, "window")) g.refuse("a complex window is not supported; multiply the frames by it");
    per_axis(g, "n_fft", {length}, 1, 1);
    per_axis(g, "hop_length", {hop}, 1, 1);
    const int64_t size = per_axis(g, "win_length", {win_length.value_or(n_fft)}, 1, 1).front();
    if (size > n_fft) g.refuse("win_length is larger than n_fft");
    const int64_t left = (n_fft - size) / 2;
    if (!given && size == n_fft) return;
    window = given ? g.cast(*given, wide_type) : filled(g, std::vector{Dim(size)}, 1, wide_type);
    if (size == n_fft) return;
    window = g.typed(g.op("Pad", window, g.ints({left, n_fft - size - left})), {Dim(n_fft)});
  }
};

Value centered_stft(GraphBuilder& g, Value self, int64_t n_fft, std::optional<int64_t> hop_length,
                    std::optional<int64_t> win_length, std::optional<Value> given, bool center,
                    const std::string& pad_mode, bool normalized, std::optional<bool> onesided, Ignored,
                    std::optional<bool> align_to_window) {
  if (align_to_window.value_or(false)) g.refuse("align_to_window=True is not supported");
  const Frames frames(g, n_fft, hop_length, win_length, given);
  Value x = as_signal(g, self, "self");
  const bool is_batch = x.rank() == 3;
  if (!is_batch) x = g.unsqueeze(x, {0});
  if (center && pad_mode == "circular") g.refuse("pad_mode=\"circular\" is not supported; call F.pad before");
  if (center) {
    x = g.op("Pad", x, g.ints({0, n_fft / 2, 0, 0, n_fft / 2, 0}),
             attr("mode", pad_mode == "replicate" ? "edge" : pad_mode));
  }
  const Dim count = floor_div(x.dim(1) - Dim(n_fft), Dim(frames.hop)) + Dim(1);
  x = g.gather(x, frame_indices(g, count, frames.hop, n_fft), 1);
  if (frames.window) x = g.op("Mul", x, g.unsqueeze(frames.window, {-1}));
  const bool is_real = x.dim(-1).is(1);
  x = dft(g, x, 2, false, is_real && onesided.value_or(true));
  if (is_real) x = real_where_own_mirror(g, x, {2}, {Dim(n_fft)});
  if (normalized) x = g.op("Div", x, g.scalar(std::sqrt(static_cast<double>(n_fft)), wide_type));
  x = g.transpose(x, {0, 2, 1, 3});
  if (!is_batch) x = g.squeeze(x, {0});
  return g.cast(x, part_type(g.result().element_type));
}

Value stft(GraphBuilder& g, Value self, int64_t n_fft, std::optional<int64_t> hop_length,
           std::optional<int64_t> win_length, std::optional<Value> given, bool normalized,
           std::optional<bool> onesided, Ignored, std::optional<bool> align_to_window) {
  return centered_stft(g, self, n_fft, hop_length, win_length, given, false, "", normalized, onesided, {},
                       align_to_window);
}

// Overlap-add of frames (batch, count, length) at a distance of `hop`.
Value overlap(GraphBuilder& g, Value values, int64_t hop, const Dim& total) {
  const Dim batch = values.dim(0), elements = values.dim(1) * values.dim(2);
  Value indices = frame_indices(g, values.dim(1), hop, values.dim(2).value());
  indices = g.expand(g.reshape(indices, {Dim(1), elements}), std::vector{batch, elements});
  Value sum = g.op("ScatterElements", filled(g, std::vector{batch, total}, 0, wide_type), indices,
                   g.reshape(values, {batch, elements}), attr("axis", 1), attr("reduction", "add"));
  return g.typed(sum, {batch, total});
}

Value istft(GraphBuilder& g, Value self, int64_t n_fft, std::optional<int64_t> hop_length,
            std::optional<int64_t> win_length, std::optional<Value> given, bool center, bool normalized,
            std::optional<bool> onesided, std::optional<int64_t> length, bool return_complex) {
  const Frames frames(g, n_fft, hop_length, win_length, given);
  Value x = as_signal(g, self, "self");
  const bool is_batch = x.rank() == 4;
  if (!is_batch) x = g.unsqueeze(x, {0});
  x = g.transpose(x, {0, 2, 1, 3});
  const Dim batch = x.dim(0), count = x.dim(1), size(n_fft);
  if (!return_complex) {  // PyTorch does not read the second half
    if (!onesided.value_or(!x.dim(2).is(n_fft))) x = resize(g, x, 2, Dim(n_fft / 2 + 1));
    x = whole_spectrum(g, x, 2, size);
  }
  x = dft(g, x, 2, true, false);
  if (normalized) x = g.op("Mul", x, g.scalar(std::sqrt(static_cast<double>(n_fft)), wide_type));

  const Dim total = size + Dim(frames.hop) * (count - Dim(1));
  const int64_t start = center ? n_fft / 2 : 0;
  const Dim end = length ? Dim(start) + Dim(*length) : center ? total - Dim(n_fft / 2) : total;
  auto cut = [&](Value signal) {
    const Dim kept = min(end, total);
    Value part = g.slice(signal, 1, g.scalar(start, ElementType::int64), g.size(kept));
    return g.typed(part, {signal.dim(0), kept - Dim(start)});
  };
  auto ones = [&] { return filled(g, std::vector{size}, 1, wide_type); };
  Value square = frames.window ? g.op("Mul", frames.window, frames.window) : ones();
  Value envelope = cut(overlap(g, g.expand(square, std::vector{Dim(1), count, size}), frames.hop, total));
  auto part = [&](int64_t i) {
    Value values = g.typed(g.gather(x, g.scalar(i, ElementType::int64), -1), {batch, count, size});
    if (frames.window) values = g.op("Mul", values, frames.window);
    Value sum = cut(overlap(g, values, frames.hop, total));
    return resize(g, g.op("Div", sum, envelope), 1, end - Dim(start));
  };
  Value result = part(0);
  if (return_complex) result = g.concat({g.unsqueeze(result, {-1}), g.unsqueeze(part(1), {-1})}, -1);
  if (!is_batch) result = g.squeeze(result, {0});
  return g.cast(result, part_type(g.result().element_type));
}

// Converts the `normalization` of the core operators: 0 divides by nothing, 1 by the root of the element
// count, 2 by the count.
Norm norm_of(int64_t normalization, bool forward) {
  if (normalization == 1) return "ortho";
  return forward == (normalization == 0) ? "backward" : "forward";
}

struct Named {
  const char* name;
  Transform kind;
};
constexpr Named transform_names[] = {
    {"fft", {Form::complex, true}},       {"ifft", {Form::complex, false}},
    {"rfft", {Form::real_to_half, true}}, {"irfft", {Form::half_to_real, false}},
    {"hfft", {Form::half_to_real, true}}, {"ihfft", {Form::real_to_half, false}},
};

}  // namespace

void register_fft(SymbolicRegistry& registry) {
  auto on = add(registry);

  for (const auto& [name, kind] : transform_names) {
    const std::string stem = std::string("aten::fft_") + name;
    on(stem + "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", Since{17},
       [kind](GraphBuilder& g, Value self, std::optional<Dim> n, int64_t dim, Norm norm) {
         return transform(g, self, kind, n ? Sizes(std::vector{*n}) : std::nullopt, std::vector{dim}, norm);
       });
    on(stem + "2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", Since{17},
       [kind](GraphBuilder& g, Value self, Sizes s, std::vector<int64_t> dim, Norm norm) {
         return transform(g, self, kind, s, dim, norm);
       });
    on(stem + "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", Since{17},
       [kind](GraphBuilder& g, Value self, Sizes s, Axes dim, Norm norm) {
         return transform(g, self, kind, s, dim, norm);
       });
  }

  on("aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", Since{17},
     [](GraphBuilder& g, Value self, std::vector<int64_t> dim, int64_t normalization, bool forward) {
       return transform(g, self, {Form::complex, forward}, {}, dim, norm_of(normalization, forward));
     });
  on("aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", Since{17},
     [](GraphBuilder& g, Value self, std::vector<int64_t> dim, int64_t normalization, bool onesided) {
       const Form form = onesided ? Form::real_to_half : Form::complex;
       return transform(g, self, {form, true}, {}, dim, norm_of(normalization, true));
     });
  on("aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", Since{17},
     [](GraphBuilder& g, Value self, std::vector<int64_t> dim, int64_t normalization, Dim last) {
       std::vector<Dim> sizes(dim.size(), Dim(-1));
       if (dim.empty()) g.refuse("transforms along no dim");
       sizes.back() = last;
       return transform(g, self, {Form::half_to_real, false}, sizes, dim, norm_of(normalization, false));
     });

  on("aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool "
     "normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> "
     "Tensor",
     Since{17}, stft);
  on("aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
     "Tensor? window=None, bool center=True, str pad_mode=\"reflect\", bool normalized=False, "
     "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
     Since{17}, centered_stft);
  on("aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
     "bool "
     "center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) "
     "-> "
     "Tensor",
     Since{17}, istft);

  on("aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Axes dim) { return shifted(g, self, dim, false); });
  on("aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", Since{9},
     [](GraphBuilder& g, Value self, Axes dim) { return shifted(g, self, dim, true); });
}

}  // namespace opbridge::lowering
