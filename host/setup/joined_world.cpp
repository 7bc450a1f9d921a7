#include "setup/joined_world.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cfloat>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "checkpoint/checkpoint.hpp"
#include "compiler/program/short_schedule.hpp"
#include "config/sections.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "setup/agreement.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// Schemas of the sections' plugins, by the sections' paths.
using PluginSchemas = std::map<std::string, const OptionSchema*>;

template <class Visit>
void for_each_plugin(const ResolvedPlugins& plugins, const Visit& visit) {
  visit(plugins.model);
  visit(plugins.dataset);
  for (const auto& each : plugins.optimizers) visit(each);
  visit(plugins.device);
  visit(plugins.communicator);
  for (const auto& each : plugins.strategies) visit(each);
  for (const auto& each : plugins.libraries) visit(each);
}

bool may_differ(const OptionSchema& schema, const std::string& name) {
  const OptionSpecification* option = schema.find(name);
  return option != nullptr && option->may_differ;
}

void add_configuration(const RunSetup& setup, RankTerms& terms) {
  PluginSchemas schemas;
  for_each_plugin(setup.plugins, [&](const auto& plugin) {
    schemas[section_of(setup.configuration, plugin.origin).path] = &plugin.schema;
  });
  for (const auto& [path, values] : configuration_tables(setup.configuration)) {
    const auto plugin = schemas.find(path);
    for (const auto& [name, value] : values) {
      if (may_differ(section_declaration(declared_path(path)).schema, name)) continue;
      if (plugin != schemas.end() && may_differ(*plugin->second, name)) continue;
      terms.emplace_back(path + "." + name, to_string(value));
    }
  }
}

std::string digest_of(const LibraryFile& file) {
  Checksum checksum;
  std::array<char, 1 << 16> block{};
  for (std::uint64_t at = 0; at < file.size(); at += block.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(block.size(), file.size() - at);
    file.read(at, block.data(), count);
    checksum.update(block.data(), count);
  }
  return checksum.hex();
}

std::string digest_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Checksum checksum;
  std::array<char, 1 << 16> block{};
  while (file.read(block.data(), block.size()), file.gcount() > 0) {
    checksum.update(block.data(), static_cast<std::size_t>(file.gcount()));
  }
  return checksum.hex();
}

void add_plugins(const ResolvedPlugins& plugins, RankTerms& terms) {
  for_each_plugin(plugins, [&](const auto& plugin) {
    if (plugin.file == nullptr || !plugin.file->description || !plugin.file->library) return;
    terms.emplace_back("plugin of " + plugin.origin.label,
                       plugin.file->description->version + " (build " + digest_of(*plugin.file->library) + ")");
  });
}

/// The file of the shared library that has `symbol`.
std::string library_of(const void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string float_behaviour() {
  const volatile double smallest = std::numeric_limits<double>::min();
  const volatile double half = smallest / 2;
  return std::string(half == 0 ? "flushes" : "keeps") + " subnormal numbers, rounding mode " +
         std::to_string(std::fegetround()) + ", evaluation method " + std::to_string(FLT_EVAL_METHOD);
}

void add_program(RankTerms& terms) {
  static const std::string sdk = digest_of(library_of(reinterpret_cast<const void*>(&nearest)));
  static const std::string program = digest_of("/proc/self/exe");
  terms.emplace_back("strata", std::string(STRATA_VERSION) + ", ABI " + std::to_string(kAbiNumber));
  terms.emplace_back("build of strata", program + ", library " + sdk);
  terms.emplace_back("byte order", std::endian::native == std::endian::little ? "little" : "big");
  terms.emplace_back("float behaviour", float_behaviour());
}

/// The files of the values from which training starts.
void add_initial_values(const CheckpointReader& initial, RankTerms& terms) {
  std::string text;
  for (const auto& [name, file] : initial.manifest().files) {
    text += name + " " + std::to_string(file.bytes) + " " + file.checksum + "\n";
  }
  terms.emplace_back("values of model.from", checksum_of(std::as_bytes(std::span(text))));
}

constexpr std::size_t kMostNamed = 8;
constexpr std::size_t kLongestValue = 200;

std::string shown(const std::map<std::string, std::string>& terms, const std::string& key) {
  const auto found = terms.find(key);
  if (found == terms.end()) return "nothing";
  const std::string& value = found->second;
  return value.size() <= kLongestValue ? value : value.substr(0, kLongestValue) + "...";
}

/// One text for each key whose values differ, in the order of `first`, then of `own`.
std::vector<std::string> compare(const RankTerms& first, const RankTerms& own, int rank) {
  const std::map<std::string, std::string> of_first(first.begin(), first.end());
  const std::map<std::string, std::string> of_own(own.begin(), own.end());
  RankTerms all = first;
  for (const auto& term : own) {
    if (!of_first.contains(term.first)) all.push_back(term);
  }
  std::vector<std::string> differences;
  for (const auto& [key, value] : all) {
    const auto mine = of_own.find(key);
    if (mine != of_own.end() && of_first.contains(key) && mine->second == value) continue;
    differences.push_back(key + ": rank " + std::to_string(rank) + " has " + shown(of_own, key) + ", rank 0 has " +
                          shown(of_first, key));
  }
  return differences;
}

std::string describe(std::vector<std::string> differences, int rank) {
  const std::size_t count = differences.size();
  differences.resize(std::min(count, kMostNamed));
  return "rank " + std::to_string(rank) + " is not of the same run as rank 0: " + join(differences, "; ") +
         (count > kMostNamed ? "; and " + std::to_string(count - kMostNamed) + " more" : "") +
         "; accepted: the same on all ranks";
}

/// Compares the terms of all ranks: first a digest, and the terms themselves if it differs. Collective. \return the
/// same text on all ranks, which names the first rank that differs from rank 0, the keys and both values. Empty if all
/// are equal.
std::optional<std::string> find_disagreement(Communicator& communicator, Device& device, const RankTerms& terms) {
  const int rank = communicator.rank();
  const int ranks = communicator.rank_count();
  if (ranks == 1) return std::nullopt;
  Agreement agreement(communicator, device);
  const std::string own = json_text(nlohmann::json(terms));
  const std::string digest = checksum_of(std::as_bytes(std::span(own)));
  const bool is_alike = agreement.text(rank == 0 ? digest : "") == digest;
  if (agreement.largest(is_alike ? 0 : 1) == 0) return std::nullopt;
  const auto first = nlohmann::json::parse(agreement.text(rank == 0 ? own : "")).get<RankTerms>();
  const std::vector<std::string> differences = compare(first, terms, rank);
  const int reporter = ranks - static_cast<int>(agreement.largest(differences.empty() ? 0 : ranks - rank));
  return agreement.text(rank == reporter ? describe(differences, rank) : "");
}

class JoinedWorld final : public World {
 public:
  JoinedWorld(std::unique_ptr<World> inner, RankTerms terms) : inner_(std::move(inner)), terms_(std::move(terms)) {}

  int rank_count() const override { return inner_->rank_count(); }
  std::vector<int> local_ranks() const override { return inner_->local_ranks(); }
  CommunicatorLimits limits() const override { return inner_->limits(); }
  std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    std::unique_ptr<Communicator> communicator = inner_->connect(rank, device);
    if (communicator == nullptr) return communicator;
    if (const auto difference = find_disagreement(*communicator, device, terms_)) throw ConfigurationError(*difference);
    return communicator;
  }
  int ranks_on_host() const override { return inner_->ranks_on_host(); }
  int index_on_host(int rank) const override { return inner_->index_on_host(rank); }

 private:
  std::unique_ptr<World> inner_;
  RankTerms terms_;
};

}  // namespace

std::unique_ptr<World> joined_world(std::unique_ptr<World> world, const std::function<RankTerms()>& terms) {
  if (static_cast<int>(world->local_ranks().size()) == world->rank_count()) return world;
  return std::make_unique<JoinedWorld>(std::move(world), terms());
}

RankTerms setup_terms(const RunSetup& setup) {
  RankTerms terms;
  add_configuration(setup, terms);
  add_program(terms);
  add_plugins(setup.plugins, terms);
  if (setup.initial) add_initial_values(*setup.initial, terms);
  return terms;
}

RankTerms data_terms(const DataSource& source) {
  RankTerms terms{{"fingerprint of the data", source.fingerprint()}};
  for (const DataSplit split : {DataSplit::training, DataSplit::validation}) {
    terms.emplace_back(
        std::string("samples of the data for ") + (split == DataSplit::training ? "training" : "validation"),
        std::to_string(source.samples(split)));
  }
  for (const auto& [dim, size] : source.sizes())
    terms.emplace_back("size '" + dim + "' of the data", std::to_string(size));
  return terms;
}

std::pair<std::string, std::string> program_term(const std::string& name, const Compiled& compiled) {
  Checksum checksum;
  for (const Program& program : compiled.programs) {
    // The rounds that are left out are like those that stay.
    const std::string text =
        std::to_string(program.micro_batches) + to_string(shortened(program, superfluous_micro_batches({&program})));
    checksum.update(text.data(), text.size());
  }
  return {"program of " + name, checksum.hex()};
}

}  // namespace strata::host
