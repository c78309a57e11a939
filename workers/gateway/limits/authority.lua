-- The authority of authority.py, in Valkey: the leases of every gateway, in one atomic call for many accounts.
-- ARGV: key prefix, holder, ms after which a silent holder is dead, ms without grants after a start of Valkey, asks.
--
-- <prefix>holders   hash: holder → ms when it was heard last
-- <prefix>epoch     hash: run id that was seen last, and since when
-- <prefix>counted:<marker>  exists once use before Valkey knew of it is known
-- <prefix>of:<marker>       set: accounts of one limit in one period
-- <prefix>a:<account>       hash: the rule; per holder q: sequence, g: granted, s: spent, r: returned, u: reserved,
--                           c: counted from records; base: spent by holders that are gone; debt of a bucket
-- <prefix>w:<account>       list of a window's spends: "<ms when it ends> <amount>", oldest first

local prefix, holder = ARGV[1], ARGV[2]
local ttl_ms, warm_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local WINDOW_MS, STEP_MS, RECALL_MS, FORGET_MS = 60000, 100, 250, 600000
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local seen = {}
local silent = {}
local live, holders, rank, dead = {}, 0, 0, {}
redis.call('HSET', prefix .. 'holders', holder, now)
local flat = redis.call('HGETALL', prefix .. 'holders')
for i = 1, #flat, 2 do
  local age = now - tonumber(flat[i + 1])
  if age > FORGET_MS then
    redis.call('HDEL', prefix .. 'holders', flat[i])
  else
    seen[flat[i]] = true
    if age <= ttl_ms then
      live[flat[i]] = true
      silent[flat[i]] = age
      holders = holders + 1
      if flat[i] < holder then rank = rank + 1 end
    elseif age <= ttl_ms + WINDOW_MS then
      dead[flat[i]] = true
    end
  end
end

local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local epoch = redis.call('HMGET', prefix .. 'epoch', 'run', 'at')
if epoch[1] ~= run_id then
  redis.call('HSET', prefix .. 'epoch', 'run', run_id, 'at', now)
  epoch[2] = now
end
local is_warm = now - tonumber(epoch[2]) >= warm_ms

local function number(account, name) return tonumber(account[name] or 0) end

local function load(key)
  local account = {}
  local pairs_of = redis.call('HGETALL', key)
  for i = 1, #pairs_of, 2 do account[pairs_of[i]] = pairs_of[i + 1] end
  return account
end

local function text(value) return string.format('%.17g', value) end

local function amount_of(rule)
  if now < rule.raised_until_ms then return rule.raised_amount end
  return rule.amount
end

-- What is used; what ended is dropped. `account.spends` and `account.debt` are as of now afterwards.
local function used(account, rule)
  if rule.shape == 'window' then
    local key = prefix .. 'w:' .. rule.account
    local sum = number(account, 'wsum')
    while true do
      local oldest = redis.call('LINDEX', key, 0)
      if not oldest then break end
      local ends, count = string.match(oldest, '(%d+) (%d+)')
      if tonumber(ends) > now then break end
      redis.call('LPOP', key)
      sum = sum - tonumber(count)
    end
    account.wsum = text(math.max(sum, 0))
    return number(account, 'wsum')
  elseif rule.shape == 'bucket' then
    local back = amount_of(rule) * (now - number(account, 'debt_at')) / WINDOW_MS
    account.debt = text(math.max(number(account, 'debt') - math.max(back, 0), 0))
    account.debt_at = text(now)
    return math.ceil(number(account, 'debt'))
  elseif rule.shape == 'period' then
    local sum = number(account, 'base')
    for name, value in pairs(account) do
      local kind, of = string.sub(name, 1, 2), string.sub(name, 3)
      if kind == 's:' then sum = sum + math.max(tonumber(value), number(account, 'c:' .. of)) end
      if kind == 'c:' and not account['s:' .. of] then sum = sum + tonumber(value) end
    end
    return sum
  end
  return 0
end

local function note_spent(account, rule, spent)
  if spent <= 0 then return end
  if rule.shape == 'window' then
    local key = prefix .. 'w:' .. rule.account
    local ends = now - now % STEP_MS + STEP_MS + WINDOW_MS
    local newest = redis.call('LINDEX', key, -1)
    local at, count = string.match(newest or '', '(%d+) (%d+)')
    if at and tonumber(at) == ends then
      redis.call('LSET', key, -1, text(ends) .. ' ' .. text(tonumber(count) + spent))
    else
      redis.call('RPUSH', key, text(ends) .. ' ' .. text(spent))
    end
    account.wsum = text(number(account, 'wsum') + spent)
  elseif rule.shape == 'bucket' then
    account.debt = text(number(account, 'debt') + spent)
  end
end

local function report(account, ask)
  local is_new = not account['s:' .. holder]
  if is_new then account['s:' .. holder] = '0' end
  if ask.sequence <= number(account, 'q:' .. holder) then return false end
  account['q:' .. holder] = text(ask.sequence)
  if not ask.is_placed then return true end
  local spent = ask.spent - number(account, 's:' .. holder)
  if is_new and ask.shape == 'window' then spent = math.min(spent, ask.recent) end
  note_spent(account, ask, spent)
  account['u:' .. holder] = text(ask.reserved)
  account['s:' .. holder] = text(math.max(ask.spent, number(account, 's:' .. holder)))
  account['r:' .. holder] = text(math.max(ask.returned, number(account, 'r:' .. holder)))
  account['g:' .. holder] = text(math.max(ask.granted, number(account, 'g:' .. holder)))
  return true
end

local function lease_of(account, name)
  return math.max(number(account, 'g:' .. name) - number(account, 's:' .. name) - number(account, 'r:' .. name), 0)
end

local function grant(account, ask, pool, remaining)
  local lacks = ask.head - (lease_of(account, holder) - number(account, 'u:' .. holder))
  if ask.head > 0 and pool < lacks then
    if remaining >= ask.head then account.recalled = text(now + RECALL_MS) end
    return 0
  end
  local needed = math.max(math.min(ask.need, pool), 0)
  if now < number(account, 'recalled') then return needed end
  return needed + math.max(math.min(ask.extra, math.floor((pool - needed) / (2 * holders))), 0)
end

local function retry_ms(account, rule, missing)
  if missing <= 0 then return 0 end
  if rule.shape == 'bucket' then
    local amount = amount_of(rule)
    return amount > 0 and math.ceil(missing * WINDOW_MS / amount) or 0
  elseif rule.shape == 'window' then
    for _, spend in ipairs(redis.call('LRANGE', prefix .. 'w:' .. rule.account, 0, -1)) do
      local ends, count = string.match(spend, '(%d+) (%d+)')
      missing = missing - tonumber(count)
      if missing <= 0 then return tonumber(ends) - now end
    end
  end
  return 0
end

local function reset_ms(account, rule)
  if rule.shape == 'bucket' then
    local amount = amount_of(rule)
    return amount > 0 and math.ceil(number(account, 'debt') * WINDOW_MS / amount) or 0
  elseif rule.shape == 'window' then
    local ends = string.match(redis.call('LINDEX', prefix .. 'w:' .. rule.account, -1) or '', '(%d+) ')
    return ends and tonumber(ends) - now or 0
  end
  return 0
end

-- Of a limit without a period, holders that are gone long since need no memory: what they spent is in the window.
local function forget_gone(account)
  local gone = {}
  for name, _ in pairs(account) do
    if string.sub(name, 2, 2) == ':' and not seen[string.sub(name, 3)] then gone[#gone + 1] = name end
  end
  for _, name in ipairs(gone) do account[name] = nil end
  return gone
end

-- The rule that is in force: the one with the highest revision that any gateway brought.
local function adopt_rule(account, ask)
  if not account.rev or ask.revision > tonumber(account.rev) then
    account.rev, account.amount, account.burst = text(ask.revision), text(ask.amount), text(ask.burst)
    account.raised, account.until_ms = text(ask.raised_amount), text(ask.raised_until_ms)
  end
  ask.amount, ask.burst = number(account, 'amount'), number(account, 'burst')
  ask.raised_amount, ask.raised_until_ms = number(account, 'raised'), number(account, 'until_ms')
end

local function state_of(ask)
  if not is_warm then return 'warming' end
  if ask.marker == '' or redis.call('EXISTS', prefix .. 'counted:' .. ask.marker) == 1 then return 'ready' end
  return 'uncounted'
end

-- Lua hands over some 8,000 values at once, and an account that never ends may have known more gateways than that.
local function in_parts(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end

local function save(key, ask, account, gone)
  local fields = {}
  for name, value in pairs(account) do fields[#fields + 1] = name; fields[#fields + 1] = value end
  in_parts('HSET', key, fields)
  in_parts('HDEL', key, gone)
  redis.call('PEXPIRE', key, ask.keep_ms)
  if ask.shape == 'window' then redis.call('PEXPIRE', prefix .. 'w:' .. ask.account, ask.keep_ms) end
  if ask.marker ~= '' then
    redis.call('SADD', prefix .. 'of:' .. ask.marker, ask.account)
    redis.call('PEXPIRE', prefix .. 'of:' .. ask.marker, ask.keep_ms)
  end
end

local function answer(ask)
  local key = prefix .. 'a:' .. ask.account
  local account = load(key)
  local gone = ask.shape == 'period' and {} or forget_gone(account)
  adopt_rule(account, ask)
  used(account, ask)
  local is_fresh = report(account, ask)
  local used_now = used(account, ask)
  local limit = ask.shape == 'bucket' and ask.burst or amount_of(ask)
  local counted = math.max(number(account, 's:' .. holder), number(account, 'c:' .. holder))
  local returned, reserved = number(account, 'r:' .. holder), number(account, 'u:' .. holder)
  local granted = math.max(number(account, 'g:' .. holder), number(account, 's:' .. holder) + returned + reserved)
  account['g:' .. holder] = text(granted)
  local leased, promised, doubtful, silent_ms = 0, 0, 0, 0
  for name, _ in pairs(live) do
    leased = leased + lease_of(account, name)
    local promised_there = number(account, 'u:' .. name)
    promised = promised + promised_there
    if promised_there > 0 and name ~= holder then silent_ms = math.max(silent_ms, silent[name]) end
  end
  if ask.shape ~= 'slots' then
    for name, _ in pairs(dead) do doubtful = doubtful + lease_of(account, name) end
  end
  local remaining, state = limit - used_now - doubtful - promised, state_of(ask)
  if is_fresh and state == 'ready' then
    granted = granted + grant(account, ask, limit - used_now - doubtful - leased, remaining)
    account['g:' .. holder] = text(granted)
  end
  save(key, ask, account, gone)
  return {
    math.max(granted, counted + returned), counted, returned, limit, used_now + doubtful, remaining,
    retry_ms(account, ask, ask.head - remaining), reset_ms(account, ask),
    now < number(account, 'recalled'), state, silent_ms,
  }
end

local NAMES = {
  'account', 'shape', 'marker', 'keep_ms', 'revision', 'amount', 'burst', 'raised_amount', 'raised_until_ms',
  'sequence', 'is_placed', 'granted', 'spent', 'returned', 'reserved', 'recent', 'head', 'need', 'extra',
}
local answers = {}
for number_of, packed in ipairs(cmsgpack.unpack(ARGV[5])) do
  local ask = {}
  for i, name in ipairs(NAMES) do ask[name] = packed[i] end
  answers[number_of] = answer(ask)
end
local reply = {holders, run_id .. '@' .. text(tonumber(epoch[2])), rank}
if #answers > 0 then reply[4] = answers end
return cmsgpack.pack(reply)
