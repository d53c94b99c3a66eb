#include "frontend/stored_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "opbridge/error.h"
#include "tensor/strided_copy.h"

namespace opbridge {
namespace {

constexpr int64_t layout_strided = 7;  // torch/_export/serde/schema.py, Layout

// A tensor may repeat a stored element (stride 0), and tensors may share a storage. In total, they may take
// this much memory beyond the size of the file.
constexpr uint64_t most_repeated_bytes = uint64_t{2} << 30;

[[noreturn]] void refuse(std::string_view name, const std::string& why,
                         ErrorCode code = ErrorCode::invalid_file) {
  throw Error(code, fmt::format("weight '{}' {}", name, why));
}

std::vector<int64_t> read_ints(std::string_view name, json::Array list) {
  std::vector<int64_t> values;
  for (json::Element element : list) {
    const json::Tagged number = json::tagged(element);
    int64_t value = 0;
    if (number.tag != "as_int" || number.value.get(value) != simdjson::SUCCESS || value < 0) {
      refuse(name, "has a size or stride that is not a plain number");
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

StoredTensors::StoredTensors(const support::ZipArchive& archive, std::string_view root,
                             std::string_view program, WeightsOfProgram weights)
    : archive_(archive), root_(root), program_(program), weights_(weights) {
  read_index(weights_parser_, "data/weights/", "weights");
  read_index(constants_parser_, "data/constants/", "constants");
}

void StoredTensors::read_index(simdjson::dom::parser& parser, std::string_view folder,
                               std::string_view kind) {
  const std::string path = fmt::format("{}{}{}_{}_config.json", root_, folder, program_, kind);
  const support::ZipArchive::Entry* entry = archive_.find(path);
  if (entry == nullptr) {
    const bool older = archive_.find(fmt::format("{}{}{}.pt", root_, folder, program_)) != nullptr;
    throw Error(
        ErrorCode::invalid_file,
        older ? "it holds its weights as a pickle, as older releases of torch wrote them, and pickles are "
                "not opened; load it with torch.export.load and save it again with torch.export.save of "
                "a newer release"
              : fmt::format("no '{}' in the archive", path));
  }
  const auto index = json::as<json::Object>(json::parse(parser, archive_, *entry));
  for (const auto& [name, payload] : json::object_field(index, "config")) {
    json::Object object;
    if (payload.get(object) != simdjson::SUCCESS) refuse(name, "has a description that is not an object");
    locations_.emplace(name, Location{folder, object});
  }
}

StoredTensors::Storage& StoredTensors::storage(std::string_view name, const Location& location) {
  const std::string_view file = json::string_field(location.payload, "path_name");
  const support::ZipArchive::Entry* entry =
      archive_.find(fmt::format("{}{}{}", root_, location.folder, file));
  if (entry == nullptr) refuse(name, fmt::format("is stored in '{}', which the archive lacks", file));
  const auto [cached, fresh] = storages_.try_emplace(entry);
  if (fresh) {
    cached->second.content = archive_.read(*entry);
    cached->second.is_compressed = cached->second.content.bytes.data() != entry->stored.data();
  }
  return cached->second;
}

ir::Weight StoredTensors::load(std::string_view name) {
  const auto found = locations_.find(name);
  if (found == locations_.end()) refuse(name, "is not in the archive");
  const Location& location = found->second;
  if (json::bool_field(location.payload, "use_pickle")) {
    refuse(
        name,
        "is stored as a pickle, which is not opened; if it is a tensor subclass, as of a quantized model, "
        "save "
        "program.run_decompositions({}), which has the tensors in it; otherwise store a plain torch.Tensor");
  }
  const json::Object meta = json::object_field(location.payload, "tensor_meta");
  const int64_t scalar_type = json::int_field(meta, "dtype");
  const auto element_type = element_type_from_torch_export(scalar_type);
  if (!element_type) {
    refuse(name, fmt::format("has an element type (ScalarType {}) that ONNX lacks", scalar_type),
           ErrorCode::unsupported);
  }
  if (json::int_field(meta, "layout") != layout_strided) {
    refuse(name, "is sparse; make it dense with to_dense() before the export", ErrorCode::unsupported);
  }

  tensor::StridedView view;
  view.element_size = size_of(*element_type);
  view.sizes = read_ints(name, json::array_field(meta, "sizes"));
  view.strides = read_ints(name, json::array_field(meta, "strides"));
  const json::Tagged offset = json::tagged(json::field(meta, "storage_offset"));
  if (offset.tag != "as_int" || offset.value.get(view.offset) != simdjson::SUCCESS || view.offset < 0) {
    refuse(name, "has an offset that is not a plain number");
  }
  Storage& stored = storage(name, location);
  const support::ZipArchive::Content& content = stored.content;
  const std::optional<uint64_t> bytes = view.byte_size();
  if (!bytes || !view.fits(content.bytes.size())) {
    refuse(name, content.bytes.empty() ? "has no bytes; it was exported without real weights (FakeTensorMode)"
                                       : "reaches outside its stored bytes");
  }

  ir::Weight weight{*element_type, view.sizes, {}, content.owner};
  const std::span<const std::byte> from_offset =
      content.bytes.subspan(*bytes == 0 ? 0 : static_cast<uint64_t>(view.offset) * view.element_size);
  const bool aligned = reinterpret_cast<uintptr_t>(from_offset.data()) % view.element_size == 0;
  if (weights_ == WeightsOfProgram::in_place && *bytes >= least_separate_bytes) {
    const char* const obstacle = stored.is_compressed ? "compressed"
                                 : !view.contiguous() ? "not contiguous (transposed or expanded)"
                                 : !aligned           ? "not aligned for its elements"
                                                      : nullptr;
    if (obstacle != nullptr) {
      refuse(
          name,
          fmt::format("is stored {}, so the model cannot point to it; store weights in the model or beside "
                      "it instead of referring to the file, or save the program again with a contiguous "
                      "weight",
                      obstacle),
          ErrorCode::unsupported);
    }
  }
  if (view.contiguous() && aligned) {
    weight.bytes = from_offset.first(*bytes);
    return weight;
  }
  const uint64_t once = content.bytes.size() - stored.copied_bytes;
  if (*bytes > once) {
    repeated_bytes_ += *bytes - once;
    if (*bytes - once > most_repeated_bytes || repeated_bytes_ > most_repeated_bytes) {
      refuse(name, "repeats stored bytes beyond 2 GB", ErrorCode::unsupported);
    }
  }
  stored.copied_bytes += std::min(*bytes, once);
  auto copy = std::make_shared<std::vector<std::byte>>(*bytes);
  tensor::strided_copy(view, content.bytes, copy->data());
  weight.bytes = *copy;
  weight.owner = std::move(copy);
  return weight;
}

}  // namespace opbridge
