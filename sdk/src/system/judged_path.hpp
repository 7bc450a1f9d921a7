#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "descriptor.hpp"

namespace strata {

/// A regular file that was opened by following a path from the root, with what was found on the way.
struct JudgedPath {
  Descriptor file;
  /// Absolute, without links.
  std::filesystem::path path;
  /// Why someone other than root and the user might replace or change the file. Empty if nobody can.
  std::string distrust;
  std::vector<std::string> warnings;
};

/// Opens each folder relative to the one before and judges it by its descriptor. So what is judged is what is followed,
/// even if someone changes the path meanwhile.
///
/// - A folder, a link and the file must belong to root or the user.
/// - Neither group nor others may write a folder or the file. A sticky folder, such as /tmp, may be written by all if
///   the entry that is followed belongs to root or the user, since then nobody else can replace that entry.
/// - The owner's private group may write, with a warning, because an umask of 002 makes such folders.
///
/// An access control list that grants others write access shows as write access of the group.
///
/// \throws ConfigurationError if the file cannot be read or is not a regular file.
JudgedPath open_judged(const std::filesystem::path& path);

}  // namespace strata
