#include "halo_ops.hpp"

#include <cstring>
#include <memory>

#include "strata/kernel_tools.hpp"
#include "strata/op.hpp"
#include "strata/reference_kernel.hpp"

namespace halo {
namespace {

using namespace strata;

/// The host checks each instruction by infer(), as it checks the nodes of a graph.
class Edge final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kEdge; }
  [[nodiscard]] std::string documentation() const override {
    return "x [batch seq embed] -> edge [batch embed]: the rank's last token (offset 1) or first token (offset -1).";
  }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const TensorType& x = graph.type(node.operands.at(0));
    return {{{x.dims.at(0), x.dims.at(2)}, x.dtype}};
  }
};

class Shift final : public OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return kShift; }
  [[nodiscard]] std::string documentation() const override {
    return "x [batch seq embed], edge [batch embed] -> y: y[t] = x[t - offset], from the edge where x ends.";
  }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }
};

/// Where the rows of a shard are. A row is the `embed` of one token.
struct Rows {
  explicit Rows(const OpInstance& op)
      : batches(op.operands[0].shape[0]),
        tokens(op.operands[0].shape[1]),
        width(op.operands[0].shape[2]),
        offset(op.attributes.integer("offset")),
        seq(kernels::index_map(op, "seq")) {}

  [[nodiscard]] std::int64_t edge_of(std::int64_t batch) const {
    return batch * tokens + (offset > 0 ? tokens - 1 : 0);
  }
  /// True if a token of the whole sequence comes before (after) this rank's tokens.
  [[nodiscard]] bool has_neighbour() const {
    return offset > 0 ? seq.global_index(0) > 0 : seq.global_index(tokens - 1) < seq.global_size - 1;
  }
  [[nodiscard]] bool is_inside(std::int64_t token) const { return token >= 0 && token < tokens; }

  std::int64_t batches;
  std::int64_t tokens;
  std::int64_t width;
  std::int64_t offset;
  IndexMap seq;
};

reference::Work define_edge(const OpInstance& op) {
  return [rows = Rows(op)](const reference::Launch& launch) {
    for (std::int64_t b = 0; b < rows.batches; ++b) {
      for (std::int64_t i = 0; i < rows.width; ++i) {
        launch.result(0).set(b * rows.width + i, launch.operand(0)[rows.edge_of(b) * rows.width + i]);
      }
    }
  };
}

reference::Work define_shift(const OpInstance& op) {
  return [rows = Rows(op)](const reference::Launch& launch) {
    const auto element = [&](std::int64_t b, std::int64_t source, std::int64_t i) {
      if (rows.is_inside(source)) return launch.operand(0)[(b * rows.tokens + source) * rows.width + i];
      return rows.has_neighbour() ? launch.operand(1)[b * rows.width + i] : 0;
    };
    for (std::int64_t b = 0; b < rows.batches; ++b) {
      for (std::int64_t t = 0; t < rows.tokens; ++t) {
        for (std::int64_t i = 0; i < rows.width; ++i) {
          launch.result(0).set((b * rows.tokens + t) * rows.width + i, element(b, t - rows.offset, i));
        }
      }
    }
  };
}

// Fast kernels, which copy rows of any type.

std::size_t row_bytes(const OpInstance& op) {
  return static_cast<std::size_t>(op.operands[0].shape[2]) * size_of(op.operands[0].dtype);
}

PreparedKernel prepare_edge(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[rows = Rows(op), bytes = row_bytes(op)](const KernelArguments& arguments) {
    const auto* x = kernels::in<std::byte>(arguments, 0);
    auto* edge = kernels::out<std::byte>(arguments, 0);
    for (std::int64_t b = 0; b < rows.batches; ++b) {
      std::memcpy(edge + static_cast<std::size_t>(b) * bytes, x + static_cast<std::size_t>(rows.edge_of(b)) * bytes,
                  bytes);
    }
  }};
}

PreparedKernel prepare_shift(const OpInstance& op, const KernelEnvironment& /*environment*/) {
  return {[rows = Rows(op), bytes = row_bytes(op)](const KernelArguments& arguments) {
    const auto* x = kernels::in<std::byte>(arguments, 0);
    const auto* edge = kernels::in<std::byte>(arguments, 1);
    auto* y = kernels::out<std::byte>(arguments, 0);
    // All rows but one come from x, in one run.
    const auto run = static_cast<std::size_t>(rows.tokens - 1) * bytes;
    for (std::int64_t b = 0; b < rows.batches; ++b) {
      const std::size_t begin = static_cast<std::size_t>(b * rows.tokens) * bytes;
      const std::size_t end = begin + run;
      std::memcpy(y + begin + (rows.offset > 0 ? bytes : 0), x + begin + (rows.offset > 0 ? 0 : bytes), run);
      std::byte* row = y + (rows.offset > 0 ? begin : end);
      if (rows.has_neighbour()) {
        std::memcpy(row, edge + static_cast<std::size_t>(b) * bytes, bytes);
      } else {
        std::memset(row, 0, bytes);
      }
    }
  }};
}

}  // namespace

void register_ops(Registration& registration) {
  registration.add(std::make_unique<Edge>());
  registration.add(std::make_unique<Shift>());
  registration.add(reference::kernel({kEdge, "r", "r", define_edge}));
  registration.add(reference::kernel({kShift, "rr", "r", define_shift}));
  registration.add({.op = kEdge, .signature = {"t", "t"}, .prepare = prepare_edge});
  registration.add({.op = kShift, .signature = {"tt", "t"}, .prepare = prepare_shift});
}

}  // namespace halo
