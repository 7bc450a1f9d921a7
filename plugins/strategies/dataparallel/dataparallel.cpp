/// Data parallelism with one writer, the scheme before distributed data parallelism. The batch is split over one axis.
/// The first rank along the axis gathers all gradients, holds the optimizer states, updates, and broadcasts the
/// parameters. It serves as a baseline.

#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace {

using namespace strata;

class SingleWriter final : public Strategy {
 public:
  static OptionSchema schema() {
    return {
        option::axis_size("Ranks along the axis: replicas that share the batch."), option::axis_name("dp"),
        option::number("bucket_mb", 25.0, 0.001, 65536,
                       "Gradients are sent, and parameters broadcast, in flat buckets of at most this many MiB."),
        option::boolean(
            "overlap", false,
            "Send each bucket as soon as its gradients are complete, overlapping with the rest of the backward pass.")};
  }

  explicit SingleWriter(const Options& options)
      : axis_{options.word("axis"), static_cast<int>(options.integer("size"))},
        buckets_{static_cast<std::int64_t>(options.number("bucket_mb") * 1024 * 1024), options.boolean("overlap")} {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {axis_}; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    return {{"batch", axis_.name, 20, Distribution::block, {}}};
  }

  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override { return buckets_; }

  [[nodiscard]] std::optional<ParameterStorage> storage(const ParameterDescription& /*parameter*/) const override {
    ParameterStorage storage;
    storage.axes = {axis_.name};
    storage.single_writer = true;
    return storage;
  }

 private:
  MeshAxis axis_;
  GradientBuckets buckets_;
};

using SingleWriterFactory = FactoryOf<StrategyFactory, SingleWriter>;

}  // namespace

STRATA_PLUGIN(strategy, "dataparallel", "0.1.0", "Apache-2.0",
              "Single-writer data parallel: one rank gathers gradients, updates and broadcasts.", SingleWriterFactory);
