#include "ops/op_base.hpp"
#include "strata/random.hpp"

namespace strata::ops {
namespace {

Types infer_dropout(const Types& types, const Node& node) {
  const TensorType type = common_type(types, node);
  const double p = node.attributes.number("p");
  require(p >= 0 && p < 1, node, "p must be at least 0 and below 1");
  return {type};
}

/// The second operand, if there is one, is added.
void dropout_rule(GradientContext& context) {
  const auto dy = context.cotangent(0);
  context.contribute(0, context.emit(0, "dropout", {*dy}, context.node().attributes)[0]);
  if (context.node().operands.size() == 2) context.contribute(1, *dy);
}

/// dropout(x) -> t, add(residual, t) -> y, if both operands of the sum have the same dims.
std::optional<Attributes> fuse_dropout(const FusionPair& pair) {
  const bool is_alike = pair.consumer_operands.at(0) == pair.consumer_operands.at(1);
  return is_alike ? std::optional(pair.producer) : std::nullopt;
}

/// Row-major index of an element among all elements of the step, from its global coordinates. The dim that advances
/// with the micro-batch counts as the outermost, so that masks do not depend on the number of micro-batches.
class GlobalElement {
 public:
  GlobalElement(const OpInstance& op, const OperandDescription& operand)
      : dims_(operand.dims), local_shape_(operand.shape) {
    const Shape global = global_shape(op, operand);
    std::int64_t stride = 1;
    strides_.resize(dims_.size());
    for (std::size_t i = dims_.size(); i-- > 0;) {
      if (is_micro_batch_dim(op, dims_[i])) continue;
      strides_[i] = stride;
      stride *= global[i];
    }
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      if (is_micro_batch_dim(op, dims_[i])) strides_[i] = stride;
    }
  }

  /// Global indices of each dim in the current launch.
  [[nodiscard]] std::vector<GlobalIndex> dims(const Launch& launch) const {
    std::vector<GlobalIndex> dims;
    for (const Dim& dim : dims_) dims.push_back(launch.global_index(dim));
    return dims;
  }

  [[nodiscard]] std::uint64_t operator()(const std::vector<GlobalIndex>& dims, std::int64_t local) const {
    std::int64_t result = 0;
    for (std::size_t i = dims.size(); i-- > 0;) {
      result += dims[i](local % local_shape_[i]) * strides_[i];
      local /= local_shape_[i];
    }
    return static_cast<std::uint64_t>(result);
  }

 private:
  Dims dims_;
  Shape local_shape_;
  Shape strides_;
};

/// Dropout. A second operand, if there is one, is added to the result.
Work prepare_dropout(const OpInstance& op) {
  const double probability = op.attributes.number("p");
  const GlobalElement global_element(op, op.results[0]);
  const bool has_residual = op.operands.size() == 2;
  return [probability, global_element, has_residual](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    const std::uint64_t key = launch.stream_key();
    const std::uint32_t threshold = random::drop_threshold(probability);
    const std::vector<GlobalIndex> dims = global_element.dims(launch);
    for (std::int64_t i = 0; i < elements(launch.op().results[0]); ++i) {
      const bool keep = random::word(key, global_element(dims, i)) >= threshold;
      const double residual = has_residual ? launch.operand(1)[i] : 0.0;
      y.set(i, residual + (keep ? x[i] / (1.0 - probability) : 0.0));
    }
  };
}

}  // namespace

void register_dropout(Registration& registration) {
  add_op(registration,
         {.name = "dropout",
          .documentation =
              "x -> x / (1-p) where the element is kept, else 0 (attribute p). The mask depends on seed, name, step "
              "and the element's global index only; applied to a gradient under the same name it is its own gradient.",
          .infer = infer_dropout,
          .in_place = {0},
          .precision = OperandPrecision::any,
          .gradient = dropout_rule});
  add_op(registration,
         {.name = "dropout_add",
          .documentation = "x, residual -> residual + dropout(x) (attribute p): the fused form of dropout and add.",
          .operands = 2,
          .infer = infer_dropout,
          .in_place = {0, 1},
          .precision = OperandPrecision::common,
          .gradient = dropout_rule,
          // At the consumer, because the residual may be computed in between.
          .fusions = {{.producer = "dropout",
                       .consumer = "add",
                       .operand = 1,
                       .place = FusionPattern::Place::consumer,
                       .fit = fuse_dropout}}});
  registration.add(reference::kernel({"dropout", "r", "r", prepare_dropout}));
  registration.add(reference::kernel({"dropout_add", "rr", "r", prepare_dropout}));
}

}  // namespace strata::ops
