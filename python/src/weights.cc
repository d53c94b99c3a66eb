// Files of weights, mapped.
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "onnx/weight_references.h"
#include "opbridge/frontend.h"
#include "opbridge/weight_file.h"

namespace opbridge::python {
namespace {

using Bytes = nb::ndarray<nb::pytorch, uint8_t, nb::ndim<1>, nb::device::cpu>;

// A tensor that keeps the mapping alive.
Bytes bytes_of(const WeightFile& file) {
  auto* owner = new std::shared_ptr<const void>(file.owner);
  const nb::capsule capsule(
      owner, [](void* held) noexcept { delete static_cast<std::shared_ptr<const void>*>(held); });
  return Bytes(const_cast<std::byte*>(file.bytes.data()), {file.bytes.size()}, capsule);
}

// Name: (dtype as the file calls it, element type, dims, offset, size).
nb::dict tensors_of(const WeightFile& file) {
  nb::dict result;
  for (const auto& [name, tensor] : read_safetensors(file)) {
    const ir::Weight& weight = tensor.weight;
    result[nb::cast(name)] =
        nb::make_tuple(tensor.dtype, static_cast<int>(weight.element_type), nb::cast(weight.dims),
                       weight.bytes.data() - file.bytes.data(), weight.bytes.size());
  }
  return result;
}

// Throws Error(invalid_argument) unless a model at `path` can refer to all the files.
void check_references(const std::vector<WeightFile>& files, const std::filesystem::path& path) {
  onnx::WeightReferences references(files, path);
  for (const WeightFile& file : files) references.find(file.bytes);
}

}  // namespace

void bind_weights(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<WeightFile>(module, "WeightFile", "A mapped file of weights.")
      .def(
          "__init__",
          [](WeightFile* self, const std::filesystem::path& path) {
            new (self) WeightFile(map_weight_file(path));
          },
          "path"_a)
      .def_prop_ro("path", [](const WeightFile& file) { return file.path.string(); })
      .def_prop_ro("bytes", &bytes_of, nb::rv_policy::automatic,
                   "All bytes of the file as a tensor; writing to it leaves the file as it is.")
      .def_prop_ro("tensors", &tensors_of,
                   "The tensors of a .safetensors file. Name: (dtype, element type, dims, offset, size).");
  module.def("check_references", &check_references, "files"_a, "path"_a,
             "Raises InvalidArgumentError unless a model at `path` can refer to all the files.");
}

}  // namespace opbridge::python
