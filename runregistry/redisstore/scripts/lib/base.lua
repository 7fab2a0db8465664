-- What all scripts share. It is put before each of them; the other files here
-- are put before those that need them.
--
-- KEYS and ARGV are taken from the front, one by one, in the order that the
-- head of each script names. A script looks first and writes last: a command
-- that fails in the middle would not be rolled back. Every reply begins with a
-- word and with the server's time in microseconds.

local taken, read = 0, 0
local function key() taken = taken + 1; return KEYS[taken] end
local function arg() read = read + 1; return ARGV[read] end
local function num() return tonumber(arg()) end
local function int(n) return string.format('%.0f', n) end

local clock = redis.call('TIME')
local us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local ms = math.floor(us / 1000)

local function say(word, ...) return {word, int(us), ...} end
local function past(deadline) return deadline and deadline ~= '' and tonumber(deadline) <= ms end
