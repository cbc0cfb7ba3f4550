-- KEYS a key of the master that is meant, which need not exist
-- ARGV cursor, pattern, count
-- reply what SCAN says there
return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
