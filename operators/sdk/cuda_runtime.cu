// The functions of the CUDA runtime that CudaContext needs (declared in opbridge/operator/context.h). Linked
// only into libraries with CUDA kernels. Plain CUDA, so that it compiles under any C++ standard that nvcc
// supports.
#include <cstddef>
#include <stdexcept>
#include <string>

namespace opbridge::op::detail {

void check_cuda() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA reports: ") + cudaGetErrorString(error));
}

// Stream-ordered memory: hosts run kernels on several streams, which not all of their allocators distinguish.
void* allocate_on(cudaStream_t stream, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  cudaMallocAsync(&memory, bytes, stream);
  check_cuda();
  return memory;
}

void free_on(cudaStream_t stream, void* memory) {
  if (memory != nullptr) cudaFreeAsync(memory, stream);
}

}  // namespace opbridge::op::detail
