// Builds protobuf messages whose long byte fields are borrowed, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opbridge::onnx {

// Text with borrowed bytes spliced in at given offsets.
struct Rope {
  struct Splice {
    size_t at;  // in `text`
    std::span<const std::byte> bytes;
  };
  std::string text;
  std::vector<Splice> splices;  // in order of `at`
  uint64_t borrowed = 0;        // the sum of the sizes of all splices

  uint64_t size() const { return text.size() + borrowed; }
  void append(const Rope& other);
  // The pieces in order, for one gathering write.
  std::vector<std::span<const std::byte>> pieces() const;
};

// `Field` is the enum of the message's field numbers. Repeated numbers are unpacked, the default of proto2,
// which onnx.proto relies on.
template <class Field>
class Message {
 public:
  const Rope& rope() const { return rope_; }
  Rope take() && { return std::move(rope_); }

  void add_int(Field field, int64_t value) { writer().add_int64(tag(field), value); }
  void add_float(Field field, float value) { writer().add_float(tag(field), value); }
  void add_string(Field field, std::string_view text) {
    writer().add_bytes(tag(field), text.data(), text.size());
  }
  void add_bytes(Field field, std::span<const std::byte> bytes) {
    writer().add_bytes(tag(field), reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  // The bytes must stay valid until the message is written.
  void add_borrowed_bytes(Field field, std::span<const std::byte> bytes) {
    add_header(field, bytes.size());
    rope_.splices.push_back({rope_.text.size(), bytes});
    rope_.borrowed += bytes.size();
  }
  // Written even if empty: in ONNX, an empty message differs from a missing one (the shape of a scalar).
  template <class ChildField>
  void add_message(Field field, const Message<ChildField>& child) {
    add_header(field, child.rope().size());
    rope_.append(child.rope());
  }

 private:
  static protozero::pbf_tag_type tag(Field field) { return static_cast<protozero::pbf_tag_type>(field); }
  protozero::pbf_writer writer() { return protozero::pbf_writer(rope_.text); }
  void add_header(Field field, uint64_t size) {
    protozero::add_varint_to_buffer(&rope_.text, tag(field) << 3 | 2);  // wire type 2: length, then bytes
    protozero::add_varint_to_buffer(&rope_.text, size);
  }

  Rope rope_;
};

inline void Rope::append(const Rope& other) {
  for (const Splice& splice : other.splices) splices.push_back({text.size() + splice.at, splice.bytes});
  text += other.text;
  borrowed += other.borrowed;
}

inline std::vector<std::span<const std::byte>> Rope::pieces() const {
  std::vector<std::span<const std::byte>> result;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  size_t from = 0;
  for (const Splice& splice : splices) {
    if (splice.at != from) result.push_back(bytes.subspan(from, splice.at - from));
    result.push_back(splice.bytes);
    from = splice.at;
  }
  if (from != text.size()) result.push_back(bytes.subspan(from));
  return result;
}

}  // namespace opbridge::onnx
