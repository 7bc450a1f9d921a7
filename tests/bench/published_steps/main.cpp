/// Predicts published steps of other software by Strata's programs of the same model and stack, and prints how far the
/// predictions are from the measurements.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/cluster_file.hpp"
#include "loading/plugin_registry.hpp"
#include "repeated_layers.hpp"
#include "rows.hpp"
#include "setup/run_setup.hpp"
#include "simulate/described_device.hpp"
#include "simulate/instruction_times.hpp"
#include "simulate/prediction.hpp"
#include "strata/error.hpp"

namespace strata::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// DGX A100 with the software of 2021: attention that stores its scores.
host::Cluster dgx_a100(const host::ClusterRequest& request) {
  host::Cluster cluster = host::load_cluster("dgx-a100-80g", request);
  cluster.groups.front().device.fused_attention = false;
  return cluster;
}

/// One choice of what a row leaves open.
struct Choice {
  int micro = 1;
  int chunks = 1;
};

std::string split(const PublishedRow& row, int chunks) {
  const int count = row.pipeline * chunks;
  const bool counts_ends = (row.layers + 2) % count == 0;  // the embedding and the head count as layers
  std::string text;
  for (int chunk = 0; chunk < count; ++chunk) {
    const int ends = (chunk == 0 ? 1 : 0) + (chunk == count - 1 ? 1 : 0);
    const int blocks = counts_ends ? (row.layers + 2) / count : row.layers / count + ends;
    text += (chunk == 0 ? "" : ",") + std::to_string(blocks);
  }
  return text;
}

std::string strategies(const PublishedRow& row, const Choice& choice) {
  std::ostringstream text;
  if (!row.is_f32) text << "[[strategy]]\nplugin = \"precision\"\n";
  if (row.recompute != "none") text << "[[strategy]]\nplugin = \"recompute\"\npolicy = \"" << row.recompute << "\"\n";
  if (row.pipeline > 1) {
    text << "[[strategy]]\nplugin = \"pipeline\"\nsize = " << row.pipeline << "\nsplit = \""
         << split(row, choice.chunks) << "\"\nschedule = \"" << (choice.chunks > 1 ? "interleaved" : "1f1b") << "\"\n";
    if (choice.chunks > 1) text << "virtual_stages = " << choice.chunks << "\n";
  }
  if (row.data > 1 && row.zero_stage > 0) {
    text << "[[strategy]]\nplugin = \"zero\"\nsize = " << row.data << "\nstage = " << row.zero_stage << "\n";
  } else if (row.is_one_process) {
    text << "[[strategy]]\nplugin = \"dataparallel\"\nsize = " << row.data << "\n";
  } else if (row.data > 1) {
    text << "[[strategy]]\nplugin = \"ddp\"\nsize = " << row.data
         << "\noverlap = " << (row.overlaps_gradients ? "true" : "false") << "\n";
  }
  if (row.context_ranks > 1) {
    text << "[[strategy]]\nplugin = \"context\"\nsize = " << row.context_ranks << "\nattention = \"all_gather\"\n";
  }
  if (row.tensor > 1) {
    text << "[[strategy]]\nplugin = \"tensor\"\nsize = " << row.tensor
         << "\nsequence_parallel = " << (row.sequence_parallel ? "true" : "false")
         << "\noverlap_chunks = " << row.overlap_chunks << "\n";
  }
  return text.str();
}

std::string configuration(const PublishedRow& row, const Choice& choice) {
  std::ostringstream text;
  text << "[run]\nname = \"published\"\nsteps = 1\n[model]\nplugin = \"" << (row.ffn > 0 ? "llama" : "gpt2")
       << "\"\nlayers = " << row.layers << "\nheads = " << row.heads << "\nembed = " << row.embed
       << "\ncontext = " << row.context << "\nvocab = " << row.vocab;
  if (row.ffn > 0) {
    text << "\nkv_heads = " << row.kv_heads << "\nffn = " << row.ffn;
  } else {
    text << "\ndropout = " << (row.drops ? 0.1 : 0.0);
  }
  text << "\n[data]\npath = \"none\"\n[batch]\nglobal = " << row.batch << "\nmicro = " << choice.micro
       << "\n[optimizer]\nplugin = \"adamw\"\nlr = 1e-4\nclip = 1.0\n[device]\nplugin = \"reference\"\n"
       << "[communicator]\nplugin = \"local\"\n"
       << strategies(row, choice);
  return text.str();
}

/// The program of a row, compiled for a described device.
class CompiledRow {
 public:
  CompiledRow(const PublishedRow& row, const Choice& choice, host::PluginRegistry& plugins,
              const host::DeviceDescription& device)
      : setup_(host::prepare(host::parse_configuration(configuration(row, choice), row.name + ".toml"), plugins)) {
    device_ = host::described_device(device.name, device.memory_bytes, *setup_.ops);
    host::CompileRequest request = setup_.request(GraphMode::training, setup_.sizes_without_data());
    request.device = device_.get();
    compiled_ = setup_.compile(request);
  }

  [[nodiscard]] const host::Compiled& compiled() const { return compiled_; }
  [[nodiscard]] const OpRegistry& ops() const { return *setup_.ops; }

 private:
  host::RunSetup setup_;
  std::unique_ptr<Device> device_;
  host::Compiled compiled_;
};

/// Forward and backward pass without the step's end.
double passes_seconds(const CompiledRow& row, const host::Cluster& cluster) {
  host::TimedPrograms timed = host::time_programs(row.compiled(), row.ops(), cluster);
  for (host::TimedProgram& program : timed.programs) {
    for (std::size_t task = 0; task < program.tasks.size(); ++task) {
      const Task::Kind kind = program.program->tasks[task].kind;
      if (kind != Task::Kind::prologue && kind != Task::Kind::epilogue) continue;
      for (host::InstructionTime& time : program.tasks[task]) time.seconds = 0;
    }
  }
  return host::simulate(timed.programs, row.compiled().class_of_rank, 0, {.pool = timed.pool}).seconds;
}

/// The share of the peak in large products with which `seconds` gives the measured time.
double fitted_share(host::Cluster& cluster, double measured, const std::function<double()>& seconds) {
  double low = 0.3;
  double high = 1.2;
  for (int i = 0; i < 20; ++i) {
    double& share = cluster.groups.front().device.product_share;
    share = (low + high) / 2;
    (seconds() > measured ? low : high) = share;
  }
  return (low + high) / 2;
}

/// The share of the A100's peak with which one layer of the 22B model takes the 19.6 ms of Korthikanti's table 4: a
/// model of two layers less one of one layer.
double calibrated_a100(host::PluginRegistry& plugins, const host::ClusterRequest& clusters) {
  host::Cluster cluster = dgx_a100(clusters);
  PublishedRow row{.table = "", .name = "22B layer"};
  row.heads = 64;
  row.embed = 6144;
  row.tensor = 8;
  row.batch = 4;
  const auto compiled = [&](int layers) {
    row.layers = layers;
    return CompiledRow(row, {4, 1}, plugins, cluster.groups.front().device);
  };
  const CompiledRow two = compiled(2);
  const CompiledRow one = compiled(1);
  return fitted_share(cluster, 19.6e-3, [&] { return passes_seconds(two, cluster) - passes_seconds(one, cluster); });
}

/// The share of the H100's peak with which the 177B model of Megatron-Core takes its time.
double calibrated_h100(host::PluginRegistry& plugins, const host::ClusterRequest& clusters) {
  const std::vector<PublishedRow> rows = h100_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [](const PublishedRow& each) { return each.name == "177B"; });
  host::Cluster cluster = host::load_cluster("dgx-h100", {row->ranks() / 8, clusters.published});
  const CompiledRow compiled(*row, {row->micro.front(), row->chunks.back()}, plugins, cluster.groups.front().device);
  return fitted_share(cluster, row->seconds,
                      [&] { return host::simulate_step(compiled.compiled(), compiled.ops(), cluster).seconds; });
}

/// Strata's step of a row, with the work that the row's software repeats in addition.
host::StepPrediction step_of(const PublishedRow& row, const Choice& choice, host::PluginRegistry& plugins,
                             const host::Cluster& cluster) {
  const host::DeviceDescription& device = cluster.groups.front().device;
  const CompiledRow compiled(row, choice, plugins, device);
  host::TimedPrograms timed = host::time_programs(compiled.compiled(), compiled.ops(), cluster);
  if (row.repeats_whole_layers && row.recompute == "full") {
    PublishedRow kept = row;
    kept.recompute = "none";
    const CompiledRow without(kept, choice, plugins, device);
    repeat_layers_whole(timed, host::time_programs(without.compiled(), without.ops(), cluster), row.layers);
  }
  return host::simulate_step(compiled.compiled(), timed, compiled.ops(), cluster);
}

struct Predicted {
  PublishedRow row;
  Choice choice;
  host::StepPrediction step;

  [[nodiscard]] double ratio() const { return step.seconds / row.seconds; }
};

/// The fastest of the choices that fit the memory, or the smallest one if none does.
std::optional<Predicted> predict(const PublishedRow& row, host::PluginRegistry& plugins, const host::Cluster& cluster) {
  std::optional<Predicted> best;
  for (const int micro : row.micro) {
    if (row.batch % (row.data * micro) != 0) continue;
    for (const int chunks : row.chunks) {
      if (chunks > 1 && row.batch / row.data / micro % row.pipeline != 0) continue;
      const host::StepPrediction step = step_of(row, {micro, chunks}, plugins, cluster);
      const bool fits = step.peak_bytes <= cluster.groups.front().device.memory_bytes;
      if (best && (!fits || best->step.seconds <= step.seconds)) continue;
      best = Predicted{row, {micro, chunks}, step};
      if (!fits) break;
    }
  }
  return best;
}

struct Errors {
  double mean_absolute = 0;
  double bias = 0;
};

Errors errors(const std::vector<Predicted>& rows, double factor) {
  Errors sum;
  for (const Predicted& each : rows) {
    const double error = 100 * (factor * each.ratio() - 1);
    sum.mean_absolute += std::abs(error) / static_cast<double>(rows.size());
    sum.bias += error / static_cast<double>(rows.size());
  }
  return sum;
}

/// The factor that its first, middle and last row ask for, on average.
double table_factor(const std::vector<Predicted>& rows) {
  double sum = 0;
  for (const std::size_t i : {std::size_t{0}, rows.size() / 2, rows.size() - 1}) sum -= std::log(rows[i].ratio()) / 3;
  return std::exp(sum);
}

/// Spearman's correlation of predicted and measured times.
double rank_correlation(const std::vector<Predicted>& rows) {
  const auto ranks = [&](auto value) {
    std::vector<double> result;
    for (const Predicted& each : rows) {
      result.push_back(static_cast<double>(
          std::count_if(rows.begin(), rows.end(), [&](const Predicted& other) { return value(other) < value(each); })));
    }
    return result;
  };
  const auto measured = ranks([](const Predicted& each) { return each.row.seconds; });
  const auto predicted = ranks([](const Predicted& each) { return each.step.seconds; });
  const auto n = static_cast<double>(rows.size());
  double squares = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) squares += std::pow(measured[i] - predicted[i], 2);
  return 1 - 6 * squares / (n * (n * n - 1));
}

void print_row(const Predicted& each, double seconds) {
  std::printf("%-20s %-16s %8.2f %8.2f %+6.1f%%  micro %d, chunks %d, %5.1f GB, bubble %4.1f%%, %s  (%.1f s)\n",
              each.row.table.c_str(), (each.row.name + (each.row.recompute == "selective" ? " sel" : "")).c_str(),
              each.row.seconds, each.step.seconds, 100 * (each.ratio() - 1), each.choice.micro, each.choice.chunks,
              static_cast<double>(each.step.peak_bytes) / 1e9, 100 * each.step.bubble, each.step.bound.c_str(),
              seconds);
  const host::TimeShares& shares = each.step.shares;
  if (std::getenv("VERBOSE") == nullptr) return;
  std::printf("    products %.2f attention %.2f memory %.2f launch %.2f exposed %.2f idle %.2f\n", shares.products,
              shares.attention, shares.memory, shares.launch, shares.exposed, shares.idle);
  for (const auto& [axes, exposed] : each.step.exposed_seconds) std::printf("    %s %.3f\n", axes.c_str(), exposed);
}

void print_table(const std::vector<Predicted>& rows) {
  if (rows.size() < 3) return;
  const double factor = table_factor(rows);
  const Errors plain = errors(rows, 1);
  const Errors fitted = errors(rows, factor);
  std::printf(
      "%s: %zu rows, mean absolute error %.1f%%, bias %+.1f%%, rank correlation %.2f; with the factor %.3f: %.1f%%\n\n",
      rows.front().row.table.c_str(), rows.size(), plain.mean_absolute, plain.bias, rank_correlation(rows), factor,
      fitted.mean_absolute);
}

std::vector<PublishedRow> matching(std::vector<PublishedRow> rows, const std::string& filter) {
  std::erase_if(
      rows, [&](const PublishedRow& row) { return (row.table + " " + row.name).find(filter) == std::string::npos; });
  return rows;
}

/// Predicts and prints rows, and their tables. \return those of the last table.
std::vector<Predicted> run(const std::vector<PublishedRow>& rows, host::PluginRegistry& plugins,
                           const std::function<host::Cluster(int)>& cluster_of) {
  std::vector<Predicted> table;
  for (const PublishedRow& row : rows) {
    if (!table.empty() && table.front().row.table != row.table) {
      print_table(table);
      table.clear();
    }
    const auto begin = Clock::now();
    const auto predicted = predict(row, plugins, cluster_of((row.ranks() + 7) / 8));
    if (!predicted) continue;
    print_row(*predicted, std::chrono::duration<double>(Clock::now() - begin).count());
    std::fflush(stdout);
    table.push_back(*predicted);
  }
  print_table(table);
  return table;
}

void predict_all(const std::string& plugins_folder, host::ClusterRequest clusters, const std::string& filter) {
  host::PluginRegistry plugins({plugins_folder});
  const double a100 = calibrated_a100(plugins, clusters);
  std::printf("share of the peak in large products: A100 %.3f (Korthikanti table 4, 19.6 ms)\n", a100);
  run(matching(a100_rows(), filter), plugins, [&](int nodes) {
    clusters.nodes = nodes;
    host::Cluster cluster = dgx_a100(clusters);
    cluster.groups.front().device.product_share = a100;
    return cluster;
  });
  run(matching(torchtitan_rows(), filter), plugins, [&](int nodes) {
    clusters.nodes = nodes;
    host::Cluster cluster = host::load_cluster("dgx-a100-80g", clusters);
    cluster.groups.front().device.product_share = a100;
    return cluster;
  });
  clusters.nodes = 1;
  std::vector<Predicted> titans;
  for (const bool has_nvlink : {true, false}) {
    host::Cluster cluster = host::load_cluster(has_nvlink ? "2x-titan-rtx-nvlink" : "2x-titan-rtx-pcie", clusters);
    cluster.groups.front().device.fused_attention = false;
    for (const Predicted& each : run(matching(titan_rows(has_nvlink), filter), plugins, [&](int) { return cluster; })) {
      titans.push_back(each);
    }
  }
  print_table(titans);
  const std::vector<PublishedRow> megatron = matching(h100_rows(), filter);
  const std::vector<PublishedRow> llama = matching(llama3_rows(), filter);
  const std::vector<PublishedRow> torchtitan = matching(torchtitan_h100_rows(), filter);
  if (megatron.empty() && llama.empty() && torchtitan.empty()) return;
  const double h100 = calibrated_h100(plugins, clusters);
  std::printf("share of the peak in large products: H100 %.3f (Megatron-Core, 177B)\n", h100);
  const auto dgx_h100 = [&](int nodes) {
    clusters.nodes = nodes;
    host::Cluster cluster = host::load_cluster("dgx-h100", clusters);
    cluster.groups.front().device.product_share = h100;
    return cluster;
  };
  run(megatron, plugins, dgx_h100);
  run(llama, plugins, dgx_h100);
  run(torchtitan, plugins, [&](int nodes) {
    host::Cluster cluster = dgx_h100(nodes);
    cluster.groups.front().device.memory_bytes = 96'000'000'000;
    cluster.groups.front().device.memory_bandwidth = 2.4e12;
    return cluster;
  });
}

}  // namespace
}  // namespace strata::bench

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: published_steps PLUGINS CLUSTERS [FILTER]\n";
    return 2;
  }
  try {
    strata::bench::predict_all(arguments[1], {.nodes = 1, .published = arguments[2]}, count > 3 ? arguments[3] : "");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
