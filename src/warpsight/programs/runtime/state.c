/* One lock, the last error of each thread, and the fault that no later call gets past. */
#include "runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread error_t_ last_error;
static error_t_ sticky; /* the context is lost */
static bool noticed;    /* a call that waits for the device has been made since */
static bool reported;   /* the first call that has failed for it is told to the checks, no later one */
static pid_t owner;
static __thread int driver_calls; /* the driver's functions call the runtime's, and cudaGetLastError knows nothing of them */
static __thread bool runtime_called;

/* The program's own call begins with the first `enter`, and ends with `leave` unless it is held. */
static __thread int held;
static __thread bool in_call;

static void finish_call(void)
{
    if (in_call && !held) {
        end_call();
        in_call = false;
    }
}

void hold_call(void) { held++; }

void release_call(void)
{
    held--;
    pthread_mutex_lock(&the_lock);
    finish_call();
    pthread_mutex_unlock(&the_lock);
}

void begin_driver_call(void)
{
    driver_calls++;
    hold_call();
}

void end_driver_call(void)
{
    driver_calls--;
    release_call();
}

bool runtime_was_called(void) { return runtime_called; }

error_t_ enter_quietly(void)
{
    pthread_mutex_lock(&the_lock);
    return SUCCESS;
}

bool enter_for_host(void)
{
    pthread_mutex_lock(&the_lock);
    owner = owner ? owner : getpid();
    if (owner == getpid() && !sticky && connect_emulator() == SUCCESS)
        return true;
    pthread_mutex_unlock(&the_lock);
    return false;
}

void pause_lock(void) { pthread_mutex_unlock(&the_lock); }
void resume_lock(void) { pthread_mutex_lock(&the_lock); }

error_t_ enter(void)
{
    pthread_mutex_lock(&the_lock);
    runtime_called = runtime_called || !driver_calls;
    if (owner == 0)
        owner = getpid();
    if (owner != getpid())
        return INITIALIZATION; /* as CUDA: a context does not survive fork */
    if (sticky) {
        noticed = true;
        return sticky;
    }
    error_t_ status = connect_emulator();
    if (status == SUCCESS && !in_call) {
        in_call = true;
        begin_call();
    }
    return status;
}

error_t_ leave(error_t_ result)
{
    if (result != SUCCESS && result != NOT_READY) {
        if (!driver_calls)
            last_error = result;
        /* What is not modelled is no mistake of the program's. */
        if (checking && is_connected() && result != NOT_SUPPORTED && result != NO_KERNEL_IMAGE && !(sticky && reported)) {
            reported = sticky != SUCCESS;
            tell_failed(result);
        }
    }
    finish_call();
    pthread_mutex_unlock(&the_lock);
    return result;
}

void fault(error_t_ code)
{
    if (!sticky)
        sticky = code;
}

void forget_fault(void)
{
    sticky = SUCCESS;
    noticed = reported = false;
    last_error = SUCCESS;
}

static error_t_ peek(bool clear)
{
    error_t_ code = last_error;
    pthread_mutex_lock(&the_lock);
    if (clear)
        last_error = SUCCESS;
    if (sticky && noticed)
        code = sticky;
    pthread_mutex_unlock(&the_lock);
    return code;
}

API error_t_ cudaGetLastError(void) { return peek(true); }
API error_t_ cudaPeekAtLastError(void) { return peek(false); }

static bool first_time(const char *name)
{
    static char seen[64][64];
    for (int k = 0; k < 64; k++) {
        if (!seen[k][0]) {
            snprintf(seen[k], sizeof seen[k], "%s", name);
            return true;
        }
        if (!strncmp(seen[k], name, sizeof seen[k] - 1))
            return false;
    }
    return false;
}

/* A function of the interface that is not provided says so, each once. */
void warn_once(const char *name)
{
    if (first_time(name))
        fprintf(stderr, "warpsight: %s is not supported; the program is told so (cudaErrorNotSupported)\n", name);
}

void warn_ignored(const char *name)
{
    if (first_time(name))
        fprintf(stderr, "warpsight: %s has no effect here\n", name);
}
