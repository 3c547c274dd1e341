/* The plugin ABI: the only thing a pool and an environment family share.
 *
 * Plain C: a plugin built with another compiler or C++ library loads, and no exception crosses.
 * C++ authors include env.h, which wraps all of this; nobody needs to fill these structs by hand.
 *
 *   plugin ──> task (an id with options) ──open──> config (parsed options + shared, read-only data)
 *                                                    └──create──> env (one simulator instance)
 *
 * Who calls what, and when:
 *   - The pool never calls two functions of one env at the same time, but may call them from
 *     different threads over its life. Different envs run concurrently.
 *   - `open`, `close` and `specs` are never called concurrently for one config; `create` may be,
 *     and all its envs read the config concurrently: it must be immutable after `open`.
 *   - A config outlives its envs; a plugin is never unloaded.
 *   - An env is seeded before its first reset, and reset before its first step.
 *
 * Functions that can fail return a trp_status and describe the failure in `error`. After a failure
 * of seed, reset or step the env is only destroyed or reset, unless step says TRP_UNCHANGED.
 */
#ifndef TORCHRL_POOL_ABI_H_
#define TORCHRL_POOL_ABI_H_

#include <stddef.h>
#include <stdint.h>

/* Raised when anything below changes: a plugin is loaded by a host of the same version alone. */
#define TRP_ABI_VERSION 4
#define TRP_ENTRY_POINT "torchrl_pool_plugin"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trp_status {
  TRP_OK = 0,
  TRP_RUNTIME_ERROR = 1,
  TRP_INVALID_ARGUMENT = 2,
  TRP_FILE_NOT_FOUND = 3,
  TRP_UNSUPPORTED = 4,
  TRP_UNCHANGED = 5, /* of step: it failed, and the env is as it was before */
  /* of reset: it succeeded, and the episode is over already */
  TRP_TERMINATED = 6,
  TRP_TRUNCATED = 7,
  TRP_TERMINATED_AND_TRUNCATED = 8,
} trp_status;

typedef struct trp_error {
  char message[1024]; /* NUL-terminated UTF-8 */
} trp_error;

typedef enum trp_dtype {
  TRP_BOOL = 0,
  TRP_UINT8 = 1,
  TRP_INT8 = 2,
  TRP_INT16 = 3,
  TRP_INT32 = 4,
  TRP_INT64 = 5,
  TRP_FLOAT32 = 6,
  TRP_FLOAT64 = 7,
  TRP_FLOAT16 = 8, /* IEEE 754's binary16 */
  TRP_UINT16 = 9,
  TRP_UINT32 = 10,
  TRP_UINT64 = 11,
} trp_dtype;

typedef enum trp_role {
  TRP_ACTION = 0,      /* read by step */
  TRP_OBSERVATION = 1, /* written by reset and by step */
  TRP_INFO = 2,        /* like an observation, but only where somebody asked: else a NULL pointer */
  TRP_REWARD = 3,      /* written by step only */
  TRP_DONE = 4,        /* further done flags (per agent, say), written by reset and step; bool */
} trp_role;

/* One tensor of an env, without the batch dimension. */
typedef struct trp_spec {
  const char* name; /* "/" separates nested levels */
  const char* help;
  int32_t role;         /* trp_role */
  int32_t dtype;        /* trp_dtype */
  int32_t ndim;         /* 0: a scalar */
  const int64_t* shape; /* [ndim] */
  /* NULL: unbounded; else one value per element. Actions are finite, but may lie outside: clip them. Those of
   * int8 from 0 to 1 are choices, which the host checks. */
  const double* low;
  const double* high;
  /* Numbers of categories of a discrete entry (then low and high are NULL): one number and ndim 0
   * for a single choice, or as many as the entry has elements. */
  int32_t num_categories; /* 0: not discrete */
  const int64_t* categories;
} trp_spec;

typedef enum trp_type {
  TRP_TYPE_BOOL = 0,
  TRP_TYPE_INT = 1,
  TRP_TYPE_FLOAT = 2,
  TRP_TYPE_STRING = 3,
  TRP_TYPE_INT_LIST = 4,
  TRP_TYPE_FLOAT_LIST = 5,
  TRP_TYPE_INT_OR_STRING = 6, /* by number or by name */
  TRP_TYPE_FLOAT_LIST_MAP = 7,
  TRP_TYPE_STRING_LIST = 8,
} trp_type;

/* One entry of a map, or of a list of strings, which has keys only. */
typedef struct trp_entry {
  const char* key;
  int64_t count; /* numbers */
  const double* numbers;
} trp_entry;

typedef struct trp_value {
  int32_t type;             /* trp_type */
  int32_t is_none;          /* 1: no value; only for nullable options */
  int64_t count;            /* elements of a list or of a map, else 1 */
  const int64_t* ints;      /* bool (0 or 1), int, int list; int or string: NULL where it is a string */
  const double* floats;     /* float, float list */
  const char* string;       /* string; int or string: NULL where it is an int */
  const trp_entry* entries; /* map, ordered by key; string list */
} trp_value;

typedef struct trp_option {
  const char* name;
  const char* help;
  int32_t nullable; /* 1: None is a value */
  trp_value default_value;
  int64_t num_choices; /* 0: anything of the type */
  const trp_value* choices;
  double minimum; /* of a number or of each element of a list; -inf: none */
  double maximum;
  int64_t fixed_count; /* of a list; -1: any */
} trp_option;

typedef struct trp_config trp_config; /* defined by the plugin */
typedef struct trp_env trp_env;       /* defined by the plugin */
typedef struct trp_reset trp_reset;   /* defined by the plugin: what was chosen for one reset */

typedef struct trp_step_result {
  uint8_t terminated;
  uint8_t truncated; /* by the env itself; the time limit is the pool's business */
  double reward;     /* before it was rounded; left as it is, NaN, where there is nothing to tell */
} trp_step_result;

typedef struct trp_task {
  const char* id;
  const char* description;
  int64_t max_episode_steps; /* 0: no limit */
  double reward_threshold;   /* NaN: none */
  const trp_option* options;
  int64_t num_options;
  const void* user_data; /* for the plugin's own use */

  /* required */
  int (*open)(const struct trp_task* task, const trp_value* values, trp_config** config,
              trp_error* error); /* values: one per option, in order */
  void (*close)(trp_config* config);
  int64_t (*specs)(const trp_config* config, const trp_spec** specs); /* valid until close */
  int (*create)(const trp_config* config, trp_env** env, trp_error* error);
  void (*destroy)(trp_env* env);
  /* words: entropy as NumPy's SeedSequence takes it, least significant first, at least one */
  int (*seed)(trp_env* env, const uint32_t* words, size_t num_words, trp_error* error);
  /* outputs: one pointer per spec that is not an action, in the order of `specs`;
   * actions: one per action spec. reset leaves reward entries alone. */
  int (*reset)(trp_env* env, void* const* outputs, trp_error* error);
  int (*step)(trp_env* env, const void* const* actions, void* const* outputs, trp_step_result* result,
              trp_error* error);

  /* optional: NULL where a task has none */
  int (*render_size)(const trp_config* config, int64_t* height, int64_t* width, trp_error* error);
  int (*render)(trp_env* env, uint8_t* rgb, trp_error* error); /* [height, width, 3], after a reset */
  /* save: *size is the capacity of `bytes` before and the size needed after the call; nothing is
   * written when the capacity is too small. load refuses bytes that save did not write, and then
   * leaves the env as it was; TRP_UNSUPPORTED: it could not, so the bytes were not looked at. */
  int (*save)(trp_env* env, uint8_t* bytes, size_t* size, trp_error* error);
  int (*load)(trp_env* env, const uint8_t* bytes, size_t size, trp_error* error);

  /* What a caller may choose for one reset: all of these, or none. */
  const trp_option* reset_options;
  int64_t num_reset_options;
  /* values: one pointer per reset option, in order; NULL where the caller chose none. Refuses what does
   * not fit, before any env moves. Many envs may read one trp_reset at the same time. */
  int (*open_reset)(const trp_config* config, const trp_value* const* values, trp_reset** reset,
                    trp_error* error);
  void (*close_reset)(trp_reset* reset);
  int (*reset_with)(trp_env* env, const trp_reset* reset, void* const* outputs, trp_error* error);
} trp_task;

/* A Python package whose files tasks read. The host looks it up, without importing it. */
typedef struct trp_package {
  const char* name;    /* as it is imported */
  const char* version; /* the only one that will do; NULL: any */
} trp_package;

typedef struct trp_plugin {
  uint32_t abi_version; /* TRP_ABI_VERSION; first, so that any host can read it */
  const char* family;
  const char* version;
  int64_t num_tasks;
  const trp_task* const* tasks;

  int64_t num_packages;
  const trp_package* packages;
  /* Tells the folder of a package before a task is opened, "" where it is not installed; NULL where there
   * are no packages. */
  void (*locate)(int64_t package, const char* folder);
} trp_plugin;

/* Every plugin exports this under the name TRP_ENTRY_POINT. NULL tells that it could not start, with
 * the reason in `error`. What it returns lives as long as the process. */
typedef const trp_plugin* (*trp_entry_point)(trp_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TORCHRL_POOL_ABI_H_ */
