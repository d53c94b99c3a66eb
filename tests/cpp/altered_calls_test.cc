// The first inputs of call_fuzz: calls of all operators, with arguments that need not fit.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

TEST(AlteredCalls, BecomeModelsOrErrors) {
  std::minstd_rand random(1);
  std::vector<uint8_t> input(200);
  for (int run = 0; run < 20000; ++run) {
    // Small numbers choose the likely arguments, those that fit.
    const auto most = static_cast<unsigned>(run % 8 + 1) * 32;
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random() % most);
    EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
  }
}

}  // namespace
