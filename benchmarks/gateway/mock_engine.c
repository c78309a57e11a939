// A vLLM that costs nothing: answers /v1/chat/completions at once or at a pace, on several ports in one thread.
//   mock_engine MODEL PORT...
// GET /pace?interval_us=N&lockstep=0|1 sets the time between two events of a stream for all streams to come: 0 writes a
// whole stream at once; in lockstep all streams emit at the same moments, as an engine's steps do.
// An answer has `max_tokens` tokens. The usage event is sent when `include_usage` is in the body.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct { char *bytes; size_t length, room; } Buffer;

typedef struct Connection {
  int fd, is_listener, is_busy, wants_usage, tokens_sent, tokens_total, waits_to_write;
  Buffer in, out;
  uint64_t due_ns;
  struct Connection *next;  // in the queue of streams; all have the same pace, so that the order of arrival is the order of time
} Connection;

static const char *model;
static uint64_t interval_ns, now_ns;
static int lockstep, poller;
static Connection *first, *last;

static uint64_t read_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void reserve(Buffer *buffer, size_t more) {
  if (buffer->length + more <= buffer->room) return;
  buffer->room = (buffer->length + more) * 2;
  buffer->bytes = realloc(buffer->bytes, buffer->room);
}

static void append(Buffer *buffer, const char *bytes, size_t length) {
  reserve(buffer, length);
  memcpy(buffer->bytes + buffer->length, bytes, length);
  buffer->length += length;
}

static void watch(Connection *c, int operation, int events) {
  struct epoll_event e = {.events = events, .data.ptr = c};
  epoll_ctl(poller, operation, c->fd, &e);
}

static void flush(Connection *c) {
  size_t done = 0;
  while (done < c->out.length) {
    ssize_t n = send(c->fd, c->out.bytes + done, c->out.length - done, MSG_NOSIGNAL);
    if (n <= 0) break;
    done += n;
  }
  memmove(c->out.bytes, c->out.bytes + done, c->out.length - done);
  c->out.length -= done;
  int waits = c->out.length > 0;
  if (waits != c->waits_to_write) watch(c, EPOLL_CTL_MOD, EPOLLIN | (waits ? EPOLLOUT : 0));
  c->waits_to_write = waits;
}

static void answer(Connection *c, const char *body) {
  char head[160];
  int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nserver: mock\r\ncontent-length: %zu\r\ncontent-type: application/json\r\n\r\n", strlen(body));
  append(&c->out, head, n);
  append(&c->out, body, strlen(body));
}

static void whole_answer(Connection *c) {
  char body[1200];
  snprintf(body, sizeof body,
    "{\"id\":\"chatcmpl-0\",\"object\":\"chat.completion\",\"created\":1764423156,\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":"
    "{\"role\":\"assistant\",\"content\":\"A load generator asks, and this answers at once, so that what is left is the way "
    "between the two; it says the same each time, about as long as a short answer of a small model is.\",\"refusal\":null,"
    "\"tool_calls\":[],\"reasoning_content\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}],"
    "\"service_tier\":null,\"system_fingerprint\":null,\"usage\":{\"prompt_tokens\":211,\"total_tokens\":243,"
    "\"completion_tokens\":32,\"prompt_tokens_details\":null},\"prompt_logprobs\":null,\"kv_transfer_params\":null}", model);
  answer(c, body);
}

static void event(Connection *c, const char *choices, const char *rest) {
  char text[600], size[16];
  int n = snprintf(text, sizeof text, "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1764423156,\"model\":\"%s\",\"choices\":[%s]%s}\n\n", model, choices, rest);
  append(&c->out, size, snprintf(size, sizeof size, "%x\r\n", n));
  append(&c->out, text, n);
  append(&c->out, "\r\n", 2);
}

static void begin_stream(Connection *c) {
  static const char head[] = "HTTP/1.1 200 OK\r\nserver: mock\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
  append(&c->out, head, sizeof head - 1);
  event(c, "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}", "");
}

static void next_token(Connection *c) {
  char choice[160], usage[100];
  snprintf(choice, sizeof choice, "{\"index\":0,\"delta\":{\"content\":\" tok-%d\"},\"logprobs\":null,\"finish_reason\":%s}", c->tokens_sent, c->tokens_sent + 1 == c->tokens_total ? "\"length\"" : "null");
  event(c, choice, "");
  if (++c->tokens_sent < c->tokens_total) return;
  snprintf(usage, sizeof usage, ",\"usage\":{\"prompt_tokens\":211,\"total_tokens\":%d,\"completion_tokens\":%d}", 211 + c->tokens_total, c->tokens_total);
  if (c->wants_usage) event(c, "", usage);
  append(&c->out, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", 24);
  c->is_busy = 0;
}

static void enqueue(Connection *c) {
  uint64_t due = (c->due_ns ? c->due_ns : now_ns) + interval_ns;
  if (due + 5 * interval_ns < now_ns) due = now_ns;  // behind by far: do not try to catch up
  c->due_ns = lockstep ? (due + interval_ns - 1) / interval_ns * interval_ns : due;
  c->next = NULL;
  if (last) last->next = c; else first = c;
  last = c;
}

static void generate(Connection *c) {
  c->is_busy = 1;
  c->tokens_sent = 0;
  c->due_ns = 0;
  begin_stream(c);
  if (interval_ns) { enqueue(c); return; }
  while (c->is_busy) next_token(c);
}

static long number_after(const char *text, const char *key, long otherwise) {
  const char *at = strstr(text, key);
  return at ? atol(at + strlen(key)) : otherwise;
}

static void handle(Connection *c, const char *head, const char *body) {
  if (!strncmp(head, "POST /v1/chat/completions ", 26)) {
    c->tokens_total = number_after(body, "\"max_tokens\":", 64);
    c->wants_usage = strstr(body, "\"include_usage\":true") || strstr(body, "\"include_usage\": true");
    if (strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true")) generate(c); else whole_answer(c);
  } else if (!strncmp(head, "GET /pace?", 10)) {
    interval_ns = number_after(head, "interval_us=", 0) * 1000ull;
    lockstep = number_after(head, "lockstep=", 0);
    answer(c, "{}");
  } else if (!strncmp(head, "GET /v1/models ", 15)) {
    char body[200];
    snprintf(body, sizeof body, "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"max_model_len\":32768}]}", model);
    answer(c, body);
  } else answer(c, "{}");
}

static void take_requests(Connection *c) {
  size_t used = 0;
  while (!c->is_busy) {
    char *head = c->in.bytes + used, *end = memmem(head, c->in.length - used, "\r\n\r\n", 4);
    if (!end) break;
    *end = 0;
    char *line = strcasestr(head, "\r\ncontent-length:");
    size_t head_length = end - head + 4, body_length = line ? strtoul(line + 17, NULL, 10) : 0;
    if (c->in.length - used < head_length + body_length) { *end = '\r'; break; }
    char *after = head + head_length + body_length, kept = *after;
    *after = 0;
    handle(c, head, head + head_length);
    *after = kept;
    used += head_length + body_length;
  }
  memmove(c->in.bytes, c->in.bytes + used, c->in.length - used);
  c->in.length -= used;
}

static void forget(Connection *c) {
  for (Connection **link = &first, *before = NULL; *link; before = *link, link = &(*link)->next)
    if (*link == c) { *link = c->next; if (last == c) last = before; break; }
  close(c->fd);
  free(c->in.bytes);
  free(c->out.bytes);
  free(c);
}

static void readable(Connection *c) {
  reserve(&c->in, 65536 + 1);
  ssize_t n = recv(c->fd, c->in.bytes + c->in.length, 65536, 0);
  if (n <= 0) { forget(c); return; }
  c->in.length += n;
  take_requests(c);
  flush(c);
}

static void accept_all(Connection *listener) {
  for (int fd; (fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
    Connection *c = calloc(1, sizeof *c);
    c->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
  }
}

static void listen_on(int port) {
  Connection *c = calloc(1, sizeof *c);
  c->is_listener = 1;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(c->fd, (void *)&address, sizeof address) || listen(c->fd, 4096)) { perror("mock_engine"); exit(1); }
  watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

static void emit_due(void) {
  while (first && first->due_ns <= now_ns) {
    Connection *c = first;
    first = c->next;
    if (!first) last = NULL;
    next_token(c);
    if (c->is_busy) enqueue(c); else take_requests(c);
    flush(c);
  }
}

int main(int argc, char **argv) {
  if (argc < 3) { fprintf(stderr, "usage: mock_engine MODEL PORT...\n"); return 2; }
  signal(SIGPIPE, SIG_IGN);
  model = argv[1];
  poller = epoll_create1(0);
  for (int i = 2; i < argc; i++) listen_on(atoi(argv[i]));
  struct epoll_event events[256];
  for (;;) {
    now_ns = read_clock();
    uint64_t wait_ns = first && first->due_ns > now_ns ? first->due_ns - now_ns : 0;
    struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    int n = epoll_pwait2(poller, events, 256, first ? &wait : NULL, NULL);
    now_ns = read_clock();
    for (int i = 0; i < n; i++) {
      Connection *c = events[i].data.ptr;
      if (c->is_listener) accept_all(c);
      else if (events[i].events & EPOLLOUT) flush(c);
      else readable(c);
    }
    emit_due();
  }
}
