// A closed loop of chat requests over keep-alive connections, in one thread. Prints one JSON object.
//   load PORT MODEL KEY CONNECTIONS SECONDS REQUESTS TOKENS STREAM RAMP_MS IDENTITIES
// Each connection asks again when its answer is whole: for SECONDS, or until REQUESTS are asked if that is not 0.
// MODEL may be two names with a comma between, which are asked in turn. RAMP_MS spreads the first requests. With IDENTITIES each request in turn has a key (KEY and its number), a user and a
// session of its own, of so many. Of a stream every event must come, in order, then its usage and [DONE].
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
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

enum { PROMPT_BYTES = 1024, SILENCE_S = 20, ROOM = 262144 };

typedef struct { float *values; size_t count, room; } Samples;

typedef struct {
  int fd, is_asking, request, events_seen, is_done, has_usage, is_head_read, status, is_chunked, closes;
  size_t sent, length, room, body_length;  // in `in`: the body as far as it is decoded, and from raw_at on what is not
  size_t body_at, scanned, decoded, raw_at, chunk_left;
  int is_whole;
  uint64_t asked_at, starts_at;
  char *in;
} Connection;

static int port, connections, tokens, is_stream, poller, bodies = 64;
static double seconds;
static long requests_max, asked, answered, failed, events_total;
static uint64_t deadline;
static char **requests, first_failure[300];
static size_t *request_lengths;
static Samples latencies, first_tokens;

static uint64_t read_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void note(Samples *samples, uint64_t since) {
  if (samples->count == samples->room) samples->values = realloc(samples->values, (samples->room = samples->room * 2 + 1024) * sizeof(float));
  samples->values[samples->count++] = (read_clock() - since) / 1e3;
}

static int ascending(const void *a, const void *b) {
  return (*(float *)a > *(float *)b) - (*(float *)a < *(float *)b);
}

static void print_samples(const char *name, Samples *samples) {
  qsort(samples->values, samples->count, sizeof(float), ascending);
  size_t n = samples->count;
  if (n) printf(",\"%s_p50_us\":%.1f,\"%s_p99_us\":%.1f,\"%s_max_us\":%.1f", name, samples->values[n / 2], name, samples->values[n * 99 / 100], name, samples->values[n - 1]);
}

static void write_requests(const char *model, const char *key, int identities) {
  char *first = strdup(model), *second = strchr(first, ',');
  if (second) *second = 0;
  if (identities) bodies = identities;
  requests = calloc(bodies, sizeof *requests);
  request_lengths = calloc(bodies, sizeof *request_lengths);
  for (int i = 0; i < bodies; i++) {
    char names[128] = "", number[16] = "", session[64] = "";
    if (identities) {
      sprintf(names, ",\"user\":\"user-%d\",\"prompt_cache_key\":\"chat-%d\"", i, i);
      sprintf(session, "X-Session-Id: session-%d\r\n", i);
      sprintf(number, "%d", i);
    }
    char prompt[PROMPT_BYTES + 64], body[PROMPT_BYTES + 512], *request = malloc(PROMPT_BYTES + 2048);
    int n = sprintf(prompt, "Conversation %d:", i);
    while (n < PROMPT_BYTES) n += sprintf(prompt + n, " %c%d", 'a' + (n * 7 + i) % 26, n * (i + 3));
    int length = sprintf(body, "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"Answer in one short paragraph.\"},{\"role\":\"user\",\"content\":\"%s\"}],\"max_tokens\":%d,\"temperature\":0.7%s%s}",
      second && i % 2 ? second + 1 : first, prompt, tokens, names, is_stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    request_lengths[i] = sprintf(request, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nAccept: */*\r\nUser-Agent: load\r\nAuthorization: Bearer %s%s\r\n%sContent-Length: %d\r\n\r\n%s", port, key, number, session, length, body);
    requests[i] = request;
  }
}

static void watch(Connection *c, int operation, int events) {
  struct epoll_event e = {.events = events, .data.ptr = c};
  epoll_ctl(poller, operation, c->fd, &e);
}

static void connect_to_target(Connection *c) {
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(c->fd, (void *)&address, sizeof address) && errno != EINPROGRESS) { perror("connect"); exit(1); }
  watch(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void send_request(Connection *c) {
  size_t length = request_lengths[c->request];
  ssize_t n = send(c->fd, requests[c->request] + c->sent, length - c->sent, MSG_NOSIGNAL);
  if (n > 0) c->sent += n;
  if (c->sent == length) watch(c, EPOLL_CTL_MOD, EPOLLIN);
  else watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

static void ask(Connection *c) {
  c->is_asking = requests_max ? asked < requests_max : read_clock() < deadline;
  if (!c->is_asking) return;
  c->request = asked++ % bodies;
  c->sent = c->length = c->chunk_left = c->events_seen = c->is_done = c->has_usage = c->is_head_read = c->is_whole = 0;
  c->asked_at = read_clock();
  if (c->fd < 0) connect_to_target(c); else send_request(c);
}

static void end(Connection *c, const char *failure) {
  if (failure) {
    failed++;
    if (!*first_failure) snprintf(first_failure, sizeof first_failure, "%s, status %d", failure, c->status);
  } else {
    answered++;
    note(&latencies, c->asked_at);
  }
  if (failure || c->closes) { close(c->fd); c->fd = -1; }
  ask(c);
}

static int read_head(Connection *c) {
  char *end_of_head = memmem(c->in, c->length, "\r\n\r\n", 4);
  if (!end_of_head) return 0;
  *end_of_head = 0;
  char *length = strcasestr(c->in, "\r\ncontent-length:");
  c->status = atoi(c->in + 9);
  c->body_length = length ? strtoul(length + 17, NULL, 10) : 0;
  c->is_chunked = strcasestr(c->in, "\r\ntransfer-encoding: chunked") != NULL;
  c->closes = strcasestr(c->in, "\r\nconnection: close") != NULL;
  c->body_at = c->scanned = c->decoded = c->raw_at = end_of_head + 4 - c->in;
  return c->is_head_read = 1;
}

static void decode(Connection *c) {
  if (!c->is_chunked) {
    c->decoded = c->length;
    c->is_whole = c->length - c->body_at >= c->body_length;
    return;
  }
  while (!c->is_whole && c->raw_at < c->length) {
    char *raw = c->in + c->raw_at;
    size_t left = c->length - c->raw_at;
    if (c->chunk_left) {
      size_t n = left < c->chunk_left ? left : c->chunk_left;
      memmove(c->in + c->decoded, raw, n);
      c->decoded += n; c->raw_at += n; c->chunk_left -= n;
    } else {
      char *line_end = memmem(raw + (left > 2 ? 2 : left), left > 2 ? left - 2 : 0, "\r\n", 2);  // past the end of the chunk before
      if (!line_end) return;
      c->chunk_left = strtoul(raw, NULL, 16);
      if (!c->chunk_left && c->in + c->length - line_end < 4) return;
      c->is_whole = !c->chunk_left;
      c->raw_at = line_end + 2 - c->in;
    }
  }
}

static const char *scan_events(Connection *c) {
  for (char *line; (line = memmem(c->in + c->scanned, c->decoded - c->scanned, "\n\n", 2)); c->scanned = line + 2 - c->in) {
    char *from = c->in + c->scanned, *token = memmem(from, line - from, "tok-", 4);
    if (token) {
      if (atoi(token + 4) != c->events_seen) return "events out of order";
      if (!c->events_seen++) note(&first_tokens, c->asked_at);
      events_total++;
    } else if (memmem(from, line - from, "[DONE]", 6)) c->is_done = 1;
    else if (memmem(from, line - from, "\"completion_tokens\"", 19)) c->has_usage = 1;
  }
  return NULL;
}

static void take_answer(Connection *c) {
  if (!c->is_head_read && !read_head(c)) return;
  decode(c);
  const char *failure = is_stream && c->status == 200 ? scan_events(c) : NULL;
  if (!failure && !c->is_whole) return;
  if (!failure && c->status != 200) failure = "bad status";
  if (!failure && is_stream && (c->events_seen != tokens || !c->is_done)) failure = "incomplete stream";
  if (!failure && is_stream && !c->has_usage) failure = "no usage";
  end(c, failure);
}

static void readable(Connection *c) {
  if (c->length + ROOM > c->room) c->in = realloc(c->in, c->room = c->length + ROOM);
  ssize_t n = recv(c->fd, c->in + c->length, c->room - c->length - 1, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    if (c->is_asking) end(c, "closed by the target");
    else { close(c->fd); c->fd = -1; }
    return;
  }
  c->length += n;
  if (c->is_asking) take_answer(c);
}

static int is_any_asking(Connection *all) {
  for (int i = 0; i < connections; i++) if (all[i].is_asking) return 1;
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 11) { fprintf(stderr, "see the head of load.c\n"); return 2; }
  signal(SIGPIPE, SIG_IGN);
  port = atoi(argv[1]); connections = atoi(argv[4]); seconds = atof(argv[5]); requests_max = atol(argv[6]);
  tokens = atoi(argv[7]); is_stream = atoi(argv[8]);
  write_requests(argv[2], argv[3], atoi(argv[10]));
  poller = epoll_create1(0);
  Connection *all = calloc(connections, sizeof *all);
  uint64_t began_at = read_clock(), last_event_at = began_at, ramp_ns = atol(argv[9]) * 1000000ull;
  deadline = began_at + (uint64_t)(seconds * 1e9);
  for (int i = 0; i < connections; i++) all[i] = (Connection){.fd = -1, .is_asking = 1, .starts_at = began_at + ramp_ns * i / connections};
  struct epoll_event events[512];
  for (int begun = 0; (begun < connections || is_any_asking(all)) && read_clock() < last_event_at + SILENCE_S * 1000000000ull;) {
    while (begun < connections && all[begun].starts_at <= read_clock()) ask(&all[begun++]);
    int n = epoll_wait(poller, events, 512, begun < connections ? 1 : 100);
    if (n) last_event_at = read_clock();
    for (int i = 0; i < n; i++) {
      Connection *c = events[i].data.ptr;
      if (c->fd >= 0 && events[i].events & EPOLLOUT && c->sent < request_lengths[c->request]) send_request(c);
      if (c->fd >= 0 && events[i].events & ~EPOLLOUT) readable(c);
    }
  }
  double wall_s = (last_event_at - began_at) / 1e9;
  long hung = 0;
  for (int i = 0; i < connections; i++) hung += all[i].is_asking;
  printf("{\"answered\":%ld,\"failed\":%ld,\"wall_s\":%.4f,\"events\":%ld,\"first_failure\":\"%s\"", answered, failed + hung, wall_s, events_total, hung ? "hung" : first_failure);
  print_samples("latency", &latencies);
  print_samples("first_token", &first_tokens);
  printf("}\n");
  return 0;
}
