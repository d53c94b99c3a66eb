// Reads the fields of a protobuf message from an untrusted file.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>

#include "opbridge/error.h"

namespace opbridge::onnx {

// protozero checks bounds and throws its own exceptions; wire types are checked here.
//
//   for (FieldReader<proto::Node> field(bytes); field.next();) {
//     switch (field.number()) { case proto::Node::name: name = field.bytes(); break; default: break; }
//   }
//
// A field whose value is not read is skipped.
template <class Field>
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : reader_(message.data(), message.size()) {}

  bool next() {
    if (pending_) reader_.skip();
    pending_ = reader_.next();
    return pending_;
  }
  Field number() const { return static_cast<Field>(reader_.tag()); }

  int64_t integer() { return take(protozero::pbf_wire_type::varint).get_int64(); }
  float float32() { return take(protozero::pbf_wire_type::fixed32).get_float(); }
  // A string, bytes, or a message.
  std::string_view bytes() {
    const protozero::data_view view = take(protozero::pbf_wire_type::length_delimited).get_view();
    return {view.data(), view.size()};
  }

  // Calls `visit` for each number of a repeated field, packed or not.
  template <class Visit>
  void integers(const Visit& visit) {
    if (reader_.wire_type() != protozero::pbf_wire_type::length_delimited) return visit(integer());
    for (const int64_t value : take(protozero::pbf_wire_type::length_delimited).get_packed_int64()) {
      visit(value);
    }
  }
  // The little-endian bytes of a float (double), or of several if packed.
  std::string_view fixed32s() { return fixed(protozero::pbf_wire_type::fixed32, 4); }
  std::string_view fixed64s() { return fixed(protozero::pbf_wire_type::fixed64, 8); }

 private:
  protozero::pbf_reader& take(protozero::pbf_wire_type type) {
    if (reader_.wire_type() != type) {
      throw Error(ErrorCode::invalid_file,
                  "field " + std::to_string(reader_.tag()) + " of a message has the wrong wire type");
    }
    pending_ = false;
    return reader_;
  }
  std::string_view fixed(protozero::pbf_wire_type type, size_t size) {
    std::string_view result;
    if (reader_.wire_type() == protozero::pbf_wire_type::length_delimited) {
      result = bytes();
      if (result.size() % size == 0) return result;
      throw Error(ErrorCode::invalid_file, "packed numbers end within a number");
    }
    take(type).skip();
    return {reader_.data().data() - size, size};
  }

  protozero::pbf_reader reader_;
  bool pending_ = false;
};

}  // namespace opbridge::onnx
