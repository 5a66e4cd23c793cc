/* Operators of this library, as ONNX Runtime asks for them: each is described by tables. */

/* Subnormal numbers cost up to ten times as much: flushed inside of a task, and the processor's
   state is put back to the bit. */
#if defined(__x86_64__)
static inline uint32_t flush_begin(void) {
  uint32_t old, wanted;
  __asm__ volatile("stmxcsr %0" : "=m"(old));
  wanted = old | 0x8040; /* FTZ, DAZ */
  __asm__ volatile("ldmxcsr %0" : : "m"(wanted));
  return old;
}
static inline void flush_end(uint32_t old) { __asm__ volatile("ldmxcsr %0" : : "m"(old) : "memory"); }
#elif defined(__aarch64__)
static inline uint64_t flush_begin(void) {
  uint64_t old;
  __asm__ volatile("mrs %0, fpcr" : "=r"(old));
  __asm__ volatile("msr fpcr, %0" : : "r"(old | (1u << 24)));
  return old;
}
static inline void flush_end(uint64_t old) { __asm__ volatile("msr fpcr, %0" : : "r"(old) : "memory"); }
#else
static inline int flush_begin(void) { return 0; }
static inline void flush_end(int old) { (void)old; }
#endif

/* numbers of a matrix that take as long to read as a task takes to be dispatched several times */
#define PRODUCT_READ (32 << 10)
/* float32 numbers that rows of columns hold at most while they are gone through again */
#define COLUMNS_HELD (48 << 10)

typedef struct { int16_t access, axis, loop; i64 coefficient; } index_term; /* loop -1: an offset */
typedef struct { int16_t operand, axis, loop; i64 size; } axis_check;      /* loop -1: of `size` */
typedef struct { int16_t rank; int16_t loop[MOST_AXES]; i64 size[MOST_AXES]; } output_shape;

typedef struct {
  const char *name;
  void (*run)(i64 *);
  int inputs, outputs, loops, accesses, indices, checks;
  const uint8_t *input_type, *input_rank;
  const int16_t *access_input;      /* which input an access reads */
  const index_term *index;
  const axis_check *check;
  const i64 *extent;                /* of each loop before merging, -1: that of an operand's axis */
  const int16_t *extent_operand, *extent_axis;
  const int16_t *group;             /* the merged loop of each loop */
  int groups;
  const output_shape *output;
  const uint8_t *output_type;
  int picked;                       /* the last groups stand for indices that are read, and are no loops */
  i64 block;                        /* cells of a row that make a unit, 0: whole rows */
  i64 grain;                        /* cells that are worth a task */
  int slots;                        /* rows of scratch memory of a task */
  i64 room;                         /* further bytes of it */
  int flushes;
  void (*arrange)(call *, i64);     /* changes how the work is divided, or NULL */
} operation;

typedef struct { operator_description head; const operation *what; } entry;
typedef struct { api_table api; const operation *what; } kernel;

static STATUS failure(api_table api, int code, const char *text) {
  return API(api, CREATE_STATUS, int, const char *)(code, text);
}

static STATUS mismatch(const kernel *own, int operand, int axis) {
  char text[200];
  snprintf(text, sizeof text,
           "%s: axis %d of input %d has another size than the model that it was made for allows",
           own->what->name, axis, operand);
  return failure(own->api, STATUS_INVALID_ARGUMENT, text);
}

static STATUS unindexed(const kernel *own) {
  char text[200];
  snprintf(text, sizeof text, "%s: an index is out of bounds: it names no element along its axis",
           own->what->name);
  return failure(own->api, STATUS_INVALID_ARGUMENT, text);
}

#define TRY(expression) do { STATUS status_ = (expression); if (status_) return status_; } while (0)

static STATUS shape_of(api_table api, const void *value, int rank, i64 *shape, int *same) {
  void *info = NULL;
  size_t count = 0;
  TRY(API(api, TENSOR_SHAPE, const void *, void **)(value, &info));
  STATUS status = API(api, DIMENSIONS_COUNT, const void *, size_t *)(info, &count);
  *same = count == (size_t)rank;
  if (!status && *same && rank)
    status = API(api, DIMENSIONS, const void *, i64 *, size_t)(info, shape, (size_t)rank);
  ((void (*)(void *))api[RELEASE_SHAPE])(info);
  return status;
}

/* Scratch memory is kept for the next kernel that runs, while any kernel is alive: fresh pages take
   longer than many a kernel. */
typedef struct { size_t size; char data[]; } room;
static room *spare;
static i64 alive;

static room *take_room(size_t size) {
  room *held = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQ_REL);
  if (held && held->size >= size) return held;
  free(held);
  held = (room *)malloc(sizeof(room) + size);
  if (held) held->size = size;
  return held;
}
static void give_room(room *held) { free(__atomic_exchange_n(&spare, held, __ATOMIC_ACQ_REL)); }

typedef struct { const operation *what; const call *whole; } parallel;

static void run_task(void *given, size_t number) {
  const parallel *all = (const parallel *)given;
  const call *c = all->whole;
  task own = {c, c->units * (i64)number / c->tasks, c->units * ((i64)number + 1) / c->tasks,
              c->scratch + c->share * (i64)number};
  if (all->what->flushes) {
    const uint64_t state = flush_begin();
    all->what->run((i64 *)&own);
    flush_end(state);
  } else {
    all->what->run((i64 *)&own);
  }
}

static STATUS compute(void *state, void *context) {
  const kernel *own = (const kernel *)state;
  const operation *w = own->what;
  api_table api = own->api;
  call c;
  i64 shape[MOST_OPERANDS][MOST_AXES], extent[MOST_LOOPS];
  i64 step[MOST_AXES];
  for (int k = 0; k < w->inputs; k++) {
    const void *value = NULL;
    int same = 0;
    TRY(API(api, CONTEXT_INPUT, const void *, size_t, const void **)(context, (size_t)k, &value));
    TRY(shape_of(api, value, w->input_rank[k], shape[k], &same));
    if (!same) return mismatch(own, k, -1);
    TRY(API(api, TENSOR_DATA, const void *, void **)(value, (void **)&c.in[k]));
  }
  for (int l = 0; l < w->loops; l++)
    extent[l] = w->extent[l] >= 0 ? w->extent[l] : shape[w->extent_operand[l]][w->extent_axis[l]];
  for (int k = 0; k < w->checks; k++) {
    const axis_check *check = &w->check[k];
    i64 wanted = check->loop >= 0 ? extent[check->loop] : check->size;
    if (shape[check->operand][check->axis] != wanted) return mismatch(own, check->operand, check->axis);
  }
  c.loops = w->groups - w->picked;
  for (int g = 0; g < w->groups; g++) c.extent[g] = 1;
  for (int l = 0; l < w->loops; l++) c.extent[w->group[l]] *= extent[l];
  for (int k = 0; k < w->accesses; k++) {
    c.offset[k] = 0;
    for (int g = 0; g < w->groups; g++) c.stride[k][g] = 0;
  }
  for (int t = 0; t < w->indices; t++) {
    const index_term *term = &w->index[t];
    const int operand = w->access_input[term->access];
    i64 apart = 1;
    for (int axis = w->input_rank[operand] - 1; axis > term->axis; axis--) apart *= shape[operand][axis];
    apart *= term->coefficient;
    if (term->loop < 0) c.offset[term->access] += apart;
    else c.stride[term->access][w->group[term->loop]] += apart;
  }
  for (int k = 0; k < w->outputs; k++) {
    void *value = NULL;
    const output_shape *o = &w->output[k];
    for (int axis = 0; axis < o->rank; axis++)
      step[axis] = o->loop[axis] >= 0 ? extent[o->loop[axis]] : o->size[axis];
    TRY(API(api, CONTEXT_OUTPUT, void *, size_t, const i64 *, size_t, void **)(
        context, (size_t)k, step, (size_t)o->rank, &value));
    TRY(API(api, TENSOR_DATA, void *, void **)(value, (void **)&c.out[k]));
    i64 apart = 1;
    for (int g = 0; g < w->groups; g++) c.place[k][g] = 0;
    for (int axis = o->rank - 1; axis >= 0; apart *= step[axis--]) {
      if (o->loop[axis] < 0) continue;
      i64 *place = &c.place[k][w->group[o->loop[axis]]];
      if (!*place) *place = apart; /* of merged loops, the last one's */
    }
  }
  c.rows = 1;
  for (int g = 0; g + 1 < c.loops; g++) c.rows *= c.extent[g];
  c.inner = c.loops ? c.extent[c.loops - 1] : 1;
  c.blocks = w->block && c.inner > w->block ? (c.inner + w->block - 1) / w->block : 1;
  c.units = c.rows * c.blocks;
  c.share = (i64)sizeof(float) * w->slots * ((c.inner + 15) / 16 * 16) + w->room;
  const i64 worth = c.rows * c.inner / w->grain;
  c.tasks = LEAST(LEAST(worth, c.units), MOST_TASKS);
  if (c.tasks < 1) c.tasks = 1;
  c.outside = 0;
  if (w->arrange) w->arrange(&c, w->grain);
  if (c.units == 0) return NULL;
  room *memory = NULL;
  c.scratch = NULL;
  if (c.share) {
    c.share = (c.share + 63) / 64 * 64;
    memory = take_room((size_t)(c.share * c.tasks + 64));
    if (!memory) return failure(api, STATUS_FAIL, "no memory for a kernel's scratch rows");
    c.scratch = memory->data + (64 - (uintptr_t)memory->data % 64) % 64;
  }
  parallel all = {w, &c};
  STATUS status = NULL;
  if (c.tasks == 1) run_task(&all, 0);
  else status = API(api, PARALLEL_FOR, const void *, void (*)(void *, size_t), size_t, size_t, void *)(
      context, run_task, (size_t)c.tasks, 0, &all);
  if (memory) give_room(memory);
  if (!status && c.outside) return unindexed(own);
  return status;
}

static const operation *what_of(const operator_description *head) { return ((const entry *)head)->what; }
static const char *name_of(const operator_description *head) { return what_of(head)->name; }
static const char *provider_of(const operator_description *head) { (void)head; return NULL; }
static int input_type(const operator_description *head, size_t k) { return what_of(head)->input_type[k]; }
static size_t input_count(const operator_description *head) { return (size_t)what_of(head)->inputs; }
static int output_type(const operator_description *head, size_t k) { return what_of(head)->output_type[k]; }
static size_t output_count(const operator_description *head) { return (size_t)what_of(head)->outputs; }
static int zero_at(const operator_description *head, size_t k) { (void)head; (void)k; return 0; }
static int zero(const operator_description *head) { (void)head; return 0; }
static int one(const operator_description *head) { (void)head; return 1; }
static STATUS create(const operator_description *head, api_table api, const void *info, void **made) {
  (void)info;
  kernel *own = (kernel *)malloc(sizeof *own);
  if (!own) return failure(api, STATUS_FAIL, "no memory for a kernel");
  own->api = api;
  own->what = what_of(head);
  __atomic_add_fetch(&alive, 1, __ATOMIC_ACQ_REL);
  *made = own;
  return NULL;
}

static void destroy(void *state) {
  free(state);
  if (__atomic_sub_fetch(&alive, 1, __ATOMIC_ACQ_REL) == 0)
    free(__atomic_exchange_n(&spare, NULL, __ATOMIC_ACQ_REL));
}

/* Columns that rows are folded into, `reduced` being the loop over rows: a unit is a piece of the
   innermost loop, all of it where `whole`. A task has `arrays` pieces of scratch memory, and `kept`
   for each row. `most` are the columns of a piece, negative where rows are gone through again: then
   they have to stay in the cache meanwhile. */
static void arrange_columns(call *c, i64 grain, int reduced, i64 arrays, i64 kept, i64 most, int whole) {
  const i64 rows = c->extent[reduced], all = c->rows * c->inner;
  c->rows = 1;
  for (int l = 0; l < c->loops - 1; l++) if (l != reduced) c->rows *= c->extent[l];
  if (most < 0) {
    const i64 held = COLUMNS_HELD / (rows * (1 + kept) + 1);
    most = LEAST(-most, held > 64 ? held : 64);
  }
  i64 pieces = whole || c->inner <= most ? 1 : (c->inner + most - 1) / most;
  const i64 worth = LEAST(LEAST(all / grain, 8), c->inner / 128);
  if (!whole && c->rows * pieces < worth) pieces = (worth + c->rows - 1) / (c->rows ? c->rows : 1);
  c->block = ((c->inner + pieces - 1) / pieces + 15) / 16 * 16;
  c->blocks = c->inner ? (c->inner + c->block - 1) / c->block : 0;
  c->units = c->rows * c->blocks;
  c->tasks = LEAST(LEAST(all / grain, c->units), MOST_TASKS);
  if (c->tasks < 1) c->tasks = 1;
  c->share = (i64)sizeof(float) * c->block * (arrays + kept * rows);
}

/* Attention: a unit is a block of queries of a head; a task has the head's keys and values packed
   once, and its blocks' scores. The loops are the batch's, queries, keys, depth and width. */
static INLINED void arrange_attention_by(call *c, i64 grain, i64 queries) {
  i64 *size = &c->extent[c->loops - 4];
  i64 heads = 1;
  for (int l = 0; l < c->loops - 4; l++) heads *= c->extent[l];
  const i64 padded = (size[1] + 31) / 32 * 32, wide = (size[3] + 31) / 32 * 32;
  c->block = queries;
  c->blocks = (size[0] + c->block - 1) / c->block;
  c->units = heads * c->blocks;
  c->tasks = LEAST(LEAST(2 * heads, c->units), LEAST(heads * size[0] * size[1] * (size[2] + size[3]) / grain, MOST_TASKS));
  if (c->tasks < 1) c->tasks = 1;
  c->share = (i64)sizeof(float) * (padded * size[2] + wide * size[1] + c->block * (padded + wide + 1));
}
static void arrange_attention(call *c, i64 grain) {
  const i64 keys = c->extent[c->loops - 3];
  arrange_attention_by(c, grain, keys > 4096 ? 12 : keys > 1024 ? 24 : 48);
}

/* A product with a constant matrix: a unit is a panel of columns for a block of rows, which stays in
   the second cache, of so many `numbers` and whole tiles, `tall` rows each. A task has panels of a block, one after
   another, about `run` of them. The runtime gives each thread equally many tasks, as far as that goes: of five, each
   of several panels, one of two threads gets three, and the other one waits. So there are multiples of eight, where
   there are so many units. The loops are those of the rows, the columns and the depth. */
static INLINED void arrange_product_by(call *c, i64 grain, i64 panel, i64 numbers, i64 tall, i64 run) {
  const i64 columns = c->extent[c->loops - 2], depth = c->extent[c->loops - 1];
  const i64 least = LEAST(c->rows / columns, 192);
  c->rows /= columns;
  c->blocks = (columns + panel - 1) / panel;
  i64 most = numbers / depth;
  most = most > least ? most : least;
  const i64 pieces = most > 0 ? (c->rows + most - 1) / most : 0;
  c->block = pieces ? ((c->rows + pieces - 1) / pieces + tall - 1) / tall * tall : tall;
  c->units = (c->rows + c->block - 1) / c->block * c->blocks;
  c->tasks = LEAST((c->units / run + 7) / 8 * 8, MOST_TASKS);
  if (c->tasks < 8) c->tasks = 8;
  const i64 worth = c->rows * columns * depth / grain + columns * depth / PRODUCT_READ;
  c->tasks = LEAST(LEAST(c->tasks, c->units), worth);
  if (c->tasks < 1) c->tasks = 1;
  c->share = (i64)sizeof(float) * c->block * panel;
}
static void arrange_product(call *c, i64 grain) { arrange_product_by(c, grain, PRODUCT_PANEL, 192 << 10, 8, 4); }

/* The same where the matrix has 16 bits: a task has room for a piece of a panel in float32. */
static void arrange_halves(call *c, i64 grain) {
  arrange_product(c, grain);
  c->share += (i64)sizeof(float) * HALVES_DEPTH * PRODUCT_PANEL;
}

/* The same where seven products stand for eight: a unit is a block of rows for two panels. Tasks claim
   units until none is left: sums of rows are made by as many of them as threads run. */
static void arrange_seven(call *c, i64 grain) {
  const i64 columns = c->extent[c->loops - 2], depth = c->extent[c->loops - 1];
  c->rows /= columns;
  c->blocks = (columns + 2 * PRODUCT_PANEL - 1) / (2 * PRODUCT_PANEL);
  const i64 pieces = (c->rows + SEVEN_BLOCK - 1) / SEVEN_BLOCK;
  c->block = pieces ? ((c->rows + pieces - 1) / pieces + 15) / 16 * 16 : 16;
  c->units = (c->rows + c->block - 1) / c->block * c->blocks;
  const i64 sums = 5 * (c->block / 2) * (depth / 2 + SEVEN_PIECES(depth) * SEVEN_GAP);
  c->share = (i64)sizeof(float) * (sums + (SEVEN_DEPTH + 2 * c->block) * PRODUCT_PANEL)
             + SEVEN_PIECES(depth) * c->block;
  c->tasks = LEAST(LEAST(c->units, MOST_TASKS), c->rows * columns * depth / grain);
  c->tasks = LEAST(c->tasks, (256 << 20) / c->share);
  if (c->tasks < 1) c->tasks = 1;
  c->fresh = 0;
}

/* The same on matrix tiles: a unit is a block of rows for some panels, at least so many units that threads
   share them well. Tasks claim them one by one: rows are taken apart by as many as threads run, or, of
   more than a piece of the depth, for each unit, so that these are fewer and wider. */
static void arrange_tiles(call *c, i64 grain) {
  const i64 columns = c->extent[c->loops - 2], depth = c->extent[c->loops - 1];
  const i64 panels = (columns + PRODUCT_PANEL - 1) / PRODUCT_PANEL;
  c->rows /= columns;
  const i64 pieces = (c->rows + TILES_BLOCK - 1) / TILES_BLOCK;
  c->block = pieces ? ((c->rows + pieces - 1) / pieces + 31) / 32 * 32 : 32;
  const i64 units = TILES_PIECES(depth) > 1 ? 4 : 16;
  const i64 wide = LEAST(TILES_PANELS, (panels * pieces + units - 1) / units);
  c->blocks = wide ? (panels + wide - 1) / wide : 0;
  c->units = (c->rows + c->block - 1) / c->block * c->blocks;
  c->share = TILES_PIECE(depth) * 6 * (c->block + PRODUCT_PANEL)
             + (i64)sizeof(float) * TILES_PANELS * c->block * PRODUCT_PANEL + c->block / 32;
  c->tasks = LEAST(LEAST(c->units, MOST_TASKS), c->rows * columns * depth / grain);
  c->tasks = LEAST(c->tasks, (256 << 20) / c->share);
  if (c->tasks < 1) c->tasks = 1;
  c->fresh = 0;
}

/* A product, or a convolution, of 8-bit integers: a unit is a panel of outputs for some lines of an image, or rows
   of a matrix. A task has several panels of some lines, one after another, so that lines are copied once. The
   loops are those of the result and the depth; of `lines` of a result, 0 for a matrix, there are `places`, each
   made of `bytes` of the image; `segments` are those that a task knows the places of. */
static void arrange_quantized(call *c, i64 grain, i64 lines, i64 places, i64 outputs, i64 panels, i64 depth, i64 bytes,
                              i64 down, i64 high, i64 segments) {
  const i64 least = 24, held = 64 << 10;
  const i64 images = lines ? c->rows / (lines * places * outputs) : 1;
  c->rows /= places * outputs;
  if (!lines) lines = c->rows;
  c->blocks = panels;
  i64 most = (held / bytes - high) / down + 1;
  const i64 few = (least + places - 1) / places;
  most = most > few ? most : few;
  /* at least so many units that threads share them well */
  const i64 several = images * c->blocks, wanted = several ? (8 + several - 1) / several : 1;
  i64 parts = lines ? (lines + most - 1) / most : 0;
  parts = LEAST(parts > wanted ? parts : wanted, (lines + few - 1) / few);
  c->block = parts ? (lines + parts - 1) / parts : 1;
  c->units = images * (parts ? (lines + c->block - 1) / c->block : 0) * c->blocks;
  c->tasks = LEAST(LEAST(c->units, 16), c->rows * places * outputs * depth / grain);
  if (c->tasks < 1) c->tasks = 1;
  c->share = (i64)sizeof(i64) * (c->block * places + segments) + (i64)sizeof(int32_t) * c->block * places
             + ((c->block - 1) * down + high) * bytes + 64;
}

/* Steps that multiply rows, the second loop, by matrices: a unit is some rows, which have buffers of so many numbers
   each. */
static void arrange_stepped(call *c, i64 grain, i64 numbers) {
  const i64 rows = c->extent[1], least = 4;
  c->block = LEAST(rows, (rows + 7) / 8 > least ? (rows + 7) / 8 : least);
  c->units = c->block ? (rows + c->block - 1) / c->block : 0;
  c->tasks = LEAST(LEAST(c->units, MOST_TASKS), c->extent[0] * rows / grain);
  if (c->tasks < 1) c->tasks = 1;
  c->share = (i64)sizeof(float) * numbers * c->block;
}

/* Products of two matrices of 8-bit integers that both change: a unit is a block of rows of one of the batch, whose
   second matrix a task lays out once. The loops are the batch's, rows, columns and the depth. */
static void arrange_matrices(call *c, i64 grain) {
  const i64 rows = c->extent[c->loops - 3], columns = c->extent[c->loops - 2], depth = c->extent[c->loops - 1];
  const i64 most = 256, length = (depth + 3) / 4 * 4, wide = (columns + QUANTIZED_PANEL - 1) / QUANTIZED_PANEL;
  i64 batch = 1;
  for (int l = 0; l < c->loops - 3; l++) batch *= c->extent[l];
  /* at least so many units that threads share them well, unless rows are too few to lay a matrix out for */
  i64 parts = batch ? (4 + batch - 1) / batch : 1;
  parts = LEAST(parts, rows / 32 + 1);
  parts = parts > (rows + most - 1) / most ? parts : (rows + most - 1) / most;
  c->block = parts ? (rows + parts - 1) / parts : 1;
  if (c->block < 1) c->block = 1;
  c->blocks = (rows + c->block - 1) / c->block;
  c->units = columns ? batch * c->blocks : 0;
  c->tasks = LEAST(LEAST(c->units, 16), batch * rows * columns * depth / grain);
  if (c->tasks < 1) c->tasks = 1;
  c->share = wide * QUANTIZED_PANEL * (length + (i64)sizeof(int32_t)) + (i64)sizeof(int32_t) * c->block
             + (c->block + 1) * length + 64;
}

/* Rows that are scattered: a unit is some columns of a table, which all updates pass. The loops are those of
   tables, so many `outer`, the one over updates, those `along` a row, and those of rows, so many `parts`. */
static void arrange_scatter(call *c, i64 grain, int outer, int along, int parts) {
  i64 tables = 1, wide = 1, moved = c->extent[outer], rows = 1;
  for (int g = 0; g < outer; g++) tables *= c->extent[g];
  for (int g = outer + 1; g <= outer + along; g++) wide *= c->extent[g];
  for (int g = outer + along + 1; g <= outer + along + parts; g++) rows *= c->extent[g];
  const i64 last = along ? c->extent[outer + along] : 1;
  const i64 worth = tables * (moved + rows) * wide / grain;
  i64 pieces = LEAST(LEAST(last / 16, 4), worth);
  if (tables >= 4 || pieces < 1) pieces = 1;
  c->block = (last + pieces - 1) / pieces;
  if (pieces > 1) c->block = (c->block + 15) / 16 * 16;
  c->blocks = last ? (last + c->block - 1) / c->block : 0;
  c->units = tables * rows ? tables * c->blocks : 0;
  c->tasks = LEAST(LEAST(c->units, worth), MOST_TASKS);
  if (c->tasks < 1) c->tasks = 1;
}

/* Rows that go through side by side, `lanes` of them, or half as many where there are few. */
static void arrange_running(call *c, i64 grain, i64 lanes) {
  const i64 all = c->rows * c->inner;
  c->block = c->rows > 2 * lanes ? lanes : lanes / 2;
  c->units = (c->rows + c->block - 1) / c->block;
  c->tasks = LEAST(LEAST(all / grain, c->units), MOST_TASKS);
  if (c->tasks < 1) c->tasks = 1;
}

/* Steps, the first loop, of rows that each have a state: a unit is a row, or, where `most` isn't 0, so many of its
   columns or fewer. */
static void arrange_steps(call *c, i64 grain, i64 most) {
  const i64 all = c->rows * c->inner;
  c->rows = 1;
  for (int g = 1; g < c->loops - 1; g++) c->rows *= c->extent[g];
  const i64 worth = LEAST(all / grain, 8);
  i64 pieces = most ? (c->inner + most - 1) / most : 1;
  if (most && c->rows && c->rows * pieces < worth) pieces = LEAST(worth / c->rows, (c->inner + 15) / 16);
  if (pieces < 1) pieces = 1;
  c->block = ((c->inner + pieces - 1) / pieces + 15) / 16 * 16;
  if (most && c->block > most) c->block = most;
  c->blocks = !c->inner ? 0 : most ? (c->inner + c->block - 1) / c->block : 1;
  c->units = c->rows * c->blocks; /* of no steps too: states end as they began */
  c->tasks = LEAST(LEAST(c->units, all / grain), MOST_TASKS);
  if (c->tasks < 1) c->tasks = 1;
}

/* A convolution: a unit is some tiles of an image, for a panel of its channels. Tasks claim units
   until none is left, so that only as many do something as threads run, and touch their memory. */
static void arrange_convolution(call *c, i64 grain) {
  const i64 most = (256 << 20) / c->share;
  (void)grain;
  if (c->tasks > most) c->tasks = most > 1 ? most : 1;
  c->fresh = 0;
  memset(c->next, -1, sizeof c->next);
}

#define ENTRY(operation_) \
  {{API_VERSION, NULL, name_of, provider_of, input_type, input_count, output_type, output_count, NULL, \
    destroy, zero_at, zero_at, zero_at, one, zero, one, zero, create, compute, NULL, one, one}, operation_}

static STATUS register_all(void *options, const api_base *base, const char *domain, const entry *entries, int count,
                           const char *missing) {
  api_table api = base->GetApi(API_VERSION);
  if (!api) {
    char text[200];
    api = base->GetApi(1);
    if (!api) return NULL;
    snprintf(text, sizeof text, "these kernels need ONNX Runtime 1.%d or newer; this one is %s",
             API_VERSION, base->GetVersionString());
    return failure(api, STATUS_FAIL, text);
  }
  if (missing) {
    char text[200];
    snprintf(text, sizeof text,
             "these kernels run on processors with %s alone, which this one lacks: optimize the original here",
             missing);
    return failure(api, STATUS_FAIL, text);
  }
  void *made = NULL;
  TRY(API(api, CREATE_DOMAIN, const char *, void **)(domain, &made));
  for (int k = 0; k < count; k++)
    TRY(API(api, DOMAIN_ADD, void *, const void *)(made, &entries[k].head));
  return API(api, ADD_DOMAIN, void *, void *)(options, made); /* the domain lives as long as the process */
}
