// What the host lends to a running kernel. Included by opbridge/operator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <span>
#include <type_traits>

#include "opbridge/error.h"
#include "opbridge/operator/tensor.h"

namespace opbridge::op {

class Context {
 public:
  // Calls f(begin, end) for parts that together make [0, count), on the threads of the host (ATen's pool, or
  // that of the ONNX Runtime session). A part holds at least `grain` items, but for the last one. What f
  // throws is thrown here.
  template <class F>
  void parallel_for(std::int64_t count, std::int64_t grain, F&& f);

  // Room for `count` elements, uninitialized, aligned to 64 bytes, from the host's allocator; gone when the
  // kernel returns. Parts of a parallel_for may call it.
  template <class T>
  std::span<T> scratch(std::int64_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    constexpr auto kMost =
        std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(T)) / 2;
    if (count < 0 || count > kMost)
      throw Error(ErrorCode::invalid_argument, "more memory is needed than there can be");
    const auto size = static_cast<std::size_t>(count);
    return {static_cast<T*>(scratch_bytes(size * sizeof(T))), size};
  }

  // For Output<T>: makes the output and returns its memory.
  virtual TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) = 0;

 protected:
  using Part = void (*)(void* user, std::int64_t begin, std::int64_t end);
  ~Context() = default;
  virtual void run_parts(std::int64_t count, std::int64_t grain, Part part, void* user) = 0;
  virtual void* scratch_bytes(std::size_t bytes) = 0;
};

// An output whose shape the kernel finds out: its shape rule says Dim::from_data() somewhere.
template <class T>
class Output {
 public:
  Output(Context& context, int index) : context_(&context), index_(index) {}

  // Makes the output, once; uninitialized.
  TensorView<T> allocate(std::span<const std::int64_t> dims) const {
    const TensorRef made = context_->allocate_output(index_, element_type<T>(), dims);
    return {static_cast<T*>(made.data), made.dims};
  }
  TensorView<T> allocate(std::initializer_list<std::int64_t> dims) const {
    return allocate(std::span(dims.begin(), dims.size()));
  }

 private:
  Context* context_;
  int index_;
};

template <class F>
void Context::parallel_for(std::int64_t count, std::int64_t grain, F&& f) {
  if (count <= 0) return;
  if (count <= grain) return f(std::int64_t{0}, count);
  struct Run {
    F& f;
    std::mutex mutex;
    std::exception_ptr thrown;
  } run{f, {}, nullptr};
  const Part part = [](void* user, std::int64_t begin, std::int64_t end) {
    Run& r = *static_cast<Run*>(user);
    try {
      r.f(begin, end);
    } catch (...) {
      const std::lock_guard lock(r.mutex);
      if (!r.thrown) r.thrown = std::current_exception();
    }
  };
  run_parts(count, grain, part, &run);
  if (run.thrown) std::rethrow_exception(run.thrown);
}

}  // namespace opbridge::op
