// The services of ONNX Runtime for a running kernel: output memory, scratch memory, threads, and the stream
// of a GPU.
#pragma once

#include <onnxruntime_c_api.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "library.h"
#include "ort_status.h"

namespace opbridge::op::detail {

// Allocates the memory of outputs and records their shapes.
class Outputs {
 public:
  Outputs(const OrtApi& api, OrtKernelContext* context) : api_(api), context_(context) {}

  TensorRef allocate(int output, ElementType type, std::span<const std::int64_t> dims) {
    std::vector<std::int64_t>& kept = dims_.emplace_back(dims.begin(), dims.end());
    OrtValue* value = nullptr;
    check(api_, api_.KernelContext_GetOutput(context_, static_cast<std::size_t>(output), kept.data(),
                                             kept.size(), &value));
    if (value == nullptr) throw Error(ErrorCode::internal, "ONNX Runtime allocates no memory for an output");
    void* data = nullptr;
    check(api_, api_.GetTensorMutableData(value, &data));
    return {type, data, kept};
  }

 private:
  const OrtApi& api_;
  OrtKernelContext* context_;
  std::deque<std::vector<std::int64_t>> dims_;
};

class OrtContext final : public Context {
 public:
  OrtContext(const OrtApi& api, OrtKernelContext* context)
      : api_(api), context_(context), outputs_(api, context) {}
  ~OrtContext() {
    for (void* memory : scratch_) allocator_->Free(allocator_, memory);
    if (allocator_ != nullptr) api_.ReleaseAllocator(allocator_);
    if (memory_info_ != nullptr) api_.ReleaseMemoryInfo(memory_info_);
  }
  OrtContext(const OrtContext&) = delete;
  OrtContext& operator=(const OrtContext&) = delete;

  TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) override {
    return outputs_.allocate(output, type, dims);
  }

 private:
  void run_parts(std::int64_t count, std::int64_t grain, Part part, void* user) override {
    // The API does not report the number of threads of the session. Makes enough parts to balance the load on
    // all processors.
    const std::int64_t most = 4 * std::max<std::int64_t>(std::thread::hardware_concurrency(), 1);
    const std::int64_t parts = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, most);
    struct Call {
      Part part;
      void* user;
      std::int64_t count, parts;
    } call{part, user, count, parts};
    check(api_, api_.KernelContext_ParallelFor(
                    context_,
                    [](void* raw, std::size_t i) {
                      const Call& c = *static_cast<Call*>(raw);
                      const auto index = static_cast<std::int64_t>(i);
                      const std::int64_t size = c.count / c.parts, rest = c.count % c.parts;
                      const std::int64_t begin = index * size + std::min(index, rest);
                      c.part(c.user, begin, begin + size + (index < rest ? 1 : 0));
                    },
                    static_cast<std::size_t>(parts), 0, &call));
  }

  void* scratch_bytes(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 64;
    const std::lock_guard lock(mutex_);
    if (allocator_ == nullptr) {
      check(api_, api_.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_info_));
      check(api_, api_.KernelContext_GetAllocator(context_, memory_info_, &allocator_));
    }
    scratch_.reserve(scratch_.size() + 1);
    void* memory = allocator_->Alloc(allocator_, bytes + kAlignment);
    if (memory == nullptr) throw Error(ErrorCode::invalid_argument, "no memory left");
    scratch_.push_back(memory);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  }

  const OrtApi& api_;
  OrtKernelContext* context_;
  Outputs outputs_;
  std::mutex mutex_;
  OrtMemoryInfo* memory_info_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  std::vector<void*> scratch_;
};

// The CUDA provider makes its device current before it runs a kernel.
class OrtCudaHost final : public CudaHost {
 public:
  OrtCudaHost(const OrtApi& api, OrtKernelContext* context)
      : CudaHost(stream_of(api, context)), outputs_(api, context) {}

  TensorRef allocate_output(int output, ElementType type, std::span<const std::int64_t> dims) override {
    return outputs_.allocate(output, type, dims);
  }

 private:
  static CudaStream stream_of(const OrtApi& api, const OrtKernelContext* context) {
    void* stream = nullptr;
    check(api, api.KernelContext_GetGPUComputeStream(context, &stream));
    return static_cast<CudaStream>(stream);
  }

  Outputs outputs_;
};

}  // namespace opbridge::op::detail
