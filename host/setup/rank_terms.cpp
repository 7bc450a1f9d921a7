#include "setup/rank_terms.hpp"

#include <dlfcn.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cfloat>
#include <fstream>
#include <limits>
#include <map>

#include "checkpoint/checkpoint.hpp"
#include "config/sections.hpp"
#include "files/file_io.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"

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
  Checksum checksum;
  checksum.update(text.data(), text.size());
  terms.emplace_back("values of model.from", checksum.hex());
}

}  // namespace

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
    const std::string text = to_string(program);
    checksum.update(text.data(), text.size());
  }
  return {"program of " + name, checksum.hex()};
}

}  // namespace strata::host
