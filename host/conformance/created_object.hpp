#pragma once

#include <memory>
#include <string>

#include "conformance/subject.hpp"

namespace strata::host {

/// An object that a factory created, described by what its hooks say.
class CreatedObject {
 public:
  virtual ~CreatedObject() = default;
  /// What the object says about itself now. Calls of one object give equal texts.
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// Creates what a run with these options would: a strategy, a model, the ranks of a communicator, …; for a dataset its
/// inputs, because its files may be absent; for a library its ops. \throws what the plugin throws, and PluginError if
/// it creates nothing.
[[nodiscard]] std::unique_ptr<CreatedObject> create_object(Subject& subject, const Options& options);

}  // namespace strata::host
