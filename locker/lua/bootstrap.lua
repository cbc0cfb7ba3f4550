-- Makes a new node of a quorum take part at once, if it is still as new as when it said
-- so: this request may arrive after the node has lost its data once more.
--
-- KEYS marker
-- ARGV 1 life ms, 2… the markers of all nodes, one of which is this one's
-- reply 1
local born = redis.call('GET', KEYS[1])
for i = 2, #ARGV do
  if born == ARGV[i] then
    redis.call('SET', KEYS[1], '0', 'PX', ARGV[1])
  end
end
return 1
