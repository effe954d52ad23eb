// How subcommands of `engram` declare what they take, and what main knows of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engram/status.hpp"

// CLI11, whose header takes longer to compile than any subcommand: command.cpp alone includes it.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace engram::cli {

// Set by the subcommand that was chosen; main runs it and prints its error.
using Run = std::function<Status()>;

// A handle of one option.
class Option {
 public:
  Option required(bool required = true) const;
  // Only one of these.
  Option one_of(const std::vector<std::string>& names) const;
  // Only numbers from `low` to `high`. T: std::int32_t, std::int64_t, double.
  template <typename T>
  Option range(T low, T high) const;
  // Shows what the variable holds by now as the default.
  Option show_default() const;
  Option excludes(Option other) const;

 private:
  friend class Command;
  explicit Option(CLI::Option& option) : option_(&option) {}
  CLI::Option* option_;
};

// A handle of one command, or of a group of its options. Variables given to it must outlive the
// parsing: keep them in what the body passed to `runs` owns.
class Command {
 public:
  Command(CLI::App& app, Run& run) : app_(&app), run_(&run) {}

  Command add_subcommand(const std::string& name, const std::string& description) const;
  Command add_group(const std::string& name, const std::string& description) const;
  void require_subcommand() const;
  // Of the group's options one at most, and `one`: not none.
  void require_option(bool one) const;
  void footer(const std::string& text) const;
  void runs(Run body) const;

  // T: std::string, double, std::int32_t, std::int64_t, std::uint64_t; std::vector of std::string
  // (several values), or of std::int64_t (separated by commas).
  template <typename T>
  Option add_option(const std::string& name, T& value, const std::string& help = {}) const;
  // "--name" sets; "!--name" clears.
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;
  // A count of bytes, with K, M and G for powers of 1024.
  Option add_bytes(const std::string& name, std::uint64_t& value, const std::string& help) const;
  // `set` takes the text, or says what was expected.
  using Setter = std::function<std::string(const std::string& text)>;
  Option add_setter(const std::string& name, Setter set, const std::string& help,
                    const std::string& shown_default = {}) const;
  // A value by its name; the present one is the default.
  template <typename Value>
  Option add_choice(const std::string& name, Value& value,
                    const std::map<std::string, Value>& values, const std::string& help) const;
  // One that was added before.
  Option option(const std::string& name) const;

 private:
  CLI::App* app_;
  Run* run_;
};

template <typename Value>
Option Command::add_choice(const std::string& name, Value& value,
                           const std::map<std::string, Value>& values,
                           const std::string& help) const {
  std::string names;
  std::string shown_default;
  for (const auto& [text, meaning] : values) {
    names += (names.empty() ? "" : ", ") + text;
    if (meaning == value) shown_default = text;
  }
  const auto set = [&value, &values, names](const std::string& text) -> std::string {
    const auto found = values.find(text);
    if (found == values.end()) return "expected one of " + names + ", found '" + text + "'";
    value = found->second;
    return {};
  };
  return add_setter(name, set, help, shown_default);
}

// The program's own command: `root` takes the subcommands.
class CommandLine {
 public:
  explicit CommandLine(const std::string& description, const std::string& version);
  ~CommandLine();
  Command root();
  // 0 where a subcommand was chosen (then `chosen` is its body) or help was asked for, which is
  // printed; otherwise the mistake is, and 2 is returned.
  int parse(int argc, const char* const* argv);
  const Run& chosen() const { return run_; }

 private:
  std::unique_ptr<CLI::App> app_;
  Run run_;
};

void add_inspect(const Command& app);
void add_hash(const Command& app);
void add_lookup(const Command& app);
void add_apply(const Command& app);
void add_token_map(const Command& app);
void add_make_model(const Command& app);
void add_demo(const Command& app);
void add_selftest(const Command& app);
void add_convert(const Command& app);
void add_shard(const Command& app);
void add_rotate(const Command& app);
void add_compare(const Command& app);
void add_check(const Command& app);
void add_bench(const Command& app);
void add_profile(const Command& app);
void add_load(const Command& app);    // and unload
void add_verify(const Command& app);  // and manifest

// An Error of invalid_argument with a formatted sentence, for mistakes only the command line sees.
Error usage_error(std::string message);

}  // namespace engram::cli
