// Real PyTorch programs with altered numbers, names, shapes and lists: each becomes a model or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert_program.h"
#include "json_mutator.h"

namespace {

struct Counts {
  uint64_t programs = 0, models = 0;
  ~Counts() {
    std::fprintf(stderr, "%llu programs, of which %llu became models\n",
                 static_cast<unsigned long long>(programs), static_cast<unsigned long long>(models));
  }
};

// Derived from the input, so that a failure repeats.
opbridge::ConvertOptions options_of(std::string_view input) {
  constexpr int opsets[] = {9, 11, 13, 16, 18, 20, 21, 23};
  const size_t hash = std::hash<std::string_view>()(input);
  opbridge::ConvertOptions options;
  if (hash % 2 == 0) options.opset = opsets[hash / 2 % std::size(opsets)];
  options.simplify = hash / 16 % 4 != 0;
  options.mutations_as_outputs = hash / 64 % 2 == 0;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Counts counts;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  ++counts.programs;
  if (opbridge::fuzz::convert_program(input, options_of(input))) ++counts.models;
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  opbridge::fuzz::Random random(seed);
  std::vector<std::string> parts = opbridge::fuzz::parts_of({reinterpret_cast<const char*>(data), size});
  std::string& changed = parts[random() % 8 != 0 ? 0 : random() % parts.size()];
  changed = opbridge::fuzz::mutate_json(std::move(changed), random);
  std::string program;
  for (const std::string& part : parts) program += (&part == parts.data() ? "" : std::string(1, '\0')) + part;
  if (program.size() > max_size) return size;
  std::memcpy(data, program.data(), program.size());
  return program.size();
}
