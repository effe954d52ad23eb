// What the programs under mpirun share: models, ranks, engines, batches.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engram/convert.hpp"
#include "engram/engine.hpp"
#include "engram/mpi.hpp"

namespace engram::test {

inline int rank() {
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  return value;
}

inline int world() {
  int value = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  return value;
}

// A folder that all ranks see, made by rank 0 and removed at the end.
class SharedFolder {
 public:
  SharedFolder() {
    char name[64] = "/tmp/engram-mpi-XXXXXX";
    if (rank() == 0 && mkdtemp(name) == nullptr) std::abort();
    MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = name;
  }
  ~SharedFolder() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs on rank 0; the others wait, and all know whether it worked.
template <typename Body>
bool on_first_rank(Body body) {
  int worked = 1;
  if (rank() == 0) worked = body() ? 1 : 0;
  MPI_Bcast(&worked, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return worked != 0;
}

inline bool make_small_model(const std::string& path, std::int64_t vocab = 1000) {
  return on_first_rank([&] {
    ModelRecipe recipe;
    recipe.tokenizer_path = ENGRAM_DEMO_TOKENIZER;
    recipe.engram_vocab_size = vocab;
    return make_model(path, recipe).has_value();
  });
}

inline EngineOptions rows_of(Tier tier) {
  EngineOptions options;
  options.load = Load::rows;
  options.store.tier = tier;
  return options;
}

inline std::vector<std::byte> raw_rows(const Engine& engine, int table,
                                       const std::vector<RowId>& rows, Status& status) {
  const std::size_t bytes = engine.memory()->output_bytes(table, OutputFormat::raw);
  std::vector<std::byte> out(rows.size() * bytes);
  LookupWorkspace workspace;
  status = engine.memory()->lookup_rows(table, rows, {OutputFormat::raw, out, 0}, workspace);
  return out;
}

inline std::vector<RowId> random_rows(std::mt19937_64& random, std::uint64_t row_count,
                                      std::size_t count) {
  std::vector<RowId> rows(count);
  for (RowId& row : rows) row = static_cast<RowId>(random() % row_count);
  return rows;
}

}  // namespace engram::test
