// Converts an exported PyTorch program to ONNX, without Python and without torch.
#include <cstdio>

#include "opbridge/convert.h"
#include "opbridge/error.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: convert MODEL.pt2 MODEL.onnx\n");
    return 2;
  }
  try {
    const opbridge::WriteReport report = opbridge::convert(argv[1], argv[2]);
    std::printf("%s: %llu bytes\n", argv[2],
                static_cast<unsigned long long>(report.model_bytes + report.external_bytes));
  } catch (const opbridge::Error& error) {
    std::fprintf(stderr, "convert: %s\n", error.what());
    return 2;
  }
  return 0;
}
