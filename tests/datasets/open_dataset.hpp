#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "build_paths.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/dataset.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {

/// A plugin of this build.
class DatasetPlugin {
 public:
  explicit DatasetPlugin(const std::string& name) : factory_(registry_.load<DatasetFactory>(name)) {}

  [[nodiscard]] Options options(const std::map<std::string, OptionValue>& given) const {
    return {factory_.options(), given};
  }
  [[nodiscard]] std::vector<DatasetInput> inputs(const std::map<std::string, OptionValue>& given) const {
    return factory_.inputs(options(given));
  }
  [[nodiscard]] std::unique_ptr<Dataset> open(const std::map<std::string, OptionValue>& given,
                                              const DatasetRequest& request) const {
    return factory_.open(options(given), request);
  }
  /// The message with which the plugin refuses to open, and before it the option that it names.
  [[nodiscard]] std::string refusal(const std::map<std::string, OptionValue>& given,
                                    const DatasetRequest& request) const {
    try {
      static_cast<void>(open(given, request));
    } catch (const OptionError& error) {
      return error.option() + ": " + error.what();
    }
    return "accepted";
  }
  [[nodiscard]] const DatasetFactory& factory() const { return factory_; }

 private:
  host::PluginRegistry registry_{{plugin_folder()}};
  const DatasetFactory& factory_;
};

/// Reads one input, number `input`, of a sample: `count` integers.
inline std::vector<std::int32_t> read_integers(const Dataset& dataset, const SampleKey& key, std::size_t input,
                                               std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count), -7);
  std::vector<void*> destinations(input + 1);
  destinations[input] = values.data();
  dataset.read(key, destinations);
  return values;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace strata::testing
