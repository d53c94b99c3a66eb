#include "frontend/exported_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/graph_reader.h"
#include "frontend/stored_tensors.h"
#include "opbridge/error.h"
#include "opbridge/frontend.h"
#include "support/json.h"
#include "support/zip_archive.h"

namespace opbridge {
namespace {

// SCHEMA_VERSION in torch/_export/serde/schema.py. A new minor version only adds fields that older readers
// may ignore.
constexpr int64_t known_schema_major = 8;

[[noreturn]] void invalid(std::string what) { throw Error(ErrorCode::invalid_file, std::move(what)); }

// The path of an entry without the archive's outermost folder, which is named after the file.
std::string_view inside_root(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
}

// Reports what the archive contains instead, and what to do about it.
[[noreturn]] void refuse_foreign(const support::ZipArchive& archive) {
  const auto has = [&](auto&& matches) {
    return std::ranges::any_of(archive.entries(), [&](const support::ZipArchive::Entry& entry) {
      return matches(inside_root(entry.name)) || matches(entry.name);
    });
  };
  const auto under = [](std::string_view folder) {
    return [folder](std::string_view path) { return path.starts_with(folder); };
  };
  const auto named = [](std::string_view name) {
    return [name](std::string_view path) { return path == name; };
  };
  const std::string then =
      "; save the program with torch.export.save(torch.export.export(model, args), path)";
  if (has(named("serialized_exported_program.json"))) {
    invalid(
        "an exported program in the layout of an older torch; load it with torch.export.load and save it "
        "again "
        "with torch.export.save of torch 2.9 or newer");
  }
  if (has(under("data/aotinductor/")))
    invalid("a package of compiled AOTInductor code, without a graph" + then);
  if (has(under("code/"))) {
    invalid(
        "a TorchScript archive (torch.jit.save), not an exported program; in Python, "
        "opbridge.export(torch.jit.load(path), args, target, capture=\"trace\") converts it");
  }
  if (has(named("data.pkl"))) {
    invalid("weights or a pickled module (torch.save), which are not opened, not an exported program" + then);
  }
  invalid("a zip archive without an exported program (models/model.json)" + then);
}

struct Program {
  const support::ZipArchive::Entry* entry;
  std::string_view root;  // with a trailing slash
  std::string_view name;
};

Program find_program(const support::ZipArchive& archive) {
  constexpr std::string_view folder = "models/";
  constexpr std::string_view suffix = ".json";
  std::vector<Program> programs;
  for (const support::ZipArchive::Entry& entry : archive.entries()) {
    std::string_view path = inside_root(entry.name);
    if (!path.starts_with(folder) || !path.ends_with(suffix)) continue;
    const std::string_view root = entry.name.substr(0, entry.name.size() - path.size());
    path.remove_prefix(folder.size());
    path.remove_suffix(suffix.size());
    programs.push_back({&entry, root, path});
  }
  if (programs.empty()) refuse_foreign(archive);
  if (programs.size() == 1) return programs.front();
  const auto main = std::ranges::find(programs, "model", &Program::name);
  if (main != programs.end()) return *main;
  std::string names;
  for (const Program& program : programs)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", program.name);
  invalid(fmt::format(
      "several exported programs ({}), none of them named 'model'; save the one to convert alone", names));
}

void check_byte_order(const support::ZipArchive& archive, std::string_view root) {
  const support::ZipArchive::Entry* entry = archive.find(fmt::format("{}byteorder", root));
  if (entry == nullptr) return;
  const support::ZipArchive::Content content = archive.read_checked(*entry);
  const std::string_view order(reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size());
  if (order != "little")
    invalid("its weights are not little-endian; save it again on a little-endian machine");
}

void check_schema_version(json::Object program) {
  const json::Object version = json::object_field(program, "schema_version");
  const int64_t major = json::int_field(version, "major");
  if (major == known_schema_major) return;
  std::string_view writer = "unknown";
  if (program.at_key("torch_version").get(writer)) writer = "unknown";
  invalid(fmt::format(
      "schema version {}.{} (written by torch {}), but this opbridge reads {}.x; {}", major,
      json::int_field(version, "minor"), writer, known_schema_major,
      major > known_schema_major ? "a newer opbridge may know it" : "save it again with a newer torch"));
}

// A bound of a symbol; empty where it is null, and where it only states the limit of the integers.
std::optional<int64_t> bound_of(json::Object range, std::string_view name) {
  constexpr int64_t limit = std::numeric_limits<int64_t>::max() - 1;
  int64_t bound = 0;
  if (range.at_key(name).get(bound) != simdjson::SUCCESS || bound >= limit) return std::nullopt;
  return bound;
}

// The values for which the program was exported.
SymbolTable::Ranges symbol_ranges(json::Object program) {
  SymbolTable::Ranges result;
  json::Object ranges;
  if (program.at_key("range_constraints").get(ranges) != simdjson::SUCCESS) return result;
  for (const auto& [symbol, range] : ranges) {
    const auto bounds = json::as<json::Object>(range);
    result.emplace(symbol, SymbolTable::Range{bound_of(bounds, "min_val"), bound_of(bounds, "max_val")});
  }
  return result;
}

}  // namespace

ir::Graph read_exported_program(std::span<const std::byte> archive_bytes, std::shared_ptr<const void> owner,
                                WeightsOfProgram weights) {
  const support::ZipArchive archive(archive_bytes, std::move(owner), "a .pt2 file");
  const Program found = find_program(archive);
  check_byte_order(archive, found.root);
  simdjson::dom::parser parser;
  const auto program = json::as<json::Object>(json::parse(parser, archive, *found.entry));
  check_schema_version(program);
  StoredTensors tensors(archive, found.root, found.name, weights);
  return GraphReader(tensors, symbol_ranges(program)).read(json::object_field(program, "graph_module"));
}

ir::Graph load_exported_program(const std::filesystem::path& path) {
  return load_exported_program(map_weight_file(path), WeightsOfProgram::readable);
}

ir::Graph load_exported_program(const WeightFile& file, WeightsOfProgram weights) {
  try {
    return read_exported_program(file.bytes, file.owner, weights);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", file.path.string(), error.message()), error.where());
  }
}

}  // namespace opbridge
