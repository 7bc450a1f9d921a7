#include "huggingface/exported_values.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "huggingface/hugging_face_files.hpp"
#include "huggingface/model_parameters.hpp"
#include "runtime/element.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Copies `count` elements that are `pitch` elements apart to consecutive places.
template <class Element>
void copy_column(const std::byte* from, std::int64_t pitch, std::int64_t count, std::byte* to) {
  constexpr std::int64_t kSize = sizeof(Element);
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * kSize, from + i * pitch * kSize, sizeof(Element));
  }
}

std::string torch_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

const std::string* find_config(const ModelFiles& files) {
  const auto found = std::ranges::find(files, kHuggingFaceConfig, &ModelFile::name);
  return found == files.end() ? nullptr : &found->bytes;
}

/// The fields of a checkpoint's config.json. \throws ConfigurationError that names it.
HuggingFaceFields fields_of(const std::string& text) {
  try {
    return parse_hugging_face_config(text);
  } catch (const Error& error) {
    throw ConfigurationError("the checkpoint's " + std::string(kModelFilesFolder) + "/" + kHuggingFaceConfig + " " +
                             error.what());
  }
}

class ExportedConfig {
 public:
  ExportedConfig(const HuggingFacePlugin& plugin, const Options& options, const DimSizes& sizes)
      : plugin_(plugin), sizes_(sizes), own_(config(options)) {}

  /// The config.json `text` with the fields in which the model now differs. Empty if the result would not describe the
  /// model, for example because the plugin now gives it another type.
  [[nodiscard]] std::optional<std::string> edit(const std::string& text) const {
    const std::optional<HuggingFaceFields> before = config_of(text);
    if (!before) return std::nullopt;
    std::vector<std::string> removed;
    for (const auto& [field, value] : before->values()) {
      if (!own_.contains(field)) removed.push_back(field);
    }
    HuggingFaceFields changed;
    for (const auto& [field, value] : own_.values()) {
      const auto old = before->values().find(field);
      if (old != before->values().end() && old->second == value) continue;
      value ? changed.set(field, *value) : changed.set_null(field);
    }
    std::string edited = edit_json(text, removed, changed);
    if (describes_model(edited)) return edited;
    return edit_without_a_field(text, *before, changed);
  }

  /// The plugin's own fields, and the special tokens of `imported`.
  [[nodiscard]] std::string write(const HuggingFaceFields& imported) const {
    HuggingFaceFields config = own_;
    // The model does not know its special tokens. Without a field, transformers would take its own defaults.
    for (const char* field : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      if (!config.contains(field)) config.set_null(field);
    }
    for (const auto& [field, value] : imported.values()) {
      if (field.ends_with("_token_id") && field.find('.') == std::string::npos && value) config.set(field, *value);
    }
    return to_json(config);
  }

 private:
  [[nodiscard]] HuggingFaceFields config(const Options& options) const {
    return call_plugin(plugin_.origin, "config", [&] { return plugin_.format->config(options, sizes_); });
  }

  /// A field that the plugin does not write may contradict the changed ones. Then it goes. It is one that the plugin
  /// reads, such as rope_parameters, for which the plugin's own fields stand; or one that it only compares with others,
  /// such as layer_types. `before`: the plugin's own fields for the model of `text`.
  [[nodiscard]] std::optional<std::string> edit_without_a_field(const std::string& text,
                                                                const HuggingFaceFields& before,
                                                                const HuggingFaceFields& changed) const {
    std::vector<std::string> compared;
    for (const std::string& name : fields_of_others(text)) {
      const std::optional<HuggingFaceFields> without = config_of(edit_json(text, {name}, {}));
      if (without && without->values() == before.values()) {
        compared.push_back(name);
        continue;
      }
      std::string edited = edit_json(text, {name}, own_);
      if (describes_model(edited)) return edited;
    }
    for (const std::string& name : compared) {
      std::string edited = edit_json(text, {name}, changed);
      if (describes_model(edited)) return edited;
    }
    return std::nullopt;
  }

  /// The names of the outermost fields that the plugin does not write.
  [[nodiscard]] std::set<std::string> fields_of_others(const std::string& text) const {
    std::set<std::string> names;
    const HuggingFaceFields fields = fields_of(text);
    for (const auto& [field, value] : fields.values()) {
      const std::string name = field.substr(0, field.find('.'));
      if (!own_.contains(name) && !own_.has_value(name)) names.insert(name);
    }
    return names;
  }

  [[nodiscard]] bool describes_model(const std::string& text) const {
    const std::optional<HuggingFaceFields> config = config_of(text);
    return config && config->values() == own_.values();
  }

  /// The plugin's own fields for the model of a config.json. Empty if it is none of the plugin's models.
  [[nodiscard]] std::optional<HuggingFaceFields> config_of(const std::string& text) const {
    const HuggingFaceFields fields = fields_of(text);
    try {
      const std::optional<Options> described =
          call_plugin(plugin_.origin, "options", [&] { return plugin_.format->options(fields); });
      if (!described) return std::nullopt;
      return config(Options(declared_options(plugin_.origin, *plugin_.factory), described->values()));
    } catch (const ConfigurationError&) {
      // Fields contradict each other, for example a new window and the old list of layers that have one.
      return std::nullopt;
    }
  }

  const HuggingFacePlugin& plugin_;
  const DimSizes& sizes_;
  HuggingFaceFields own_;
};

}  // namespace

DType ExportedValues::dtype(const std::string& parameter) const {
  if (const QuantizedWeight* quantized = terms_.find_quantized(parameter))
    return terms_.graph().type(quantized->dequantized).dtype;
  return checkpoint_.manifest().tensors.at(parameter).dtype;
}

DType ExportedValues::imported_dtype(const std::string& parameter) const {
  const auto& known = checkpoint_.run().imported_types;
  const auto found = known.find(parameter);
  return found == known.end() ? dtype(parameter) : found->second;
}

bool ExportedValues::is_copied(const std::string& parameter, DType dtype) const {
  const bool is_computed = terms_.find(parameter) != nullptr || terms_.find_quantized(parameter) != nullptr;
  return !is_computed && weights_ == RestoredWeights::trained && this->dtype(parameter) == dtype;
}

void ExportedValues::read(const std::string& parameter, const TensorPart& part, DType dtype, std::byte* destination) {
  if (terms_.find(parameter) == nullptr && terms_.find_quantized(parameter) == nullptr) {
    return checkpoint_.read_value(parameter, part, dtype, destination, weights_);
  }
  if (merged_parameter_ != parameter) merge(parameter);
  for_each_run(part, [&](std::int64_t local, std::int64_t global, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      store_element(dtype, destination, local + i, merged_[static_cast<std::size_t>(global + i)]);
    }
  });
}

void ExportedValues::read_whole(const std::string& parameter, std::span<float> values) const {
  if (const QuantizedWeight* quantized = terms_.find_quantized(parameter)) return read_quantized(*quantized, values);
  checkpoint_.read_value(parameter, TensorPart::whole(terms_.shape(parameter)), DType::f32, values.data(), weights_);
}

void ExportedValues::read_quantized(const QuantizedWeight& weight, std::span<float> values) const {
  std::vector<std::int8_t> codes(static_cast<std::size_t>(weight.shape.bytes()));
  std::vector<float> scales(static_cast<std::size_t>(weight.shape.scales()));
  const auto part = [&](const std::string& name) { return TensorPart::whole(terms_.shape(name)); };
  checkpoint_.read_value(weight.codes, part(weight.codes), DType::i8, codes.data(), weights_);
  checkpoint_.read_value(weight.scales, part(weight.scales), DType::f32, scales.data(), weights_);
  decode_weight(weight.shape, codes, scales, values);
}

void ExportedValues::merge(const std::string& parameter) {
  merged_parameter_.clear();
  merged_.resize(static_cast<std::size_t>(element_count(terms_.shape(parameter))));
  const ReadParameter read = [this](const std::string& name, std::span<float> values) { read_whole(name, values); };
  read(parameter, merged_);
  terms_.merge(parameter, merged_, read);
  merged_parameter_ = parameter;
}

TensorRows::TensorRows(ExportedValues& values, const std::vector<MappedParameter>& parts,
                       const std::map<std::string, Shape>& shapes, DType dtype)
    : values_(values),
      parts_(parts),
      shapes_(shapes),
      dtype_(dtype),
      rows_(parts.front().where.shape.front()),
      element_bytes_(static_cast<std::int64_t>(size_of(dtype))) {
  const Shape& shape = parts.front().where.shape;
  row_elements_ = element_count(shape) / rows_;
  for (const MappedParameter& each : parts) {
    if (!each.where.transposed) continue;
    const std::int64_t pitch = columns_of(each).pitch;
    const bool is_aligned = each.where.slice_dim != 0 || (pitch > 0 && each.where.slice_begin % pitch == 0);
    step_ = is_aligned ? std::lcm(step_, pitch) : 0;
  }
}

TensorRows::Columns TensorRows::columns_of(const MappedParameter& part) const {
  const Shape& shape = shape_of(part);
  std::int64_t pitch = 1;
  for (std::size_t dim = shape.size(); dim-- > 0; pitch *= shape[dim]) {
    if (pitch * shape[dim] == part.view.columns) return {dim, pitch};
  }
  return {0, 0};
}

void TensorRows::read(std::int64_t begin, std::int64_t end, std::byte* destination) {
  for (const MappedParameter& each : parts_) {
    if (each.where.transposed) {
      read_transposed(each, begin, end, destination);
    } else {
      read_straight(each, begin, end, destination);
    }
  }
}

void TensorRows::load(const MappedParameter& part, const TensorPart& selected) {
  data_.resize(static_cast<std::size_t>(selected.elements() * element_bytes_));
  values_.read(part.where.parameter, selected, dtype_, data_.data());
}

void TensorRows::read_straight(const MappedParameter& part, std::int64_t begin, std::int64_t end,
                               std::byte* destination) {
  const TensorView& view = part.view;
  const std::int64_t first = begin * row_elements_;
  // The parameter's elements that lie before `offset` in the tensor.
  const auto elements_before = [&](std::int64_t offset) {
    const std::int64_t distance = std::max<std::int64_t>(0, offset - view.begin);
    const std::int64_t row = distance / view.row_pitch;
    return row >= view.rows ? view.elements() : row * view.columns + std::min(distance % view.row_pitch, view.columns);
  };
  TensorPart selected = TensorPart::whole(shape_of(part));
  const std::int64_t from = elements_before(first);
  const std::int64_t to = elements_before(end * row_elements_);
  if (from == to) return;
  selected.begin = part.first + from;
  selected.end = part.first + to;
  load(part, selected);
  for (std::int64_t done = from; done < to;) {
    const std::int64_t column = done % view.columns;
    const std::int64_t run = std::min(view.columns - column, to - done);
    const std::int64_t at = view.begin + done / view.columns * view.row_pitch + column - first;
    std::memcpy(destination + at * element_bytes_, data_.data() + (done - from) * element_bytes_,
                static_cast<std::size_t>(run * element_bytes_));
    done += run;
  }
}

void TensorRows::read_transposed(const MappedParameter& part, std::int64_t begin, std::int64_t end,
                                 std::byte* destination) {
  const TensorView& view = part.view;
  const bool of_rows = part.where.slice_dim == 0;
  const std::int64_t row_of_first = of_rows ? part.where.slice_begin : 0;
  const std::int64_t column_of_first = of_rows ? 0 : part.where.slice_begin;
  const std::int64_t first = std::clamp<std::int64_t>(begin - row_of_first, 0, view.columns);
  const std::int64_t last = std::clamp<std::int64_t>(end - row_of_first, 0, view.columns);
  if (first == last) return;
  TensorPart selected = TensorPart::whole(shape_of(part));
  const Columns columns = columns_of(part);
  if (columns.pitch > 0 && step_ > 0) {
    const std::int64_t size = selected.dims[columns.dim].global_size;
    selected.dims[columns.dim] = {size, {{0, first / columns.pitch, (last - first) / columns.pitch}}};
    selected = TensorPart::block(std::move(selected.dims));
  }
  load(part, selected);
  const std::int64_t loaded = selected.elements() / view.rows;
  const std::int64_t skipped = loaded == last - first ? 0 : first;
  for (std::int64_t column = first; column < last; ++column) {
    std::byte* to = destination + ((row_of_first + column - begin) * row_elements_ + column_of_first) * element_bytes_;
    const std::byte* from = data_.data() + (column - first + skipped) * element_bytes_;
    if (element_bytes_ == 2) {
      copy_column<std::uint16_t>(from, loaded, view.rows, to);
    } else if (element_bytes_ == 4) {
      copy_column<std::uint32_t>(from, loaded, view.rows, to);
    } else {
      copy_column<std::uint64_t>(from, loaded, view.rows, to);
    }
  }
}

std::optional<HuggingFaceFields> imported_config(const ModelFiles& files) {
  const std::string* text = find_config(files);
  if (text == nullptr) return std::nullopt;
  return fields_of(*text);
}

std::string exported_config(const HuggingFacePlugin& plugin, const Options& options, const DimSizes& sizes,
                            const ModelFiles& files, DType dtype, const HuggingFaceFields& tokens) {
  const ExportedConfig config(plugin, options, sizes);
  const std::string* imported = find_config(files);
  const HuggingFaceFields fields = imported_config(files).value_or(HuggingFaceFields());
  std::optional<std::string> text = imported == nullptr ? std::nullopt : config.edit(*imported);
  if (!text) text = config.write(fields);
  // Files of transformers 5 have the field dtype, older ones torch_dtype.
  const bool has_new_name = fields.contains("dtype");
  HuggingFaceFields changed = tokens;
  if (has_new_name) changed.set("dtype", OptionValue(torch_name(dtype)));
  if (!has_new_name || fields.contains("torch_dtype")) changed.set("torch_dtype", OptionValue(torch_name(dtype)));
  return edit_json(*text, {}, changed);
}

}  // namespace strata::host
