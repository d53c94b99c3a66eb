#include "frontend/node_source.h"

#include <gtest/gtest.h>

namespace opbridge {
namespace {

std::string line_of(std::string_view trace) { return read_source({}, trace).line; }

TEST(NodeSource, ScopeIsThePathOfTheInnermostModule) {
  EXPECT_EQ(read_source("L__self__,,net.Net;L__self___layer1,layer1,Seq;k@1,layer1.0.conv1,Conv", {}).scope,
            "layer1.0.conv1");
  EXPECT_EQ(read_source("L__self__,,net.Net", {}).scope, "");
  EXPECT_EQ(read_source("", {}).scope, "");
  EXPECT_EQ(read_source(";;;", {}).scope, "");
  EXPECT_EQ(read_source("no comma", {}).scope, "");
}

TEST(NodeSource, LineIsTheInnermostFrameOutsideOfTorch) {
  EXPECT_EQ(
      line_of("File \"/home/me/net.py\", line 12, in forward\n    return self.conv(x)\n"
              "  File \"/v/site-packages/torch/nn/modules/conv.py\", line 5, in forward\n    return f(x)"),
      "net.py:12 in forward: return self.conv(x)");
  EXPECT_EQ(line_of("File \"a.py\", line 1, in f\n    g()\n  File \"b.py\", line 2, in g\n    h()"),
            "b.py:2 in g: h()");
  EXPECT_EQ(line_of("File \"/v/dist-packages/torch/nn/f.py\", line 5, in f"), "f.py:5 in f");
  EXPECT_EQ(line_of("File \"/v/site-packages/torchvision/r.py\", line 5, in f\n    x"), "r.py:5 in f: x");
}

TEST(NodeSource, LineWithoutCode) {
  EXPECT_EQ(line_of("File \"a.py\", line 1, in f\n  File \"/site-packages/torch/b.py\", line 2, in g"),
            "a.py:1 in f");
  EXPECT_EQ(line_of("File \"a.py\", line 3, in <lambda>"), "a.py:3 in <lambda>");
}

TEST(NodeSource, SurvivesOtherTexts) {
  EXPECT_EQ(line_of(""), "");
  EXPECT_EQ(line_of("no frame"), "");
  EXPECT_NO_THROW(line_of("File \""));
  EXPECT_NO_THROW(line_of("File \"\", line"));
  EXPECT_NO_THROW(line_of("File \"File \"File \""));
}

}  // namespace
}  // namespace opbridge
