// Runs a target without libFuzzer: on the files and folders named, then on -runs=N mutations of them. An
// input that fails or takes longer than a minute is saved as crash-SEED-RUN.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                                                unsigned int seed);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

std::string input;
unsigned seed = 1;
uint64_t run = 0;

void leave_input() {
  const std::string name = "crash-" + std::to_string(seed) + "-" + std::to_string(run);
  if (std::FILE* file = std::fopen(name.c_str(), "wb")) {
    std::fwrite(input.data(), 1, input.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", name.c_str());
  }
}

void on_signal(int number) {
  std::fprintf(stderr, number == SIGALRM ? "takes longer than a minute\n" : "ended by signal %d\n", number);
  leave_input();
  _exit(1);
}

// On a separate stack, because the test's stack may have overflowed.
void take_signals() {
  static char memory[1 << 16];
  const stack_t stack{memory, 0, sizeof memory};
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGABRT, SIGALRM}) sigaction(number, &action, nullptr);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(leave_input);
  } else {
    for (const int number : {SIGSEGV, SIGFPE}) sigaction(number, &action, nullptr);
  }
}

void test() {
  constexpr unsigned longest_seconds = 60;
  alarm(longest_seconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  alarm(0);
}

std::string mutated(std::string text, std::mt19937& random) {
  if (LLVMFuzzerCustomMutator != nullptr) {
    const size_t size = text.size();
    text.resize(2 * size + 4096);
    text.resize(
        LLVMFuzzerCustomMutator(reinterpret_cast<uint8_t*>(text.data()), size, text.size(), random()));
    return text;
  }
  for (unsigned changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
    const size_t at = random() % text.size();
    switch (random() % 3) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 8);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), 1 + random() % 8));
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  uint64_t runs = 0;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("-runs=")) {
      runs = std::strtoull(argument.c_str() + 6, nullptr, 10);
    } else if (argument.starts_with("-seed=")) {
      seed = static_cast<unsigned>(std::strtoul(argument.c_str() + 6, nullptr, 10));
    } else if (fs::is_directory(argument)) {
      for (const auto& entry : fs::directory_iterator(argument)) files.push_back(entry.path());
    } else {
      files.emplace_back(argument);
    }
  }
  std::ranges::sort(files);  // so that the seed determines the run
  std::vector<std::string> inputs;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  if (inputs.empty()) {
    std::fprintf(stderr, "name files or folders of inputs\n");
    return 2;
  }
  take_signals();

  for (const std::string& each : inputs) {
    input = each;
    test();
  }
  std::mt19937 random(seed);
  for (run = 1; run <= runs; ++run) {
    input = mutated(inputs[random() % inputs.size()], random);
    test();
  }
  std::fprintf(stderr, "%zu inputs and %llu mutations of them\n", inputs.size(),
               static_cast<unsigned long long>(runs));
}
