#include "onnx/model_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "model_samples.h"
#include "onnx/model_reader.h"
#include "support/output_file.h"

namespace opbridge {
namespace {

using test::floats;
using test::linear_model;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;

std::string message_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

TEST(ModelWriter, OneFileByDefault) {
  const TemporaryFolder folder;
  const WriteReport report = write_onnx(linear_model(), folder / "m.onnx", {});
  EXPECT_EQ(folder.list(), "m.onnx");
  EXPECT_EQ(report.model_bytes, std::filesystem::file_size(folder / "m.onnx"));
  EXPECT_EQ(report.external_bytes, 0u);
  EXPECT_TRUE(report.external_file.empty());
}

TEST(ModelWriter, TheSameModelGivesTheSameBytes) {
  const TemporaryFolder folder;
  write_onnx(linear_model(), folder / "a.onnx", {});
  write_onnx(linear_model(), folder / "b.onnx", {});
  EXPECT_EQ(read_text(folder / "a.onnx"), read_text(folder / "b.onnx"));
}

TEST(ModelWriter, FilesHaveThePermissionsOfNewFiles) {
  const TemporaryFolder folder;
  write_onnx(linear_model(), folder / "m.onnx", {});
  write_text(folder / "plain", "");
  EXPECT_EQ(std::filesystem::status(folder / "m.onnx").permissions(),
            std::filesystem::status(folder / "plain").permissions());
}

TEST(ModelWriter, AFileThatIsReplacedKeepsItsPermissionsAndItsLinks) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  write_text(folder / "real", "");
  fs::permissions(folder / "real", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", folder / "m.onnx");
  write_onnx(linear_model(), folder / "m.onnx", {});
  EXPECT_TRUE(fs::is_symlink(folder / "m.onnx"));
  EXPECT_GT(fs::file_size(folder / "real"), 0u);
  EXPECT_EQ(fs::status(folder / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(folder.list(), "m.onnx real");
}

TEST(ModelWriter, ExternalDataIsAlignedAndTiedWeightsLieOnce) {
  const TemporaryFolder folder;
  OnnxModel model = linear_model();
  ir::Weight tied = *model.graph.initializers[0]->weight;
  tied.dims = {64, 32};
  model.graph.add_initializer("tied", tied);
  model.graph.add_initializer("odd", test::iota(1, 257));
  model.graph.add_initializer("after_odd", test::iota(1, 300));
  const WriteReport report = write_onnx(model, folder / "m.onnx", {.external_data = ExternalData::always});
  EXPECT_EQ(folder.list(), "m.onnx m.onnx.data");
  EXPECT_EQ(report.external_file, folder / "m.onnx.data");
  // linear.weight, odd, padding to 64, after_odd; linear.bias is small and stays in the model.
  EXPECT_EQ(report.external_bytes, 32u * 64 * 4 + (257 * 4 + 60) + 300 * 4);
  EXPECT_EQ(std::filesystem::file_size(folder / "m.onnx.data"), report.external_bytes);

  const onnx::ModelFile file = onnx::read_onnx(folder / "m.onnx");
  const std::vector<ir::Value*>& read = file.model.graph.initializers;
  ASSERT_EQ(read.size(), 5u);
  EXPECT_EQ(read[0]->weight->bytes.data(), read[2]->weight->bytes.data());
  for (size_t i = 0; i < read.size(); ++i) {
    const ir::Weight& written = *model.graph.initializers[i]->weight;
    EXPECT_TRUE(std::ranges::equal(read[i]->weight->bytes, written.bytes)) << read[i]->name;
    if (written.bytes.size() >= 1024) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(read[i]->weight->bytes.data()) % 64, 0u) << read[i]->name;
    }
  }
}

// A model whose weights are borrowed from `folder`/weights, where they follow 8 bytes.
struct ModelOfFile {
  explicit ModelOfFile(const TemporaryFolder& folder) {
    const ir::Weight& weight = *model.graph.initializers[0]->weight;
    write_text(
        folder / "weights",
        "padding." + std::string(reinterpret_cast<const char*>(weight.bytes.data()), weight.bytes.size()));
    file = map_weight_file(folder / "weights");
    ir::Weight borrowed{weight.element_type, weight.dims, file.bytes.subspan(8), file.owner};
    model.graph.initializers[0]->weight = model.graph.add_initializer("borrowed", borrowed)->weight;
    model.graph.initializers.pop_back();
    model.graph.add_initializer("other", test::iota(1, 300));
  }

  OnnxModel model = linear_model();
  WeightFile file;
};

TEST(ModelWriter, ReferencesPointIntoTheFileOfAWeight) {
  const TemporaryFolder folder;
  const ModelOfFile given(folder);
  ConvertOptions options{.external_data = ExternalData::reference, .weight_files = {given.file}};
  const WriteReport report = write_onnx(given.model, folder / "m.onnx", options);
  EXPECT_EQ(folder.list(), "m.onnx weights");
  EXPECT_EQ(report.referenced_bytes, 32u * 64 * 4);
  EXPECT_EQ(report.referenced_files, std::vector{folder / "weights"});
  EXPECT_EQ(report.external_bytes, 0u);

  // With a limit that the other weight exceeds, that one lies beside the model.
  const WriteReport split =
      onnx::write_model(given.model, folder / "split.onnx", options, report.model_bytes - 1);
  EXPECT_EQ(split.external_file, folder / "split.onnx.data");
  EXPECT_EQ(split.external_bytes, 300u * 4);
  EXPECT_EQ(split.referenced_bytes, report.referenced_bytes);
  for (const char* name : {"m.onnx", "split.onnx"}) {
    const onnx::ModelFile read = onnx::read_onnx(folder / name);
    for (size_t i = 0; i < given.model.graph.initializers.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(read.model.graph.initializers[i]->weight->bytes,
                                     given.model.graph.initializers[i]->weight->bytes));
    }
  }
}

TEST(ModelWriter, WeightFilesThatAreCopiedStayAsTheyAre) {
  const TemporaryFolder folder;
  const ModelOfFile given(folder);
  const std::string before = read_text(folder / "weights");
  for (const ExternalData how : {ExternalData::never, ExternalData::always}) {
    const ConvertOptions options{.external_data = how, .weight_files = {given.file}};
    const WriteReport report = write_onnx(given.model, folder / "m.onnx", options);
    EXPECT_EQ(report.referenced_bytes, 0u);
    const onnx::ModelFile read = onnx::read_onnx(folder / "m.onnx");
    EXPECT_TRUE(std::ranges::equal(read.model.graph.initializers[0]->weight->bytes,
                                   std::as_bytes(std::span(before)).subspan(8)));
    EXPECT_TRUE(std::ranges::equal(given.file.bytes, std::as_bytes(std::span(before))));
  }
}

TEST(ModelWriter, ModelsAboveTwoGigabytesUseExternalData) {
  const TemporaryFolder folder;
  // Untouched zero pages need no memory, and no disk since the write fails before.
  constexpr size_t size = size_t{1} << 31;
  const std::unique_ptr<std::byte, void (*)(void*)> zeros(static_cast<std::byte*>(std::calloc(size, 1)),
                                                          std::free);
  OnnxModel model = linear_model();
  ir::Weight large;
  large.element_type = ElementType::uint8;
  large.dims = {int64_t{1} << 31};
  large.bytes = {zeros.get(), size};
  model.graph.add_initializer("large", large);
  const std::string message =
      message_of([&] { write_onnx(model, folder / "m.onnx", {.external_data = ExternalData::never}); },
                 ErrorCode::unsupported);
  EXPECT_NE(message.find("allow external data"), std::string::npos) << message;
  EXPECT_EQ(folder.list(), "");
}

// A model that is one byte too large for its file, with a small limit.
TEST(ModelWriter, AutomaticExternalDataBeginsWhereAFileEnds) {
  const TemporaryFolder folder;
  const OnnxModel model = linear_model();
  const uint64_t size = write_onnx(model, folder / "whole.onnx", {}).model_bytes;
  const WriteReport fits = onnx::write_model(model, folder / "fits.onnx", {}, size);
  EXPECT_TRUE(fits.external_file.empty());
  EXPECT_EQ(read_text(folder / "fits.onnx"), read_text(folder / "whole.onnx"));

  const WriteReport split = onnx::write_model(model, folder / "split.onnx", {}, size - 1);
  EXPECT_EQ(split.external_file, folder / "split.onnx.data");
  EXPECT_LT(split.model_bytes, size);
  EXPECT_EQ(folder.list(), "fits.onnx split.onnx split.onnx.data whole.onnx");
  const onnx::ModelFile read = onnx::read_onnx(folder / "split.onnx");
  ASSERT_EQ(read.model.graph.initializers.size(), model.graph.initializers.size());
  for (size_t i = 0; i < model.graph.initializers.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(read.model.graph.initializers[i]->weight->bytes,
                                   model.graph.initializers[i]->weight->bytes));
  }
  // The model without its weights must not exceed the limit either.
  EXPECT_NE(message_of([&] { onnx::write_model(model, folder / "no.onnx", {}, split.model_bytes / 2); },
                       ErrorCode::unsupported)
                .find("without its external data"),
            std::string::npos);
}

TEST(ModelWriter, SourceLinesAreMetadataOrBeforeThatDocStrings) {
  const TemporaryFolder folder;
  OnnxModel model = linear_model();
  const ir::Source source = model.graph.nodes[0]->source;
  write_onnx(model, folder / "new.onnx", {});
  const onnx::ModelFile with_metadata = onnx::read_onnx(folder / "new.onnx");
  EXPECT_EQ(with_metadata.ir_version, 10);
  EXPECT_EQ(with_metadata.model.graph.nodes[0]->source.line, source.line);
  EXPECT_EQ(with_metadata.model.graph.nodes[0]->source.scope, source.scope);
  EXPECT_EQ(with_metadata.model.graph.nodes[1]->source.line, "");

  model.opset_imports[""] = 17;
  write_onnx(model, folder / "old.onnx", {});
  const onnx::ModelFile with_doc_string = onnx::read_onnx(folder / "old.onnx");
  EXPECT_EQ(with_doc_string.ir_version, 8);
  EXPECT_EQ(with_doc_string.model.graph.nodes[0]->source.line, source.line);
  EXPECT_EQ(with_doc_string.model.graph.nodes[0]->source.scope, "");

  write_onnx(model, folder / "none.onnx", {.source_lines = false});
  EXPECT_EQ(read_text(folder / "none.onnx").find("model.py"), std::string::npos);
}

TEST(ModelWriter, RefusesWhatOnnxCannotHold) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::function<void(OnnxModel&)>& spoil) {
    OnnxModel model = linear_model();
    spoil(model);
    const std::string message =
        message_of([&] { write_onnx(model, folder / "m.onnx", {}); }, ErrorCode::internal);
    EXPECT_EQ(folder.list(), "");
    return message;
  };
  EXPECT_NE(
      refused([](OnnxModel& m) { m.graph.nodes[2]->set("n", Dim::symbol("s0")); }).find("attribute n is s0"),
      std::string::npos);
  EXPECT_NE(refused([](OnnxModel& m) {
              m.graph.nodes[2]->set("self", m.graph.inputs[0]);
            }).find("attribute self is %x"),
            std::string::npos);
  EXPECT_NE(refused([](OnnxModel& m) { m.graph.nodes[2]->set("device", ir::Opaque{"cpu"}); }).find("cpu"),
            std::string::npos);
  EXPECT_NE(refused([](OnnxModel& m) { m.graph.nodes[2]->op = std::string("custom::f"); }).find("\"custom\""),
            std::string::npos);
  EXPECT_NE(
      refused([](OnnxModel& m) { m.graph.nodes[1]->outputs[0]->name = std::string("x"); }).find("named x"),
      std::string::npos);
  EXPECT_NE(refused([](OnnxModel& m) { m.graph.nodes[1]->outputs[0]->name.clear(); }).find("no name"),
            std::string::npos);
}

TEST(ModelWriter, DataOfAModelThatIsReplacedIsRemoved) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, ExternalData external) {
    write_onnx(linear_model(), folder / name, {.external_data = external});
  };
  write("m.onnx", ExternalData::always);
  write("m.onnx", ExternalData::automatic);
  EXPECT_EQ(folder.list(), "m.onnx");

  // Without a model that refers to it, the file may be anybody's, and so may a file behind a link.
  write_text(folder / "m.onnx.data", "not of m.onnx");
  write("m.onnx", ExternalData::automatic);
  write_text(folder / "other.onnx", "not a model");
  write_text(folder / "other.onnx.data", "of no model");
  write("other.onnx", ExternalData::never);
  EXPECT_EQ(folder.list(), "m.onnx m.onnx.data other.onnx other.onnx.data");
  std::filesystem::create_symlink("elsewhere", folder / "linked.onnx.data");
  write("linked.onnx", ExternalData::always);
  write("linked.onnx", ExternalData::automatic);
  EXPECT_EQ(folder.list(),
            "elsewhere linked.onnx linked.onnx.data m.onnx m.onnx.data other.onnx other.onnx.data");
}

TEST(ModelWriter, DataToWhichTheNewModelRefersStays) {
  const TemporaryFolder folder;
  write_onnx(linear_model(), folder / "m.onnx", {.external_data = ExternalData::always});
  const WeightFile data = map_weight_file(folder / "m.onnx.data");
  OnnxModel model = linear_model();
  const ir::Weight& weight = *model.graph.initializers[0]->weight;
  ir::Weight borrowed{weight.element_type, weight.dims, data.bytes.first(weight.bytes.size()), data.owner};
  model.graph.initializers[0]->weight = model.graph.add_initializer("borrowed", borrowed)->weight;
  model.graph.initializers.pop_back();
  write_onnx(model, folder / "m.onnx", {.external_data = ExternalData::reference, .weight_files = {data}});
  EXPECT_EQ(folder.list(), "m.onnx m.onnx.data");
  EXPECT_TRUE(std::ranges::equal(
      onnx::read_onnx(folder / "m.onnx").model.graph.initializers[0]->weight->bytes, weight.bytes));
}

TEST(ModelWriter, AFailedWriteLeavesTheTargetAsItWas) {
  const TemporaryFolder folder;
  write_text(folder / "m.onnx", "old model");
  write_text(folder / "m.onnx.data", "old data");
  const auto unchanged = [&] {
    return folder.list() == "m.onnx m.onnx.data" && read_text(folder / "m.onnx") == "old model" &&
           read_text(folder / "m.onnx.data") == "old data";
  };
  // The system refuses to write files longer than 4000 bytes, like a full disk.
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{4000, limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string inside =
      message_of([&] { write_onnx(linear_model(), folder / "m.onnx", {}); }, ErrorCode::io);
  const std::string outside = message_of(
      [&] { write_onnx(linear_model(), folder / "m.onnx", {.external_data = ExternalData::always}); },
      ErrorCode::io);
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(inside, "cannot write " + (folder / "m.onnx").string() + ": File too large");
  EXPECT_EQ(outside, "cannot write " + (folder / "m.onnx.data").string() + ": File too large");
  EXPECT_TRUE(unchanged());
}

TEST(ModelWriter, RefusesTargetsThatAreNotFiles) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "directory");
  EXPECT_NE(message_of([&] { write_onnx(linear_model(), folder / "directory", {}); }, ErrorCode::io)
                .find("Is a directory"),
            std::string::npos);
  EXPECT_NE(message_of([&] { write_onnx(linear_model(), folder / "missing/m.onnx", {}); }, ErrorCode::io)
                .find("No such file or directory"),
            std::string::npos);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(message_of([&] { write_onnx(linear_model(), folder / "pipe", {}); }, ErrorCode::io)
                .find("not a regular file"),
            std::string::npos);
  EXPECT_EQ(folder.list(), "directory pipe");
}

TEST(ModelWriter, RefusesFilesThatMayNotBeWritten) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everything";
  const TemporaryFolder folder;
  write_text(folder / "m.onnx", "old model");
  std::filesystem::permissions(folder / "m.onnx", std::filesystem::perms::owner_read);
  EXPECT_NE(message_of([&] { write_onnx(linear_model(), folder / "m.onnx", {}); }, ErrorCode::io)
                .find("Permission denied"),
            std::string::npos);
  EXPECT_EQ(read_text(folder / "m.onnx"), "old model");
}

TEST(OutputFile, AConstructorThatThrowsLeavesNothing) {
  const TemporaryFolder folder;
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_directory(folder / "directory");
  std::filesystem::create_symlink("missing/m", folder / "dangling");
  for (const char* name : {"loop", "directory", "dangling", "missing/m"}) {
    for (int i = 0; i < 3; ++i) message_of([&] { support::OutputFile file(folder / name); }, ErrorCode::io);
  }
  message_of([&] { support::OutputFile file(folder / std::string("m\0.onnx", 7)); },
             ErrorCode::invalid_argument);
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(folder.list(), "dangling directory loop");
}

class Publishing : public ::testing::Test {
 protected:
  Publishing() {
    write_text(folder / "m", "old model");
    write_text(folder / "d", "old data");
  }
  void write(support::OutputFile& file, std::string_view text) {
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    file.write(std::span(&piece, 1));
    file.close();
  }
  TemporaryFolder folder;
};

TEST_F(Publishing, ReplacesBoth) {
  support::OutputFile data(folder / "d");
  support::OutputFile model(folder / "m");
  write(data, "new data");
  write(model, "new model");
  support::publish(data, model);
  EXPECT_EQ(folder.list(), "d m");
  EXPECT_EQ(read_text(folder / "d"), "new data");
  EXPECT_EQ(read_text(folder / "m"), "new model");
}

// If either of the two renames fails, both old files are restored.
TEST_F(Publishing, RestoresBothWhereOneFails) {
  for (const char* lost : {"m", "d"}) {
    {
      support::OutputFile data(folder / "d");
      support::OutputFile model(folder / "m");
      write(data, "new data");
      write(model, "new model");
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        const bool is_lost = read_text(entry.path()) == (*lost == 'm' ? "new model" : "new data");
        if (is_lost) std::filesystem::remove(entry.path());
      }
      message_of([&] { support::publish(data, model); }, ErrorCode::io);
    }
    EXPECT_EQ(folder.list(), "d m");
    EXPECT_EQ(read_text(folder / "d"), "old data");
    EXPECT_EQ(read_text(folder / "m"), "old model");
  }
}

TEST_F(Publishing, RemovesNewDataWhereThereWasNone) {
  std::filesystem::remove(folder / "d");
  {
    support::OutputFile data(folder / "d");
    support::OutputFile model(folder / "m");
    write(data, "new data");
    write(model, "new model");
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (read_text(entry.path()) == "new model") std::filesystem::remove(entry.path());
    }
    message_of([&] { support::publish(data, model); }, ErrorCode::io);
  }
  EXPECT_EQ(folder.list(), "m");
  EXPECT_EQ(read_text(folder / "m"), "old model");
}

TEST(OutputFile, WritesMorePiecesThanOneCallTakes) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>('a' + i % 26);
  std::vector<std::span<const std::byte>> pieces;
  for (size_t i = 0; i < text.size(); ++i) {
    pieces.push_back(std::as_bytes(std::span(text)).subspan(i, 1));
    if (i % 3 == 0) pieces.push_back({});
  }
  support::OutputFile file(folder / "f");
  file.write(pieces);
  file.close();
  support::publish(file);
  EXPECT_EQ(read_text(folder / "f"), text);
}

}  // namespace
}  // namespace opbridge
