#include <utility>

#include "quantized_communication.hpp"
#include "settings.hpp"
#include "strata/strategy.hpp"

namespace zero {
namespace {

using namespace strata;

/// ZeRO: the ranks of a data-parallel axis share optimizer states, gradients and parameters instead of each holding all
/// (Rajbhandari et al., "ZeRO", SC 2020). PyTorch calls stage 3 FSDP (Zhao et al., VLDB 2023).
class Zero final : public Strategy {
 public:
  explicit Zero(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override {
    std::vector<MeshAxis> axes = sharding_axes();
    if (settings_.replicate > 1) axes.insert(axes.begin(), {settings_.axis + "_replicate", settings_.replicate});
    return axes;
  }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules;
    for (const MeshAxis& axis : axes()) rules.push_back({"batch", axis.name, 20, Distribution::block, {}});
    return rules;
  }

  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override {
    return GradientBuckets{static_cast<std::int64_t>(settings_.bucket_mb * 1024 * 1024), settings_.overlap};
  }

  [[nodiscard]] std::optional<ParameterStorage> storage(const ParameterDescription& /*parameter*/) const override {
    ParameterStorage storage;
    storage.sharding = static_cast<Sharding>(settings_.stage);
    storage.axes = storage_axes();
    if (settings_.hierarchical_partition > 1) storage.secondary_axes = {settings_.axis};
    storage.prefetch = settings_.prefetch;
    storage.reshard_after_forward = settings_.reshard_after_forward;
    storage.states_place = settings_.offload_optimizer;
    storage.values_place = settings_.offload_param;
    storage.directory = settings_.offload_directory;
    return storage;
  }

  [[nodiscard]] Conversion convert(const PlannedCollective& collective) const override {
    QuantizedCommunication quantized(settings_.quantization, sharding_axes(), storage_axes());
    if (!quantized.claims(collective)) return {};
    return [quantized = std::move(quantized)](ConversionContext& context) { quantized.convert(context); };
  }

 private:
  /// The strategy's sharding axes, outermost first: one, or two with a hierarchical partition.
  [[nodiscard]] std::vector<MeshAxis> sharding_axes() const {
    const int within = settings_.hierarchical_partition;
    if (within == 1) return {{settings_.axis, settings_.size}};
    return {{settings_.axis + "_nodes", settings_.size / within}, {settings_.axis, within}};
  }

  /// sharding_axes() and the axes of other strategies that also shard the storage.
  [[nodiscard]] std::vector<Axis> storage_axes() const {
    std::vector<Axis> axes;
    for (const MeshAxis& axis : sharding_axes()) axes.push_back(axis.name);
    axes.insert(axes.end(), settings_.also_over.begin(), settings_.also_over.end());
    return axes;
  }

  Settings settings_;
};

class ZeroFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema(); }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Zero>(read_settings(options));
  }
};

}  // namespace
}  // namespace zero

STRATA_PLUGIN(strategy, "zero", "0.1.0", "Apache-2.0",
              "ZeRO and FSDP: optimizer states, gradients and parameters sharded over the ranks that share the batch.",
              zero::ZeroFactory);
