#pragma once

#include <filesystem>

namespace strata::host {

/// A folder that appears complete or not at all. Its files are written to a temporary folder beside it, which the
/// destructor removes unless commit() was called.
class NewFolder {
 public:
  /// \throws ConfigurationError if `path` exists already and is no empty folder.
  explicit NewFolder(const std::filesystem::path& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// The temporary folder.
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  /// \throws RuntimeError if the disk has fewer than `bytes` free.
  void require_space(std::uint64_t bytes) const;
  void write(const std::string& name, const std::string& text) const;
  /// Gives the folder its name, after its entries have reached the disk.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

}  // namespace strata::host
