/// my_plugin: a strategy. It shards the feed-forward layers over an axis of its own. The partitioner adds the
/// communication that this needs.

#include "strata/strategy.hpp"

namespace {

constexpr const char* kAxis = "my_plugin";

class MyPluginStrategy final : public strata::Strategy {
 public:
  explicit MyPluginStrategy(int size) : size_(size) {}

  [[nodiscard]] std::vector<strata::MeshAxis> axes() const override { return {{kAxis, size_}}; }

  /// Each rule maps a dimension of the model onto an axis. The host walks them by priority, lowest number first.
  [[nodiscard]] std::vector<strata::Rule> rules() const override {
    return {{.dim = "ffn", .axis = kAxis, .priority = 10, .distribution = strata::Distribution::block, .filter = {}}};
  }

 private:
  int size_;
};

class MyPluginFactory final : public strata::StrategyFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    return std::make_unique<MyPluginStrategy>(static_cast<int>(options.integer("size")));
  }

 private:
  strata::OptionSchema schema_{strata::option::axis_size("Ranks along the axis.")};
};

}  // namespace

STRATA_PLUGIN(strategy, "my_plugin", "0.1.0", "Apache-2.0", "Feed-forward layers over an axis.", MyPluginFactory);
