// The tensors that kernels read and write. Included by opbridge/operator.h.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "opbridge/element_type.h"

namespace opbridge::op {

// IEEE 754 binary16. Arithmetic happens in float: both conversions are implicit, the one from float rounds to
// nearest, ties to even.
class Half {
 public:
  Half() = default;
  Half(float value);  // NOLINT: mixes with float as a smaller float does
  operator float() const;

 private:
  std::uint16_t bits_;
};

// The upper 16 bits of a float: the same range, with 8 bits of precision.
class BFloat16 {
 public:
  BFloat16() = default;
  BFloat16(float value) {  // NOLINT: mixes with float as a smaller float does
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits_ =
        static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }

 private:
  std::uint16_t bits_;
};

// The C++ types of elements: bool, integers of 8 to 64 bits, Half, BFloat16, float, double, complex.
template <class T>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, Half>) {
    return ElementType::float16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ElementType::bfloat16;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return ElementType::complex64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return ElementType::complex128;
  } else {
    return element_type_of<T>();
  }
}

// A tensor as hosts pass it; its element type is known only at run time.
struct TensorRef {
  ElementType type = ElementType::undefined;
  void* data = nullptr;
  std::span<const std::int64_t> dims;
};

// A tensor in memory that the host owns: contiguous and row-major. TensorView<const T> is read, TensorView<T>
// written. Copying it copies the view.
template <class T>
class TensorView {
 public:
  TensorView(T* data, std::span<const std::int64_t> dims) : data_(data), dims_(dims) {
    for (std::int64_t dim : dims) size_ *= dim;
  }

  T* data() const { return data_; }
  std::int64_t size() const { return size_; }  // number of elements
  bool empty() const { return size_ == 0; }
  int rank() const { return static_cast<int>(dims_.size()); }
  std::int64_t dim(int i) const { return dims_[static_cast<std::size_t>(i < 0 ? i + rank() : i)]; }
  std::span<const std::int64_t> dims() const { return dims_; }

  // Element `i` in memory, or the element at the given indices, one per dimension.
  T& operator[](std::int64_t i) const { return data_[i]; }
  template <std::integral... Index>
  T& operator()(Index... index) const {
    std::int64_t offset = 0;
    std::size_t i = 0;
    ((offset = offset * dims_[i++] + static_cast<std::int64_t>(index)), ...);
    return data_[offset];
  }

  // The i-th slice along the first dimension: an image of a batch, a row of a matrix.
  TensorView slice(std::int64_t i) const {
    TensorView part(data_, dims_.subspan(1));
    part.data_ += i * part.size_;
    return part;
  }

  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  operator std::span<T>() const { return {data_, static_cast<std::size_t>(size_)}; }
  operator TensorView<const T>() const requires(!std::is_const_v<T>) { return {data_, dims_}; }

 private:
  T* data_;
  std::int64_t size_ = 1;
  std::span<const std::int64_t> dims_;
};

inline Half::Half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t result;
  if (magnitude > 0x7f800000u) {
    result = 0x7e00u | (magnitude >> 13 & 0x3ffu);  // a NaN stays one
  } else if (magnitude >= 0x477ff000u) {
    result = 0x7c00u;  // 65520 and above round to infinity
  } else if (magnitude >= 0x38800000u) {
    result = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  } else {
    // Below 2^-14 the result is a multiple of 2^-24, the last bit of 0.5f: the addition rounds to it.
    result = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  }
  bits_ = static_cast<std::uint16_t>(sign | result);
}

inline Half::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits_ & 0x8000u) << 16;
  const std::uint32_t magnitude = bits_ & 0x7fffu;
  std::uint32_t result;
  if (magnitude >= 0x7c00u) {
    result = 0x7f800000u | (magnitude & 0x3ffu) << 13;
  } else if (magnitude >= 0x400u) {
    result = (magnitude << 13) + 0x38000000u;
  } else {
    result = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | result);
}

}  // namespace opbridge::op
