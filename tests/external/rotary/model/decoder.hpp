#pragma once

#include <optional>

#include "model/settings.hpp"
#include "strata/model.hpp"

namespace rotary {

/// A decoder-only transformer with rotary positions: pre-norm blocks, no position table, no biases but those of the
/// norms, GELU, tied embeddings.
class Decoder final : public strata::Model {
 public:
  explicit Decoder(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] strata::DimSizes sizes() const override;
  void build(strata::GraphBuilder& builder) const override;
  [[nodiscard]] std::optional<strata::Generation> generation() const override { return strata::Generation{}; }

 private:
  Settings settings_;
};

}  // namespace rotary
