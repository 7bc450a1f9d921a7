#pragma once

#include <cstdint>
#include <optional>

#include "strata/model.hpp"

namespace gpt2 {

/// Sizes and dropout rates of one GPT-2.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t context = 1024;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// True if attention stays inside a document and positions start anew in each.
  bool documents = false;
};

/// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): pre-norm blocks, learned
/// positions, GELU in the tanh form, biases everywhere, tied input and output embeddings.
class Gpt2 final : public strata::Model {
 public:
  explicit Gpt2(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] strata::DimSizes sizes() const override;
  void build(strata::GraphBuilder& builder) const override;
  [[nodiscard]] std::optional<strata::Generation> generation() const override {
    return strata::Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

 private:
  Settings settings_;
};

}  // namespace gpt2
