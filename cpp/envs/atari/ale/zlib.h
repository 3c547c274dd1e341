// What ALE takes from zlib, without zlib: it reads ROMs, which ale-py ships uncompressed, through gzopen. The
// two functions of its PNG export, which nothing here calls, report a failure.
#ifndef TORCHRL_POOL_ENVS_ATARI_ALE_ZLIB_H_
#define TORCHRL_POOL_ENVS_ATARI_ALE_ZLIB_H_

#include <cstdio>

#define Z_OK 0

using gzFile = std::FILE*;
using uLongf = unsigned long;

inline gzFile gzopen(const char* path, const char* mode) { return std::fopen(path, mode); }
inline int gzread(gzFile file, void* to, unsigned size) {
  return static_cast<int>(std::fread(to, 1, size, file));
}
inline int gzclose(gzFile file) { return std::fclose(file); }

inline unsigned long crc32(unsigned long crc, const unsigned char*, unsigned) { return crc; }
inline int compress(unsigned char*, uLongf*, const unsigned char*, unsigned long) { return Z_OK - 1; }

#endif  // TORCHRL_POOL_ENVS_ATARI_ALE_ZLIB_H_
