// A directory that is made beside its final name and only ever seen there complete.
#include "convert/staging.hpp"

#include <filesystem>

#include "base/error.hpp"

namespace engram {
namespace {

// Left on the file system beside what is written.
constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20;

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

StagedDirectory::StagedDirectory(std::string destination, os::FileLock lock, bool resumes)
    : destination_(std::move(destination)),
      partial_(destination_ + ".partial"),
      lock_(std::move(lock)),
      resumes_(resumes) {}

Result<StagedDirectory> StagedDirectory::begin(const std::string& destination, bool resume) {
  std::string target = destination;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  auto lock = os::FileLock::acquire(target + ".lock");
  if (!lock) {
    if (lock.error().code != Code::unavailable) return std::move(lock).error();
    return make_error(Code::unavailable, "{}: another job is writing it ({}.lock is held)", target,
                      target);
  }
  StagedDirectory staged(target, *std::move(lock), resume);
  if (os::path_exists(target) && !os::is_empty_directory(target)) {
    os::remove_file(target + ".lock");
    return make_error(Code::invalid_argument, "{}: exists; refusing to overwrite it", target);
  }
  if (resume) {
    if (os::is_directory(staged.partial_)) return staged;
    os::remove_file(target + ".lock");
    return make_error(Code::invalid_argument, "{}: nothing to resume: no {}", target,
                      staged.partial_);
  }
  os::remove_tree(staged.partial_);
  ENGRAM_TRY(os::make_directory(staged.partial_));
  return staged;
}

Status StagedDirectory::check_room(std::uint64_t bytes) const {
  const auto free = os::free_disk_bytes(partial_);
  if (!free) return free.error();
  std::uint64_t there = 0;
  const auto names = os::list_files(partial_);
  if (!names) return names.error();
  for (const std::string& name : *names) there += os::disk_usage_bytes(path(name));
  const std::uint64_t needed = bytes > there ? bytes - there : 0;
  if (needed + kSpareBytes <= *free) return {};
  return make_error(Code::io,
                    "{}: needs {} bytes more and {} to spare, its file system has {} free",
                    destination_, needed, kSpareBytes, *free);
}

Status StagedDirectory::publish() {
  ENGRAM_TRY(os::sync_directory(partial_));
  ENGRAM_TRY(os::rename_directory(partial_, destination_));
  ENGRAM_TRY(os::sync_directory(parent_of(destination_)));
  // Whoever waited for this inode finds the destination there and refuses.
  os::remove_file(destination_ + ".lock");
  lock_.reset();
  return {};
}

}  // namespace engram
