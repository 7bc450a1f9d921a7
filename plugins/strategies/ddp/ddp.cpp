/// Distributed data parallelism: every rank along one axis trains on another part of the batch. Gradients are summed
/// over the axis in flat buckets, overlapping with the backward pass (Li et al., "PyTorch Distributed: Experiences on
/// Accelerating Data Parallel Training", VLDB 2020).

#include <charconv>

#include "strata/error.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace {

using namespace strata;

class DistributedDataParallel final : public Strategy {
 public:
  static OptionSchema schema() {
    return {
        option::axis_size("Ranks along the axis: replicas that share the batch."), option::axis_name("dp"),
        option::words("replicate",
                      "Further axes over which the model is replicated, outermost first, each as \"name=size\": they "
                      "are outside of the axis, and one collective sums gradients over all of them."),
        option::number("bucket_mb", 25.0, 0.001, 65536,
                       "Gradients are reduced in flat buckets of at most this many MiB."),
        option::boolean("overlap", true,
                        "Reduce each bucket as soon as its gradients are complete, overlapping with the rest of the "
                        "backward pass.")};
  }

  explicit DistributedDataParallel(const Options& options)
      : buckets_{static_cast<std::int64_t>(options.number("bucket_mb") * 1024 * 1024), options.boolean("overlap")} {
    for (const std::string& axis : options.words("replicate")) axes_.push_back(parse_axis(axis));
    axes_.push_back({options.word("axis"), static_cast<int>(options.integer("size"))});
  }

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return axes_; }

  [[nodiscard]] std::vector<Rule> rules() const override {
    std::vector<Rule> rules;
    for (const MeshAxis& axis : axes_) rules.push_back({"batch", axis.name, 20, Distribution::block, {}});
    return rules;
  }

  [[nodiscard]] std::optional<GradientBuckets> gradient_buckets() const override { return buckets_; }

 private:
  /// Parses an axis such as "node=4".
  static MeshAxis parse_axis(const std::string& text) {
    const std::size_t equals = text.find('=');
    MeshAxis axis{text.substr(0, equals), 0};
    if (equals != std::string::npos && !axis.name.empty()) {
      const char* end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data() + equals + 1, end, axis.size);
      if (error == std::errc{} && rest == end && axis.size > 0) return axis;
    }
    throw OptionError("replicate", "found \"" + text +
                                       "\"; accepted: the name of an axis and the ranks along it, such as \"node=4\"");
  }

  std::vector<MeshAxis> axes_;
  GradientBuckets buckets_;
};

class DdpFactory final : public FactoryOf<StrategyFactory, DistributedDataParallel> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::replicas; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    return {{{{"size", std::int64_t{context.devices}}}, context.devices}};
  }
};

}  // namespace

STRATA_PLUGIN(strategy, "ddp", "0.1.0", "Apache-2.0",
              "Data parallel: the batch over one axis, gradients summed in overlapped buckets.", DdpFactory);
