#pragma once

#include <optional>
#include <string>

#include "strata/model.hpp"

namespace strata::testing {

/// Two blocks of linear, bias, dropout and residual: enough for fusion, buckets and reductions.
class SmallModel final : public Model {
 public:
  [[nodiscard]] DimSizes sizes() const override { return {{"seq", 4}, {"vocab", 8}}; }
  void build(GraphBuilder& b) const override {
    b.define_dim("seq", 4);
    b.define_dim("embed", 4);
    b.define_dim("out", 8);
    const Value table = b.parameter("table", {"vocab", "embed"}, Initialization::normal(0.5), true);
    const Value tokens = b.input("tokens", {"batch", "seq"});
    Value x = b.embedding(table, tokens, "token");
    for (const std::string name : {"one", "two"}) {
      const Value weight = b.parameter(name + ".weight", {"embed", "out"}, Initialization::normal(0.5), true);
      const Value back = b.parameter(name + ".back", {"out", "embed"}, Initialization::normal(0.5), true);
      const Value bias = b.parameter(name + ".bias", {"out"}, Initialization::normal(0.5), false);
      const Value up = b.add(b.linear(x, weight, {"batch", "seq", "out"}, name), bias, name + ".add_bias");
      const Value active = b.activation(up, "silu", name + ".activation");
      x = b.add(x, b.dropout(b.linear(active, back, {"batch", "seq", "embed"}, name + ".down"), 0.2, name + ".dropout"),
                name + ".residual");
    }
    const Value logits = b.linear(x, table, {"batch", "seq", "vocab"}, "logits");
    b.output("logits", logits);
    b.cross_entropy_loss(logits, b.input("targets", {"batch", "seq"}), "loss");
  }
};

}  // namespace strata::testing
