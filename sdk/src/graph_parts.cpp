#include "strata/graph_parts.hpp"

#include <utility>
#include <vector>

#include "strata/error.hpp"

namespace strata {

Value attention(GraphBuilder& builder, Value q, Value k, Value v, const AttentionOptions& options,
                const std::string& name) {
  const double dropout = builder.mode() == GraphMode::training ? options.dropout : 0.0;
  Attributes attributes{{"causal", options.causal}, {"dropout", dropout}};
  if (options.window != 0) attributes.set("window", options.window);
  if (options.scale) attributes.set("scale", *options.scale);
  std::vector<Value> operands{q, k, v};
  if (options.bias) operands.push_back(*options.bias);
  if (options.documents) {
    operands.push_back(*options.documents);
    operands.push_back(options.key_documents.value_or(*options.documents));
  }
  return builder.op("attention", std::move(operands), name, std::move(attributes))[0];
}

Value multiply(GraphBuilder& builder, Value x, Value y, const std::string& name) {
  return builder.op("multiply", {x, y}, name)[0];
}

Value mean(GraphBuilder& builder, Value x, const Dims& result, const std::string& name) {
  const Graph& graph = builder.graph();
  Dims averaged;
  double count = 1;
  for (const Dim& dim : graph.type(x).dims) {
    if (find_dim(result, dim) >= 0) continue;
    if (dim == "batch") throw VerificationError("mean '" + name + "': cannot average over the dimension 'batch'");
    averaged.push_back(dim);
    count *= static_cast<double>(graph.sizes.at(dim));
  }
  if (averaged.empty()) return x;
  // A product with ones has a gradient and sums in f32 on every device. A weight 1 / count would be rounded in bf16.
  const Value ones = builder.constant(name + ".ones", averaged, Initialization::constant(1));
  const Value sum = builder.linear(x, ones, result, name + ".sum");
  const Value factor = builder.constant(name + ".factor", {}, Initialization::constant(1 / count));
  return multiply(builder, sum, factor, name);
}

}  // namespace strata
