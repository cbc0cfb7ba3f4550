/* Makes a program see a wall clock that is off by as many seconds as a file says, see
   clock_linux.go. It asks the kernel directly: to look up the C library's own functions
   would allocate memory, and jemalloc asks for the time in order to do that. Only the
   wall clock is moved; monotonic clocks go on as they do where somebody sets a clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *seconds;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("SERVERTEST_CLOCK");
  int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED)
    abort(); /* a test must not believe that it moves a clock which it does not */
  seconds = page;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += *seconds;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec t;
  (void)zone;
  int result = clock_gettime(CLOCK_REALTIME, &t);
  if (result == 0) {
    now->tv_sec = t.tv_sec;
    now->tv_usec = t.tv_nsec / 1000;
  }
  return result;
}

time_t time(time_t *where) {
  struct timespec t;
  if (clock_gettime(CLOCK_REALTIME, &t) != 0)
    return (time_t)-1;
  if (where)
    *where = t.tv_sec;
  return t.tv_sec;
}
