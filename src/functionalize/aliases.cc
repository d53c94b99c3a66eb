#include "functionalize/aliases.h"

#include <utility>

namespace opbridge::functionalization {

void link(Storage& one, Storage& other) {
  Storage *a = &one, *b = &other;
  if (a == b || (a->maybe_same != nullptr && a->maybe_same == b->maybe_same)) return;
  for (Storage* each : {a, b}) {
    if (each->maybe_same == nullptr) each->maybe_same = std::make_shared<std::vector<Storage*>>(1, each);
  }
  if (a->maybe_same->size() < b->maybe_same->size()) std::swap(a, b);
  const std::shared_ptr<std::vector<Storage*>> smaller = b->maybe_same;
  for (Storage* each : *smaller) {
    a->maybe_same->push_back(each);
    each->maybe_same = a->maybe_same;
  }
}

}  // namespace opbridge::functionalization
