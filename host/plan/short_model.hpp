#pragma once

#include <memory>

#include "compiler/compile.hpp"
#include "plan/alike_blocks.hpp"
#include "strata/graph.hpp"
#include "strata/model.hpp"

namespace strata::host {

/// The graph that a model builds, before any strategy rewrites it.
struct BuiltModel {
  Graph graph;
  AlikeBlocks alike;
};

/// Builds the graph of the request's model. `samples`: those of one micro-batch over all replicas.
[[nodiscard]] std::shared_ptr<const BuiltModel> build_model(const CompileRequest& request, std::int64_t samples);

/// A built model without the last of its alike blocks.
class ShortModel final : public Model {
 public:
  ShortModel(std::shared_ptr<const BuiltModel> built, int left_out) : built_(std::move(built)), left_out_(left_out) {}

  void build(GraphBuilder& builder) const override {
    builder.graph() = without_blocks(built_->graph, built_->alike, left_out_);
  }

 private:
  std::shared_ptr<const BuiltModel> built_;
  int left_out_;
};

}  // namespace strata::host
