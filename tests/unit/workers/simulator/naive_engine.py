"""An engine of the design page step by step and block by block, with none of the model's shortcuts."""

from math import ceil

BLOCK_TOKENS = 16


class Sequence:
    def __init__(self, job):
        self.job = job
        self.prompt_units = list(job.units)
        self.prefill_tokens = job.prompt_tokens
        self.computed = 0
        self.answered = 0
        self.is_decoding = False
        self.is_cancelled = False
        self.shared = []  # cached blocks of the prompt that it uses
        self.private = 0  # blocks of its own
        self.first_token_at = None
        self.finished_at = None
        self.hit_tokens = 0

    def length(self):
        """Tokens that have a place in the cache."""
        return self.computed


class NaiveEngine:
    """One step at a time: `step` says how long it takes and what came of it."""

    def __init__(self, cost, limits):
        self.cost, self.limits = cost, limits
        self.total = cost.kv_capacity_tokens // BLOCK_TOKENS
        self.watermark = int(self.total * limits.watermark)
        self.waiting, self.running = [], []
        self.users = {}  # cached block → how many sequences use it
        self.used_at = {}  # cached block → when it was let go last, and how deep it lies
        self.clock = 0
        self.preemptions = 0

    # blocks

    def private(self):
        return sum(sequence.private for sequence in self.running)

    def in_use(self):
        return self.private() + sum(count > 0 for count in self.users.values())

    def take(self, sequence, blocks):
        missing = blocks - (self.total - self.private() - len(self.users))
        idle = sorted((block for block, count in self.users.items() if not count), key=self.used_at.__getitem__)
        if missing > len(idle):
            return False
        for block in idle[: max(0, missing)]:
            del self.users[block]
        sequence.private += blocks
        return True

    def let_go(self, sequence):
        self.clock += 1
        for depth, block in enumerate(sequence.shared):
            self.users[block] -= 1
            self.used_at[block] = (self.clock, -depth)
        sequence.shared, sequence.private = [], 0

    def cached(self, units):
        count = 0
        while count < len(units) and units[count] in self.users:
            count += 1
        return count

    # a step

    def step(self, now, cancels=()):
        """The time at its end; None when there is nothing to do. Whoever leaves by then, is dropped at the end."""
        self.grow()
        budget = self.limits.max_batched_tokens - len(self.decoding())
        chunks = []
        for sequence in [one for one in self.running if not one.is_decoding]:
            budget = self.read(sequence, budget, chunks)
        while self.waiting and budget > 0 and self.admit(self.waiting[0]):
            budget = self.read(self.waiting.pop(0), budget, chunks)
        decoding = self.decoding()
        if not decoding and not chunks:
            return None
        ends_at = now + self.duration_s(decoding, chunks)
        self.cancel([sequence for at, sequence in cancels if at <= ends_at], decoding, chunks)
        self.finish(decoding, chunks, ends_at)
        return ends_at

    def cancel(self, gone, decoding=(), chunks=()):
        for sequence in [one for one in gone if one in self.waiting or one in self.running]:
            sequence.is_cancelled = True
            if sequence in self.waiting:
                self.waiting.remove(sequence)
                continue
            sequence.computed += sum(chunk for one, chunk in chunks if one is sequence)
            sequence.answered += sequence in decoding
            self.let_go(sequence)
            self.running.remove(sequence)

    def decoding(self):
        return [sequence for sequence in self.running if sequence.is_decoding]

    def grow(self):
        """Each decode writes the token it was given last; the latest sequence gives way while that has no place."""
        while True:
            needing = [one for one in self.decoding() if one.computed % BLOCK_TOKENS == 0]
            if not needing or self.has_place_for(len(needing)):
                break
            self.preempt()
        for sequence in needing:
            self.take(sequence, 1)

    def has_place_for(self, blocks):
        return blocks <= self.total - self.in_use()

    def preempt(self):
        prefilling = [one for one in self.running if not one.is_decoding]
        victim = (prefilling or self.decoding())[-1]
        self.running.remove(victim)
        self.let_go(victim)
        victim.is_decoding, victim.computed = False, 0
        victim.prefill_tokens = victim.job.prompt_tokens + victim.answered
        self.waiting.insert(0, victim)
        self.preemptions += 1

    def admit(self, sequence):
        if len(self.running) >= self.limits.max_sequences:
            return False
        usable = (sequence.job.prompt_tokens - 1) // BLOCK_TOKENS
        hits = self.cached(sequence.prompt_units[:usable])
        blocks = ceil(sequence.prefill_tokens / BLOCK_TOKENS) - hits
        newly_used = sum(not self.users[block] for block in sequence.prompt_units[:hits])
        left = self.total - self.in_use() - newly_used - blocks
        if left < (self.watermark if self.running else 0):
            return False
        sequence.shared = sequence.prompt_units[:hits]
        for block in sequence.shared:
            self.users[block] += 1
        self.running.append(sequence)
        self.take(sequence, blocks)
        sequence.computed = hits * BLOCK_TOKENS
        if not sequence.answered:
            sequence.hit_tokens = sequence.computed
        return True

    def read(self, sequence, budget, chunks):
        chunk = min(budget, sequence.prefill_tokens - sequence.computed)
        if chunk > 0:
            chunks.append((sequence, chunk))
        return budget - chunk

    def duration_s(self, decoding, chunks):
        cost = self.cost
        tokens = len(decoding) + sum(chunk for _, chunk in chunks)
        context = sum(sequence.computed for sequence in decoding)
        pairs = sum(chunk * (sequence.computed + chunk / 2) for sequence, chunk in chunks)
        dense = (cost.t_weight_ms**cost.p + (cost.ms_per_token * tokens) ** cost.p) ** (1 / cost.p)
        attention = cost.ms_per_ctx_token * context + cost.ms_per_attn_pair * pairs
        attention += cost.attn_fixed_ms if context else 0.0
        return (cost.t_fixed_ms + cost.ms_per_seq * (len(decoding) + len(chunks)) + dense + attention) / 1000

    def finish(self, decoding, chunks, ends_at):
        decoding = [one for one in decoding if not one.is_cancelled]
        for sequence in decoding:
            sequence.computed += 1
            sequence.answered += 1
        for sequence in [one for one in decoding if one.answered == one.job.output_tokens]:
            self.leave(sequence, ends_at)
        for sequence, chunk in [chunk for chunk in chunks if not chunk[0].is_cancelled]:
            sequence.computed += chunk
            if sequence.computed == sequence.prefill_tokens:
                self.answer(sequence, ends_at)

    def answer(self, sequence, ends_at):
        """The prompt is read: what of it is whole blocks is there for others, and the answer goes on."""
        for block in sequence.prompt_units[len(sequence.shared) :]:
            self.users[block] = self.users.get(block, 0) + 1
            sequence.private -= 1
        sequence.shared = list(sequence.prompt_units)
        sequence.answered += 1
        sequence.is_decoding = True
        self.running.remove(sequence)
        self.running.append(sequence)
        if sequence.first_token_at is None:
            sequence.first_token_at = ends_at
        if sequence.answered == sequence.job.output_tokens:
            self.leave(sequence, ends_at)

    def leave(self, sequence, ends_at):
        sequence.finished_at = ends_at
        self.let_go(sequence)
        self.running.remove(sequence)
