// Instead of ALE's own file of that name. Averaging the colours of two frames is a setting that no task
// turns on, but ALE builds its tables, of half a megabyte and tens of milliseconds, whenever it loads a ROM.
#include "ale/environment/phosphor_blend.hpp"

#include <stdexcept>

namespace ale {

PhosphorBlend::PhosphorBlend(stella::OSystem*) {}

void PhosphorBlend::process(ALEScreen&) { throw std::logic_error("color_averaging is not built in"); }

}  // namespace ale
