#include "neighbour.hpp"

#include <cstring>
#include <memory>

#include "strata/error.hpp"
#include "strata/kernel_tools.hpp"
#include "strata/op.hpp"
#include "strata/reference_kernel.hpp"

namespace shifted {
namespace {

using namespace strata;

class Neighbour final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "neighbour"; }
  [[nodiscard]] std::string documentation() const override {
    return "x [batch seq embed] -> y: y[t] = x[t - offset], zero where there is no such token (offset: 1 or -1).";
  }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const TensorType& x = graph.type(node.operands.at(0));
    if (x.dims.size() != 3 || x.dims[1] != "seq") {
      throw VerificationError("node '" + node.name + "' has an operand of other dimensions than [batch seq embed]");
    }
    return {x};
  }

  /// The kernel reads tokens that other ranks may have, so x is needed whole: its sequence has a name of its own.
  [[nodiscard]] IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.operands[0][1] = "source_seq";
    space.whole = {"source_seq"};
    return space;
  }

  /// So strategies know that a token reads others. Results for parts of x do not add up to those for all of it.
  [[nodiscard]] std::optional<PositionMixing> mixing(const Graph& /*graph*/, const Node& /*node*/) const override {
    return PositionMixing{.queries = "seq", .keys = "source_seq"};
  }

  /// x[t] is read by y[t + offset], so the gradient is the neighbour in the other direction.
  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& context) {
      Attributes other;
      other.set("offset", -context.node().attributes.integer("offset"));
      context.contribute(0, context.emit(0, "neighbour", {*context.cotangent(0)}, other)[0]);
    };
  }

  [[nodiscard]] OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::any; }
};

/// Calls function(batch, token of this rank, the global token that it reads or -1).
template <class Function>
void for_each_token(const OpInstance& op, const Function& function) {
  const Shape& shape = op.results[0].shape;
  const std::int64_t size = op.operands[0].shape[1];
  const IndexMap& tokens = kernels::index_map(op, "seq");
  const std::int64_t offset = op.attributes.integer("offset");
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t t = 0; t < shape[1]; ++t) {
      const std::int64_t source = tokens.global_index(t) - offset;
      function(b, t, source >= 0 && source < size ? source : -1);
    }
  }
}

reference::Work define_neighbour(const OpInstance& op) {
  return [op](const reference::Launch& launch) {
    const std::int64_t width = op.results[0].shape[2];
    for_each_token(op, [&](std::int64_t b, std::int64_t t, std::int64_t source) {
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t from = (b * op.operands[0].shape[1] + source) * width + i;
        launch.result(0).set((b * op.results[0].shape[1] + t) * width + i, source < 0 ? 0 : launch.operand(0)[from]);
      }
    });
  };
}

PreparedKernel prepare_neighbour(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[op, bytes = op.results[0].shape[2] *
                       static_cast<std::int64_t>(size_of(op.results[0].dtype))](const KernelArguments& arguments) {
    const auto* x = kernels::in<std::byte>(arguments, 0);
    auto* y = kernels::out<std::byte>(arguments, 0);
    for_each_token(op, [&](std::int64_t b, std::int64_t t, std::int64_t source) {
      std::byte* row = y + (b * op.results[0].shape[1] + t) * bytes;
      const std::byte* from = x + (b * op.operands[0].shape[1] + source) * bytes;
      source < 0 ? std::memset(row, 0, static_cast<std::size_t>(bytes))
                 : std::memcpy(row, from, static_cast<std::size_t>(bytes));
    });
  }};
}

}  // namespace

void register_neighbour(Registration& registration) {
  registration.add(std::make_unique<Neighbour>());
  registration.add(reference::kernel({"neighbour", "r", "r", define_neighbour}));
  registration.add({.op = "neighbour", .signature = {"t", "t"}, .prepare = prepare_neighbour});
}

}  // namespace shifted
