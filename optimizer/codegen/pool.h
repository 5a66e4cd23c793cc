/* Threads that run a kernel together with the one that calls it. They are kept: for a moment each
   looks for the next call, then it sleeps. A caller never waits for a thread that has not begun:
   on a busy machine it does all of the work itself, and takes the call back.

   A thread's state:  FREE -- claimed by a caller --> TAKEN --> CALLED --> BUSY --> DONE --> FREE
                                                                 taken back: CALLED --> FREE */

#if defined(__linux__)
#include <sched.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define REST() _mm_pause()
#else
#define REST() ((void)0)
#endif

typedef int64_t i64;
typedef void (*kernel)(i64 *);

enum { FREE, TAKEN, CALLED, BUSY, DONE };

#define MOST 255
#define STACK ((size_t)8 << 20)
/* Looking for so long, a thread is there at once for the kernels of a loop in Python, and costs
   others next to nothing. */
#define LOOK_NS 60000

typedef struct {
  _Alignas(128) int state;
  int sleeps, awaited; /* somebody waits for `called`, or `done` */
  kernel function;
  i64 *arguments;
  int beside; /* the caller's processor */
  pthread_mutex_t lock;
  pthread_cond_t called, done;
} helper;

static helper helpers[MOST];
static int started;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, value) __atomic_store_n(&(x), value, __ATOMIC_SEQ_CST)

static int turns(helper *one, int from, int to) {
  return __atomic_compare_exchange_n(&one->state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static i64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Wait until the state is `wanted`: looking first, then asleep until `tell` is heard. */
static void wait_for(helper *one, int wanted, int *flag, pthread_cond_t *tell) {
  const i64 end = now_ns() + LOOK_NS;
  do {
    for (int i = 0; i < 32; i++) {
      if (LOAD(one->state) == wanted) return;
      REST();
    }
  } while (now_ns() < end);
  pthread_mutex_lock(&one->lock);
  STORE(*flag, 1);
  while (LOAD(one->state) != wanted) pthread_cond_wait(tell, &one->lock);
  STORE(*flag, 0);
  pthread_mutex_unlock(&one->lock);
}

/* Who waits has set the flag before it looks again, and the state was set before this looks. */
static void wake(helper *one, int *flag, pthread_cond_t *tell) {
  if (!LOAD(*flag)) return;
  pthread_mutex_lock(&one->lock);
  pthread_cond_signal(tell);
  pthread_mutex_unlock(&one->lock);
}

/* Leave the caller's processor: some systems wake a thread where the one runs that wakes it, though
   others are idle, and there it would only take the caller's time. */
static int here(void) {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}
static void leave(int processor) {
#if defined(__linux__)
  cpu_set_t allowed, others;
  if (processor < 0 || here() != processor || sched_getaffinity(0, sizeof allowed, &allowed)) return;
  others = allowed;
  CPU_CLR((size_t)processor, &others);
  if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof others, &others)) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
#else
  (void)processor;
#endif
}

static void *serve(void *given) {
  helper *const own = given;
  for (;;) {
    wait_for(own, CALLED, &own->sleeps, &own->called);
    leave(own->beside);
    if (!turns(own, CALLED, BUSY)) continue;
    own->function(own->arguments);
    STORE(own->state, DONE);
    wake(own, &own->awaited, &own->done);
  }
  return 0;
}

/* A fork has none of the threads. */
static void forget(void) {
  started = 0;
  pthread_mutex_init(&starting, 0);
}

/* One more thread, TAKEN; 0 where there can't be one. Signals stay with the program's threads. */
static helper *begin(void) {
  static int registered;
  helper *made = 0;
  pthread_mutex_lock(&starting);
  if (!registered) registered = !pthread_atfork(0, 0, forget);
  if (started < MOST && registered) {
    pthread_t thread;
    pthread_attr_t how;
    sigset_t all, before;
    helper *const one = &helpers[started];
    one->state = TAKEN;
    one->sleeps = one->awaited = 0;
    pthread_mutex_init(&one->lock, 0);
    pthread_cond_init(&one->called, 0);
    pthread_cond_init(&one->done, 0);
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!pthread_create(&thread, &how, serve, one)) {
      made = one;
      STORE(started, started + 1);
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_attr_destroy(&how);
  }
  pthread_mutex_unlock(&starting);
  return made;
}

/* Call a kernel in this thread and in up to `threads` - 1 others; return when all are done. */
__attribute__((visibility("default"))) void together(kernel function, i64 *arguments, i64 threads) {
  helper *with[MOST];
  int count = 0;
  for (int at = 0; count < threads - 1 && at < LOAD(started); at++)
    if (turns(&helpers[at], FREE, TAKEN)) with[count++] = &helpers[at];
  for (helper *one; count < threads - 1 && count < MOST && (one = begin());) with[count++] = one;
  for (int at = 0; at < count; at++) {
    with[at]->function = function;
    with[at]->arguments = arguments;
    with[at]->beside = here();
    STORE(with[at]->state, CALLED);
    wake(with[at], &with[at]->sleeps, &with[at]->called);
  }
  function(arguments);
  for (int at = 0; at < count; at++) {
    if (turns(with[at], CALLED, FREE)) continue;
    wait_for(with[at], DONE, &with[at]->awaited, &with[at]->done);
    STORE(with[at]->state, FREE);
  }
}
