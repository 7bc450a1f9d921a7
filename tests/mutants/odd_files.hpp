#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "train/temporary_folder.hpp"

namespace strata::testing {

/// Names in `folder` that are no files with text: a pipe, a folder, devices, links to nothing and to themselves, and a
/// name that is too long.
inline std::vector<std::string> odd_files(const host::test::TemporaryFolder& folder) {
  namespace fs = std::filesystem;
  const fs::path& path = folder.path();
  ::mkfifo((path / "pipe").c_str(), 0600);
  fs::create_directory(path / "folder");
  fs::create_symlink("/dev/zero", path / "zeros");
  fs::create_symlink("/dev/null", path / "null");
  fs::create_symlink("nothing", path / "dangling");
  fs::create_symlink("circle", path / "circle");
  std::vector<std::string> names;
  for (const char* name : {"pipe", "folder", "zeros", "null", "dangling", "circle"}) names.push_back(path / name);
  names.push_back(path / std::string(300, 'n'));
  return names;
}

}  // namespace strata::testing
