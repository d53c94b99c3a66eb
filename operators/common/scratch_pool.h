// Scratch memory for a parallel_for that runs repeatedly, once per image of a batch.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "opbridge/operator.h"

namespace opbridge::op {

// Uninitialized pieces of `count` elements: as many as parts run at once, however many parts there are.
// Context::scratch alone would keep those of all parts until the kernel returns.
template <class T>
class ScratchPool {
 public:
  ScratchPool(Context& context, std::int64_t count) : context_(context), count_(count) {}

  // Owns a piece during its lifetime.
  class Piece {
   public:
    explicit Piece(ScratchPool& pool) : pool_(pool), data_(pool.take()) {}
    ~Piece() { pool_.give_back(data_); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    T* data() const { return data_; }

   private:
    ScratchPool& pool_;
    T* data_;
  };

 private:
  T* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // so that returning a piece cannot fail
      return context_.scratch<T>(count_).data();
    }
    T* const piece = free_.back();
    free_.pop_back();
    return piece;
  }

  void give_back(T* piece) {
    const std::lock_guard lock(mutex_);
    free_.push_back(piece);
  }

  Context& context_;
  std::int64_t count_;
  std::mutex mutex_;
  std::vector<T*> free_;
  std::size_t made_ = 0;
};

}  // namespace opbridge::op
