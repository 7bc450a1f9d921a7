#pragma once

#include <stdexcept>
#include <string>

#include "strata/export.hpp"

namespace strata {

/// Base of every error that Strata or a plugin throws. The message is complete: it says where, what was found and what
/// is accepted. The host adds the plugin to what a hook throws. docs/sdk/phases.md has the exit codes.
class STRATA_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  ~Error() override;
};

/// The user asked for something impossible: a wrong option, an indivisible size, an unknown plugin, strategies that
/// conflict. The command line ends with exit code 2.
class STRATA_API ConfigurationError : public Error {
 public:
  using Error::Error;
  ~ConfigurationError() override;
};

/// An option of a plugin has an unacceptable value, alone or together with other options. Plugins throw it from
/// create(), and the host adds the option's file and line. Example: OptionError("stages", "found 3; accepted: a divisor
/// of 8").
class STRATA_API OptionError : public ConfigurationError {
 public:
  OptionError(std::string option, const std::string& message);
  ~OptionError() override;
  [[nodiscard]] const std::string& option() const { return option_; }

 private:
  std::string option_;
};

/// A graph or program breaks an invariant, which is a defect of Strata or of a plugin. Exit code 1.
class STRATA_API VerificationError : public Error {
 public:
  using Error::Error;
  ~VerificationError() override;
};

/// A failure during the run: a device, a file, a peer, a timeout. The command line ends with exit code 1.
class STRATA_API RuntimeError : public Error {
 public:
  using Error::Error;
  ~RuntimeError() override;
};

/// Type and message of the exception being handled, such as "std::out_of_range: vector::at" or "an exception of type
/// int". If memory is short, it names the process's limit of address space. Call it only in a catch block.
STRATA_API std::string current_exception_text();

}  // namespace strata
