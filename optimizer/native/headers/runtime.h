/* ONNX Runtime's C API, as far as kernels need it: a table of functions whose order only grows, and
   the description of an operator, whose fields are appended to. Version 17 of both. */

#define API_VERSION 17

typedef void (*api_slot)(void);
typedef const api_slot *api_table;
typedef struct { api_table (*GetApi)(uint32_t version); const char *(*GetVersionString)(void); } api_base;

enum {
  CREATE_STATUS = 0, CREATE_DOMAIN = 26, DOMAIN_ADD = 27, ADD_DOMAIN = 28, TENSOR_DATA = 51,
  DIMENSIONS_COUNT = 61, DIMENSIONS = 62, TENSOR_SHAPE = 65, CONTEXT_INPUT = 90,
  CONTEXT_OUTPUT = 91, RELEASE_SHAPE = 99, PARALLEL_FOR = 274
};
enum { STATUS_FAIL = 1, STATUS_INVALID_ARGUMENT = 2 };
enum {
  ELEMENT_FLOAT = 1, ELEMENT_UINT8 = 2, ELEMENT_INT8 = 3, ELEMENT_UINT16 = 4, ELEMENT_INT16 = 5, ELEMENT_INT32 = 6,
  ELEMENT_INT64 = 7,
  ELEMENT_BOOL = 9,
  ELEMENT_FLOAT16 = 10, ELEMENT_BFLOAT16 = 16
};

/* All objects of the runtime are opaque; a status is NULL where all is well. */
#define STATUS void *
#define API(table, slot, ...) ((STATUS (*)(__VA_ARGS__))(table)[slot])

typedef struct operator_description {
  uint32_t version;
  void *(*CreateKernel)(const struct operator_description *, api_table, const void *);
  const char *(*GetName)(const struct operator_description *);
  const char *(*GetExecutionProviderType)(const struct operator_description *);
  int (*GetInputType)(const struct operator_description *, size_t);
  size_t (*GetInputTypeCount)(const struct operator_description *);
  int (*GetOutputType)(const struct operator_description *, size_t);
  size_t (*GetOutputTypeCount)(const struct operator_description *);
  void (*KernelCompute)(void *, void *);
  void (*KernelDestroy)(void *);
  int (*GetInputCharacteristic)(const struct operator_description *, size_t);
  int (*GetOutputCharacteristic)(const struct operator_description *, size_t);
  int (*GetInputMemoryType)(const struct operator_description *, size_t);
  int (*GetVariadicInputMinArity)(const struct operator_description *);
  int (*GetVariadicInputHomogeneity)(const struct operator_description *);
  int (*GetVariadicOutputMinArity)(const struct operator_description *);
  int (*GetVariadicOutputHomogeneity)(const struct operator_description *);
  STATUS (*CreateKernelV2)(const struct operator_description *, api_table, const void *, void **);
  STATUS (*KernelComputeV2)(void *, void *);
  STATUS (*InferOutputShapeFn)(const struct operator_description *, void *);
  int (*GetStartVersion)(const struct operator_description *);
  int (*GetEndVersion)(const struct operator_description *);
} operator_description;
