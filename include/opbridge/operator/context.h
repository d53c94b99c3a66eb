// The threads, memory and streams that the host lends to a running kernel. Included by opbridge/operator.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

#include "opbridge/error.h"
#include "opbridge/operator/tensor.h"

struct CUstream_st;

namespace opbridge::op {

using CudaStream = CUstream_st*;  // cudaStream_t, known without CUDA's headers

namespace detail {

enum class Device { cpu, cuda };

class DataSizedOutputs;

// The services that a host provides for the call of a kernel on any device.
class Host {
 public:
  // Makes an output and returns its memory.
  virtual TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) = 0;

  // The same for Output<T>, defined in operators/sdk/library.cc: throws if `outputs` does not expect it.
  TensorRef allocate_data_sized(int output, ElementType type, std::span<const std::int64_t> dims);
  void expect(DataSizedOutputs* outputs) { expected_ = outputs; }

 protected:
  ~Host() = default;

 private:
  DataSizedOutputs* expected_ = nullptr;
};

// The services that a host provides for a CUDA kernel. The tensors' device is CUDA's current device.
class CudaHost : public Host {
 public:
  explicit CudaHost(CudaStream stream) : stream_(stream) {}
  CudaStream stream() const { return stream_; }

 protected:
  ~CudaHost() = default;

 private:
  CudaStream stream_;
};

// Defined in operators/sdk/cuda_runtime.cu, which is part of libraries with CUDA kernels. The first one
// throws the pending error of earlier CUDA calls.
void check_cuda();
void* allocate_on(CudaStream stream, std::size_t bytes);
void free_on(CudaStream stream, void* memory);

template <class T>
std::size_t scratch_size(std::int64_t count) {
  static_assert(std::is_trivially_destructible_v<T>);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(T)) / 2;
  if (count < 0 || count > kMost)
    throw Error(ErrorCode::invalid_argument, "the requested memory exceeds the address space");
  return static_cast<std::size_t>(count);
}

}  // namespace detail

// The context of a kernel on the CPU.
class Context : public detail::Host {
 public:
  static constexpr detail::Device device = detail::Device::cpu;

  // Calls f(begin, end) for ranges that partition [0, count), on the threads of the host (ATen's pool, or
  // that of the ONNX Runtime session). A range has at least `grain` items, except for the last one. An
  // exception of f is rethrown here.
  template <class F>
  void parallel_for(std::int64_t count, std::int64_t grain, F&& f);

  // Memory for `count` elements, uninitialized, aligned to 64 bytes, from the host's allocator; freed when
  // the kernel returns. The function of a parallel_for may call it.
  template <class T>
  std::span<T> scratch(std::int64_t count) {
    const std::size_t size = detail::scratch_size<T>(count);
    return {static_cast<T*>(scratch_bytes(size * sizeof(T))), size};
  }

 protected:
  using Part = void (*)(void* user, std::int64_t begin, std::int64_t end);
  ~Context() = default;
  virtual void run_parts(std::int64_t count, std::int64_t grain, Part part, void* user) = 0;
  virtual void* scratch_bytes(std::size_t bytes) = 0;
};

// The context of a kernel on a GPU, which is CUDA's current device. An error of a launch or of another CUDA
// call in the kernel becomes the host's error when the kernel returns.
class CudaContext {
 public:
  static constexpr detail::Device device = detail::Device::cuda;

  explicit CudaContext(const detail::CudaHost& host) : stream_(host.stream()) {}
  ~CudaContext() {
    for (void* memory : scratch_) detail::free_on(stream_, memory);
  }
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // The host's stream, on which the kernel must launch all of its work.
  CudaStream stream() const { return stream_; }

  // Memory for `count` elements on the device, uninitialized, from cudaMallocAsync; freed when the kernel's
  // work on the stream is done.
  template <class T>
  std::span<T> scratch(std::int64_t count) {
    const std::size_t size = detail::scratch_size<T>(count);
    scratch_.push_back(nullptr);
    scratch_.back() = detail::allocate_on(stream_, size * sizeof(T));
    return {static_cast<T*>(scratch_.back()), size};
  }

 private:
  CudaStream stream_;
  std::vector<void*> scratch_;
};

// An output whose shape the kernel determines: its shape rule returns Dim::from_data() for some dim.
template <class T>
class Output {
 public:
  Output(detail::Host& host, int index) : host_(&host), index_(index) {}

  // Allocates the output, uninitialized. A kernel must call it once for each Output, with a shape that the
  // shape rule allows.
  TensorView<T> allocate(std::span<const std::int64_t> dims) const {
    const TensorRef made = host_->allocate_data_sized(index_, element_type<T>(), dims);
    return {static_cast<T*>(made.data), made.dims};
  }
  TensorView<T> allocate(std::initializer_list<std::int64_t> dims) const {
    return allocate(std::span(dims.begin(), dims.size()));
  }

 private:
  detail::Host* host_;
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
