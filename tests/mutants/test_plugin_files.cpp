/// Altered plugin files. The host judges a file before it loads it. Files that it accepts are loaded in processes of
/// their own, because the dynamic loader and the plugin's own code follow damaged bytes.

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "build_paths.hpp"
#include "conformance/isolated_process.hpp"
#include "loading/plugin_registry.hpp"
#include "mutator.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host {
namespace {

using strata::testing::is_presentable;
using strata::testing::Mutator;

/// A part of a file, in bytes.
struct FilePart {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

class PluginFileMutants : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::string mutant_in(const FilePart& part) {
    std::string text = mutator_.bytes(original_.substr(part.begin, part.size));
    // Later parts keep their places.
    text.resize(part.size);
    return original_.substr(0, part.begin) + text + original_.substr(part.begin + part.size);
  }
  /// Replaces one number of four or eight bytes by an extreme one.
  [[nodiscard]] std::string with_number(const FilePart& part) {
    std::string text = original_;
    const std::size_t width = mutator_.choice().flip() ? 4 : 8;
    const std::uint64_t value = mutator_.choice().of<std::uint64_t>(
        {0, 1, 7, 0x1000, original_.size() - 8, original_.size(), 0x7fffffff, 0xffffffff, 0x100000000,
         0x7fffffffffffffff, 0xfffffffffffffff8, mutator_.below(original_.size()),
         mutator_.below(original_.size()) & ~std::uint64_t{7}});
    const std::uint64_t at = part.begin + mutator_.below(part.size / 4) * 4;
    return text.replace(at, std::min<std::size_t>(width, text.size() - at), reinterpret_cast<const char*>(&value),
                        width);
  }

  /// The tables that the host judges: those that tell the loader where everything is.
  [[nodiscard]] std::vector<FilePart> judged_parts() const {
    Elf64_Ehdr header{};
    std::memcpy(&header, original_.data(), sizeof header);
    std::vector<FilePart> parts{{0, sizeof header},
                                {header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)},
                                {header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)}};
    for (int i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment{};
      std::memcpy(&segment, original_.data() + header.e_phoff + static_cast<std::size_t>(i) * sizeof segment,
                  sizeof segment);
      if (segment.p_type == PT_DYNAMIC) parts.push_back({segment.p_offset, segment.p_filesz});
    }
    return parts;
  }

  /// The section called `name`.
  [[nodiscard]] FilePart section(const std::string& name) const {
    Elf64_Ehdr header{};
    std::memcpy(&header, original_.data(), sizeof header);
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    std::memcpy(sections.data(), original_.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
    for (const Elf64_Shdr& each : sections) {
      const char* found = original_.data() + sections[header.e_shstrndx].sh_offset + each.sh_name;
      if (name == found) return {each.sh_offset, each.sh_size};
    }
    ADD_FAILURE() << "no section " << name;
    return {};
  }

  [[nodiscard]] PluginFile inspect(const std::string& bytes) const {
    const auto path = folder_.file("mutant.so", bytes);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return inspect_plugin_file(path);
  }

  /// Loads the accepted file in another process.
  [[nodiscard]] CheckVerdict load() const {
    return run_isolated(
        [&]() -> std::string {
          PluginRegistry registry({folder_.path()});
          try {
            const PluginFile& file = registry.files().front();
            (void)registry.load(file.description->kind, file.description->name).options();
            return "loaded";
          } catch (const ConfigurationError& error) {
            return error.what();
          }
        },
        std::chrono::seconds(60));
  }

  test::TemporaryFolder folder_;
  Mutator mutator_{7};
  std::string original_ = test::read_file(plugin_folder() + "/" + GetParam());
};

TEST_P(PluginFileMutants, AreAcceptedOrRefusedWithAReason) {
  constexpr int kMutants = 900;
  std::vector<FilePart> parts = judged_parts();
  parts.push_back({0, original_.size()});
  ASSERT_EQ(inspect(original_).refusal, "");
  int refused = 0;
  for (int i = 0; i < kMutants; ++i) {
    const FilePart& part = parts[static_cast<std::size_t>(i) % parts.size()];
    const std::string mutant = i % 3 == 0   ? with_number(part)
                               : i % 3 == 1 ? mutant_in(part)
                                            : mutator_.bytes(original_);
    const PluginFile file = inspect(mutant);
    if (file.refusal.empty()) {
      ASSERT_TRUE(file.description) << i;
      continue;
    }
    ++refused;
    ASSERT_TRUE(is_presentable(file.refusal, 1000)) << i << ": " << file.refusal;
  }
  EXPECT_GT(refused, kMutants / 4);
  EXPECT_LT(refused, kMutants);
}

TEST_P(PluginFileMutants, WithDamagedTablesDoNotReachTheLoader) {
  constexpr int kLoads = 60;
  const std::vector<FilePart> parts = judged_parts();
  int loads = 0;
  for (int i = 0; loads < kLoads && i < 50 * kLoads; ++i) {
    const FilePart& part = parts[static_cast<std::size_t>(i) % parts.size()];
    const std::string mutant = i % 2 == 0 ? with_number(part) : mutant_in(part);
    if (mutant == original_ || !inspect(mutant).refusal.empty()) continue;
    ++loads;
    const CheckVerdict verdict = load();
    std::string changed;
    for (std::size_t at = 0; at < original_.size() && changed.size() < 300; ++at) {
      if (mutant[at] != original_[at]) changed += " " + std::to_string(at) + ":" + std::to_string(mutant[at]);
    }
    EXPECT_EQ(verdict.outcome, Outcome::passed) << verdict.message << "; mutant " << i << ", bytes" << changed;
    EXPECT_TRUE(is_presentable(verdict.message));
  }
  EXPECT_EQ(loads, kLoads);
}

/// The dynamic loader, and later the program, follow these sections without a check.
TEST_P(PluginFileMutants, WithOneDamagedByteInALoadedSectionAreRefused) {
  constexpr int kBytes = 12;
  for (const char* name : {".gnu.hash", ".gnu.version", ".gnu.version_r", ".rela.dyn", ".dynsym", ".init_array",
                           ".data.rel.ro", ".text", ".strata_checksums"}) {
    const FilePart part = section(name);
    for (int i = 0; i < kBytes; ++i) {
      std::string mutant = original_;
      const std::uint64_t at = part.begin + mutator_.below(part.size);
      mutant[at] = static_cast<char>(mutant[at] ^ (1 << mutator_.below(8)));
      if (!inspect(mutant).refusal.empty()) continue;
      const CheckVerdict verdict = load();
      EXPECT_EQ(verdict.outcome, Outcome::passed) << verdict.message << "; byte " << at << " of " << name;
      EXPECT_TRUE(is_presentable(verdict.message));
      EXPECT_NE(verdict.message.find("/mutant.so: the plugin cannot be loaded: it is damaged: "), std::string::npos)
          << verdict.message << "; byte " << at << " of " << name;
    }
  }
}

/// Installing changes the names, so they have no checksum.
TEST_P(PluginFileMutants, WithADamagedNameDoNotEndTheProgram) {
  constexpr int kBytes = 100;
  const FilePart part = section(".dynstr");
  for (int i = 0; i < kBytes; ++i) {
    std::string mutant = original_;
    const std::uint64_t at = part.begin + mutator_.below(part.size);
    mutant[at] = static_cast<char>(mutant[at] ^ (1 << mutator_.below(8)));
    if (!inspect(mutant).refusal.empty()) continue;
    const CheckVerdict verdict = load();
    EXPECT_EQ(verdict.outcome, Outcome::passed) << verdict.message << "; byte " << at;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PluginFileMutants,
                         ::testing::Values("strategy_ddp.so", "optimizer_sgd.so", "dataset_text.so"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, std::strlen(info.param) - 3);
                         });

}  // namespace
}  // namespace strata::host
