// Subcommands and their options, by CLI11.
#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <utility>

namespace engram::cli {
namespace {

constexpr int kExitUsage = 2;

}  // namespace

Option Option::required(bool required) const {
  option_->required(required);
  return *this;
}

Option Option::one_of(const std::vector<std::string>& names) const {
  option_->check(CLI::IsMember(names));
  return *this;
}

template <typename T>
Option Option::range(T low, T high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

template Option Option::range(std::int32_t, std::int32_t) const;
template Option Option::range(std::int64_t, std::int64_t) const;
template Option Option::range(double, double) const;

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Command Command::add_subcommand(const std::string& name, const std::string& description) const {
  return {*app_->add_subcommand(name, description), *run_};
}

Command Command::add_group(const std::string& name, const std::string& description) const {
  return {*app_->add_option_group(name, description), *run_};
}

void Command::require_subcommand() const { app_->require_subcommand(1); }

void Command::require_option(bool one) const { app_->require_option(one ? 1 : 0, 1); }

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::runs(Run body) const {
  app_->callback([run = run_, body = std::move(body)] { *run = body; });
}

template <typename T>
Option Command::add_option(const std::string& name, T& value, const std::string& help) const {
  return Option(*app_->add_option(name, value, help));
}

template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::int32_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&) const;

template <>
Option Command::add_option(const std::string& name, std::vector<std::int64_t>& value,
                           const std::string& help) const {
  return Option(*app_->add_option(name, value, help)->delimiter(','));
}

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(*app_->add_flag(name, value, help));
}

Option Command::add_bytes(const std::string& name, std::uint64_t& value,
                          const std::string& help) const {
  return Option(*app_->add_option(name, value, help)->transform(CLI::AsSizeValue(false)));
}

Option Command::add_setter(const std::string& name, Setter set, const std::string& help,
                           const std::string& shown_default) const {
  // A check is what may refuse a value without an exception, so the check takes it.
  CLI::Option* option = app_->add_option_function<std::string>(
      name, [](const std::string&) {}, help);
  option->check(std::move(set));
  if (!shown_default.empty()) option->default_str(shown_default);
  return Option(*option);
}

Option Command::option(const std::string& name) const { return Option(*app_->get_option(name)); }

CommandLine::CommandLine(const std::string& description, const std::string& version)
    : app_(std::make_unique<CLI::App>(description)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() { return {*app_, run_}; }

int CommandLine::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : kExitUsage;
  }
  return 0;
}

}  // namespace engram::cli
