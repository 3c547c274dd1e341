# For CMake projects that build plugins: torchrl_pool_add_plugin(<target> <source>...)
# Wants the Python whose plugins they are: find_package(Python REQUIRED COMPONENTS Interpreter).

set(TORCHRL_POOL_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/..)

# The library <target>.so, compiled as torchrl_pool.build_plugin would.
function(torchrl_pool_add_plugin target)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import numpy, pathlib; print(pathlib.Path(numpy.__file__).parent / 'random' / 'lib')"
    OUTPUT_VARIABLE numpy_random OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  add_library(${target} MODULE ${ARGN})
  target_include_directories(${target} PRIVATE ${TORCHRL_POOL_INCLUDE})
  target_compile_features(${target} PRIVATE cxx_std_20)
  # No contraction of a * b + c: it would change results in the last bit.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  target_link_libraries(${target} PRIVATE ${numpy_random}/libnpyrandom.a)
  set_target_properties(${target} PROPERTIES
    PREFIX "" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
