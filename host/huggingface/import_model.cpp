#include "huggingface/import_model.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_store.hpp"
#include "files/file_io.hpp"
#include "files/text_format.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "huggingface/model_parameters.hpp"
#include "huggingface/peft_adapters.hpp"
#include "loading/plugin_call.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"
#include "strata/peft.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
constexpr const char* kTensorFile = "rank-00000.safetensors";

/// Writes a parameter block by block. \return its checksum.
std::string write_parameter(const CheckpointReader& model, const SafetensorsTensor& tensor, OutputFile& file,
                            std::vector<std::byte>& block) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const std::int64_t elements = element_count(tensor.shape);
  Checksum checksum;
  for (std::int64_t begin = 0; begin < elements; begin += kBlockBytes / size) {
    TensorPart part = TensorPart::whole(tensor.shape);
    part.begin = begin;
    part.end = std::min(elements, begin + kBlockBytes / size);
    block.resize(static_cast<std::size_t>(part.elements() * size));
    model.read(tensor.name, part, tensor.dtype, block.data());
    checksum.update(block.data(), block.size());
    file.write(block.data(), block.size());
  }
  return checksum.hex();
}

/// A strategy that adds adapters.
struct AdapterPlugin {
  std::string name;
  const AdapterFactory* factory = nullptr;
};

/// \throws ConfigurationError if none is installed.
AdapterPlugin find_adapter_plugin(PluginRegistry& registry) {
  for (const PluginDescription& plugin : registry.acceptable(PluginKind::strategy)) {
    try {
      const auto* factory = dynamic_cast<const AdapterFactory*>(&registry.load<StrategyFactory>(plugin.name));
      if (factory != nullptr) return {plugin.name, factory};
    } catch (const ConfigurationError&) {
      // A broken plugin, of which `strata plugins list` tells, does not keep others from reading the adapters.
    }
  }
  throw ConfigurationError(
      "--adapters: no strategy plugin that reads adapters is installed; accepted: with one, such as "
      "that of Strata");
}

/// The strategies that give the model these terms: one for each rank, scale and dropout, the one with the most
/// parameters first.
std::vector<PluginSection> strategies_for(const std::map<std::string, ReadTerm>& terms, const AdapterPlugin& plugin) {
  std::vector<PeftAdapters> groups;
  for (const auto& [parameter, term] : terms) {
    const auto known = std::ranges::find_if(groups, [&, &of = term](const PeftAdapters& group) {
      return group.rank == of.factors.rank && group.scale == of.scale && group.dropout == of.dropout;
    });
    if (known == groups.end()) {
      groups.push_back({{parameter}, term.factors.rank, term.scale, term.dropout});
    } else {
      known->parameters.push_back(parameter);
    }
  }
  std::ranges::stable_sort(groups, [](const PeftAdapters& one, const PeftAdapters& other) {
    return one.parameters.size() > other.parameters.size();
  });
  std::vector<PluginSection> sections;
  for (const PeftAdapters& group : groups) {
    const int index = static_cast<int>(sections.size());
    const PluginOrigin origin{PluginKind::strategy, index, "strategy '" + plugin.name + "'"};
    auto options = call_plugin(origin, "adapter_options", [&] { return plugin.factory->adapter_options(group); });
    sections.push_back({"strategy." + std::to_string(index), plugin.name, std::move(options)});
  }
  return sections;
}

struct AdaptedModel {
  RunSetup setup;
  Graph graph;
};

/// The model with the strategies that give it the terms. \throws ConfigurationError with the folder if they refuse
/// them.
AdaptedModel adapted_model(const HuggingFaceCheckpoint& base, const std::map<std::string, ReadTerm>& terms,
                           const AdapterPlugin& plugin, const std::filesystem::path& folder, PluginRegistry& registry) {
  RunConfiguration configuration = parse_configuration(base.run().configuration, "the imported model's configuration");
  try {
    configuration.strategies = strategies_for(terms, plugin);
    RunSetup setup = prepare(std::move(configuration), registry);
    Graph graph = model_graph(setup);
    return {std::move(setup), std::move(graph)};
  } catch (const Error& error) {
    throw ConfigurationError("'" + folder.string() + "': '" + plugin.name +
                             "' refuses its adapters: " + message_text(error.what(), 1000));
  }
}

/// The values of all adapters as the model has them. \throws RuntimeError that lists those of another shape.
std::map<std::string, std::vector<float>> adapter_values(const LowRankTerms& terms,
                                                         const std::map<std::string, ReadTerm>& read,
                                                         const std::filesystem::path& folder) {
  ProblemList problems;
  std::map<std::string, std::vector<float>> values;
  for (const auto& [parameter, found] : read) {
    const LowRankTerm* term = terms.find(parameter);
    if (term == nullptr) throw VerificationError("the strategy has no adapter of '" + parameter + "'");
    if (term->is_table && term->is_matrix) {
      problems.add("of one use: '" + found.module + "' is an embedding and a projection at once, and PEFT's adapter " +
                   "changes one of the two");
      continue;
    }
    const LowRankFactors wanted = terms.sizes(*term);
    const LowRankFactors& factors = found.factors;
    if (factors.inputs != wanted.inputs || factors.outputs != wanted.outputs) {
      problems.add("wrong shape: the adapter of '" + found.module + "' has " + std::to_string(factors.inputs) +
                   " inputs and " + std::to_string(factors.outputs) + " outputs; '" + parameter + "' has " +
                   std::to_string(wanted.inputs) + " and " + std::to_string(wanted.outputs));
      continue;
    }
    values.merge(terms.values(*term, factors));
  }
  if (!problems.empty()) {
    throw RuntimeError("'" + (folder / kPeftWeights).string() +
                       "': its tensors are not those of adapters of the model:" + problems.text());
  }
  return values;
}

class AdaptedCheckpoint final : public CheckpointReader {
 public:
  AdaptedCheckpoint(const HuggingFaceCheckpoint& base, Manifest manifest,
                    std::map<std::string, std::vector<float>> adapters)
      : CheckpointReader(base.directory(), std::move(manifest)), base_(base), adapters_(std::move(adapters)) {}

  [[nodiscard]] ModelFiles model_files() const override { return base_.model_files(); }

 protected:
  void gather(const std::string& name, const TensorPart& part, std::byte* destination) const override {
    const auto found = adapters_.find(name);
    if (found == adapters_.end()) return base_.read(name, part, manifest().tensors.at(name).dtype, destination);
    for_each_run(part, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
      std::memcpy(destination + static_cast<std::size_t>(local) * sizeof(float), found->second.data() + global,
                  static_cast<std::size_t>(length) * sizeof(float));
    });
  }

 private:
  const HuggingFaceCheckpoint& base_;
  std::map<std::string, std::vector<float>> adapters_;
};

}  // namespace

ModelSummary import_model(const CheckpointReader& model, const std::filesystem::path& out) {
  NewFolder folder(out);
  Manifest manifest = model.manifest();
  ModelSummary summary;
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, tensor] : manifest.tensors) {
    tensors.push_back({name, tensor.dtype, tensor.shape});
    ++summary.tensors;
    summary.parameters += element_count(tensor.shape);
    summary.bytes += tensors.back().bytes();
  }
  sort_for_safetensors(tensors);
  folder.require_space(summary.bytes);
  OutputFile file(folder.temporary() / kTensorFile);
  const std::string header = safetensors_header(tensors, {{"format", "strata"}, {"step", "0"}});
  file.write(header.data(), header.size());
  std::vector<std::byte> block;
  for (const SafetensorsTensor& each : tensors) {
    const std::string checksum = write_parameter(model, each, file, block);
    manifest.tensors[each.name].pieces = {{kTensorFile, each.name, TensorPart::whole(each.shape), checksum}};
  }
  file.finish();
  manifest.files = write_model_files(folder.temporary(), model.model_files(), system_disk());
  manifest.files[kTensorFile] = {file.bytes(), file.checksum()};
  folder.write(kManifestName, to_json(manifest));
  folder.commit();
  return summary;
}

std::unique_ptr<const CheckpointReader> read_adapters(const HuggingFaceCheckpoint& base,
                                                      const std::filesystem::path& folder, PluginRegistry& registry) {
  const std::map<std::string, ReadTerm> read = read_peft_terms(folder, base.layout());
  const AdapterPlugin plugin = find_adapter_plugin(registry);
  const auto [setup, graph] = adapted_model(base, read, plugin, folder, registry);
  const LowRankTerms terms(graph);
  std::map<std::string, std::vector<float>> values = adapter_values(terms, read, folder);
  Manifest manifest = base.manifest();
  manifest.run.configuration = to_toml(setup.configuration);
  for (const auto& each : values) manifest.tensors[each.first] = {DType::f32, terms.shape(each.first), {}};
  return std::make_unique<const AdaptedCheckpoint>(base, std::move(manifest), std::move(values));
}

}  // namespace strata::host
