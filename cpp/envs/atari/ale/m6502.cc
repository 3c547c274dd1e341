// ALE's processor, with its accesses to the bus inlined: half of all time is spent in this file, and
// compilers judge the many places that read memory too large. Instead of ALE's own file of that name.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ale/emucore/Deserializer.hxx"
#include "ale/emucore/Random.hxx"
#include "ale/emucore/Serializer.hxx"

#define inline inline __attribute__((always_inline))
#include "ale/emucore/M6502Low.cxx"
