/* Notes which blocks of C++ ran, in a file that all processes of a test map.

   Code compiled with -fsanitize-coverage=trace-pc calls the function below where each block begins. A
   block's place is its library's part of the file, and its address within the library divided by four. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PYTHON = 4 << 20, PART = 2 << 20, PARTS = 16, MOST = 64 };
/* As in lines.py. */
static const char* const libraries[] = {"_core",    "classic", "toy_text", "box2d", "mujoco", "dm_control",
                                        "robotics", "atari",   "minigrid", "mpe",   "sisl"};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static struct {
  uintptr_t begin, size, base;
  unsigned char* part;
} segments[MOST];
static volatile int count, lock;
static unsigned char* volatile map; /* MAP_FAILED where nobody asks. */

static int add_segment(struct dl_phdr_info* library, size_t size, void* address) {
  (void)size;
  for (int i = 0; i < library->dlpi_phnum; i++) {
    uintptr_t begin = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
    size_t bytes = library->dlpi_phdr[i].p_memsz;
    if (library->dlpi_phdr[i].p_type != PT_LOAD || (uintptr_t)address - begin >= bytes) continue;
    int part = 0;
    const char* name = strrchr(library->dlpi_name, '/');
    while (part < LIBRARIES && !(name && strstr(name, libraries[part]))) part++;
    if (count == MOST || part == LIBRARIES) return 1;
    segments[count].begin = begin;
    segments[count].size = bytes;
    segments[count].base = library->dlpi_addr;
    segments[count].part = map + PYTHON + (size_t)part * PART;
    __sync_synchronize(); /* Others read it without the lock. */
    count++;
    return 1;
  }
  return 0;
}

static void open_map(void) {
  const char* name = getenv("TRACED_LINES");
  int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
  map = file < 0 ? MAP_FAILED
                 : mmap(NULL, PYTHON + (size_t)PARTS * PART, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
}

void __sanitizer_cov_trace_pc(void) {
  uintptr_t address = (uintptr_t)__builtin_return_address(0);
  if (!map) open_map();
  if (map == MAP_FAILED) return;
  for (int attempt = 0; attempt < 2; attempt++) {
    for (int i = 0, n = count; i < n; i++) {
      if (address - segments[i].begin >= segments[i].size) continue;
      uintptr_t place = (address - segments[i].base) >> 2;
      if (place < PART) segments[i].part[place] = 1;
      return;
    }
    while (__sync_lock_test_and_set(&lock, 1)) {
    }
    dl_iterate_phdr(add_segment, (void*)address);
    __sync_lock_release(&lock);
  }
}
