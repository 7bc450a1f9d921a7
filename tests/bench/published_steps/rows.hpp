#pragma once

#include <optional>
#include <string>
#include <vector>

namespace strata::bench {

/// A measured step of a published table.
struct PublishedRow {
  std::string table;
  std::string name;
  // The model: a GPT-2 of this size.
  int layers = 0;
  int heads = 0;
  int embed = 0;
  int context = 2048;
  int vocab = 51200;
  bool drops = true;
  /// Set for a Llama instead: its heads of keys and values, and the width of its feed-forward block.
  int kv_heads = 0;
  int ffn = 0;
  bool is_f32 = false;
  // The stack.
  int tensor = 1;
  bool sequence_parallel = false;
  /// Ranks that share the sequences, and gather keys and values.
  int context_ranks = 1;
  int pipeline = 1;
  int data = 1;
  int batch = 1;
  std::string recompute = "none";
  /// Full recomputation repeats every layer whole, with its last product and its collectives.
  bool repeats_whole_layers = false;
  int zero_stage = 0;
  bool overlaps_gradients = false;
  /// Data parallelism of one process with several devices, which sends all parameters and gradients in every step.
  bool is_one_process = false;
  /// Pieces in which tensor-parallel collectives overlap with products.
  int overlap_chunks = 1;
  /// Micro-batches and chunks a stage that the source may have had. It states them if there is one.
  std::vector<int> micro = {1};
  std::vector<int> chunks = {1};
  // The measurement.
  double seconds = 0;

  [[nodiscard]] int ranks() const { return tensor * context_ranks * pipeline * data; }
};

/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021 (arXiv
/// 2104.04473), tables 1 and 2, and Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models", 2022 (arXiv 2205.05198), table 5: DGX A100 of 80 GB.
[[nodiscard]] std::vector<PublishedRow> a100_rows();
/// torchtitan's benchmarks of April 2024: FSDP on 64 A100 of 80 GB in eight nodes, bf16. Those with recomputation of
/// every second layer, which no policy does, are left out.
[[nodiscard]] std::vector<PublishedRow> torchtitan_rows();
/// torchtitan's benchmarks of December 2024: compiled programs on H100 of 96 GB, whose memory is slower, and which are
/// limited to 500 W. Those in 8-bit numbers are left out.
[[nodiscard]] std::vector<PublishedRow> torchtitan_h100_rows();
/// "The Llama 3 Herd of Models", 2024 (arXiv 2407.21783), table 4: 405B on H100. The number of chunks is not published:
/// here a chunk has one layer. Gradients are reduced once a step, though their sum is sharded in the source, so memory
/// is not that of the source. The last row has 8 replicas: those that are printed do not give its ranks.
[[nodiscard]] std::vector<PublishedRow> llama3_rows();
/// 200 steps of GPT-2 124M on two TITAN RTX in f32 with eager PyTorch 1.8, from a guide to parallelism of Hugging
/// Face's Transformers. `has_nvlink`: with the bridge between the two.
[[nodiscard]] std::vector<PublishedRow> titan_rows(bool has_nvlink);
/// NVIDIA, README of Megatron-Core: H100, weak scaling, bf16.
[[nodiscard]] std::vector<PublishedRow> h100_rows();

}  // namespace strata::bench
