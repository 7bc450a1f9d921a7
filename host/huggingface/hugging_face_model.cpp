#include "huggingface/hugging_face_model.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "files/text_format.hpp"
#include "huggingface/hugging_face_files.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

HuggingFacePlugin plugin_of(const std::string& name, PluginRegistry& registry) {
  HuggingFacePlugin plugin{name, &registry.load<ModelFactory>(name), nullptr, origin_of(PluginKind::model, name)};
  plugin.format = call_plugin(plugin.origin, "huggingface", [&] { return plugin.factory->huggingface(); });
  return plugin;
}

/// Bytes of a message that quotes a file.
constexpr std::size_t kLongestQuote = 2000;

/// The options with which the plugin is the model. Empty if it is not its own.
std::optional<std::map<std::string, OptionValue>> options_of(const HuggingFacePlugin& plugin,
                                                             const HuggingFaceFields& config, const std::string& path) {
  try {
    const auto options = call_plugin(plugin.origin, "options", [&] { return plugin.format->options(config); });
    if (!options) return std::nullopt;
    const Options all(declared_options(plugin.origin, *plugin.factory), options->values());
    static_cast<void>(create_by_plugin(plugin.origin, "create", [&] { return plugin.factory->create(all); }));
    return all.values();
  } catch (const PluginError& error) {
    const std::string field = error.option().empty() ? "" : error.option() + ": ";
    throw ConfigurationError("'" + path + "': " + message_text(field + error.message(), kLongestQuote) + " (" +
                             error.origin().label + ")");
  } catch (const ConfigurationError& error) {
    throw ConfigurationError("'" + path + "': describes a model that " + plugin.origin.label +
                             " refuses: " + message_text(error.what(), kLongestQuote));
  }
}

/// Sorts the slices of a tensor. \throws PluginError unless they cover it once.
void require_cover(const PluginOrigin& origin, std::vector<MappedParameter>& parts) {
  const HuggingFaceTensor& first = parts.front().where;
  const auto refuse = [&](const std::string& what) {
    throw PluginError(origin, "tensors", "", "tensor '" + first.name + "' " + what);
  };
  std::ranges::sort(parts, [](const auto& a, const auto& b) { return a.where.slice_begin < b.where.slice_begin; });
  const std::int64_t whole = first.shape[static_cast<std::size_t>(first.slice_dim)];
  std::int64_t covered = 0;
  for (const MappedParameter& each : parts) {
    if (each.where.shape != first.shape || each.where.slice_dim != first.slice_dim) {
      refuse("has several shapes, or slices of several dims");
    }
    if (each.where.slice_begin != covered) refuse("is not covered once by its slices");
    covered += each.where.slice_size == 0 ? whole : each.where.slice_size;
  }
  if (covered != whole) refuse("is not covered by its slices");
}

/// Rows of a transposed matrix that are copied together, since neighbouring elements of the tensor are of different
/// rows.
constexpr std::int64_t kTileRows = 32;

/// `size`: bytes of an element. Tensors in a file may lie at any address.
template <std::int64_t size>
void gather_elements(const TensorView& view, const std::byte* tensor, std::int64_t first, std::int64_t count,
                     std::byte* parameter) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (first + done) / view.columns;
    const std::int64_t column = (first + done) % view.columns;
    const std::int64_t whole_rows = column == 0 ? std::min((count - done) / view.columns, kTileRows) : 0;
    const std::int64_t rows = std::max<std::int64_t>(whole_rows, 1);
    const std::int64_t columns = whole_rows > 0 ? view.columns : std::min(count - done, view.columns - column);
    const std::byte* from = tensor + (view.begin + row * view.row_pitch + column * view.column_pitch) * size;
    std::byte* to = parameter + done * size;
    if (view.column_pitch == 1) {
      for (std::int64_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * columns * size, from + r * view.row_pitch * size,
                    static_cast<std::size_t>(columns * size));
      }
    } else {
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) {
          std::memcpy(to + (r * columns + c) * size, from + (r * view.row_pitch + c * view.column_pitch) * size, size);
        }
      }
    }
    done += rows * columns;
  }
}

std::int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  std::int64_t result = 1;
  for (; begin != end; ++begin) result *= *begin;
  return result;
}

/// The view that `where` describes. \throws OptionError with the tensor's name if the description contradicts itself.
TensorView view_of(const HuggingFaceTensor& where) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw OptionError(where.name, "its description is impossible: " + what);
  };
  const Shape& shape = where.shape;
  require(!shape.empty() && std::ranges::all_of(shape, [](std::int64_t size) { return size > 0; }),
          "the shape is empty or has a size below 1");
  require(where.slice_dim >= 0 && where.slice_dim < std::ssize(shape), "the slice is of no dim");
  const auto dim = shape.begin() + where.slice_dim;
  const std::int64_t size = where.slice_size == 0 ? *dim : where.slice_size;
  require(where.slice_begin >= 0 && size > 0 && where.slice_begin <= *dim - size, "the slice lies outside");
  const std::int64_t inner = product(dim + 1, shape.end());
  const std::int64_t begin = where.slice_begin * inner;
  if (!where.transposed) {
    return {.rows = product(shape.begin(), dim), .columns = size * inner, .begin = begin, .row_pitch = *dim * inner};
  }
  require(shape.size() == 2, "a transposed tensor is no matrix");
  const bool of_rows = where.slice_dim == 0;
  return {.rows = of_rows ? shape[1] : size,
          .columns = of_rows ? size : shape[0],
          .begin = begin,
          .row_pitch = 1,
          .column_pitch = shape[1]};
}

/// The elements of a parameter that a tensor has.
struct PartOfParameter {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// \throws OptionError with the tensor's name if the description contradicts itself.
PartOfParameter part_of(const HuggingFaceTensor& where, const Shape& shape) {
  if (where.parameter_size == 0) return {0, element_count(shape)};
  const bool fits = !shape.empty() && where.parameter_begin >= 0 && where.parameter_size > 0 &&
                    where.parameter_begin <= shape.front() - where.parameter_size;
  if (!fits) throw OptionError(where.name, "its description is impossible: the part of its parameter lies outside");
  if (where.transposed || where.slice_size != 0) {
    throw OptionError(where.name, "its description is impossible: a part of a parameter is transposed or a slice");
  }
  const std::int64_t inner = product(shape.begin() + 1, shape.end());
  return {where.parameter_begin * inner, where.parameter_size * inner};
}

}  // namespace

RecognisedModel recognise_model(const std::filesystem::path& folder, PluginRegistry& registry) {
  const HuggingFaceFields config = read_hugging_face_config(folder);
  const std::string path = (folder / kHuggingFaceConfig).string();
  std::vector<std::string> names;
  for (const PluginDescription& each : registry.acceptable(PluginKind::model)) {
    HuggingFacePlugin plugin;
    try {
      plugin = plugin_of(each.name, registry);
    } catch (const ConfigurationError&) {
      // A broken plugin, of which `strata plugins list` tells, does not keep others from reading the folder.
      continue;
    }
    if (plugin.format == nullptr) continue;
    const std::vector<std::string> families =
        call_plugin(plugin.origin, "families", [&] { return plugin.format->families(); });
    names.push_back(families.empty() ? "those of '" + plugin.name + "'" : join(families, ", "));
    if (auto options = options_of(plugin, config, path)) return {plugin, std::move(*options)};
  }
  const OptionValue* type = config.find("model_type");
  throw ConfigurationError(
      "'" + path + "': model_type: " + (type != nullptr ? "found " + message_text(to_string(*type), 200) : "missing") +
      "; accepted: " +
      (names.empty() ? "none, as no model plugin that reads Hugging Face's models is installed" : join(names, ", ")));
}

HuggingFacePlugin hugging_face_plugin(const std::string& name, PluginRegistry& registry) {
  HuggingFacePlugin plugin = plugin_of(name, registry);
  if (plugin.format != nullptr) return plugin;
  throw ConfigurationError(plugin.origin.label +
                           " does not say how its models are published; accepted: a model whose "
                           "plugin does");
}

HuggingFaceLayout::HuggingFaceLayout(const HuggingFacePlugin& plugin, HuggingFaceTensors tensors,
                                     const std::map<std::string, Shape>& shapes)
    : description_(std::move(tensors)) {
  const auto refuse = [&](const std::string& what) { throw PluginError(plugin.origin, "tensors", "", what); };
  // The elements of each parameter that tensors have, in the order of their names in `description_`.
  std::map<std::string, std::int64_t> named;
  for (const HuggingFaceTensor& each : description_.tensors) {
    const auto shape = shapes.find(each.parameter);
    if (shape == shapes.end()) refuse("names '" + each.parameter + "', which is no parameter");
    const TensorView view = call_plugin(plugin.origin, "tensors", [&] { return view_of(each); });
    const PartOfParameter part = call_plugin(plugin.origin, "tensors", [&] { return part_of(each, shape->second); });
    if (view.elements() != part.count) {
      refuse("gives parameter '" + each.parameter + "' " + std::to_string(view.elements()) + " elements of '" +
             each.name + "'; it has " + std::to_string(part.count));
    }
    std::int64_t& so_far = named[each.parameter];
    if (part.first < so_far) refuse("names '" + each.parameter + "', which it names twice");
    if (part.first > so_far)
      refuse("leaves out elements of '" + each.parameter + "' before those of '" + each.name + "'");
    so_far += part.count;
    by_tensor_[each.name].push_back({each, view, part.first});
  }
  for (const auto& [name, shape] : shapes) {
    if (named[name] != element_count(shape)) refuse("does not name all of the parameter '" + name + "'");
  }
  for (auto& [name, parts] : by_tensor_) require_cover(plugin.origin, parts);
}

bool HuggingFaceLayout::ignores(const std::string& tensor) const {
  return std::ranges::any_of(description_.ignored, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), tensor.c_str(), 0) == 0;
  });
}

void TensorView::gather(const std::byte* tensor, std::int64_t first, std::int64_t count, std::size_t element_bytes,
                        std::byte* parameter) const {
  if (element_bytes == 2) return gather_elements<2>(*this, tensor, first, count, parameter);
  if (element_bytes == 4) return gather_elements<4>(*this, tensor, first, count, parameter);
  gather_elements<8>(*this, tensor, first, count, parameter);
}

}  // namespace strata::host
