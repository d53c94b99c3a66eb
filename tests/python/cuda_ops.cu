#include <cstdint>

constexpr int kThreads = 256;

__device__ std::int64_t thread() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

template <class T>
__global__ void find_positive_kernel(const T* x, std::int64_t size, T* found, unsigned long long* count) {
  const std::int64_t i = thread();
  if (i < size && x[i] > 0) found[atomicAdd(count, 1ull)] = x[i];
}

template <class T>
__global__ void multiply_kernel(const T* a, const T* b, T* out, std::int64_t size) {
  const std::int64_t i = thread();
  if (i < size) out[i] = b != nullptr ? a[i] * b[i] : a[i];
}

template <class T>
std::int64_t find_positive(cudaStream_t stream, const T* x, std::int64_t size, T* found,
                           std::int64_t* count) {
  if (size == 0) return 0;
  cudaMemsetAsync(count, 0, sizeof(*count), stream);
  find_positive_kernel<<<(size + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
      x, size, found, reinterpret_cast<unsigned long long*>(count));
  std::int64_t result = 0;
  cudaMemcpyAsync(&result, count, sizeof(result), cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  return result;
}

template <class T>
void copy(cudaStream_t stream, const T* from, T* to, std::int64_t size) {
  cudaMemcpyAsync(to, from, size * sizeof(T), cudaMemcpyDeviceToDevice, stream);
}

template <class T>
void multiply(cudaStream_t stream, const T* a, const T* b, T* out, std::int64_t size) {
  if (size == 0) return;
  multiply_kernel<<<(size + kThreads - 1) / kThreads, kThreads, 0, stream>>>(a, b, out, size);
}

#define INSTANTIATE(T)                                                                          \
  template std::int64_t find_positive(cudaStream_t, const T*, std::int64_t, T*, std::int64_t*); \
  template void copy(cudaStream_t, const T*, T*, std::int64_t);                                 \
  template void multiply(cudaStream_t, const T*, const T*, T*, std::int64_t);
INSTANTIATE(float)
INSTANTIATE(double)
