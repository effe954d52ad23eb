// Runs a check once for every instruction set that this machine can execute.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <functional>
#include <string>

namespace engram::test {

inline void for_each_target(const std::function<void()>& check) {
  const auto all = hwy::SupportedTargets();
  for (auto rest = all; rest != 0; rest &= rest - 1) {
    const auto target = rest & -rest;
    SCOPED_TRACE(std::string("target ") + hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace engram::test
