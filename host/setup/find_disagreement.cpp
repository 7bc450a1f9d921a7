#include <algorithm>
#include <map>
#include <sstream>

#include "files/file_io.hpp"
#include "setup/rank_terms.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

constexpr char kAfterKey = '\x1f';
constexpr char kAfterValue = '\x1e';
constexpr std::size_t kMostNamed = 8;
constexpr std::size_t kLongestValue = 200;

std::string encode(const RankTerms& terms) {
  std::string text;
  for (const auto& [key, value] : terms) text += key + kAfterKey + value + kAfterValue;
  return text;
}

RankTerms decode(const std::string& text) {
  RankTerms terms;
  std::istringstream stream(text);
  for (std::string key; std::getline(stream, key, kAfterKey);) {
    std::string value;
    std::getline(stream, value, kAfterValue);
    terms.emplace_back(key, value);
  }
  return terms;
}

/// The digest as numbers that a double holds exactly, each with its negative. If the largest of a number and of its
/// negative over all ranks cancel, all ranks have the same number.
std::vector<double> digest(const std::string& text) {
  Checksum checksum;
  checksum.update(text.data(), text.size());
  const std::string hex = checksum.hex();
  std::vector<double> numbers;
  for (std::size_t at = 0; at < hex.size(); at += 8) {
    const auto number = static_cast<double>(std::stoul(hex.substr(at, 8), nullptr, 16));
    numbers.insert(numbers.end(), {number, -number});
  }
  return numbers;
}

bool cancel(const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    if (numbers[i] + numbers[i + 1] != 0) return false;
  }
  return true;
}

std::string shown(const std::map<std::string, std::string>& terms, const std::string& key) {
  const auto found = terms.find(key);
  if (found == terms.end()) return "nothing";
  const std::string& value = found->second;
  return value.size() <= kLongestValue ? value : value.substr(0, kLongestValue) + "...";
}

/// One text for each key whose values differ, in the order of `first`, then of `own`.
std::vector<std::string> compare(const RankTerms& first, const RankTerms& own, int rank) {
  const std::map<std::string, std::string> of_first(first.begin(), first.end());
  const std::map<std::string, std::string> of_own(own.begin(), own.end());
  RankTerms all = first;
  for (const auto& term : own) {
    if (!of_first.contains(term.first)) all.push_back(term);
  }
  std::vector<std::string> differences;
  for (const auto& [key, value] : all) {
    const auto mine = of_own.find(key);
    if (mine != of_own.end() && of_first.contains(key) && mine->second == value) continue;
    differences.push_back(key + ": rank " + std::to_string(rank) + " has " + shown(of_own, key) + ", rank 0 has " +
                          shown(of_first, key));
  }
  return differences;
}

std::string describe(std::vector<std::string> differences, int rank) {
  const std::size_t count = differences.size();
  differences.resize(std::min(count, kMostNamed));
  return "rank " + std::to_string(rank) + " is not of the same run as rank 0: " + join(differences, "; ") +
         (count > kMostNamed ? "; and " + std::to_string(count - kMostNamed) + " more" : "") +
         "; accepted: the same on all ranks";
}

}  // namespace

std::optional<std::string> find_disagreement(Agreement& agreement, const Communicator& communicator,
                                             const RankTerms& terms) {
  const int rank = communicator.rank();
  const int ranks = communicator.rank_count();
  if (ranks == 1) return std::nullopt;
  const std::string own = encode(terms);
  std::vector<double> largest = digest(own);
  agreement.largest(0, largest);
  if (cancel(largest)) return std::nullopt;
  const RankTerms first = decode(agreement.text(rank == 0 ? own : ""));
  const std::vector<std::string> differences = compare(first, terms, rank);
  const int reporter = ranks - static_cast<int>(agreement.largest(differences.empty() ? 0 : ranks - rank));
  return agreement.text(rank == reporter ? describe(differences, rank) : "");
}

}  // namespace strata::host
