// survivors kill|stop: 150 lookups by every rank, of which the last rank does not survive the 50th.
//
// Every rank that does prints how its lookups went. Rows that come are compared; those that cannot
// must be errors, the first within the timeout and the rest at once.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/mpi/support.hpp"

namespace {

using namespace engram;  // NOLINT(google-build-using-namespace): a program

constexpr int kLookups = 150;
constexpr int kLastWords = 50;

struct Outcome {
  int right = 0;
  int wrong = 0;
  int errors = 0;
};

void leave(bool stop) { raise(stop ? SIGSTOP : SIGKILL); }

Outcome look_up(const Engine& engine, const Engine& reference, bool victim, bool stop) {
  Outcome outcome;
  std::mt19937_64 random(static_cast<std::uint64_t>(test::rank()));
  for (int i = 0; i < kLookups; ++i) {
    if (victim && i == kLastWords) leave(stop);
    const int table = i % 2;
    const auto rows = test::random_rows(
        random, reference.hasher().spec().layers()[static_cast<std::size_t>(table)].row_count, 64);
    Status status;
    Status reference_status;
    const auto found = test::raw_rows(engine, table, rows, status);
    const auto expected = test::raw_rows(reference, table, rows, reference_status);
    if (!status) {
      ++outcome.errors;
    } else {
      ++(found == expected && reference_status ? outcome.right : outcome.wrong);
    }
  }
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  const bool stop = argc > 1 && std::string(argv[1]) == "stop";
  const int victim = test::world() - 1;
  auto pid = static_cast<int>(getpid());
  MPI_Bcast(&pid, 1, MPI_INT, victim, MPI_COMM_WORLD);
  const test::SharedFolder folder;
  const std::string model = folder.path() + "/model";
  if (!test::make_small_model(model)) return 1;
  const auto reference = Engine::open(model, test::rows_of(Tier::mmap));
  const auto engine = Engine::open(
      model, test::rows_of(Tier::ram),
      sharded_stores(MPI_COMM_WORLD,
                     {Partition::strided, Exchange::packed, std::chrono::milliseconds(4000)}));
  if (!reference || !engine) return 1;
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = look_up(*engine, *reference, test::rank() == victim, stop);
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin);
  std::printf("rank %d: %d right, %d wrong, %d errors, %s\n", test::rank(), outcome.right,
              outcome.wrong, outcome.errors, seconds.count() < 30 ? "in time" : "late");
  std::fflush(stdout);
  if (stop) kill(pid, SIGKILL);
  if (test::rank() == 0) std::filesystem::remove_all(folder.path());
  _exit(0);  // nobody is left to finalise with
}
