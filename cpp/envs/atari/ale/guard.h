// Every source of ALE is compiled with this in front. ALE ends the process where it cannot go on, and writes
// to stderr; inside a library it must do neither.
#ifndef TORCHRL_POOL_ENVS_ATARI_ALE_GUARD_H_
#define TORCHRL_POOL_ENVS_ATARI_ALE_GUARD_H_

// Before the macros, which must not touch them.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

// In std, because ALE says std::exit and std::cerr.
namespace std {
// Throws std::runtime_error with what this thread wrote to torchrl_pool_log before.
[[noreturn]] void torchrl_pool_exit(int status);
// Takes messages and prints nothing; keeps the last few hundred characters.
ostream& torchrl_pool_log();
}  // namespace std
using std::torchrl_pool_exit;

#define exit torchrl_pool_exit
#define cerr torchrl_pool_log()

#endif  // TORCHRL_POOL_ENVS_ATARI_ALE_GUARD_H_
