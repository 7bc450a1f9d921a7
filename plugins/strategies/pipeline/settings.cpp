#include "settings.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "strata/error.hpp"

namespace pipeline {
namespace {

using namespace strata;

constexpr const char* kAcceptedSplits =
    "\"cost\", \"even\" or the number of blocks of each chunk in order, as in \"3,4,4,3\"";

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule& schedule : schedules()) names.emplace_back(schedule.name);
  return names;
}

const Schedule& named_schedule(const std::string& name) {
  return *std::find_if(schedules().begin(), schedules().end(), [&](const Schedule& row) { return row.name == name; });
}

/// Chunks per stage: the number that the schedule requires, or `given`.
int virtual_stages_from(const Schedule& schedule, std::int64_t given) {
  if (!schedule.virtual_stages) return static_cast<int>(given);
  if (given != 1 && given != *schedule.virtual_stages) {
    throw OptionError("virtual_stages", "found " + std::to_string(given) + " with schedule \"" +
                                            std::string(schedule.name) + "\", which has " +
                                            std::to_string(*schedule.virtual_stages) +
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
  if (word == "cost") return {Split::Kind::cost, {}};
  if (word == "even") return {Split::Kind::even, {}};
  Split split{Split::Kind::given, block_counts(word)};
  if (static_cast<int>(split.blocks.size()) != chunks) {
    throw OptionError("split", "found \"" + word + "\", which is " + std::to_string(split.blocks.size()) +
                                   " chunks; accepted: " + std::to_string(chunks) +
                                   " chunks, which is the stages times the chunks of a stage");
  }
  return split;
}

}  // namespace

const OptionSchema& option_schema() {
  static const OptionSchema schema{
      option::axis_size("Ranks along the axis: stages of the pipeline."), option::axis_name("pp"),
      option::word("schedule", "1f1b",
                   "The order of forward passes, backward passes and weight gradients on each stage.",
                   schedule_names()),
      option::integer("virtual_stages", 1, 1, 1024,
                      "Chunks of a stage with schedule \"interleaved\"; \"zbv\" has 2 and the others 1."),
      option::word("split", "cost", std::string("How blocks are divided into chunks: ") + kAcceptedSplits + ".")};
  return schema;
}

Settings settings_from(const Options& options) {
  Settings settings;
  settings.axis = options.word("axis");
  settings.stages = static_cast<int>(options.integer("size"));
  settings.schedule = &named_schedule(options.word("schedule"));
  settings.virtual_stages = virtual_stages_from(*settings.schedule, options.integer("virtual_stages"));
  settings.split = split_from(options.word("split"), settings.chunks());
  return settings;
}

}  // namespace pipeline
