#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "build_paths.hpp"
#include "strata/plugin.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host {

using test::TemporaryFolder;

inline std::string read_sample(const std::string& name) {
  std::ifstream file(sample_plugin_folder() + "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Writes a file that only its owner can write, for any umask.
inline std::filesystem::path write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ::chmod(path.c_str(), 0644);
  return path;
}

inline std::filesystem::path copy_sample(const std::string& name, const std::filesystem::path& folder) {
  return write_file(folder / name, read_sample(name));
}

/// Offset of the record in a plugin's bytes.
inline std::size_t record_offset(const std::string& bytes) {
  const std::string magic(std::string(kPluginMagic) + '\0');
  std::size_t offset = bytes.find(magic);
  // The text may also occur outside of the record. In the record, the record's size follows the text.
  while (offset != std::string::npos &&
         static_cast<unsigned char>(bytes.at(offset + sizeof(PluginRecord::magic))) != sizeof(PluginRecord) % 256) {
    offset = bytes.find(magic, offset + 1);
  }
  EXPECT_NE(offset, std::string::npos);
  return offset;
}

}  // namespace strata::host
