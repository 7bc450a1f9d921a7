#include "rows.hpp"

namespace strata::bench {
namespace {

/// The FLOPs of a step as the papers count them: 72 B s l h² (1 + s/6h + V/12lh), and a third more with recomputation.
double published_flops(const PublishedRow& row) {
  const double s = row.context;
  const double h = row.embed;
  const double l = row.layers;
  if (row.recompute == "full") return 96 * row.batch * s * l * h * h * (1 + s / (6 * h) + row.vocab / (16 * l * h));
  return 72 * row.batch * s * l * h * h * (1 + s / (6 * h) + row.vocab / (12 * l * h));
}

double seconds_of(const PublishedRow& row, double teraflops) {
  return published_flops(row) / (teraflops * 1e12 * row.ranks());
}

/// One chunk a stage, the fewest that interleave, and one a layer.
std::vector<int> possible_chunks(const PublishedRow& row) {
  std::vector<int> chunks{1};
  const int most = row.layers / row.pipeline;
  for (int each = 2; row.pipeline > 1 && each <= most; ++each) {
    const bool divides = row.layers % (row.pipeline * each) == 0;
    if (divides && (chunks.size() == 1 || each == most)) chunks.push_back(each);
  }
  return chunks;
}

struct WeakScaling {
  const char* name;
  int heads, embed, layers, tensor, pipeline, ranks, batch;
  double teraflops;
};

PublishedRow base_row(const WeakScaling& from, const std::string& table) {
  PublishedRow row{.table = table, .name = from.name};
  row.layers = from.layers;
  row.heads = from.heads;
  row.embed = from.embed;
  row.tensor = from.tensor;
  row.pipeline = from.pipeline;
  row.data = from.ranks / from.tensor / from.pipeline;
  row.batch = from.batch;
  row.repeats_whole_layers = true;
  return row;
}

struct Llama {
  int layers, heads, kv_heads, embed, ffn, vocab;
};

constexpr Llama kLlama3_8b{32, 32, 8, 4096, 14336, 128256};
constexpr Llama kLlama3_70b{80, 64, 8, 8192, 28672, 128256};
constexpr Llama kLlama3_405b{126, 128, 8, 16384, 53248, 128256};
constexpr Llama kLlama2_13b{40, 40, 40, 5120, 13824, 32000};
constexpr Llama kLlama2_70b{80, 64, 8, 8192, 28672, 32000};

PublishedRow base_row(const Llama& model, const std::string& table, const std::string& name) {
  PublishedRow row{.table = table, .name = name};
  row.layers = model.layers;
  row.heads = model.heads;
  row.kv_heads = model.kv_heads;
  row.embed = model.embed;
  row.ffn = model.ffn;
  row.vocab = model.vocab;
  row.drops = false;
  return row;
}

/// A row of FSDP, over `data` times `tensor` ranks.
struct Fsdp {
  const char* name;
  Llama model;
  int context, data, tensor, local_batch;
  const char* recompute;
  double tokens_per_second;
};

std::vector<PublishedRow> fsdp_rows(const std::string& table, const std::vector<Fsdp>& measured) {
  std::vector<PublishedRow> rows;
  for (const Fsdp& each : measured) {
    PublishedRow row = base_row(each.model, table, each.name);
    row.context = each.context;
    row.data = each.data;
    row.tensor = each.tensor;
    row.sequence_parallel = each.tensor > 1;
    row.zero_stage = 3;
    row.batch = each.data * each.local_batch;
    row.micro = {each.local_batch};
    row.recompute = each.recompute;
    row.seconds = each.local_batch * each.context / each.tokens_per_second / each.tensor;
    rows.push_back(row);
  }
  return rows;
}

void add_sc21_scaling(std::vector<PublishedRow>& rows) {
  for (const WeakScaling& each : std::vector<WeakScaling>{{"1.7B", 24, 2304, 24, 1, 1, 32, 512, 137},
                                                          {"3.6B", 32, 3072, 30, 2, 1, 64, 512, 138},
                                                          {"7.5B", 32, 4096, 36, 4, 1, 128, 512, 142},
                                                          {"18.4B", 48, 6144, 40, 8, 1, 256, 1024, 135},
                                                          {"39.1B", 64, 8192, 48, 8, 2, 512, 1536, 138},
                                                          {"76.1B", 80, 10240, 60, 8, 4, 1024, 1792, 140},
                                                          {"145.6B", 96, 12288, 80, 8, 8, 1536, 2304, 148},
                                                          {"310.1B", 128, 16384, 96, 8, 16, 1920, 2160, 155},
                                                          {"529.6B", 128, 20480, 105, 8, 35, 2520, 2520, 163},
                                                          {"1008B", 160, 25600, 128, 8, 64, 3072, 3072, 163}}) {
    PublishedRow row = base_row(each, "SC21 table 1");
    row.recompute = "full";
    row.micro = row.pipeline > 1 ? std::vector{1, 2, 4} : std::vector{1, 2, 4, 8, 16};
    row.chunks = possible_chunks(row);
    row.seconds = seconds_of(row, each.teraflops);
    rows.push_back(row);
  }
}

void add_sc21_comparison(std::vector<PublishedRow>& rows) {
  for (const WeakScaling& each :
       std::vector<WeakScaling>{{"174.6B on 384", 96, 12288, 96, 8, 12, 384, 1536, 153},
                                {"174.6B on 768", 96, 12288, 96, 8, 12, 768, 1536, 149},
                                {"174.6B on 1536", 96, 12288, 96, 8, 12, 1536, 1536, 141},
                                {"529.6B on 560", 128, 20480, 105, 8, 35, 560, 2240, 171},
                                {"529.6B on 1120", 128, 20480, 105, 8, 35, 1120, 2240, 167},
                                {"529.6B on 2240", 128, 20480, 105, 8, 35, 2240, 2240, 159}}) {
    PublishedRow row = base_row(each, "SC21 table 2, PTD-P");
    row.recompute = "full";
    row.chunks = possible_chunks(row);
    row.seconds = seconds_of(row, each.teraflops);
    rows.push_back(row);
  }
}

/// ZeRO-3 of DeepSpeed without model parallelism, in the same table.
void add_sc21_zero(std::vector<PublishedRow>& rows) {
  struct Measured {
    WeakScaling model;
    int micro;
  };
  for (const Measured& each : std::vector<Measured>{{{"174.6B on 384", 96, 12288, 96, 1, 1, 384, 1536, 144}, 4},
                                                    {{"174.6B on 768", 96, 12288, 96, 1, 1, 768, 1536, 88}, 2},
                                                    {{"174.6B on 1536", 96, 12288, 96, 1, 1, 1536, 1536, 44}, 1},
                                                    {{"529.6B on 640", 128, 20480, 105, 1, 1, 640, 2560, 138}, 4},
                                                    {{"529.6B on 1120", 128, 20480, 105, 1, 1, 1120, 2240, 98}, 2},
                                                    {{"529.6B on 2240", 128, 20480, 105, 1, 1, 2240, 2240, 48}, 1}}) {
    PublishedRow row = base_row(each.model, "SC21 table 2, ZeRO-3");
    row.recompute = "full";
    row.zero_stage = 3;
    row.micro = {each.micro};
    row.seconds = seconds_of(row, each.model.teraflops);
    rows.push_back(row);
  }
}

void add_korthikanti(std::vector<PublishedRow>& rows) {
  struct Configuration {
    WeakScaling model;
    int micro, chunks;
    double full, selective;
  };
  for (const Configuration& each :
       std::vector<Configuration>{{{"22B", 64, 6144, 48, 8, 1, 8, 4, 0}, 4, 1, 1.42, 1.10},
                                  {{"175B", 96, 12288, 96, 8, 8, 64, 64, 0}, 1, 3, 18.13, 13.75},
                                  {{"530B", 128, 20480, 105, 8, 35, 280, 280, 0}, 1, 3, 49.05, 37.83},
                                  {{"1T", 160, 25600, 128, 8, 64, 512, 512, 0}, 1, 1, 94.42, 71.49}}) {
    PublishedRow row = base_row(each.model, "Korthikanti table 5");
    row.micro = {each.micro};
    row.chunks = {each.chunks};
    row.recompute = "full";
    row.seconds = each.full;
    rows.push_back(row);
    row.recompute = "selective";
    row.sequence_parallel = true;
    row.seconds = each.selective;
    rows.push_back(row);
    if (row.name != "530B") continue;
    row.name = "530B on 2240";
    row.data = 8;
    row.batch = 2240;
    row.seconds = 39.15;
    rows.push_back(row);
  }
}

}  // namespace

std::vector<PublishedRow> a100_rows() {
  std::vector<PublishedRow> rows;
  add_korthikanti(rows);
  add_sc21_comparison(rows);
  add_sc21_zero(rows);
  add_sc21_scaling(rows);
  return rows;
}

std::vector<PublishedRow> torchtitan_rows() {
  return fsdp_rows("torchtitan", {{"Llama 3 8B", kLlama3_8b, 8192, 64, 1, 1, "selective", 2973},
                                  {"Llama 3 70B", kLlama3_70b, 8192, 64, 1, 1, "full", 331},
                                  {"Llama 2 13B", kLlama2_13b, 4096, 64, 1, 2, "none", 2162},
                                  {"Llama 2 13B", kLlama2_13b, 4096, 64, 1, 2, "selective", 1904},
                                  {"Llama 2 70B, 1", kLlama2_70b, 4096, 64, 1, 1, "selective", 355},
                                  {"Llama 2 70B, 2", kLlama2_70b, 4096, 64, 1, 2, "full", 353}});
}

std::vector<PublishedRow> torchtitan_h100_rows() {
  return fsdp_rows("torchtitan, H100", {{"8B on 8", kLlama3_8b, 8192, 8, 1, 2, "selective", 6667},
                                        {"8B on 128", kLlama3_8b, 8192, 128, 1, 2, "selective", 6514},
                                        {"405B on 128", kLlama3_405b, 8192, 16, 8, 2, "full", 109}});
}

std::vector<PublishedRow> llama3_rows() {
  struct Measured {
    const char* name;
    int context_ranks, data, context, batch_per_replica;
    double teraflops;
  };
  std::vector<PublishedRow> rows;
  for (const Measured& each : std::vector<Measured>{{"405B on 8192", 1, 64, 8192, 32, 430},
                                                    {"405B on 16384", 1, 128, 8192, 16, 400},
                                                    {"405B, 128k", 16, 8, 131072, 16, 380}}) {
    PublishedRow row = base_row(kLlama3_405b, "Llama 3, H100", each.name);
    row.context = each.context;
    row.context_ranks = each.context_ranks;
    row.tensor = 8;
    row.sequence_parallel = true;
    row.pipeline = 16;
    row.data = each.data;
    row.batch = each.data * each.batch_per_replica;
    row.zero_stage = 1;
    row.chunks = {8};
    constexpr double kParameters = 405e9;
    const double attention = 6.0 * row.layers * row.embed * row.context;  // without masked keys
    const double tokens = static_cast<double>(row.batch) * row.context;
    row.seconds = tokens * (6 * kParameters + attention) / (each.teraflops * 1e12 * row.ranks());
    rows.push_back(row);
  }
  return rows;
}

std::vector<PublishedRow> titan_rows(bool has_nvlink) {
  constexpr double kSteps = 200;
  PublishedRow row{.table = "two TITAN RTX", .name = has_nvlink ? "DDP, NVLink" : "DDP, PCIe"};
  row.layers = 12;
  row.heads = 12;
  row.embed = 768;
  row.context = 1024;
  row.vocab = 50257;
  row.is_f32 = true;
  row.data = 2;
  row.batch = 8;
  row.micro = {4};
  row.overlaps_gradients = true;
  row.seconds = (has_nvlink ? 101.9 : 131.4) / kSteps;
  std::vector<PublishedRow> rows{row};
  if (!has_nvlink) return rows;
  row.name = "DP, NVLink";
  row.is_one_process = true;
  row.seconds = 110.6 / kSteps;
  rows.push_back(row);
  return rows;
}

std::vector<PublishedRow> h100_rows() {
  std::vector<PublishedRow> rows;
  for (const WeakScaling& each : std::vector<WeakScaling>{{"1.7B", 16, 2048, 24, 1, 1, 48, 192, 408.8},
                                                          {"7.1B", 32, 4096, 30, 2, 1, 96, 192, 465.9},
                                                          {"16B", 48, 6144, 32, 4, 1, 192, 192, 489.1},
                                                          {"32B", 56, 7168, 48, 8, 1, 384, 192, 459.6},
                                                          {"70B", 64, 8192, 84, 8, 2, 768, 384, 419.7},
                                                          {"119B", 80, 10240, 92, 8, 4, 1536, 768, 420.5},
                                                          {"177B", 96, 12288, 96, 8, 6, 2304, 1152, 432.8},
                                                          {"314B", 128, 16384, 96, 8, 8, 3072, 1536, 474.4},
                                                          {"462B", 144, 18432, 112, 8, 16, 6144, 3072, 459.9}}) {
    PublishedRow row = base_row(each, "Megatron-Core, H100");
    row.context = 4096;
    row.vocab = 131072;
    row.drops = false;
    row.sequence_parallel = each.tensor > 1;
    row.zero_stage = 1;
    row.overlaps_gradients = true;
    row.overlap_chunks = each.tensor > 1 ? 4 : 1;
    row.micro = row.pipeline > 1 ? std::vector{1, 2} : std::vector{1, 2, 4};
    row.chunks = possible_chunks(row);
    row.seconds = seconds_of(row, each.teraflops);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace strata::bench
