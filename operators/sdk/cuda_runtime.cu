// What CudaContext asks of the CUDA runtime (opbridge/operator/context.h declares it). Part of libraries with
// CUDA kernels only; plain CUDA, so that any C++ standard that nvcc is asked for will do.
#include <cstddef>
#include <stdexcept>
#include <string>

namespace opbridge::op::detail {

void check_cuda() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA reports: ") + cudaGetErrorString(error));
}

// Memory in the order of a stream: hosts run kernels on several, which their allocators do not all tell
// apart.
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
