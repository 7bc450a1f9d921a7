#pragma once

#include "strata/data_file.hpp"
#include "token_file.hpp"

namespace datasets {

/// Reads the `.idx` file of Megatron-LM's indexed dataset, and says where the tokens of its `.bin` file are:
///   9 bytes   "MMIDIDX\0\0"
///   u64       version, 1
///   u8        type of the tokens: 1 uint8, 3 int16, 4 int32, 8 uint16
///   u64, u64  number of sequences n, and of entries of the document table m
///   i32[n]    tokens of each sequence
///   i64[n]    first byte of each sequence
///   i64[m]    first sequence of each document; the last entry is n
/// The sequences must lie in the `.bin` file one after another, as Megatron-LM writes them. \throws ConfigurationError
/// with the file, what was found and what is accepted.
[[nodiscard]] TokenLayout indexed_layout(const strata::DataFile& index, const strata::DataFile& tokens);

}  // namespace datasets
