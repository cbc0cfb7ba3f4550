-- Ends a hold, and grants the lock to those who can have it now.
--
-- KEYS record, fence, queue, entries, over
-- ARGV 1 id, 2 whether the count of PUBLISH can be trusted 0|1, 3 for how many ms
--      to remember the id, 4 the reservation that may still stand in the queue, if
--      there is one, as in release
-- reply 1 released · 0 nobody holds the lock · -1 others do
return let_go(ARGV[1], ARGV[2], ARGV[3], ARGV[4] or '')
