-- Ends an attempt whose caller no longer waits: ends the hold that it may have
-- taken, leaves the queue, and remembers the id so that a request of that attempt
-- that arrives later takes nothing.
--
-- KEYS record, fence, queue, entries, over
-- ARGV 1 id, 2 whether the count of PUBLISH can be trusted 0|1, 3 for how many ms
--      to remember the id, 4 reservation or ""; 5 on a node of a quorum, if the caller goes
--      on: then nobody is told where nothing has changed, lest all ask again and again
-- reply as hold_release
return let_go(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
