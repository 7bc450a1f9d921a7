#include "conformance/subject.hpp"

#include <algorithm>
#include <utility>

#include "files/file_io.hpp"
#include "loading/resolved_plugins.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// The axes of two strategies of two ranks divide the sizes, also those that deal the sequence in zigzag.
constexpr const char* kGpt = R"(
[model]
plugin = "gpt2"
layers = 2
heads = 4
embed = 16
context = 8
vocab = 16
dropout = 0.1
[data]
plugin = "tokens"
path = "none"
)";

/// The graph of this seed has two streams of different lengths, values that skip blocks and have several later readers
/// in crossed order, a parameter of blocks far apart, an op of its own and several losses. No axis divides all of its
/// sizes.
constexpr const char* kDrawn = R"(
[model]
plugin = "drawn"
seed = 386
layers = 4
heads = 4
embed = 16
context = 8
letters = 5
vocab = 16
dropout = 0.1
[data]
plugin = "drawn_pairs"
)";

constexpr const char* kAround = R"(
[run]
steps = 3
[batch]
global = 16
micro = 2
[optimizer]
plugin = "adamw"
lr = 1e-2
clip = 0.5
[device]
plugin = "reference"
[communicator]
plugin = "local"
timeout = 120
)";

constexpr const char* kSmallRunName = "small-run.toml";
/// Ranks of a strategy whose size is required and not given.
constexpr std::int64_t kDefaultRanks = 2;
constexpr std::int64_t kFewSteps = 2;
/// The axis of a strategy beside the one under test.
const std::string kOtherAxis = "other";

bool is_required_size(const OptionSpecification& option) {
  return !option.default_value && option.role == OptionRole::axis_size && option.type == OptionType::integer;
}

/// The section that selects `plugin`, or null.
PluginSection* selected(RunConfiguration& configuration, PluginKind kind, const std::string& plugin) {
  const bool has_tables = kind == PluginKind::strategy || kind == PluginKind::library;
  const auto& tables = kind == PluginKind::strategy ? configuration.strategies : configuration.libraries;
  for (std::size_t i = 0; i < (has_tables ? tables.size() : 1); ++i) {
    PluginSection& section = section_of(configuration, {kind, has_tables ? static_cast<int>(i) : -1, plugin});
    if (section.plugin == plugin) return &section;
  }
  return nullptr;
}

/// The argument of --set that selects the plugin in place of that of the configuration.
std::string selection(PluginKind kind, const std::string& plugin) {
  const std::string section = section_name(kind);
  const std::string quoted = "\"" + plugin + "\"";
  if (kind == PluginKind::strategy || kind == PluginKind::library) return section + "=[{plugin=" + quoted + "}]";
  if (kind == PluginKind::optimizer) return section + "={plugin=" + quoted + ", lr=1e-2, clip=0.5}";
  return section + "={plugin=" + quoted + "}";
}

/// Position of the dot that ends the first key.
bool begins_with_section(const std::string& text, const std::string& section) {
  return text.starts_with(section + ".");
}

/// The places of plugins, and the folders of the kit's own ones beside them.
std::vector<std::filesystem::path> with_kit(const std::vector<std::filesystem::path>& places) {
  std::vector<std::filesystem::path> all = places;
  for (const std::filesystem::path& place : places) {
    const std::filesystem::path kit = place.parent_path() / "testing";
    if (std::filesystem::is_directory(kit)) all.push_back(kit);
  }
  return all;
}

}  // namespace

const std::vector<SmallRun>& small_runs() {
  static const std::vector<SmallRun> kRuns = {{"GPT-2", std::string(kGpt) + kAround},
                                              {"the drawn model", std::string(kDrawn) + kAround}};
  return kRuns;
}

std::string section_name(PluginKind kind) {
  return kind == PluginKind::dataset ? "data" : std::string(to_string(kind));
}

Subject::Subject(ConformanceSettings settings)
    : settings_(std::move(settings)), plugins_(with_kit(settings_.places), settings_.file) {}

PluginOrigin Subject::origin() const { return origin_of(kind(), name()); }

RunConfiguration Subject::parse(const std::string& small_run) const {
  const bool is_given = has_configuration();
  const std::string text = is_given ? read_text(settings_.configuration) : small_run;
  const std::string source = is_given ? settings_.configuration : kSmallRunName;
  RunConfiguration before = parse_configuration(text, source);
  std::vector<std::string> overrides = {"run.seed=" + std::to_string(settings_.seed)};
  std::string table = section_name(kind());
  const PluginSection* own = selected(before, kind(), name());
  if (own == nullptr) overrides.push_back(selection(kind(), name()));
  const bool is_repeated = kind() == PluginKind::strategy || kind() == PluginKind::library;
  if (is_repeated) table = own == nullptr ? table + ".0" : own->path;
  for (const std::string& each : settings_.overrides) {
    std::string mapped = each;
    if (each.starts_with("dataset.")) mapped = "data." + each.substr(8);
    if (is_repeated && begins_with_section(each, section_name(kind()))) {
      mapped = table + each.substr(section_name(kind()).size());
    }
    overrides.push_back(mapped);
  }
  return parse_configuration(text, source, overrides);
}

const RunConfiguration& Subject::configuration() {
  if (configuration_) return *configuration_;
  RunConfiguration made = parse_alone(small_runs().front().toml);
  for (const std::string& each : settings_.overrides) {
    const std::string prefix = std::string(to_string(kind())) + ".";
    for (const std::string& section : {prefix, section_name(kind()) + "."}) {
      if (each.starts_with(section)) fixed_.insert(each.substr(section.size(), each.find('=') - section.size()));
    }
  }
  given_options_ = section(made).options;
  // Options that the user or the small run gives are small enough.
  if (kind() == PluginKind::model && given_options_.empty()) shrink_model(made);
  return configuration_.emplace(std::move(made));
}

RunConfiguration Subject::parse_alone(const std::string& small_run) {
  RunConfiguration made = parse(small_run);
  if (kind() == PluginKind::strategy) {
    made.strategies = {section(made)};
  } else {
    made.strategies.clear();
  }
  fill_required(made);
  return made;
}

std::vector<CheckedRun> Subject::runs() {
  std::vector<CheckedRun> runs{{"", configuration()}};
  const bool has_own_model = std::ranges::any_of(settings_.overrides, [](const std::string& each) {
    return each.starts_with("model") || each.starts_with("data");
  });
  const bool takes_models =
      kind() != PluginKind::model && kind() != PluginKind::dataset && kind() != PluginKind::library;
  if (has_configuration() || has_own_model || !takes_models) return runs;
  for (std::size_t i = 1; i < small_runs().size(); ++i) {
    runs.push_back({"with " + small_runs()[i].model + ", ", parse_alone(small_runs()[i].toml)});
  }
  return runs;
}

/// Gives the model the smallest sizes that stacks of two of the installed strategies shard.
void Subject::shrink_model(RunConfiguration& configuration) {
  ShrinkRequest request;
  for (const PluginSection& each : installed_strategies(plugins_)) {
    const auto& strategies = plugins_.load<StrategyFactory>(each.plugin);
    for (const Rule& rule : strategies.create(Options(strategies.options(), each.options))->rules()) {
      const std::int64_t ranks = kDefaultRanks * kDefaultRanks;
      std::int64_t& multiple = request.multiples.emplace(rule.dim, ranks).first->second;
      if (rule.distribution == Distribution::zigzag) multiple = 2 * ranks;
    }
  }
  request.multiples.erase("batch");
  const auto& models = factory<ModelFactory>();
  const Options defaults(models.options(), {});
  section(configuration).options =
      call_plugin(origin(), "shrink", [&] { return models.shrink(defaults, request); }).values();
}

void Subject::fill_required(RunConfiguration& configuration) {
  PluginSection& own = section(configuration);
  const OptionSchema schema = factory().options();
  for (const OptionSpecification& option : schema.options()) {
    if (option.default_value || own.options.contains(option.name)) continue;
    if (!is_required_size(option)) {
      throw CheckSkipped("option '" + option.name + "' is required and has no default; give it with --set " +
                         section_name(kind()) + "." + option.name + "=VALUE");
    }
    own.options[option.name] = kDefaultRanks;
  }
}

PluginSection& Subject::section(RunConfiguration& configuration) const {
  PluginSection* found = selected(configuration, kind(), name());
  if (found == nullptr) throw ConfigurationError("the configuration does not select the plugin '" + name() + "'");
  return *found;
}

Options Subject::options() {
  RunConfiguration made = configuration();
  const OptionSchema schema = factory().options();
  return resolve_options(made, section(made), schema);
}

Options Subject::options_in_full() {
  static_cast<void>(configuration());
  return Options(factory().options(), given_options_);
}

bool Subject::is_fixed(const std::string& option) {
  static_cast<void>(configuration());
  return fixed_.contains(option);
}

std::vector<OptionVariants> variants_of(const OptionSchema& schema, const Options& present) {
  constexpr double kMostValues = 4;
  std::vector<OptionVariants> variants;
  for (const OptionSpecification& option : schema.options()) {
    OptionVariants varied{option.name, {}};
    if (option.type == OptionType::word) {
      for (const std::string& choice : option.choices) varied.values.emplace_back(choice);
    } else if (option.type == OptionType::boolean) {
      varied.values = {OptionValue(false), OptionValue(true)};
    } else if (option.type == OptionType::integer && option.minimum && option.maximum &&
               *option.maximum - *option.minimum < kMostValues) {
      for (auto value = static_cast<std::int64_t>(*option.minimum); static_cast<double>(value) <= *option.maximum;
           ++value) {
        varied.values.emplace_back(value);
      }
    }
    if (const auto found = present.values().find(option.name); found != present.values().end()) {
      std::erase(varied.values, found->second);
    }
    if (!varied.values.empty()) variants.push_back(std::move(varied));
  }
  return variants;
}

std::vector<PluginSection> installed_strategies(PluginRegistry& plugins, const std::string& except) {
  std::vector<PluginSection> sections;
  for (const PluginDescription& plugin : plugins.acceptable(PluginKind::strategy)) {
    PluginSection section{"strategy.0", plugin.name, {}};
    if (section.plugin == except) continue;
    try {
      const OptionSchema schema = plugins.load<StrategyFactory>(section.plugin).options();
      bool is_complete = true;
      for (const OptionSpecification& option : schema.options()) {
        if (is_required_size(option)) section.options[option.name] = kDefaultRanks;
        // Strategies of one stack need axes of different names.
        if (option.role == OptionRole::axis_name) section.options[option.name] = kOtherAxis;
        // Work that is done once in so many steps is done in few.
        if (option.role == OptionRole::period) section.options[option.name] = kFewSteps;
        is_complete = is_complete && (option.default_value || is_required_size(option));
      }
      if (is_complete) sections.push_back(std::move(section));
    } catch (...) {
      // A faulty neighbour is not the plugin under test.
    }
  }
  return sections;
}

void number_strategies(RunConfiguration& configuration) {
  for (std::size_t i = 0; i < configuration.strategies.size(); ++i) {
    configuration.strategies[i].path = "strategy." + std::to_string(i);
  }
}

std::string joined_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> shown(lines.begin(),
                                 lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), kMost)));
  if (lines.size() > kMost) shown.push_back("and " + std::to_string(lines.size() - kMost) + " more");
  return join(shown, "; ");
}

void ProvedStacks::add(const std::string& description, const StackProof& proof) {
  switch (proof.verdict) {
    case StackVerdict::holds:
      ++held_;
      for (const std::string& each : proof.faults.amplified) amplified_.push_back(description + ": " + each);
      return;
    case StackVerdict::refused:
      refused_.push_back(description + " (" + proof.message + ")");
      return;
    case StackVerdict::fails:
      throw CheckFailed(description + ": " + joined_lines(proof.findings()));
  }
}

std::string ProvedStacks::summary() const {
  if (held_ == 0 && refused_.empty()) throw CheckSkipped("there is nothing to vary");
  std::string text = std::to_string(held_) + (held_ == 1 ? " stack holds" : " stacks hold");
  if (!refused_.empty()) text += ", " + std::to_string(refused_.size()) + " refused: " + joined_lines(refused_);
  if (!amplified_.empty()) text += "; " + joined_lines(amplified_);
  if (held_ == 0) {
    throw CheckFailed("no stack holds; " + text +
                      (has_configuration_ ? "" : ". A run in which one holds can be given with --config"));
  }
  return text;
}

std::string prove_with_every_strategy(Subject& subject, bool variants) {
  ProvedStacks proved(subject);
  PluginRegistry& plugins = subject.plugins();
  StackProver prover = subject.prover(kMostStepsOfMany);
  const std::vector<CheckedRun> runs = subject.runs();
  const auto prove = [&](const PluginSection& strategy, const std::string& what) {
    for (const CheckedRun& run : runs) {
      RunConfiguration stack = run.configuration;
      stack.strategies = {strategy};
      proved.add(run.where + "with strategy '" + strategy.plugin + "'" + what, prover.prove(stack));
    }
  };
  for (const PluginSection& strategy : installed_strategies(plugins)) {
    prove(strategy, "");
    if (!variants) continue;
    const OptionSchema schema = plugins.load<StrategyFactory>(strategy.plugin).options();
    for (const OptionVariants& varied : variants_of(schema, Options(schema, strategy.options))) {
      if (!std::holds_alternative<std::int64_t>(varied.values.front())) continue;
      for (const OptionValue& value : varied.values) {
        PluginSection other = strategy;
        other.options[varied.name] = value;
        prove(other, ", " + varied.name + " = " + to_string(value));
      }
    }
  }
  return proved.summary();
}

}  // namespace strata::host
