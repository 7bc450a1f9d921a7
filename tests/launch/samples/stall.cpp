#include <chrono>
#include <thread>

#include "strata/plugin.hpp"
#include "strata/registration.hpp"

namespace {

using namespace strata;

struct Stall {
  std::uint64_t step = 0;
  double seconds = 0;
  bool is_once = true;
};

/// True on the ranks that have the first sample of a batch.
bool has_first_samples(const OpInstance& instance) {
  const auto batch = instance.index_maps.find("batch");
  return batch == instance.index_maps.end() || batch->second.segments.front().global_begin == 0;
}

PreparedKernel prepare_add(const OpInstance& instance, const Stall& stall) {
  const bool stalls = !has_first_samples(instance);
  const std::int64_t elements = element_count(instance.results.front().shape);
  return {[=](const KernelArguments& arguments) {
    const StepContext& context = arguments.context;
    const bool is_due = stall.is_once ? context.step == stall.step : context.step >= stall.step;
    if (stalls && is_due && context.micro_batch == 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(stall.seconds));
    }
    const auto* a = static_cast<const float*>(arguments.operands[0]);
    const auto* b = static_cast<const float*>(arguments.operands[1]);
    auto* sum = static_cast<float*>(arguments.results[0]);
    for (std::int64_t i = 0; i < elements; ++i) sum[i] = a[i] + b[i];
  }};
}

/// A kernel for `add` in f32 that sleeps on all data-parallel ranks but the first.
class StallFactory final : public LibraryFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& options) const override {
    const Stall stall{static_cast<std::uint64_t>(options.integer("step")), options.number("seconds"),
                      options.boolean("once")};
    registration.add(KernelDefinition{
        .op = "add",
        .signature = {"tt", "t"},
        .rank = 1000,
        .prepare = [stall](const OpInstance& op, const KernelEnvironment&) { return prepare_add(op, stall); },
        .unsupported = [](const OpInstance& op, const KernelEnvironment&) -> std::optional<std::string> {
          if (op.results.front().dtype == DType::f32) return std::nullopt;
          return "only f32";
        }});
  }

 private:
  OptionSchema schema_{
      {.name = "step", .type = OptionType::integer, .default_value = 3, .documentation = "The step, from 0."},
      {.name = "seconds", .type = OptionType::number, .default_value = 3600.0, .documentation = "How long it sleeps."},
      {.name = "once",
       .type = OptionType::boolean,
       .default_value = true,
       .documentation = "Sleeps in that step only, or in all later ones too."}};
};

}  // namespace

STRATA_PLUGIN(library, "stall", "1.0.0", "Apache-2.0", "A kernel that stops ranks, for tests.", StallFactory);
