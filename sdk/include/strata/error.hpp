#pragma once

#include <stdexcept>
#include <string>

#include "strata/export.hpp"

namespace strata {

/// Root of every error that Strata or a plugin throws. The message is complete: where, what was found, what is
/// accepted.
class STRATA_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  ~Error() override;
};

/// The user asked for something that cannot be: wrong option, indivisible size, unknown plugin, conflict between
/// strategies. The command line ends with exit code 2.
class STRATA_API ConfigurationError : public Error {
 public:
  using Error::Error;
  ~ConfigurationError() override;
};

/// A graph or program breaks an invariant that a phase before it should have kept: a defect of Strata or of a plugin.
class STRATA_API VerificationError : public Error {
 public:
  using Error::Error;
  ~VerificationError() override;
};

/// Something failed while running: a device, a file, a peer, a timeout. Exit code 1.
class STRATA_API RuntimeError : public Error {
 public:
  using Error::Error;
  ~RuntimeError() override;
};

}  // namespace strata
