/// \file
/// Every plugin of this tree passes the kit that third parties get.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <random>

#include "build_paths.hpp"
#include "conformance/conformance.hpp"
#include "datasets/image_files.hpp"
#include "sanitized.hpp"
#include "train/temporary_folder.hpp"

namespace strata::host {
namespace {

const std::string kFolder = plugin_folder();

/// A text whose parts differ.
std::string varied_text() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i % 997) + " of " + std::to_string(i) + "\n";
  return text;
}

/// Tokens in 16 bits, below 16, that do not repeat.
std::string token_bytes() {
  std::string bytes;
  std::minstd_rand random;
  for (int i = 0; i < 4000; ++i) {
    bytes += static_cast<char>(random() % 16);
    bytes += '\0';
  }
  return bytes;
}

/// A class of two for each of the documents that end with token 1, in 16 bits.
std::string class_bytes(const std::string& tokens) {
  std::string bytes;
  for (std::size_t at = 0; at < tokens.size(); at += 2) {
    if (tokens[at] == 1) bytes += {static_cast<char>(at / 2 % 2), '\0'};
  }
  return bytes;
}

/// A [data] table of tokens of which some are masked. `token`: the option that names the token that stands for them.
std::string masked_tokens(const std::string& plugin, const std::string& token, const std::string& path) {
  return "data={plugin=\"" + plugin + "\", path=\"" + path + "\", " + token + "=15, validation=0.2}";
}

/// What the checks of a plugin need besides its file.
std::vector<std::string> overrides_of(const std::string& plugin, const test::TemporaryFolder& folder) {
  const auto file = [&](const char* name, const std::string& bytes) { return folder.file(name, bytes).string(); };
  if (plugin == "dataset_text") return {"data.path=" + file("text", varied_text())};
  if (plugin == "dataset_tokens") return {"data.path=" + file("tokens.bin", token_bytes()), "data.validation=0.2"};
  if (plugin == "dataset_masked") {
    return {"data.path=" + file("tokens.bin", token_bytes()), "data.validation=0.2", "data.mask_token=15"};
  }
  if (plugin == "dataset_spans") {
    return {
        "data.path=" + file("tokens.bin", token_bytes()), "data.validation=0.2", "data.sentinel=15",
        R"(model={plugin="t5", layers=1, heads=2, head_dim=4, embed=8, ffn=8, context=8, target_context=6, vocab=16})"};
  }
  if (plugin == "dataset_pairs") {
    return {
        "data.path=" + file("source.bin", token_bytes()), "data.target_path=" + file("target.bin", token_bytes()),
        "data.document_end=1", "data.validation=0.2",
        R"(model={plugin="t5", layers=1, heads=2, head_dim=4, embed=8, ffn=8, context=8, target_context=6, vocab=16})"};
  }
  if (plugin == "dataset_sentences") {
    return {"data.path=" + file("tokens.bin", token_bytes()),
            "data.labels=" + file("labels.bin", class_bytes(token_bytes())),
            "data.document_end=1",
            "data.first_token=2",
            "data.last_token=3",
            "data.validation=0.2",
            R"(model={plugin="bert", layers=1, heads=2, embed=8, ffn=8, context=8, classes=2, vocab=16})"};
  }
  // They read more than tokens and targets.
  if (plugin == "model_bert") return {masked_tokens("masked", "mask_token", file("tokens.bin", token_bytes()))};
  if (plugin == "model_t5") return {masked_tokens("spans", "sentinel", file("tokens.bin", token_bytes()))};
  if (plugin == "dataset_images" || plugin == "model_vit" || plugin == "model_resnet") {
    const std::string paths = "paths=[\"" + file("train.bin", testing::cifar10_file(0, 40)) + "\"]";
    const std::string validation_paths =
        "validation_paths=[\"" + file("test.bin", testing::cifar10_file(100, 20)) + "\"]";
    if (plugin == "dataset_images") return {"data." + paths, "data." + validation_paths};
    return {"data={plugin=\"images\", " + paths + ", " + validation_paths + "}"};
  }
  // They train matrices only.
  if (plugin == "optimizer_muon" || plugin == "optimizer_shampoo" || plugin == "optimizer_soap") {
    return {R"(optimizer.group=[{parameters=["wte.*", "wpe.*", "*ln_*", "*.bias"], plugin="adamw"}])"};
  }
  // A quantisation that is always on changes results in f64 too.
  if (plugin == "strategy_zero") return {"strategy.quantization=on"};
  if (plugin == "strategy_expert")
    return {R"(model={plugin="mixture", layers=2, heads=2, embed=8, context=8, vocab=16})", "strategy.size=2"};
  if (plugin == "strategy_layout") return {R"(strategy.rules=["h.0: heads, ffn", "*: batch"])", "strategy.size=2"};
  if (plugin == "strategy_localsgd") return {"strategy.quantization=on", "strategy.steps=2"};
  return {};
}

std::vector<std::string> installed_plugins() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().stem().string();
    // Of the emulator, the tests in tests/cuda check more; without a GPU there is nothing to check of the others.
    const bool needs_gpu = name.find("cuda") != std::string::npos || name.find("nccl") != std::string::npos;
    if (entry.path().extension() == ".so" && !needs_gpu) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A strategy around each other one: the pairs in the other order are those of the other strategy.
std::vector<std::string> checks_of(const std::string& plugin) {
  if (testing::kSanitized) return {"P05", "P07", "P08", "P09"};
  if (!plugin.starts_with("strategy_")) return {};
  return {"P01", "P05", "P06", "P07", "P08", "P09", "K01", "K02",
          "S01", "S02", "S03", "S04", "S05", "S06", "S08", "R01"};
}

class InstalledPlugins : public ::testing::TestWithParam<std::string> {};

TEST_P(InstalledPlugins, Conform) {
  const test::TemporaryFolder folder;
  const ConformanceReport report = check_conformance({.file = kFolder + "/" + GetParam() + ".so",
                                                      .places = {kFolder},
                                                      .only = checks_of(GetParam()),
                                                      .overrides = overrides_of(GetParam(), folder)});
  EXPECT_GT(report.count(Outcome::passed), 3U);
  for (const CheckResult& each : report.checks) {
    EXPECT_NE(each.outcome, Outcome::failed) << each.number << ": " << each.message << "\n  " << each.command;
    std::cout << outcome_name(each.outcome) << ' ' << each.number << ' ' << each.message << '\n';
  }
}

INSTANTIATE_TEST_SUITE_P(Tree, InstalledPlugins, ::testing::ValuesIn(installed_plugins()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace strata::host
