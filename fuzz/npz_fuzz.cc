// Any bytes as an array of a `.npz`. The array is refused, or becomes a tensor that equals itself and whose
// bytes fit its shape. The archive around it is well-formed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "opbridge/error.h"
#include "runtime/npz.h"
#include "tensor/compare.h"
#include "zip_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opbridge;
  const std::vector<ZipEntry> entries = {{"x.npy", std::string(reinterpret_cast<const char*>(data), size)}};
  const auto bytes = std::make_shared<std::vector<std::byte>>(ZipBuilder().build(entries));
  try {
    for (const auto& [name, tensor] : runtime::read_npz(*bytes, bytes)) {
      if (tensor.bytes.size() != static_cast<size_t>(tensor.element_count()) * size_of(tensor.element_type))
        std::abort();
      if (!tensor::compare(tensor, tensor, {}).mismatch.empty()) std::abort();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
  return 0;
}
