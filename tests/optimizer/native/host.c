/* A host in C: runs a model of one input x and one output y with a library of operators.

     host RUNTIME LIBRARY MODEL INPUT OUTPUT EXTENT...

   It knows of ONNX Runtime what its C API fixes: the order of the table of functions. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*slot)(void);
typedef struct { const slot *(*get_api)(uint32_t); const char *(*version)(void); } base;

enum {
  GET_ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_SESSION_OPTIONS = 10,
  SET_INTRA_OP_NUM_THREADS = 24, CREATE_TENSOR_WITH_DATA = 49,
  GET_TENSOR_MUTABLE_DATA = 51, CREATE_CPU_MEMORY_INFO = 69, REGISTER_CUSTOM_OPS_LIBRARY_V2 = 228
};
enum { VERSION = 17, WARNING = 2, FLOAT = 1, ARENA = 1, DEFAULT = 0, MOST = 8 };

static const slot *api;
#define CALL(at, types, ...) require(((void *(*)types)api[at])(__VA_ARGS__))

static void require(void *status) {
  if (!status) return;
  fprintf(stderr, "%s\n", ((const char *(*)(const void *))api[GET_ERROR_MESSAGE])(status));
  exit(1);
}

static FILE *opened(const char *path, const char *mode) {
  FILE *file = fopen(path, mode);
  if (!file) { perror(path); exit(1); }
  return file;
}

int main(int count, char **words) {
  if (count < 7 || count > 6 + MOST) return 2;
  void *runtime = dlopen(words[1], RTLD_NOW);
  if (!runtime) { fprintf(stderr, "%s\n", dlerror()); return 1; }
  const base *found = ((const base *(*)(void))dlsym(runtime, "OrtGetApiBase"))();
  api = found->get_api(VERSION);

  int64_t extents[MOST], cells = 1;
  size_t rank = 0;
  for (int at = 6; at < count; at++) cells *= extents[rank++] = atoll(words[at]);
  float *x = malloc(sizeof(float) * cells), *y;
  FILE *file = opened(words[4], "rb");
  if (fread(x, sizeof(float), cells, file) != (size_t)cells) return 1;
  fclose(file);

  void *environment, *options, *session, *memory, *in, *out = NULL;
  CALL(CREATE_ENV, (int, const char *, void **), WARNING, "host", &environment);
  CALL(CREATE_SESSION_OPTIONS, (void **), &options);
  CALL(SET_INTRA_OP_NUM_THREADS, (void *, int), options, 2);
  CALL(REGISTER_CUSTOM_OPS_LIBRARY_V2, (void *, const char *), options, words[2]);
  CALL(CREATE_SESSION, (void *, const char *, void *, void **), environment, words[3], options, &session);
  CALL(CREATE_CPU_MEMORY_INFO, (int, int, void **), ARENA, DEFAULT, &memory);
  CALL(CREATE_TENSOR_WITH_DATA, (void *, void *, size_t, const int64_t *, size_t, int, void **),
       memory, x, sizeof(float) * cells, extents, rank, FLOAT, &in);
  const char *given[] = {"x"}, *wanted[] = {"y"};
  const void *values[] = {in};
  CALL(RUN, (void *, void *, const char **, const void **, size_t, const char **, size_t, void **),
       session, NULL, given, values, 1, wanted, 1, &out);
  CALL(GET_TENSOR_MUTABLE_DATA, (void *, float **), out, &y);
  file = opened(words[5], "wb");
  if (fwrite(y, sizeof(float), cells, file) != (size_t)cells || fclose(file)) return 1;
  printf("%s\n", found->version());
  return 0;
}
