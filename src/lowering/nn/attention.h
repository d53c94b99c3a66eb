// Scaled dot-product attention as products of matrices.
#pragma once

#include "opbridge/symbolic.h"

namespace opbridge::lowering {

// Grouped-query attention: repeats each key or value head (…, heads, length, width) for consecutive query
// heads.
Value repeat_heads(GraphBuilder& g, Value value, const Dim& query_heads);

// softmax(query @ key^T * scale + mask) @ value. The default scale is 1 / sqrt(width of the query).
Value attention_by_products(GraphBuilder& g, Value query, Value key, Value value, std::optional<Value> mask,
                            bool is_causal, std::optional<double> scale);

}  // namespace opbridge::lowering
