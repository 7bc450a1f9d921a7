#include "huggingface/hugging_face_checkpoint.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/checkpoint_store.hpp"
#include "huggingface/model_parameters.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// A configuration with the model and nothing that the user would choose.
RunConfiguration smallest_configuration(const RecognisedModel& model, const std::vector<PluginSection>& libraries) {
  const std::string text = "[run]\nname = \"imported\"\nsteps = 1\n[model]\nplugin = \"" + model.plugin.name +
                           "\"\n[data]\nplugin = \"tokens\"\n[batch]\nglobal = 1\n";
  RunConfiguration configuration = parse_configuration(text, "the imported model's configuration");
  configuration.model.options = model.options;
  configuration.libraries = libraries;
  return configuration;
}

/// Finds the tensors of a layout in the files of a folder, and lists what does not fit.
class TensorMatch {
 public:
  TensorMatch(const HuggingFaceLayout& layout, const HuggingFaceFiles& files) : layout_(layout), files_(files) {}

  /// The tensor of the files by the name in the layout. \throws RuntimeError that lists all problems.
  std::map<std::string, const SafetensorsFile::Entry*> run() {
    for (const auto& [name, parts] : layout_.by_tensor()) find(name, parts.front().where.shape);
    for (const auto& [copy, original] : layout_.description().copies) compare(copy, original);
    for (const auto& each : files_.tensors()) require_use(each.first);
    for (const auto& each : files_.foreign_types()) require_use(each.first);
    if (!problems_.empty()) {
      throw RuntimeError("'" + files_.folder().string() +
                         "': its tensors are not those of its config.json:" + problems_.text());
    }
    return std::move(found_);
  }

 private:
  void require_use(const std::string& name) {
    if (!used_.contains(name) && !layout_.ignores(name)) problems_.add("unexpected: '" + name + "'");
  }

  /// A tensor's element of `map`, by its name with or without the optional prefix. Null if it is missing.
  template <class Mapped>
  const Mapped* look_up(const std::map<std::string, Mapped>& map, const std::string& name) {
    const std::string& prefix = layout_.description().optional_prefix;
    auto at = map.find(name);
    if (at == map.end() && !prefix.empty() && name.starts_with(prefix)) at = map.find(name.substr(prefix.size()));
    if (at == map.end()) return nullptr;
    used_.insert(at->first);
    return &at->second;
  }

  /// A tensor that has the same values as the missing `original`, or null.
  const SafetensorsFile::Entry* find_copy(const std::string& original) {
    for (const auto& [copy, of] : layout_.description().copies) {
      if (of != original) continue;
      if (const SafetensorsFile::Entry* found = look_up(files_.tensors(), copy)) return found;
    }
    return nullptr;
  }

  void find(const std::string& name, const Shape& shape) {
    if (const std::string* type = look_up(files_.foreign_types(), name)) {
      return problems_.add("wrong type: '" + name + "' is " + *type + "; accepted: f32, bf16, f16");
    }
    const SafetensorsFile::Entry* found = look_up(files_.tensors(), name);
    if (found == nullptr) found = find_copy(name);
    if (found == nullptr) return problems_.add("missing: '" + name + "' " + shape_text(shape));
    const SafetensorsTensor& tensor = found->tensor;
    if (tensor.shape != shape) {
      return problems_.add("wrong shape: '" + name + "' is " + shape_text(tensor.shape) + "; config.json says " +
                           shape_text(shape));
    }
    if (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16 && tensor.dtype != DType::f16) {
      return problems_.add("wrong type: '" + name + "' is " + std::string(to_string(tensor.dtype)) +
                           "; accepted: f32, bf16, f16");
    }
    found_[name] = found;
  }

  void compare(const std::string& copy, const std::string& original) {
    const SafetensorsFile::Entry* found = look_up(files_.tensors(), copy);
    const auto of = found_.find(original);
    if (found == nullptr || of == found_.end()) return;
    const SafetensorsFile::Entry& first = *of->second;
    const bool equal = found->tensor.dtype == first.tensor.dtype && found->tensor.shape == first.tensor.shape &&
                       std::equal(found->data.begin(), found->data.end(), first.data.begin(), first.data.end());
    if (!equal) problems_.add("unexpected: '" + copy + "' differs from '" + original + "', with which it is tied");
  }

  const HuggingFaceLayout& layout_;
  const HuggingFaceFiles& files_;
  std::map<std::string, const SafetensorsFile::Entry*> found_;
  std::set<std::string> used_;
  ProblemList problems_;
};

}  // namespace

HuggingFaceCheckpoint::HuggingFaceCheckpoint(Manifest manifest, HuggingFaceFiles files, HuggingFaceLayout layout,
                                             std::map<std::string, Source> sources)
    : CheckpointReader(files.folder(), std::move(manifest)),
      files_(std::move(files)),
      layout_(std::move(layout)),
      sources_(std::move(sources)) {}

std::unique_ptr<HuggingFaceCheckpoint> HuggingFaceCheckpoint::open(const fs::path& folder, PluginRegistry& registry,
                                                                   const std::vector<PluginSection>& libraries) {
  const RecognisedModel model = recognise_model(folder, registry);
  HuggingFaceFiles files(folder);
  const RunSetup setup = prepare(smallest_configuration(model, libraries), registry);
  const std::map<std::string, Shape> shapes = model_parameters(setup);
  HuggingFaceTensors tensors = call_plugin(
      model.plugin.origin, "tensors", [&] { return model.plugin.format->tensors(setup.plugins.model.options, {}); });
  HuggingFaceLayout layout(model.plugin, std::move(tensors), shapes);
  const auto found = TensorMatch(layout, files).run();
  Manifest manifest;
  manifest.run.configuration = to_toml(setup.configuration);
  manifest.run.seed = setup.seed();
  manifest.run.vocabulary = Vocabulary{.kind = Vocabulary::Kind::tokens};
  std::map<std::string, Source> sources;
  for (const auto& [name, parts] : layout.by_tensor()) {
    const SafetensorsFile::Entry& entry = *found.at(name);
    for (const MappedParameter& part : parts) {
      const std::string& parameter = part.where.parameter;
      manifest.tensors[parameter] = {entry.tensor.dtype, shapes.at(parameter), {}};
      manifest.run.imported_types[parameter] = entry.tensor.dtype;
      Source& source = sources[parameter];
      if (!source.pieces.empty() && source.dtype != entry.tensor.dtype) {
        throw RuntimeError(
            "'" + folder.string() + "': '" + name + "' is " + std::string(to_string(entry.tensor.dtype)) +
            "; accepted: " + std::string(to_string(source.dtype)) + ", as others of '" + parameter + "'");
      }
      source.dtype = entry.tensor.dtype;
      source.pieces.push_back({part.view, entry.data, part.first});
    }
  }
  for (auto& [parameter, source] : sources) {
    std::ranges::sort(source.pieces, {}, &Piece::first);
  }
  return std::unique_ptr<HuggingFaceCheckpoint>(
      new HuggingFaceCheckpoint(std::move(manifest), std::move(files), std::move(layout), std::move(sources)));
}

ModelFiles HuggingFaceCheckpoint::model_files() const { return read_model_files(files_.folder()); }

void HuggingFaceCheckpoint::gather(const std::string& name, const TensorPart& part, std::byte* destination) const {
  const Source& source = sources_.at(name);
  const std::size_t size = size_of(source.dtype);
  for_each_run(part, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    const auto after = std::ranges::upper_bound(source.pieces, global, {}, &Piece::first);
    for (auto piece = after - 1; length > 0; ++piece) {
      const std::int64_t begin = global - piece->first;
      const std::int64_t count = std::min(length, piece->view.elements() - begin);
      piece->view.gather(piece->data.data(), begin, count, size, destination + local * static_cast<std::int64_t>(size));
      local += count;
      global += count;
      length -= count;
    }
  });
}

bool is_hugging_face_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kHuggingFaceConfig, ignored) && !fs::exists(folder / kManifestName, ignored);
}

}  // namespace strata::host
