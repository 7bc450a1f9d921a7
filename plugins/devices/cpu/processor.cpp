#include "processor.hpp"

#include <sys/utsname.h>

#include <fstream>

#include "strata/error.hpp"

namespace strata::cpu {
namespace {

/// The value of the first "key : value" line of /proc/cpuinfo. Empty if there is none.
std::string processor_field(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

}  // namespace

std::string processor_name() {
  const std::string name = processor_field("model name");
  if (!name.empty()) return name;
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown processor";
}

std::string unit_names(InstructionSet instruction_set) {
  std::string names = "baseline units";
  if (instruction_set == InstructionSet::avx2) names = "AVX2";
  if (instruction_set >= InstructionSet::avx512) names = "AVX-512";
  const std::string flags = processor_field("flags") + " ";
  if (flags.find(" amx_bf16 ") != std::string::npos) return names + ", AMX for bf16";
  if (flags.find(" avx512_bf16 ") != std::string::npos) return names + ", AVX-512 for bf16";
  return names;
}

InstructionSet instruction_set_named(const std::string& word) {
  if (word == "auto") return best_instruction_set();
  InstructionSet instruction_set = InstructionSet::portable;
  if (word == "avx2") instruction_set = InstructionSet::avx2;
  if (word == "avx512") instruction_set = InstructionSet::avx512;
  if (word == "amx") instruction_set = InstructionSet::amx;
  if (!is_supported(instruction_set)) throw ConfigurationError("this processor has no " + word + " instructions");
  return instruction_set;
}

}  // namespace strata::cpu
