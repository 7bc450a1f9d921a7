#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "loading/plugin_file.hpp"
#include "sample_files.hpp"

namespace strata::host {
namespace {

using testing::HasSubstr;

class PluginFileTest : public testing::Test {
 protected:
  /// Why a plugin of these bytes is refused.
  std::string refusal(const std::string& bytes) {
    return inspect_plugin_file(write_file(folder_.path() / "strategy_sample.so", bytes)).refusal;
  }

  /// The sample with a piece of its record overwritten.
  std::string patched(std::size_t offset, const std::string& bytes) {
    std::string file = sample_;
    return file.replace(record_offset(file) + offset, bytes.size(), bytes);
  }

  /// Inspects the sample with `bytes` written at `offset`. Works in place, because there are many cases.
  PluginFile inspect_with(std::size_t offset, const std::string& bytes) {
    const std::filesystem::path path = folder_.path() / "in_place.so";
    if (!std::filesystem::exists(path)) write_file(path, sample_);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto overwrite = [&](const std::string& piece) {
      file.seekp(static_cast<std::streamoff>(offset)).write(piece.data(), static_cast<std::streamsize>(piece.size()));
      file.flush();
    };
    overwrite(bytes);
    PluginFile inspected = inspect_plugin_file(path);
    overwrite(sample_.substr(offset, bytes.size()));
    return inspected;
  }

  PluginFile inspect_with(std::size_t offset, std::uint64_t value, std::size_t width) {
    return inspect_with(offset, std::string(reinterpret_cast<const char*>(&value), width));
  }

  TemporaryFolder folder_;
  std::string sample_ = read_sample("strategy_sample.so");
};

TEST_F(PluginFileTest, ReadsTheRecordOfASoundPlugin) {
  const PluginFile file = inspect_plugin_file(copy_sample("strategy_sample.so", folder_.path()));
  EXPECT_EQ(file.refusal, "");
  ASSERT_TRUE(file.description);
  EXPECT_EQ(file.description->kind, PluginKind::strategy);
  EXPECT_EQ(file.description->name, "sample");
  EXPECT_EQ(file.description->version, "1.2.3");
  EXPECT_EQ(file.description->licence, "Apache-2.0");
  EXPECT_EQ(file.description->description, "A sound plugin.");
  EXPECT_EQ(file.description->flavour, build_flavour());
  EXPECT_EQ(file.description->abi, kAbiNumber);
}

TEST_F(PluginFileTest, RefusesWhatIsNoPlugin) {
  EXPECT_THAT(refusal(""), HasSubstr("it is no ELF file"));
  EXPECT_THAT(refusal("#!/bin/sh\necho hello\n" + std::string(100, '#')), HasSubstr("it is no ELF file"));
  EXPECT_THAT(inspect_plugin_file("/proc/self/exe").refusal, HasSubstr("it is no plugin: it has no section"));
  std::filesystem::create_directory(folder_.path() / "folder.so");
  EXPECT_THAT(inspect_plugin_file(folder_.path() / "folder.so").refusal, HasSubstr("it is no regular file"));
  EXPECT_THAT(inspect_plugin_file(folder_.path() / "nothing.so").refusal, HasSubstr("No such file"));
  std::string renamed = sample_;
  renamed[renamed.find(kPluginSection)] = '_';
  EXPECT_THAT(refusal(renamed), HasSubstr("it has no section .strata_plugin"));
}

TEST_F(PluginFileTest, RefusesForeignElfFiles) {
  const auto with_byte = [&](std::size_t offset, char value) {
    std::string bytes = sample_;
    bytes[offset] = value;
    return refusal(bytes);
  };
  EXPECT_THAT(with_byte(EI_CLASS, ELFCLASS32), HasSubstr("it is no 64-bit little-endian ELF file"));
  EXPECT_THAT(with_byte(EI_DATA, ELFDATA2MSB), HasSubstr("it is no 64-bit little-endian ELF file"));
  EXPECT_THAT(with_byte(offsetof(Elf64_Ehdr, e_type), ET_REL), HasSubstr("no shared library"));
  EXPECT_THAT(with_byte(offsetof(Elf64_Ehdr, e_machine), EM_S390), HasSubstr("another processor"));
}

TEST_F(PluginFileTest, RefusesForeignRecords) {
  EXPECT_THAT(refusal(patched(0, "strata")), HasSubstr("does not begin with the magic text"));
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, record_size), {'\x01', '\x02'})),
              HasSubstr("has 513 bytes in a section of 332; accepted: 332"));
  for (const int other : {0, kAbiNumber - 1, kAbiNumber + 1, 255}) {
    EXPECT_THAT(refusal(patched(offsetof(PluginRecord, abi), {static_cast<char>(other)})),
                HasSubstr("built for ABI " + std::to_string(other) + "; accepted: " + std::to_string(kAbiNumber) +
                          ", the ABI of this host. Build it again with this host's SDK, or install its package for "
                          "ABI " +
                          std::to_string(kAbiNumber)));
  }
  // Another number may come with a longer record and further kinds.
  for (const std::string& other : {patched(offsetof(PluginRecord, record_size), {'\x01', '\x02'}),
                                   patched(offsetof(PluginRecord, kind), "\x09")}) {
    std::string bytes = other;
    bytes[record_offset(sample_) + offsetof(PluginRecord, abi)] = kAbiNumber + 1;
    EXPECT_THAT(refusal(bytes), HasSubstr("built for ABI " + std::to_string(kAbiNumber + 1)));
  }
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, flavour), "msvc")),
              HasSubstr("of the build flavour 'msvc" + std::string(build_flavour().substr(4)) + "'; accepted: '" +
                        std::string(build_flavour()) + "'"));
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, kind), "\x09")), HasSubstr("found the kind 9; accepted: 1 to 7"));
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, kind), {'\0'})), HasSubstr("found the kind 0; accepted: 1 to 7"));
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, name), "Sample")), HasSubstr("found the name 'Sample'"));
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, name), "\x1b[2J")), HasSubstr("field 'name'"));
  EXPECT_THAT(refusal(patched(offsetof(PluginRecord, version), std::string(16, '1'))), HasSubstr("field 'version'"));
}

TEST_F(PluginFileTest, ReadsEveryKind) {
  for (const auto& [kind, name] : {std::pair{PluginKind::strategy, "strategy"},
                                   {PluginKind::model, "model"},
                                   {PluginKind::communicator, "communicator"},
                                   {PluginKind::device, "device"},
                                   {PluginKind::library, "library"},
                                   {PluginKind::optimizer, "optimizer"},
                                   {PluginKind::dataset, "dataset"}}) {
    const std::string bytes = patched(offsetof(PluginRecord, kind), {static_cast<char>(kind)});
    const PluginFile file = inspect_plugin_file(write_file(folder_.path() / "strategy_sample.so", bytes));
    EXPECT_EQ(file.refusal, "");
    EXPECT_EQ(to_string(file.description.value().kind), name);
  }
}

/// The host distinguishes a plugin's factories and exceptions by their type information.
TEST_F(PluginFileTest, RefusesPluginsWithoutTypeInformation) {
  const PluginFile file = inspect_plugin_file(copy_sample("strategy_without_rtti.so", folder_.path()));
  ASSERT_TRUE(file.description);
  EXPECT_THAT(file.description->flavour, HasSubstr(" without-rtti"));
  EXPECT_EQ(file.refusal, "it is of the build flavour '" + file.description->flavour + "'; accepted: '" +
                              std::string(build_flavour()) + "'");
}

TEST_F(PluginFileTest, RefusesWhatOthersCanWrite) {
  const std::filesystem::path file = copy_sample("strategy_sample.so", folder_.path());
  ::chmod(file.c_str(), 0646);
  EXPECT_THAT(inspect_plugin_file(file).refusal, HasSubstr("it can be written by anyone; accepted: by its owner only"));
  ::chmod(file.c_str(), 0644);
  ::chmod(folder_.path().c_str(), 0777);
  EXPECT_THAT(inspect_plugin_file(file).refusal,
              HasSubstr("the folder " + folder_.path().string() + " can be written by anyone"));
  ::chmod(folder_.path().c_str(), 0700);
  EXPECT_EQ(inspect_plugin_file(file).refusal, "");
}

TEST_F(PluginFileTest, JudgesWhatALinkPointsTo) {
  TemporaryFolder elsewhere;
  copy_sample("strategy_sample.so", elsewhere.path());
  ::chmod(elsewhere.path().c_str(), 0777);
  std::filesystem::create_symlink(elsewhere.path() / "strategy_sample.so", folder_.path() / "strategy_sample.so");
  EXPECT_THAT(inspect_plugin_file(folder_.path() / "strategy_sample.so").refusal,
              HasSubstr("can be written by anyone"));
}

TEST_F(PluginFileTest, RefusesEveryTruncation) {
  const std::filesystem::path path = write_file(folder_.path() / "strategy_sample.so", sample_);
  const std::size_t dense = 1024;
  for (std::size_t size = sample_.size(); size > 0;) {
    size -= size < dense || size + dense > sample_.size() ? 1 : std::min<std::size_t>(61, size);
    std::filesystem::resize_file(path, size);
    ASSERT_NE(inspect_plugin_file(path).refusal, "") << size << " of " << sample_.size() << " bytes";
  }
}

/// Replaces every number in the file's headers by extreme values. The file must be refused with a reason, or its record
/// must be found unchanged.
TEST_F(PluginFileTest, SurvivesAbsurdHeaders) {
  Elf64_Ehdr header{};
  std::memcpy(&header, sample_.data(), sizeof(header));
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::uint64_t> values = {0, 1, sample_.size() - 1, sample_.size(), most / 2, most - 63, most};
  std::map<bool, int> count;  // counts of refused and accepted files
  const auto expect_judged = [&](std::uint64_t offset, std::uint64_t value, std::size_t width) {
    const PluginFile file = inspect_with(offset, value, width);
    ++count[!file.refusal.empty()];
    if (!file.refusal.empty()) return;
    ASSERT_TRUE(file.description) << value << " at " << offset;
    EXPECT_EQ(file.description->name, "sample") << value << " at " << offset;
    EXPECT_EQ(file.description->version, "1.2.3") << value << " at " << offset;
    EXPECT_EQ(file.description->abi, kAbiNumber) << value << " at " << offset;
  };
  const auto over = [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t offset = begin; offset < end; offset += 4) {
      for (const std::uint64_t value : values) {
        expect_judged(offset, value, offset + 8 <= end ? 8 : 4);
        expect_judged(offset, value, 2);
      }
    }
  };
  over(0, sizeof(header));
  const int refused_in_header = count[true];
  over(header.e_phoff, header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
  over(header.e_shoff, header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr));
  // The header contains the magic number, the class, the machine and the offset of the section table. Most other fields
  // are read by the loader alone.
  EXPECT_GT(refused_in_header, 50);
  EXPECT_GT(count[true], refused_in_header + 20);
  EXPECT_GT(count[false], 100);
}

TEST_F(PluginFileTest, RefusesTablesBeyondItsEnd) {
  const auto with = [&](std::size_t offset, std::uint64_t value, std::size_t width) {
    return inspect_with(offset, value, width).refusal;
  };
  const std::uint64_t wrapping = std::numeric_limits<std::uint64_t>::max() - 63;
  EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_shoff), wrapping, 8), HasSubstr("section table lies beyond its end"));
  EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_shoff), 0, 8), HasSubstr("no section table"));
  EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_shentsize), 8, 2), HasSubstr("section headers have 8 bytes"));
  EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_shstrndx), 60000, 2), HasSubstr("has the number 60000"));
  EXPECT_THAT(with(offsetof(Elf64_Ehdr, e_phoff), wrapping, 8), HasSubstr("segment table is not within it"));
}

TEST_F(PluginFileTest, SurvivesRandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    const std::size_t count = 1 + random() % 64;
    const std::size_t offset = random() % (sample_.size() - count);
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 256);
    const PluginFile file = inspect_with(offset, bytes);
    // If only code or data was changed, the record is still readable.
    ASSERT_TRUE(!file.refusal.empty() || file.description) << round;
  }
}

}  // namespace
}  // namespace strata::host
