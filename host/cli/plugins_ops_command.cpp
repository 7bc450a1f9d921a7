#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "loading/resolved_plugins.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

std::string types(const std::vector<DType>& dtypes) {
  std::vector<std::string> names;
  for (const DType dtype : dtypes) names.emplace_back(to_string(dtype));
  return join(names, " ");
}

/// The kernel's rank, or "reference" for a reference kernel.
std::string rank_text(const KernelDefinition& kernel) {
  return kernel.rank == kReferenceRank ? "reference" : std::to_string(kernel.rank);
}

/// The plugins with kernels for an op, in short: "cuda cpu reference".
std::string kernel_summary(const InstalledVocabulary& vocabulary, const std::string& op) {
  std::set<std::string> origins;
  for (const auto& each : vocabulary.kernels.all(op)) {
    origins.insert(each->definition.rank == kReferenceRank ? "reference" : each->origin);
  }
  return origins.empty() ? "none" : join({origins.begin(), origins.end()}, ", ");
}

ordered_json to_json(const RegisteredKernel& kernel) {
  const KernelSignature& signature = kernel.definition.signature;
  std::vector<std::string> reals;
  for (const DType dtype : signature.reals) reals.emplace_back(to_string(dtype));
  return {{"runtime", kernel.definition.runtime}, {"plugin", kernel.origin},      {"rank", kernel.definition.rank},
          {"operands", signature.operands},       {"results", signature.results}, {"real_types", reals},
          {"accumulates", signature.accumulates}};
}

ordered_json to_json(const InstalledVocabulary& vocabulary, const std::string& name) {
  const OpDefinition& op = vocabulary.ops.get(name);
  ordered_json entry = {{"name", name},
                        {"version", op.version()},
                        {"plugin", vocabulary.ops.origin(name)},
                        {"documentation", op.documentation()},
                        {"gradient", static_cast<bool>(op.gradient())},
                        {"short_hand", static_cast<bool>(op.decomposition())},
                        {"product", op.is_product()},
                        {"kernels", ordered_json::array()}};
  for (const auto& kernel : vocabulary.kernels.all(name)) entry["kernels"].push_back(to_json(*kernel));
  return entry;
}

void list(const InstalledVocabulary& vocabulary, std::ostream& out) {
  const std::vector<std::string> names = vocabulary.ops.names();
  std::size_t name_width = 0;
  std::size_t origin_width = 0;
  for (const std::string& name : names) {
    name_width = std::max(name_width, name.size());
    origin_width = std::max(origin_width, vocabulary.ops.origin(name).size());
  }
  const auto line = [&](const std::string& name, const std::string& gradient, const std::string& origin,
                        const std::string& kernels) {
    out << std::left << std::setw(static_cast<int>(name_width) + 2) << name << std::setw(10) << gradient
        << std::setw(static_cast<int>(origin_width) + 2) << origin << kernels << '\n';
  };
  line("OP", "GRADIENT", "FROM", "KERNELS");
  for (const std::string& name : names) {
    const OpDefinition& op = vocabulary.ops.get(name);
    line(name, op.gradient() ? "yes" : "no", vocabulary.ops.origin(name),
         op.decomposition() ? "of the ops that it stands for" : kernel_summary(vocabulary, name));
  }
}

void show(const InstalledVocabulary& vocabulary, const std::string& name, std::ostream& out) {
  const OpDefinition& op = vocabulary.ops.get(name);
  out << name << ", version " << op.version() << ", from " << vocabulary.ops.origin(name) << '\n';
  out << "  " << op.documentation() << '\n';
  out << "  gradient: " << (op.gradient() ? "yes" : "none") << '\n';
  if (op.decomposition()) out << "  short-hand: the compiler replaces it by simpler ops\n";
  if (op.is_product()) out << "  product: collectives beside it may be cut into chunks\n";
  for (const FusionPattern& pattern : op.fusions()) {
    out << "  fused of: " << pattern.producer << " and " << pattern.consumer << '\n';
  }
  for (const auto& kernel : vocabulary.kernels.all(name)) {
    const KernelSignature& signature = kernel->definition.signature;
    out << "  kernel: runtime " << kernel->definition.runtime << ", from " << kernel->origin << ", rank "
        << rank_text(kernel->definition) << ", operands \"" << signature.operands << "\", results \""
        << signature.results << "\", real types " << types(signature.reals)
        << (signature.accumulates ? ", adds to its results" : "") << '\n';
  }
}

struct OpsArguments {
  std::string name;
  bool json = false;
};

/// Lists all ops of Strata and of the installed plugins, or shows one with its properties and kernels.
int show_ops(const OpsArguments& arguments, CommandContext& context) {
  const InstalledVocabulary vocabulary = installed_vocabulary(context.plugins());
  const std::string& name = arguments.name;
  std::ostream& out = context.out;
  const std::vector<std::string> known = vocabulary.ops.names();
  if (!name.empty() && !vocabulary.ops.has(name)) {
    throw ConfigurationError("there is no op '" + name + "'" + did_you_mean(name, known) + "; see strata plugins ops");
  }
  if (arguments.json) {
    ordered_json document = {{"ops", ordered_json::array()}, {"refused", vocabulary.refusals}};
    for (const std::string& each : name.empty() ? known : std::vector{name}) {
      document["ops"].push_back(to_json(vocabulary, each));
    }
    write_json(out, document);
    return 0;
  }
  if (name.empty()) {
    list(vocabulary, out);
  } else {
    show(vocabulary, name, out);
  }
  for (const std::string& refusal : vocabulary.refusals) out << "refused: " << refusal << '\n';
  return 0;
}

}  // namespace

void add_plugins_ops_command(CLI::App& plugins, CommandContext& context) {
  const auto [command, arguments] =
      add_command<OpsArguments>(plugins, context, "ops", "List all ops, or show one with its kernels", show_ops);
  command->add_option("NAME", arguments->name, "The op's name");
  command->add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace strata::host
