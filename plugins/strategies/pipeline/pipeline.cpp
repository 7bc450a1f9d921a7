#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule.hpp"
#include "strata/error.hpp"
#include "strata/options.hpp"
#include "strata/plugin.hpp"
#include "strata/strategy.hpp"

namespace pipeline {
namespace {

using namespace strata;

/// How blocks are divided into chunks.
struct Split {
  enum class Kind : unsigned char { cost, even, given };
  Kind kind = Kind::cost;
  /// For Kind::given: the number of blocks of each chunk.
  std::vector<int> blocks;
};

/// The plugin's options, checked individually and together.
struct Settings {
  std::string axis;
  int stages = 1;
  const Schedule* schedule = nullptr;
  /// Number of chunks per stage.
  int virtual_stages = 1;
  Split split;

  [[nodiscard]] int chunks() const { return stages * virtual_stages; }
};

constexpr const char* kAcceptedSplits =
    "\"cost\", \"even\", \"auto\" or the number of blocks of each chunk in order, as in \"3,4,4,3\"";

/// The value of `schedule` and `split` that leaves them to the host.
constexpr const char* kAuto = "auto";
/// The schedule of a pipeline for which the host has not chosen. Its split is "cost".
constexpr const char* kUndecidedSchedule = "1f1b";

std::vector<std::string> schedule_names() {
  std::vector<std::string> names = {kAuto};
  for (const Schedule& schedule : schedules()) names.emplace_back(schedule.name);
  return names;
}

const Schedule& named_schedule(const std::string& word) {
  const std::string_view name = word == kAuto ? kUndecidedSchedule : std::string_view(word);
  return *std::find_if(schedules().begin(), schedules().end(), [&](const Schedule& row) { return row.name == name; });
}

/// Chunks per stage: the number that the schedule requires, or `given`. `name`: the value of `schedule`.
int virtual_stages_from(const Schedule& schedule, const std::string& name, std::int64_t given) {
  if (!schedule.virtual_stages) return static_cast<int>(given);
  if (given != 1 && given != *schedule.virtual_stages) {
    throw OptionError("virtual_stages",
                      "found " + std::to_string(given) + " with schedule \"" + name + "\", which " +
                          (name == kAuto ? "chooses them" : "has " + std::to_string(*schedule.virtual_stages)) +
                          "; accepted: any number with \"interleaved\" only");
  }
  return *schedule.virtual_stages;
}

/// Parses a positive number, which blanks may surround.
std::optional<int> block_count(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1) return std::nullopt;
  return count;
}

std::vector<int> block_counts(const std::string& list) {
  std::vector<int> counts;
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::optional<int> count = block_count(std::string_view(list).substr(begin, end - begin));
    if (!count) throw OptionError("split", "found \"" + list + "\"; accepted: " + kAcceptedSplits);
    counts.push_back(*count);
    begin = end + 1;
  }
  return counts;
}

Split split_from(const std::string& word, int chunks) {
  if (word == "cost" || word == kAuto) return {Split::Kind::cost, {}};
  if (word == "even") return {Split::Kind::even, {}};
  Split split{Split::Kind::given, block_counts(word)};
  if (static_cast<int>(split.blocks.size()) != chunks) {
    throw OptionError("split", "found \"" + word + "\", which is " + std::to_string(split.blocks.size()) +
                                   " chunks; accepted: " + std::to_string(chunks) +
                                   " chunks, which is the stages times the chunks of a stage");
  }
  return split;
}

OptionSchema option_schema() {
  return {
      option::axis_size("Ranks along the axis: stages of the pipeline."), option::axis_name("pp"),
      option::word("schedule", "1f1b",
                   "The order of forward passes, backward passes and weight gradients on each stage. \"auto\" is the "
                   "fastest in a simulation, with its chunks and their blocks.",
                   schedule_names()),
      option::integer("virtual_stages", 1, 1, 1024,
                      "Chunks of a stage with schedule \"interleaved\"; \"zbv\" has 2 and the others 1."),
      option::with_role(
          OptionRole::chunk_blocks,
          option::word("split", "cost", std::string("How blocks are divided into chunks: ") + kAcceptedSplits + "."))};
}

/// Reads the options. \throws strata::ConfigurationError that names the option.
Settings settings_from(const Options& options) {
  Settings settings;
  settings.axis = options.word("axis");
  settings.stages = static_cast<int>(options.integer("size"));
  settings.schedule = &named_schedule(options.word("schedule"));
  settings.virtual_stages =
      virtual_stages_from(*settings.schedule, options.word("schedule"), options.integer("virtual_stages"));
  settings.split = split_from(options.word("split"), settings.chunks());
  return settings;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Sums of the first 0, 1, … costs.
std::vector<double> prefix_sums(const std::vector<double>& costs) {
  std::vector<double> sums(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  return sums;
}

/// The smallest possible size of the largest part.
double least_largest_part(const std::vector<double>& sums, int parts) {
  const std::size_t count = sums.size() - 1;
  // least[i]: the smallest largest part for the first i costs in `part` parts.
  std::vector<double> least(sums.begin(), sums.end());
  least[0] = kInfinity;
  for (int part = 1; part < parts; ++part) {
    std::vector<double> next(count + 1, kInfinity);
    for (std::size_t end = 1; end <= count; ++end) {
      for (std::size_t begin = end; begin-- > 0;) {
        const double last = sums[end] - sums[begin];
        next[end] = std::min(next[end], std::max(least[begin], last));
        if (last >= next[end]) break;  // for earlier begins the last part is even larger
      }
    }
    least = std::move(next);
  }
  return least[count];
}

/// Sizes of the parts with the smallest sum of squares, if no part may exceed `limit`.
std::vector<int> least_squares_split(const std::vector<double>& sums, int parts, double limit) {
  const std::size_t count = sums.size() - 1;
  std::vector<double> least(count + 1, kInfinity);
  least[0] = 0;
  std::vector<std::vector<std::size_t>> begin_of(static_cast<std::size_t>(parts), std::vector<std::size_t>(count + 1));
  for (std::vector<std::size_t>& begins : begin_of) {
    std::vector<double> next(count + 1, kInfinity);
    for (std::size_t end = 1; end <= count; ++end) {
      for (std::size_t begin = end; begin-- > 0;) {
        const double last = sums[end] - sums[begin];
        if (last > limit) break;
        const double squares = least[begin] + last * last;
        if (squares < next[end]) {
          next[end] = squares;
          begins[end] = begin;
        }
      }
    }
    least = std::move(next);
  }
  std::vector<int> sizes(static_cast<std::size_t>(parts));
  std::size_t end = count;
  for (std::size_t part = sizes.size(); part-- > 0;) {
    sizes[part] = static_cast<int>(end - begin_of[part][end]);
    end = begin_of[part][end];
  }
  return sizes;
}

/// Parts of equal size. The first ones get one more if the division has a remainder.
std::vector<int> even_split(int blocks, int chunks) {
  std::vector<int> sizes(static_cast<std::size_t>(chunks), blocks / chunks);
  for (int chunk = 0; chunk < blocks % chunks; ++chunk) ++sizes[static_cast<std::size_t>(chunk)];
  return sizes;
}

std::vector<int> given_split(const std::vector<int>& sizes, int blocks) {
  const std::int64_t listed = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (listed == blocks) return sizes;
  throw OptionError("split", "found " + std::to_string(listed) + " blocks in all; accepted: " + std::to_string(blocks) +
                                 ", as many as the model has, embedding and head included");
}

/// The contiguous split with the smallest largest part, and among those the one with the smallest sum of squares. There
/// must be at least as many costs as parts, and no cost may be negative. \return the number of costs in each part.
std::vector<int> balanced_split(const std::vector<double>& costs, int parts) {
  const std::vector<double> sums = prefix_sums(costs);
  return least_squares_split(sums, parts, least_largest_part(sums, parts));
}

/// Divides the blocks, in order, into `chunks` runs. \return the number of blocks in each. \throws
/// strata::ConfigurationError if there are fewer blocks than chunks, or if a given split has another number of blocks.
std::vector<int> split_blocks(const std::vector<BlockCost>& blocks, const Settings& settings) {
  const int count = static_cast<int>(blocks.size());
  if (count < settings.chunks()) {
    const std::string each =
        settings.virtual_stages > 1 ? " of " + std::to_string(settings.virtual_stages) + " chunks" : "";
    throw OptionError("size", "found " + std::to_string(settings.stages) + " stages" + each + "; accepted: at most " +
                                  std::to_string(count) + " chunks in all, the number of blocks of the model");
  }
  if (settings.split.kind == Split::Kind::even) return even_split(count, settings.chunks());
  if (settings.split.kind == Split::Kind::given) return given_split(settings.split.blocks, count);
  std::vector<double> costs;
  for (const BlockCost& block : blocks) costs.push_back(block.forward_flops + block.backward_flops);
  return balanced_split(costs, settings.chunks());
}

/// Pipeline parallelism: consecutive blocks of the model are on consecutive ranks along one axis, the stages. The
/// micro-batches of a step follow each other through the stages.

class Pipeline final : public Strategy {
 public:
  static OptionSchema schema() { return option_schema(); }
  explicit Pipeline(const Options& options) : settings_(settings_from(options)) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{settings_.axis, settings_.stages}}; }

  [[nodiscard]] std::optional<Placement> place(const std::vector<BlockCost>& blocks) const override {
    Placement placement{.axis = settings_.axis,
                        .chunk_of_block = {},
                        .stage_of_chunk = settings_.schedule->stages_of_chunks(settings_.stages, settings_.chunks()),
                        .splits_weight_gradients = settings_.schedule->splits_weight_gradients};
    const std::vector<int> sizes = split_blocks(blocks, settings_);
    for (std::size_t chunk = 0; chunk < sizes.size(); ++chunk) {
      placement.chunk_of_block.insert(placement.chunk_of_block.end(), static_cast<std::size_t>(sizes[chunk]),
                                      static_cast<int>(chunk));
    }
    return placement;
  }

  [[nodiscard]] std::vector<ScheduledTask> schedule(int stage, int micro_batches) const override {
    return settings_.schedule->order({stage, settings_.stages, settings_.virtual_stages, micro_batches});
  }

 private:
  Settings settings_;
};

/// More chunks make the bubble little smaller, and messages more.
constexpr int kMostProposedChunks = 6;

class PipelineFactory final : public FactoryOf<TunableStrategyFactory, Pipeline> {
 public:
  [[nodiscard]] PlanPurpose plan_purpose() const override { return PlanPurpose::stages; }
  [[nodiscard]] std::vector<PlanProposal> proposals(const PlanningContext& context) const override {
    std::vector<PlanProposal> found;
    for (const int size : divisors(context.devices, context.blocks)) {
      const auto propose = [&](const char* schedule, int chunks) {
        std::map<std::string, OptionValue> options = {{"size", std::int64_t{size}}, {"schedule", schedule}};
        if (chunks > 1) options["virtual_stages"] = std::int64_t{chunks};
        found.push_back({std::move(options), size});
      };
      propose("1f1b", 1);
      propose("zb-h1", 1);
      if (2 * size <= context.blocks) propose("zbv", 1);
      for (int chunks = 2; chunks * size <= context.blocks && chunks <= kMostProposedChunks; ++chunks) {
        propose("interleaved", chunks);
      }
    }
    return found;
  }

  [[nodiscard]] bool leaves_open(const Options& options) const override {
    return options.word("schedule") == kAuto || options.word("split") == kAuto;
  }

  /// With the schedule "auto", all schedules and numbers of chunks; a split that is given stays. With the split "auto"
  /// alone, the given schedule.
  [[nodiscard]] std::vector<PlanProposal> alternatives(const Options& options,
                                                       const PlanningContext& context) const override {
    const std::string& wanted = options.word("schedule");
    const std::string& split = options.word("split");
    const bool keeps_split = split != kAuto && split != "cost";
    const int most = wanted == kAuto ? kMostProposedChunks : static_cast<int>(options.integer("virtual_stages"));
    const int least = wanted == kAuto ? 2 : most;
    std::vector<PlanProposal> found;
    for (const Schedule& schedule : schedules()) {
      if (wanted != kAuto && wanted != schedule.name) continue;
      const auto [from, to] = schedule.virtual_stages ? std::pair(*schedule.virtual_stages, *schedule.virtual_stages)
                                                      : std::pair(least, most);
      for (int chunks = from; chunks <= to; ++chunks) {
        if (chunks > 1 && chunks * context.devices > context.blocks) break;
        std::map<std::string, OptionValue> decided = {{"schedule", std::string(schedule.name)},
                                                      {"virtual_stages", std::int64_t{chunks}}};
        if (keeps_split) decided["split"] = split;
        found.push_back({std::move(decided), context.devices});
      }
    }
    return found;
  }
};

}  // namespace
}  // namespace pipeline

STRATA_PLUGIN(strategy, "pipeline", "0.1.0", "Apache-2.0",
              "Pipeline: blocks over the ranks of one axis, micro-batches in a chosen order.",
              pipeline::PipelineFactory);
