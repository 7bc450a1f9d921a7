#include "strata/strategy.hpp"

namespace {

/// Shards the feed-forward width over an axis: the partitioner adds the collectives.
class WideLayers final : public strata::Strategy {
 public:
  explicit WideLayers(int size) : size_(size) {}
  std::vector<strata::MeshAxis> axes() const override { return {{"wide", size_}}; }
  std::vector<strata::Rule> rules() const override {
    return {{.dim = "ffn", .axis = "wide", .priority = 10, .distribution = strata::Distribution::block, .filter = {}}};
  }

 private:
  int size_;
};

class Factory final : public strata::StrategyFactory {
 public:
  const strata::OptionSchema& options() const override { return schema_; }
  std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    return std::make_unique<WideLayers>(static_cast<int>(options.integer("size")));
  }

 private:
  strata::OptionSchema schema_{strata::option::axis_size("Ranks along the axis.")};
};

}  // namespace

STRATA_PLUGIN(strategy, "my_strategy", "1.0.0", "Apache-2.0", "Feed-forward layers over an axis.", Factory);
