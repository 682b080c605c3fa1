/* The time of day, moved by the seconds that stand in the file that CHAOS_CLOCK names.

Preloaded into a process, it moves the clock of that process and of those it starts, while they run
and as often as the file is written. Clocks that only measure how long something takes are as ever. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static const volatile int64_t *moved = &none;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *there = mmap(NULL, sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
        if (there != MAP_FAILED) moved = there;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *moved;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (result) *result = exact.tv_sec;
    return exact.tv_sec;
}
