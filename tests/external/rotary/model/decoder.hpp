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

  [[nodiscard]] std::int64_t context() const override { return settings_.context; }
  [[nodiscard]] std::optional<std::int64_t> vocab() const override {
    return settings_.vocab > 0 ? std::optional(settings_.vocab) : std::nullopt;
  }
  void build(strata::GraphBuilder& builder) const override;

 private:
  Settings settings_;
};

}  // namespace rotary
