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
#include <vector>

#include "opbridge/error.h"
#include "opbridge/operator/tensor.h"

struct CUstream_st;

namespace opbridge::op {

using CudaStream = CUstream_st*;  // cudaStream_t, known without CUDA's headers

namespace detail {

enum class Device { cpu, cuda };

class DataSizedOutputs;

// What a host does for the call of a kernel on any device.
class Host {
 public:
  // Makes an output and returns its memory.
  virtual TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) = 0;

  // The same for Output<T>, of operators/sdk/library.cc: throws where `outputs` does not expect it.
  TensorRef allocate_data_sized(int output, ElementType type, std::span<const std::int64_t> dims);
  void expect(DataSizedOutputs* outputs) { expected_ = outputs; }

 protected:
  ~Host() = default;

 private:
  DataSizedOutputs* expected_ = nullptr;
};

// What a host does for the call of a CUDA kernel: it has made the device of the tensors the current one.
class CudaHost : public Host {
 public:
  explicit CudaHost(CudaStream stream) : stream_(stream) {}
  CudaStream stream() const { return stream_; }

 protected:
  ~CudaHost() = default;

 private:
  CudaStream stream_;
};

// Of operators/sdk/cuda_runtime.cu, which is part of libraries with CUDA kernels. The first one throws the
// error of the CUDA calls so far.
void check_cuda();
void* allocate_on(CudaStream stream, std::size_t bytes);
void free_on(CudaStream stream, void* memory);

template <class T>
std::size_t scratch_size(std::int64_t count) {
  static_assert(std::is_trivially_destructible_v<T>);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(sizeof(T)) / 2;
  if (count < 0 || count > kMost)
    throw Error(ErrorCode::invalid_argument, "more memory is needed than there can be");
  return static_cast<std::size_t>(count);
}

}  // namespace detail

// Of a kernel on the CPU.
class Context : public detail::Host {
 public:
  static constexpr detail::Device device = detail::Device::cpu;

  // Calls f(begin, end) for parts that together make [0, count), on the threads of the host (ATen's pool, or
  // that of the ONNX Runtime session). A part holds at least `grain` items, but for the last one. What f
  // throws is thrown here.
  template <class F>
  void parallel_for(std::int64_t count, std::int64_t grain, F&& f);

  // Room for `count` elements, uninitialized, aligned to 64 bytes, from the host's allocator; gone when the
  // kernel returns. Parts of a parallel_for may call it.
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

// Of a kernel on a GPU, which is CUDA's current device. When the kernel returns, the error of a launch or of
// another CUDA call that it made becomes the host's error.
class CudaContext {
 public:
  static constexpr detail::Device device = detail::Device::cuda;

  explicit CudaContext(const detail::CudaHost& host) : stream_(host.stream()) {}
  ~CudaContext() {
    for (void* memory : scratch_) detail::free_on(stream_, memory);
  }
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // The host's stream, on which all work of the kernel belongs.
  CudaStream stream() const { return stream_; }

  // Room for `count` elements on the device, uninitialized, from cudaMallocAsync; gone when what the kernel
  // has put on the stream is done.
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

// An output whose shape the kernel finds out: its shape rule says Dim::from_data() somewhere.
template <class T>
class Output {
 public:
  Output(detail::Host& host, int index) : host_(&host), index_(index) {}

  // Makes the output, uninitialized. Every kernel does so once for each Output, in a shape that its rule
  // allows.
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
