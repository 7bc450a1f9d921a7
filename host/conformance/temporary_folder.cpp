#include "conformance/temporary_folder.hpp"

#include <cstdlib>
#include <string>

#include "strata/error.hpp"

namespace strata::host {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "strata-check-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw RuntimeError("'" + name + "': the folder cannot be made");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace strata::host
