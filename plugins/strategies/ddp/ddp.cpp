/// Data parallelism: every rank along one axis trains on another part of the batch, and gradients are summed over the
/// axis in flat buckets while the backward pass goes on (Li et al., "PyTorch Distributed: Experiences on Accelerating
/// Data Parallel Training", VLDB 2020).

#include "strata/strategy.hpp"

namespace {

using namespace strata;

class DistributedDataParallel final : public Strategy {
 public:
  explicit DistributedDataParallel(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))},
        buckets_{static_cast<std::int64_t>(options.number("bucket_mb") * 1024 * 1024), options.boolean("overlap")} {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {axis_}; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    Rule rule;
    rule.dim = "batch";
    rule.axis = axis_.name;
    rule.priority = 20;
    return {rule};
  }

  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override { return buckets_; }

 private:
  MeshAxis axis_;
  GradientBuckets buckets_;
};

class DdpFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<DistributedDataParallel>(options);
  }

 private:
  OptionSchema schema_{
      {"size", OptionType::integer, std::nullopt, "Ranks along the axis: replicas that share the batch.", 1, 65536, {}},
      {"axis",
       OptionType::word,
       OptionValue(std::string("dp")),
       "Name of the mesh axis.",
       std::nullopt,
       std::nullopt,
       {}},
      {"bucket_mb",
       OptionType::number,
       OptionValue(25.0),
       "Gradients are reduced in flat buckets of at most this many MiB.",
       0.001,
       65536,
       {}},
      {"overlap",
       OptionType::boolean,
       OptionValue(true),
       "Reduce each bucket as soon as its gradients are complete, beside the rest of the backward pass.",
       std::nullopt,
       std::nullopt,
       {}}};
};

}  // namespace

STRATA_PLUGIN(strategy, "ddp", "0.1.0", "Apache-2.0",
              "Data parallel: the batch over one axis, gradients summed in overlapped buckets.", DdpFactory);
