/* The connection to the emulator: one Unix socket, messages of a fixed head, and the shared memory handed over at the start. */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PROTOCOL 7u

struct head { uint32_t kind, bytes; };

struct device the_device;
uint8_t *the_table;
static int connection = -1;
static error_t_ refused;

static bool send_all(const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t sent = send(connection, at, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static bool receive_all(void *data, size_t bytes)
{
    char *at = data;
    while (bytes) {
        ssize_t got = recv(connection, at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* Sends a message and waits for the answer, which the caller frees. */
error_t_ call_emulator(uint32_t kind, const void *head, size_t head_bytes, const void *body, size_t body_bytes, void **answer,
                       size_t *answer_bytes)
{
    struct head out = {kind, (uint32_t)(head_bytes + body_bytes)}, in;
    void *buffer = NULL;
    if (!send_all(&out, sizeof out) || !send_all(head, head_bytes) || !send_all(body, body_bytes))
        goto lost;
    if (!receive_all(&in, sizeof in))
        goto lost;
    buffer = malloc(in.bytes + 1u);
    if (!buffer || !receive_all(buffer, in.bytes))
        goto lost;
    if (answer) {
        *answer = buffer;
        *answer_bytes = in.bytes;
    } else {
        free(buffer);
    }
    return (error_t_)in.kind;
lost:
    free(buffer);
    fprintf(stderr, "warpsight: `warpsight run` has ended, and this program ends with it\n");
    _exit(1); /* also a program that a script started */
}

static error_t_ refuse(const char *why)
{
    fprintf(stderr, "warpsight: no device: %s\n", why);
    return refused = NO_DEVICE;
}

static bool hand_over(int memory, size_t size)
{
    struct { uint32_t kind, bytes, protocol, pid; uint64_t size; } hello = {1, 16, PROTOCOL, (uint32_t)getpid(), size};
    char control[CMSG_SPACE(sizeof memory)];
    memset(control, 0, sizeof control);
    struct iovec piece = {&hello, sizeof hello};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof memory);
    memcpy(CMSG_DATA(header), &memory, sizeof memory);
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof hello;
}

static error_t_ map_memory(int memory, size_t size)
{
    int shared = MAP_SHARED | MAP_NORESERVE;
    the_table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, shared, memory, 0);
    if (the_table == MAP_FAILED)
        return refuse("the table of allocations cannot be mapped");
    void *arena = mmap((void *)ARENA_BASE, size - TABLE_BYTES, PROT_READ | PROT_WRITE, shared | MAP_FIXED_NOREPLACE, memory, TABLE_BYTES);
    if (arena != (void *)ARENA_BASE)
        return refuse("its addresses, from 4 GiB on, are taken in this process");
    madvise(arena, size - TABLE_BYTES, MADV_DONTDUMP);
    return SUCCESS;
}

static pid_t owner;

bool is_connected(void) { return connection >= 0 && owner == getpid(); }

error_t_ connect_emulator(void)
{
    if (connection >= 0)
        return SUCCESS;
    if (refused)
        return refused;
    const char *path = getenv("WARPSIGHT_SOCKET"), *bytes = getenv("WARPSIGHT_MEMORY");
    if (!path || !bytes)
        return refuse("the program was not started by `warpsight run`");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return refuse("the path of its socket is too long");
    strcpy(address.sun_path, path);
    size_t size = TABLE_BYTES + strtoull(bytes, NULL, 10);
    int memory = memfd_create("warpsight", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, (off_t)size) < 0)
        return refuse("shared memory cannot be had");
    error_t_ mapped = map_memory(memory, size);
    if (mapped)
        return mapped;
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct head in;
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address) < 0 || !hand_over(memory, size) ||
        !receive_all(&in, sizeof in) || in.kind != SUCCESS || in.bytes != sizeof the_device ||
        !receive_all(&the_device, sizeof the_device)) {
        if (connection >= 0)
            close(connection);
        connection = -1;
        return refuse("`warpsight run` does not answer");
    }
    close(memory);
    owner = getpid();
    checking = getenv("WARPSIGHT_CHECK") != NULL;
    memory_reset();
    return SUCCESS;
}
